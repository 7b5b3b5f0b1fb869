"""Errors of engines."""

from sim.support.command import CommandError

__all__ = ["EngineError", "FineLoopError"]


class EngineError(CommandError):
    """An engine that cannot be used here, or not for this design. The message is one line with the
    reason and the remedy.
    """


class FineLoopError(Exception):
    """Bits of some cells depend on other bits of the same cells: these cells must be split into
    single bits.
    """

    def __init__(self, cells: set[int]) -> None:
        super().__init__(cells)
        self.cells = cells
