"""Errors of boards."""

from sim.support.command import CommandError

__all__ = ["BoardError"]


class BoardError(CommandError):
    """A board that is missing, does not answer, or is not the requested one. The message is one
    line with the reason.
    """
