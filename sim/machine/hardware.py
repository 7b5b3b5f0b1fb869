"""The whole machine in simulation, driven as a host drives it: registers, a launch descriptor,
memory.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from amaranth.hdl import Signal

from rtl.isa.errors import REPORT_MASK_RESET
from rtl.layouts import Policy
from rtl.params import PRESETS, SmParams
from rtl.sm import Sm
from sim.engine import (
    CompiledEngine,
    Engine,
    Sink,
    engine_of,
    make_simulator,
    observe_all,
    run_cycles,
)
from sim.engine.cache import is_on
from sim.launch import Launch
from sim.machine.base import BaseMachine, HardwareResult
from sim.machine.diagnosis import diagnose, warp_states
from sim.machine.harness import Harness
from sim.machine.host import REGISTERS, Driver
from sim.machine.lockstep import Lockstep
from sim.machine.memory_service import LATENCY, ON_TIME, MemoryService, Trouble
from sim.machine.retirement_events import EventReader
from sim.machine.traces import machine_traces
from sim.model.warp.state import Warp
from sim.support.activity import announced
from sim.support.garbage_collection import without_garbage_collection
from sim.support.interrupt import deferred
from sim.waves import Tracer, save_file_of, write_save_file

__all__ = ["PERIOD", "Hardware", "HardwareResult", "Watched"]

PERIOD = 1e-8
"""Clock period in seconds."""
Watched = tuple[Sequence[Signal], Sink]
"""Signals that are observed, and the receiver of their changes."""
_SETTLE, _SERIAL_SETTLE = 64, 1024
"""Cycles for which the clock continues after the end of a run, so that all events in flight are
reported; the second number is for a machine of one lane.
"""
_NAMES = {address: name for name, address in REGISTERS.items()}


def _announcement(params: SmParams, engine: type[Engine]) -> str:
    """What is prepared before the first cycle, as a line for a user who waits."""
    name = next(
        (f"`{name}`" for name, preset in PRESETS.items() if preset == params),
        f"of {params.warps} warps and {params.lanes} lanes",
    )
    if engine is not CompiledEngine:
        return f"elaborating machine {name}, in each run"
    cached = "once: later runs find it in the cache" if is_on() else "for this run (--no-cache)"
    return f"compiling machine {name}, {cached}"


@dataclass
class _HardwareRun:
    """One run of a launch: the host's commands, the memory service, and the outcome.

    Attributes:
        addresses: Addresses of local memory and of the descriptor.
        ctx: The context of the simulation's testbench.
        levels: The attention levels that were last seen.
    """

    launch: Launch
    addresses: tuple[int, int]
    limit: int
    progress: Callable[[int], object]
    report_mask: int
    driver: Driver | None
    service: MemoryService
    result: HardwareResult
    ctx: Any = None
    levels: int = 0


class Hardware(BaseMachine):
    """The machine in simulation. It runs one launch after the other, each after a reset.

    Parameters:
        params: Parameters of the machine.
        engine: The simulation engine.
        check: Whether every instruction is compared with the warp model.
        vcd: Path of a waveform, with a save file beside it; for one launch.
        policy: Warp scheduling policy.
        latency: Memory latency in cycles.
        disorder: A seed: memory has random latencies and performs requests in any order that the
            port allows, see :class:`~sim.machine.memory_service.MemoryService`.
        watched (Callable[[Sm], sequence]): Returns signals of the machine to observe in each cycle,
        with their receivers: see :func:`~sim.engine.observe_all`.
        reader: Class of the reader of the events that are compared.

    Attributes:
        policy: As above, for the next run.
        latency: As above, for the next run.
        disorder: As above, for the next run.
        trouble: Returns the fault to inject into each memory request of the next run, by the number
            of the request.
        memory: The hardware's memory in the last run.
        lockstep: The comparison of the last run.
        on_instruction: Called for each compared instruction, see
            :class:`~sim.machine.lockstep.Lockstep`.
        on_trap_entry: Called for each entry into the trap, likewise.
        cycles: Clock cycles of the last run so far.
    """

    def __init__(
        self,
        params: SmParams,
        engine: type[Engine],
        *,
        check: bool = False,
        vcd: Path | None = None,
        policy: Policy = Policy.GREEDY_THEN_OLDEST,
        latency: int = LATENCY,
        disorder: int | None = None,
        watched: Callable[[Sm], Sequence[Watched]] = lambda _sm: (),
        reader: type[EventReader] = EventReader,
    ) -> None:
        super().__init__(params, policy)
        with without_garbage_collection():
            self.harness = harness = Harness(params)
        self.latency, self.disorder, self._vcd = latency, disorder, vcd
        with announced(_announcement(params, engine)):
            self._simulator = make_simulator(harness, engine)
        self._simulator.add_clock(PERIOD)
        self._now: _HardwareRun | None = None
        self.trouble: Callable[[int], Trouble] = lambda _number: ON_TIME
        self.on_instruction: Callable[[Warp, int], object] | None = None
        self.on_trap_entry: Callable[[Warp, bool, bool], object] | None = None
        self._reader = reader(harness.sm.retired) if check else None
        observed = list(watched(harness.sm))
        if self._reader is not None:
            observed.append((self._reader.signals, self._reader.changes))
        self._tracer = self._observer = None
        if vcd is not None:
            self._tracer = Tracer(
                self._simulator,
                machine_traces(harness),
                vcd,
                period=PERIOD,
                root="sm",
                beside=observed,
            )
        elif observed:
            self._observer = observe_all(self._simulator, observed)

    def run(
        self,
        launch: Launch,
        limit: int,
        progress: Callable[[int], object] = lambda _cycles: None,
        *,
        report_mask: int = REPORT_MASK_RESET,
        driver: Driver | None = None,
    ) -> HardwareResult:
        """Runs to the end of the grid, an error, a mismatch, a hang, or ``limit`` cycles; see
        :meth:`.BaseMachine.run`.

        The launch's memory becomes the warp model's; the hardware has a copy. Raises RunInterrupted
        after Ctrl-C.
        """
        if self._now is None:
            self._simulator.add_testbench(
                self._host
            )  # Not created before: a coroutine that never runs is a warning.
        else:
            self._restart()
        reference = (
            replace(launch, memory=launch.memory.copy())
            if self.in_place and self._reader
            else launch
        )
        self.cycles, self.lockstep, places = 0, None, self.place(launch)
        service = MemoryService(
            self.harness.latch,
            self.memory,
            self.latency,
            None if self.disorder is None else Random(self.disorder),
            self.trouble,
        )
        self._now = now = _HardwareRun(
            launch,
            places,
            limit,
            progress,
            report_mask,
            driver,
            service,
            HardwareResult("timeout", 0),
        )
        if self._reader is not None:
            self.lockstep = Lockstep(reference, self.params, report_mask)
            self.lockstep.on_instruction, self.lockstep.on_trap_entry = (
                self.on_instruction,
                self.on_trap_entry,
            )
            self._reader.begin(self.lockstep.take)
        with deferred():
            try:
                self._simulate()
            finally:
                self._close()
        return now.result

    def _restart(self) -> None:
        """Resets the simulation to power-up."""
        self._simulator.reset()
        if self._observer is not None:
            self._observer.restart()

    def _simulate(self) -> None:
        """Simulates until the run has ended."""
        self._simulator.run()

    @property
    def _run(self) -> _HardwareRun:
        """The current run, or the last one."""
        assert self._now is not None
        return self._now

    def _close(self) -> None:
        """Passes on the changes that observers still hold."""
        if self._tracer is not None and self._vcd is not None:
            self._tracer.close()
            if (save := save_file_of(self._vcd)) is not None:
                write_save_file(
                    save,
                    self._vcd,
                    machine_traces(self.harness),
                    period=PERIOD,
                    root="sm",
                    marked_cycles=self._tracer.marked_cycles,
                )
        if self._observer is not None:
            self._observer.finish()
        if self._reader is not None:
            self._reader.finish(self.cycles)
        if self.lockstep is not None:
            self.lockstep.catch_up()

    @property
    def engine(self) -> Engine:
        """The simulation engine."""
        return engine_of(self._simulator)

    def trouble_over(self) -> None:
        """Stops the injection of memory faults."""
        self._run.service.trouble = lambda _number: ON_TIME

    @property
    def requests(self) -> int:
        """Number of memory requests in the last run."""
        return self._run.service.reads + self._run.service.writes

    async def _host(self, ctx: Any) -> None:
        """The testbench of the host."""
        now = self._run
        now.ctx = ctx
        ctx.set(self.harness.sm.policy, self.policy)
        await self.serve(
            now.launch,
            now.addresses,
            now.limit,
            now.result,
            report_mask=now.report_mask,
            driver=now.driver,
            progress=now.progress,
        )

    @property
    def ended(self) -> bool:
        """Whether the grid has ended."""
        return bool(self._run.ctx.get(self.harness.ended))

    @property
    def locked_down(self) -> bool:
        """Whether the machine is in a trap in which no warp runs."""
        return bool(self._run.ctx.get(self.harness.locked_down))

    @property
    def interrupted(self) -> bool:
        """Whether the machine interrupts its host."""
        return bool(self._run.ctx.get(self.harness.sm.interrupt))

    async def advance(self, cycles: int) -> bool:
        """Lets cycles pass and serves memory, until the machine requires attention; returns whether
        it does.
        """
        now = self._run
        ctx, service = now.ctx, now.service
        due = service.wait(self.cycles)
        ran = await run_cycles(
            ctx, cycles if due is None else min(cycles, due), until=self.harness.wake
        )
        self.cycles += ran.cycles
        if ran.hit:
            service.take(ctx, self.cycles)
        service.serve(ctx, self.cycles)
        before, now.levels = now.levels, ctx.get(self.harness.levels)
        return bool(now.levels & ~before)

    async def write(self, address: int, value: int) -> None:
        """Writes a register."""
        ctx, bus = self._run.ctx, self.harness.host
        if self.lockstep is not None and address in _NAMES:
            self.lockstep.note_write(self.cycles, _NAMES[address], value)
        for signal, new in ((bus.address, address), (bus.data, value), (bus.write, 1)):
            ctx.set(signal, new)
        await self.advance(1)
        ctx.set(bus.write, 0)

    async def read_all(self, addresses: Iterable[int]) -> list[int]:
        """Reads registers, one a cycle."""
        ctx, bus, values = self._run.ctx, self.harness.host, []
        ctx.set(bus.read, 1)
        for address in addresses:
            ctx.set(bus.address, address)
            await self.advance(1)
            values.append(ctx.get(bus.value))
        ctx.set(bus.read, 0)
        return values

    async def settle(self) -> None:
        """Waits until all events that were in flight at the end of the run have been reported."""
        end = self.cycles + (_SERIAL_SETTLE if self.params.serial else _SETTLE)
        while self.cycles < end:
            await self.advance(end - self.cycles)
        self._run.service.finish()

    def examine(self, result: HardwareResult) -> None:
        """Adds the diagnosis of each warp."""
        seen = self._run.ctx, self.harness.sm, self._run.launch, self.memory
        result.diagnosis, result.warps = diagnose(*seen), warp_states(*seen)
