"""What can be wrong with a board."""

__all__ = ["BoardError"]


class BoardError(Exception):
    """A board that is not there, does not answer, or is not what was asked for: one line that says so."""
