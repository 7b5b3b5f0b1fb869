"""A context switch of a grid that a host controls: it removes the grid from the machine after some
cycles, and resumes it.
"""

from collections.abc import Iterator

from sim.launch import Launch
from sim.launch.memory import Memory
from sim.machine.host import HardwareHost
from sim.toolchain.assembly.spelling import spell

from .context import WarpContext, install_context_switch, resumed, save_grid

__all__ = ["GridSwitch"]


class GridSwitch:
    """Removes a grid from the machine.

    Parameters:
        launch: The launch of the grid. Its memory must have no other handler; ProgramError if the
            grid cannot be saved.
        after: Cycles from the grid's start until the host stops it.
        limit: Cycles within which it must be saved.

    Attributes:
        launch: The launch to run, with :meth:`drive` as its driver.
        left: Whether the grid was removed; otherwise it had ended before.
        failure: The reason why it could not be removed in time; else empty.
        cycles: Cycles from its start until it was removed.
    """

    def __init__(self, launch: Launch, after: int, limit: int) -> None:
        self._image = install_context_switch(launch)
        self._after, self._limit = after, limit
        self.launch = self._image.launch
        self.left, self.failure = False, ""
        self.cycles = 0

    async def drive(self, host: HardwareHost) -> None:
        """Runs the grid, stops it and saves it."""
        if not await host.until(lambda host: host.ended, self._after) and not host.failed:
            try:
                self.left = await save_grid(host, self._image, self._limit)
            except TimeoutError as error:
                self.failure = str(error)
        self.cycles = host.cycles

    def resumed(self, memory: Memory) -> Launch:
        """Returns the launch that continues from the machine's memory."""
        return resumed(self._image, memory).launch

    def lines(self, memory: Memory) -> Iterator[str]:
        """Yields a line for each saved warp: its pc, and the number of tokens on its stack."""
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
