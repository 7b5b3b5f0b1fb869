"""The whole machine in simulation, driven as a host drives it: registers, a launch descriptor, memory."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from rtl.isa.errors import REPORT_MASK_RESET
from rtl.isa.registers import COUNTER_BLOCK, COUNTERS, SM_REGISTERS, WORK_REGISTERS
from rtl.layouts import LaunchRejection, Policy
from rtl.params import SmParams
from sim.collector import collector_off
from sim.descriptor import place_descriptor
from sim.diagnosis import diagnose, warp_states
from sim.engine import Engine, engine_of, make_simulator, observe_all, run_cycles
from sim.harness import Harness
from sim.host import REGISTERS, Driver, Host
from sim.launch import Launch
from sim.lockstep import Lockstep
from sim.machine_traces import machine_traces
from sim.memory import Memory
from sim.memory_service import LATENCY, MemoryService
from sim.retired import EventReader
from sim.warp_state import WarpState
from sim.waves import Tracer, save_file_of, write_save_file

__all__ = ["PERIOD", "Hardware", "HardwareResult"]

PERIOD = 1e-8
"""Of the clock, in seconds."""
_CHUNK = 10_000
"""Cycles between two looks at how far it is."""
_SETTLE = 64
"""Cycles that the machine goes on after its end, for what is under way to be told."""
_NAMES = {address: name for name, address in REGISTERS.items()}
_QUIET = 3
"""So many chunks without an instruction are a hang."""


@dataclass
class HardwareResult:
    """How a run ended.

    ``status`` is ``ok``, ``error`` or ``timeout``, ``reason`` what else is known, ``diagnosis`` what each warp waits
    for when it is not ``ok``; then ``warps`` are masks and stacks of those that live, by slot. ``registers`` are the
    SM's registers by name, ``counters`` all counters. ``rejection``: why the machine would not take the launch.
    """

    status: str
    cycles: int
    reason: str = ""
    rejection: LaunchRejection = LaunchRejection.NONE
    diagnosis: list[str] = field(default_factory=list)
    warps: dict[int, WarpState] = field(default_factory=dict)
    registers: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def instructions(self) -> int:
        """Warp instructions."""
        return self.counters.get("instructions", 0)


class Hardware:
    """The machine in simulation. It runs one launch after the other, each from its reset.

    Parameters
    ----------
    params : SmParams
        The machine.
    engine : type[Engine]
        What simulates it.
    check : bool
        Whether every instruction is compared with the reference machine.
    vcd : Path or None
        Where a waveform goes, with a save file beside it; for one launch.
    policy : Policy
        Which warp issues first.
    latency : int
        Of memory, in cycles.
    disorder : int or None
        A seed: memory takes its time and performs requests in any order that the port allows, see
        :class:`~sim.memory_service.MemoryService`.

    Attributes
    ----------
    policy, latency, disorder
        As above; of the next run.
    harness : Harness
    memory : Memory
        The hardware's memory, in the last run.
    lockstep : Lockstep or None
        The comparison of the last run.
    cycles : int
        Of the last run, so far.
    """

    memory: Memory
    lockstep: Lockstep | None

    def __init__(self, params: SmParams, engine: type[Engine], *, check: bool = False, vcd: Path | None = None,
                 policy: Policy = Policy.GREEDY_THEN_OLDEST, latency: int = LATENCY,
                 disorder: int | None = None) -> None:
        self.params = params
        with collector_off():
            self.harness = harness = Harness(params)
        self.cycles = 0
        self.policy, self.latency, self.disorder, self._vcd = policy, latency, disorder, vcd
        self._simulator = make_simulator(harness, engine)
        self._simulator.add_clock(PERIOD)
        self._simulator.add_testbench(self._host)
        self._ran = False
        self._reader = EventReader(harness.sm.retired) if check else None
        observed = [(self._reader.signals, self._reader.changes)] if self._reader is not None else []
        self._tracer = self._observer = None
        if vcd is not None:
            self._tracer = Tracer(self._simulator, machine_traces(harness), vcd, period=PERIOD, root="sm",
                                  beside=observed)
        elif observed:
            self._observer = observe_all(self._simulator, observed)

    def run(self, launch: Launch, limit: int, progress: Callable[[int], object] = lambda _cycles: None, *,
            report_mask: int = REPORT_MASK_RESET, driver: Driver | None = None) -> HardwareResult:
        """Runs to the end of the grid, an error, a difference, a hang, or ``limit`` cycles. Bit n of ``report_mask``
        says that warp errors of code n are reported. The ``driver`` is the host while the grid runs; without one, a
        machine that is locked down stays so, which ends the run.

        The launch's memory becomes the reference machine's, the hardware has a copy.
        """
        self._prepare(launch, report_mask)
        self._driver = driver
        self._limit, self._progress, self._result = limit, progress, HardwareResult("timeout", 0)
        try:
            self._simulator.run()
        finally:
            self._close()
        return self._result

    def _prepare(self, launch: Launch, report_mask: int) -> None:
        """A machine after its reset, and what it runs in memory."""
        if self._ran:
            self._simulator.reset()
            if self._observer is not None:
                self._observer.restart()
        self._levels = 0
        self._ran, self.cycles, self._launch, self._report_mask = True, 0, launch, report_mask
        self.memory = launch.memory.copy()
        self._local = launch.allocate_local(self.params.warps, self.memory)
        self._descriptor = place_descriptor(launch, self.memory)
        self._service = MemoryService(self.harness.latch, self.memory, self.latency,
                                      None if self.disorder is None else Random(self.disorder))
        self.lockstep = None
        if self._reader is not None:
            self.lockstep = Lockstep(launch, self.params, report_mask)
            self._reader.begin(self.lockstep.take)

    def _close(self) -> None:
        """Takes what observers still have."""
        if self._tracer is not None and self._vcd is not None:
            self._tracer.close()
            if (save := save_file_of(self._vcd)) is not None:
                write_save_file(save, self._vcd, machine_traces(self.harness), period=PERIOD, root="sm")
        if self._observer is not None:
            self._observer.finish()
        if self._reader is not None:
            self._reader.finish(self.cycles)
        if self.lockstep is not None:
            self.lockstep.catch_up()

    @property
    def _differs(self) -> bool:
        return self.lockstep is not None and self.lockstep.difference is not None

    @property
    def engine(self) -> Engine:
        """What simulates it."""
        return engine_of(self._simulator)

    @property
    def requests(self) -> int:
        """To memory, in the last run."""
        return self._service.reads + self._service.writes

    async def _host(self, ctx: Any) -> None:
        """The testbench: starts the grid, waits for its end, looks at what it has come to."""
        await self._start(ctx)
        if self._driver is not None:
            await self._driver(Host(self, ctx))
            self._outcome(ctx, self._result)
        else:
            await self._wait(ctx, self._limit, self._result, self._progress)
        await self._finish(ctx, self._result)

    def _outcome(self, ctx: Any, result: HardwareResult) -> bool:
        """Whether the run is over, and how."""
        if ctx.get(self.harness.ended):
            result.status = "ok"
        elif ctx.get(self.harness.locked_down):
            result.status = "error"
        return result.status != "timeout"

    async def advance(self, ctx: Any, cycles: int) -> bool:
        """Lets cycles pass, fewer if something happens; serves memory. Returns whether the machine wants attention."""
        service = self._service
        due = service.wait(self.cycles)
        ran = await run_cycles(ctx, cycles if due is None else min(cycles, due), until=self.harness.wake)
        self.cycles += ran.cycles
        if ran.hit:
            service.take(ctx, self.cycles)
        service.serve(ctx, self.cycles)
        before, self._levels = self._levels, ctx.get(self.harness.levels)
        return bool(self._levels & ~before)

    async def write(self, ctx: Any, address: int, value: int) -> None:
        """Writes a register."""
        bus = self.harness.host
        if self.lockstep is not None and address in _NAMES:
            self.lockstep.note_write(self.cycles, _NAMES[address], value)
        for signal, new in ((bus.address, address), (bus.data, value), (bus.write, 1)):
            ctx.set(signal, new)
        await self.advance(ctx, 1)
        ctx.set(bus.write, 0)

    async def read(self, ctx: Any, address: int) -> int:
        """Reads a register."""
        (value,) = await self.read_all(ctx, (address,))
        return value

    async def read_all(self, ctx: Any, addresses: Iterable[int]) -> list[int]:
        """Reads registers, one a cycle."""
        bus, values = self.harness.host, []
        ctx.set(bus.read, 1)
        for address in addresses:
            ctx.set(bus.address, address)
            await self.advance(ctx, 1)
            values.append(ctx.get(bus.value))
        ctx.set(bus.read, 0)
        return values

    async def _start(self, ctx: Any) -> None:
        """Starts the grid."""
        ctx.set(self.harness.sm.policy, self.policy)
        await self.write(ctx, REGISTERS["HWW_WARP_ESR_REPORT_MASK"], self._report_mask)
        if self._launch.trap_handler is not None:
            await self.write(ctx, REGISTERS["TRAP_HANDLER"], self._launch.trap_handler)
            await self.write(ctx, REGISTERS["TRAP_CONTROL"], 1)
        for name, address in (("PROGRAM_REGION", self._launch.program_base), ("LOCAL_MEMORY", self._local),
                              ("QMD_ADDRESS", self._descriptor)):
            for part, value in (("A", address >> 32), ("B", address & 0xFFFF_FFFF)):
                await self.write(ctx, REGISTERS[f"{name}_{part}"], value)
        await self.write(ctx, REGISTERS["LAUNCH"], 1)

    async def _wait(self, ctx: Any, limit: int, result: HardwareResult, progress: Callable[[int], object]) -> None:
        """Until the grid is over, or something else ends the run."""
        seen, quiet = 0, 0
        while self.cycles < limit:
            before, end = self.cycles, min(self.cycles + _CHUNK, limit)
            while self.cycles < end:
                if (await self.advance(ctx, end - self.cycles) and self._outcome(ctx, result)) or self._differs:
                    break
            progress(self.cycles - before)
            if self._outcome(ctx, result) or self._differs:
                return
            issued = await self._counter(ctx, "instructions")
            quiet, seen = (quiet + 1 if issued == seen else 0), issued
            if quiet == _QUIET:
                result.reason = f"no warp has issued an instruction for {quiet * _CHUNK:,} cycles"
                return
        result.reason = f"not over after {self.cycles:,} cycles"

    async def _counter(self, ctx: Any, name: str) -> int:
        address = COUNTER_BLOCK + 8 * list(COUNTERS).index(name)
        low = await self.read(ctx, address)
        return low | await self.read(ctx, address + 4) << 32

    async def _finish(self, ctx: Any, result: HardwareResult) -> None:
        """Reads what there is to know."""
        result.cycles = await self._counter(ctx, "cycles")
        end = self.cycles + _SETTLE
        while self.cycles < end:
            await self.advance(ctx, end - self.cycles)
        self._service.finish()
        status = await self.read(ctx, REGISTERS["STATUS"])
        high, low = WORK_REGISTERS["STATUS"].fields["REJECTION"]
        result.rejection = LaunchRejection(status >> low & (1 << high - low + 1) - 1)
        if result.rejection is not LaunchRejection.NONE:
            result.status = "error"
        registers = await self.read_all(ctx, (REGISTERS[name] for name in SM_REGISTERS))
        result.registers.update(zip(SM_REGISTERS, registers, strict=True))
        high, low = SM_REGISTERS["HWW_WARP_ESR"].fields["ERROR"]
        if result.status == "ok" and result.registers["HWW_WARP_ESR"] >> low & (1 << high - low + 1) - 1:
            result.status = "error"     # of a warp that has ended all the same
        halves = await self.read_all(ctx, range(COUNTER_BLOCK, COUNTER_BLOCK + 8 * len(COUNTERS), 4))
        result.counters.update(
            (name, low | high << 32) for name, low, high in zip(COUNTERS, halves[::2], halves[1::2], strict=True))
        if result.status != "ok":
            result.diagnosis = diagnose(ctx, self.harness.sm, self._launch, self.memory)
            result.warps = warp_states(ctx, self.harness.sm, self._launch, self.memory)
