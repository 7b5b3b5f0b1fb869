"""Errors of debugger commands."""

from sim.support.command import CommandError

__all__ = ["DebuggerError"]


class DebuggerError(CommandError):
    """A command that cannot be executed. The message is one line with the reason."""
