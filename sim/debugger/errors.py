"""What can be wrong with a command."""

from sim.support.command import CommandError

__all__ = ["DebuggerError"]


class DebuggerError(CommandError):
    """A command that can't be carried out: one line with the reason."""
