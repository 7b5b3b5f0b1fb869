"""Inputs of simulated hardware that are set only when they change."""

from typing import Any

__all__ = ["ChangedInput"]


class ChangedInput:
    """An unsigned input that no other testbench sets.

    Amaranth's ``set`` takes tens of microseconds, even if the value does not change.
    """

    def __init__(self, ctx: Any, signal: Any) -> None:
        self._ctx, self._signal = ctx, signal
        self._value: int | None = None

    def set(self, value: int) -> None:
        """Sets the input, unless it has this value already."""
        if value != self._value:
            self._ctx.set(self._signal, value)
            self._value = value
