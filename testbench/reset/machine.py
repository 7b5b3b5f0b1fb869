"""The whole machine in simulation, which is reset while it runs, and whose memories hold anything at power-up."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from amaranth.hdl import MemoryData, Value

from rtl.params import SmParams
from sim.engine import Change, CompiledEngine, Engine
from sim.launch import Launch
from sim.machine.hardware import Hardware
from sim.machine.host import Driver
from sim.machine.retirement_events import EventReader
from testbench.reset.memories import memories_of

__all__ = ["ResettableMachine"]

_RESET_CYCLES = 3
"""Cycles that a reset takes, at most."""


class _CutError(Exception):
    """The machine is reset before its grid is over."""


class _LaterReader(EventReader):
    """Counts cycles from the beginning of a run, and not from power-up.

    Attributes:
        base: The cycle in which the run began.
    """

    base = 0

    def changes(self, changes: Sequence[Change]) -> None:
        """Takes changes; those before the run began are ignored."""
        super().changes(
            [
                (cycle - self.base, number, value)
                for cycle, number, value in changes
                if cycle >= self.base
            ]
        )


class ResettableMachine(Hardware):
    """The machine, whose simulation continues from one run to the next: each run begins with a
    reset of the machine, in the state that the run before has left. Its memory outside is reset
    with it, and owes it nothing.

    Parameters:
        params: The machine.
        engine: What simulates it.
        contents: What memories hold at power-up: random words; None: zeros.
    """

    def __init__(
        self, params: SmParams, engine: type[Engine], contents: Random | None = None
    ) -> None:
        super().__init__(params, engine, check=True, reader=_LaterReader)
        self._contents = contents
        self._design: Any = vars(self._simulator)["_design"]
        self._over = False
        self._length = Random(0)
        self._end: int | None = None
        """The cycle of the run in which it is cut off."""

    def cut(self, launch: Launch, cycles: int, driver: Driver | None = None) -> None:
        """Resets the machine and lets its host launch something, for so many cycles in all; the next run's reset comes
        then, or when the grid is over."""
        self._end = cycles
        try:
            self.run(launch, cycles, driver=driver)
        finally:
            self._end = None

    async def advance(self, cycles: int) -> bool:
        """As of all hardware, until the run is cut off."""
        if self._end is not None:
            if self.cycles >= self._end:
                raise _CutError
            cycles = min(cycles, self._end - self.cycles)
        return await super().advance(cycles)

    def _restart(self) -> None:
        """The simulation continues."""

    def _simulate(self) -> None:
        """Until the run is over."""
        self._over = False
        while not self._over:
            self._simulator.advance()

    def _close(self) -> None:
        """Takes the events of the run."""
        assert self._observer is not None
        assert self._reader is not None
        self._observer.flush()
        self._reader.finish(self.cycles)
        if self.lockstep is not None:
            self.lockstep.catch_up()

    async def _host(self, ctx: Any) -> None:
        """The testbench: the host of one run after the other."""
        if self._contents is not None:
            for memory in self.memories():
                for row in range(memory.depth):
                    word = Value.cast(memory[row])
                    ctx.set(word, self._contents.getrandbits(len(word) or 1))
        while True:
            await self._reset(ctx)
            with suppress(_CutError):
                await super()._host(ctx)
            self._over = True
            await ctx.tick()  # the next run has been made

    async def _reset(self, ctx: Any) -> None:
        """The reset of all that the simulation has, memory outside among it."""
        reset = self._design.lookup_domain("sync", None).rst
        cycles = self._length.randint(1, _RESET_CYCLES)
        ctx.set(self.harness.host.write, 0)
        ctx.set(self.harness.host.read, 0)
        ctx.set(reset, 1)
        for _ in range(cycles):
            await ctx.tick()
            ctx.set(self.harness.latch.answer, {"turn": 0, "payload": {}})
        ctx.set(reset, 0)
        assert isinstance(self._reader, _LaterReader)
        assert self._observer is not None
        self._reader.base = self._observer._cycle

    def memories(self) -> Iterator[MemoryData]:
        """Those of the hardware that are written."""
        if isinstance(self.engine, CompiledEngine):
            known = [memory for memory, _ in self.engine._layout.memories]
            yield from (memory for memory in known if not any(memory.init))
        else:
            yield from (each.data for each in memories_of(self._design.fragment) if each.writes)
