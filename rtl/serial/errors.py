"""Errors in the serial machine: one of the instruction under way, and one of a stack.

Of :class:`~rtl.layouts.ErrorEvents` at most one belongs to an instruction. A stack's line that
memory refused belongs to no instruction, and is reported at any time.
"""

from typing import Any

from amaranth.hdl import Cat, Module

from rtl.error_status import ErrorStatus
from rtl.layouts import ERROR_SOURCES, Origin, errors_by_source

__all__ = ["SerialErrorStatus", "of_instruction", "of_stack", "simultaneous_errors"]


def of_instruction(m: Module, errors: Any) -> Any:
    """The error of the instruction under way, from ErrorEvents, as one event."""
    sources = [
        event for source, event in errors_by_source(errors).items()
        if ERROR_SOURCES[source] is not Origin.NEXT]
    error: Any = sources[0].signature.create(path=("error_of_instruction",))
    m.d.comb += error.valid.eq(Cat(source.valid for source in sources).any())
    for source in reversed(sources):
        with m.If(source.valid):
            m.d.comb += error.payload.eq(source.payload)
    return error


def of_stack(errors: Any) -> Any:
    """The error of no instruction, from ErrorEvents."""
    return errors.stack


def simultaneous_errors(m: Module, errors: Any) -> list[Any]:
    """The errors that can arrive in one cycle: an instruction's has priority over a stack's."""
    return [of_instruction(m, errors), of_stack(errors)]


class SerialErrorStatus(ErrorStatus):
    """An ErrorStatus of two sources: an instruction's error has priority over a stack's."""

    def simultaneous(self, m: Module) -> list[Any]:
        return simultaneous_errors(m, self.errors)
