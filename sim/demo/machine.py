"""Draws the pictures of a demo: runs its launches, one at a time."""

from collections.abc import Callable

from sim.demo.scenes import PICTURE, Place
from sim.launch import Launch
from sim.launch.memory import Memory
from sim.runner import Progress, Runner

__all__ = ["DemoError", "Painter"]

_LIMIT = 1_000_000_000
"""Cycles, or instructions of the model, after which a launch is aborted."""


class DemoError(Exception):
    """A launch that failed; the message is its report."""


class Painter:
    """Runs launches that draw.

    Parameters:
        runner: Runs the launches.
        progress: Called with the cycles, or instructions of the model, since its last call.
        painted: Called with the address of each picture in the memory of the machine.

    Attributes:
        cycles: Cycles of all launches so far.
    """

    def __init__(
        self,
        runner: Runner,
        progress: Progress = lambda _cycles: None,
        painted: Callable[[int], object] = lambda _address: None,
    ) -> None:
        self.cycles = 0
        self._runner, self._progress, self._painted = runner, progress, painted

    def __call__(self, place: Place) -> bytes:
        """Places a launch and runs it; returns its picture. DemoError if the launch fails."""

        def placed(local: int | None, crs: int | None, memory: Memory) -> tuple[Launch, Launch]:
            launch = place(local=local, crs=crs, memory=memory)
            return launch, launch

        launch = self._runner.fitted(placed)
        outcome = self._runner.run(launch, _LIMIT, self._progress)
        self.cycles += outcome.cycles
        if outcome.status != "ok":
            raise DemoError(outcome.report)
        self._painted(launch.buffers[PICTURE][0])
        return launch.memory.read(*launch.buffers[PICTURE])
