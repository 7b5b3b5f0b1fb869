"""What can be wrong with a command."""

__all__ = ["DebuggerError"]


class DebuggerError(Exception):
    """A command that can't be carried out: one line that says why."""
