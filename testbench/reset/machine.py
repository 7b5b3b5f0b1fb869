"""The simulated machine with a reset at any time, and with any content of its memories at
power-up.
"""

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
"""Maximum length of a reset in cycles."""


class _CutError(Exception):
    """The machine is reset before its grid has ended."""


class _LaterReader(EventReader):
    """Counts cycles from the beginning of a run instead of power-up.

    Attributes:
        base: The cycle in which the run began.
    """

    base = 0

    def changes(self, changes: Sequence[Change]) -> None:
        """Processes signal changes; ignores those before the beginning of the run."""
        super().changes(
            [
                (cycle - self.base, number, value)
                for cycle, number, value in changes
                if cycle >= self.base
            ]
        )


class ResettableMachine(Hardware):
    """A machine whose simulation continues from one run to the next.

    Each run begins with a reset of the machine in the state that the run before has left. The
    memory outside is reset with it, and has no outstanding response.

    Parameters:
        params: Parameters of the machine.
        engine: The simulation engine.
        contents: Random words for all memories at power-up; None: zeros.
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
        """The cycle of the run in which it is cut off by a reset; None: it is not."""

    def cut(self, launch: Launch, cycles: int, driver: Driver | None = None) -> None:
        """Resets the machine, launches, and runs for ``cycles`` cycles at most; the reset of the
        next run follows.
        """
        self._end = cycles
        try:
            self.run(launch, cycles, driver=driver)
        finally:
            self._end = None

    async def advance(self, cycles: int) -> bool:
        """Advances as :meth:`Hardware.advance` does; raises _CutError at the end of a run that is
        cut off.
        """
        if self._end is not None:
            if self.cycles >= self._end:
                raise _CutError
            cycles = min(cycles, self._end - self.cycles)
        return await super().advance(cycles)

    def _restart(self) -> None:
        """Does nothing: the simulation continues."""

    def _simulate(self) -> None:
        """Simulates until the run has ended."""
        self._over = False
        while not self._over:
            self._simulator.advance()

    def _close(self) -> None:
        """Processes the remaining events of the run."""
        assert self._observer is not None
        assert self._reader is not None
        self._observer.flush()
        self._reader.finish(self.cycles)
        if self.lockstep is not None:
            self.lockstep.catch_up()

    async def _host(self, ctx: Any) -> None:
        """The host's testbench process: one run after the other."""
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
            await ctx.tick()  # by now the next run is prepared

    async def _reset(self, ctx: Any) -> None:
        """Resets everything in the simulation, the memory outside included."""
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
        """The memories of the hardware that are written."""
        if isinstance(self.engine, CompiledEngine):
            known = [memory for memory, _ in self.engine._layout.memories]
            yield from (memory for memory in known if not any(memory.init))
        else:
            yield from (each.data for each in memories_of(self._design.fragment) if each.writes)
