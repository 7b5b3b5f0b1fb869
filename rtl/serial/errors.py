"""Errors in the serial machine: one of the instruction under way, and one of a stack.

Of :class:`~rtl.layouts.ErrorEvents` at most one is of an instruction. A line of a stack that memory
did not take is of no instruction, and comes at any time.
"""

from typing import Any

from amaranth.hdl import Cat, Module

from rtl.error_status import ErrorStatus
from rtl.layouts import ERROR_SOURCES, Origin, errors_by_source

__all__ = ["SerialErrorStatus", "of_instruction", "of_stack", "simultaneous_errors"]


def of_instruction(m: Module, errors: Any) -> Any:
    """Of ErrorEvents that of the instruction under way, as one event."""
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
    """Of ErrorEvents that of no instruction."""
    return errors.stack


def simultaneous_errors(m: Module, errors: Any) -> list[Any]:
    """The errors that can come in one cycle: an instruction's goes before a stack's."""
    return [of_instruction(m, errors), of_stack(errors)]


class SerialErrorStatus(ErrorStatus):
    """An instruction's error goes before a stack's."""

    def simultaneous(self, m: Module) -> list[Any]:
        return simultaneous_errors(m, self.errors)
