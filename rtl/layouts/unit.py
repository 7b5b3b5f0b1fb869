"""The common ports of units that execute instructions beside the lanes."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.params import SmParams

from .errors import REPORT_BITS, error_event
from .event import Event
from .instruction import completion, dispatched

__all__ = ["ExecutionUnit"]


class ExecutionUnit(wiring.Signature):
    """The ports of a unit through which its instructions are dispatched, and complete.

    Members
    -------
    dispatch : In(Event of dispatched)
        An instruction of the unit, which cannot refuse it.
    room : Out(1)
        It can accept UNDER_WAY more instructions.
    report_mask : In(32)
        Bit n: warp errors of code n are reported.
    completion : Out(Event of completion)
    error : Out(Event of error_event)
        An error that is reported; the instruction has no other effect.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "dispatch": In(Event(dispatched(params))),
            "room": Out(1),
            "report_mask": In(REPORT_BITS),
            "completion": Out(Event(completion(params))),
            "error": Out(Event(error_event(params))),
        })
