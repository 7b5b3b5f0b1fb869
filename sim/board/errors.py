"""What can be wrong with a board."""

from sim.support.command import CommandError

__all__ = ["BoardError"]


class BoardError(CommandError):
    """A board that is not there, does not answer, or is not the requested one: one line with the
    reason."""
