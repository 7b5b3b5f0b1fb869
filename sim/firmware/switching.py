"""A context switch of a grid that a host watches from outside: off the machine after some cycles, and on again."""

from collections.abc import Iterator

from sim.launch import Launch
from sim.launch.memory import Memory
from sim.machine.host import HardwareHost
from sim.toolchain.assembly.spelling import spell

from .context import WarpContext, install_context_switch, resumed, save_grid

__all__ = ["GridSwitch"]


class GridSwitch:
    """Takes a grid off the machine.

    Parameters:
        launch: Of the grid. Its memory is that of no other handler; ProgramError for one that can't be saved.
        after: Cycles from the grid's start until the host stops it.
        limit: Cycles that saving it may take.

    Attributes:
        launch: What is to be run with :meth:`drive` as its driver.
        left: Whether the grid was taken off; it had not ended before.
        failure: Why it is still there, if it takes too long; else empty.
        cycles: From its start until it was off.
    """

    def __init__(self, launch: Launch, after: int, limit: int) -> None:
        self._image = install_context_switch(launch)
        self._after, self._limit = after, limit
        self.launch = self._image.launch
        self.left, self.failure = False, ""
        self.cycles = 0

    async def drive(self, host: HardwareHost) -> None:
        """Runs the grid, stops it and has it saved."""
        if not await host.until(lambda host: host.ended, self._after) and not host.failed:
            try:
                self.left = await save_grid(host, self._image, self._limit)
            except TimeoutError as error:
                self.failure = str(error)
        self.cycles = host.cycles

    def resumed(self, memory: Memory) -> Launch:
        """The launch that continues from the machine's memory."""
        return resumed(self._image, memory).launch

    def lines(self, memory: Memory) -> Iterator[str]:
        """A line for each warp that was saved: its pc, and the number of tokens on its stack."""
        x, y, z = self.launch.grid
        for number in range(x * y * z * self.launch.warps):
            cta, place = divmod(number, self.launch.warps)
            warp = self._image.warp(memory, cta, place)
            if warp.word("STATE") == WarpContext.SAVED:
                word = self.launch.memory.read_number(self.launch.program_base + warp.pc, 8)
                yield (
                    f"CTA {cta}, warp {place}: before {warp.pc:#06x} {spell(word, warp.pc)}, {warp.depth} tokens on "
                    "its stack"
                )
