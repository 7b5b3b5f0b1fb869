"""Errors in the serial machine: one of the instruction under way, and one of a stack.

An array of errors by :data:`~rtl.layouts.ERROR_SOURCES` has at most one of an instruction. A line of
a stack that memory did not take is of no instruction, and comes at any time.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from amaranth.hdl import Mux, Value
from amaranth.lib import data

from rtl.error_status import ErrorStatus
from rtl.layouts import ERROR_SOURCES, Origin

__all__ = ["SerialErrorStatus", "of_instruction", "of_stack", "simultaneous_errors"]


def of_instruction(errors: Sequence[Any]) -> Any:
    """Of errors by ERROR_SOURCES that of the instruction under way."""
    *others, last = (
        event for event, origin in zip(errors, ERROR_SOURCES.values(), strict=True)
        if origin is not Origin.NEXT)

    def choose(rest: Value, event: Any) -> Value:
        return Mux(event.valid, event.as_value(), rest)

    content = reduce(choose, reversed(others), last.as_value())
    return data.View(last.shape(), Value.cast(content))


def of_stack(errors: Sequence[Any]) -> Any:
    """Of errors by ERROR_SOURCES that of no instruction."""
    (event,) = (
        event for event, origin in zip(errors, ERROR_SOURCES.values(), strict=True)
        if origin is Origin.NEXT)
    return event


def simultaneous_errors(errors: Sequence[Any]) -> list[Any]:
    """The errors that can come in one cycle: an instruction's goes before a stack's."""
    return [of_instruction(errors), of_stack(errors)]


class SerialErrorStatus(ErrorStatus):
    """Its ``errors`` are by ERROR_SOURCES."""

    def simultaneous(self) -> list[Any]:
        return simultaneous_errors(self.errors)
