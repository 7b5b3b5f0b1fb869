"""What goes wrong with an engine."""

from sim.support.command import CommandError

__all__ = ["EngineError", "FineLoopError"]


class EngineError(CommandError):
    """An engine that cannot be used here, or not for this design; one line that says why and what to do."""


class FineLoopError(Exception):
    """Bits of some cells depend on other bits of the same cells: these have to be taken apart."""

    def __init__(self, cells: set[int]) -> None:
        super().__init__(cells)
        self.cells = cells
