"""Errors: the event of an error, the sources of errors, and the report mask."""

from typing import Any

from amaranth.hdl import Value
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import Out

from rtl.isa.errors import WarpError
from rtl.params import SmParams

from .event import Event

__all__ = [
    "ERROR_SOURCES",
    "REPORT_BITS",
    "ErrorEvents",
    "Origin",
    "error_event",
    "errors_by_source",
    "reported",
]

REPORT_BITS = 32
"""Width of the report mask: bit n enables code n."""
_CODE_BITS = (REPORT_BITS - 1).bit_length()
assert all(error.value < REPORT_BITS for error in WarpError)


class Origin(enum.Enum, shape=2):
    """The instruction to which a warp returns from the trap that it enters because of an error."""

    NEXT = 0
    """Its next instruction."""
    LAST = 1
    """The instruction that it issued last: it failed, and no later one has issued."""
    FLOW = 2
    """The flow instruction that failed. Later instructions of the warp may have issued after a
    push, except those that can fail: issue holds them until the result of the push is known."""
    MEMORY = 3
    """The memory instruction that failed. Any later instruction may have issued after it (ours)."""


ERROR_SOURCES = {
    "lanes": Origin.LAST,
    "flow": Origin.FLOW,
    "memory": Origin.MEMORY,
    "conversion": Origin.LAST,
    "barrier": Origin.LAST,
    "trap": Origin.LAST,
    "stack": Origin.NEXT,
}
"""Sources of errors, by falling priority where one of several in a cycle is selected. An error of
``stack`` is a line that memory did not accept; it belongs to no instruction, and its pc is 0
(ours)."""


def error_event(params: SmParams) -> data.StructLayout:
    """A reported error of an instruction, other than NONE. The instruction has no other effect."""
    return data.StructLayout({"warp": params.warp_bits, "pc": 32, "error": WarpError})


class ErrorEvents(wiring.Signature):
    """The errors of all sources in one cycle.

    Members
    -------
    lanes, flow, memory, conversion, barrier, trap, stack : Out(Event of error_event)
        By source; see ERROR_SOURCES.
    """

    def __init__(self, params: SmParams) -> None:
        error = Event(error_event(params))
        super().__init__({source: Out(error) for source in ERROR_SOURCES})


def errors_by_source(errors: Any) -> dict[str, Any]:
    """The events of :class:`ErrorEvents`, in the order of ERROR_SOURCES."""
    return {
        "lanes": errors.lanes,
        "flow": errors.flow,
        "memory": errors.memory,
        "conversion": errors.conversion,
        "barrier": errors.barrier,
        "trap": errors.trap,
        "stack": errors.stack,
    }


def reported(mask: Any, error: Any) -> Value:
    """Whether this is an error, not NONE, whose code is enabled in the report mask."""
    code = Value.cast(error)
    return code.any() & mask.bit_select(code[:_CODE_BITS], 1)
