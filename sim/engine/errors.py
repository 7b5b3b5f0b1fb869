"""What goes wrong with an engine."""

__all__ = ["EngineError"]


class EngineError(Exception):
    """An engine that cannot be used here, or not for this design; one line that says why and what to do."""
