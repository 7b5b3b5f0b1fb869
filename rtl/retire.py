"""The retirement interface: the events of the whole machine, for testbenches and checkers.

Instructions of a warp issue in order and complete out of order. A sequence number, the field
``serial``, lets a listener match the events of one instruction: it is issued, it writes registers,
predicates or CC in one or more beats, and it completes or raises an error. Flow instructions and
entries into the trap handler complete with the flow unit's result; a warp's results are in program
order, so they have no sequence number.
"""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from rtl.layouts import (
    ERROR_SOURCES,
    EventLayout,
    completion,
    error_event,
    flow_result,
    issued,
    lane_write,
    warp_launch,
)
from rtl.params import SmParams

__all__ = ["COMPLETION_SOURCES", "RetirementPort"]

COMPLETION_SOURCES = ("issue", "lanes", "memory", "conversion", "barrier", "trap")
"""The units that report completions, in the order of ``RetirementPort.completed``. The flow unit is
none of them: its result is the completion."""


class RetirementPort(wiring.Signature):
    """All events of a cycle. Each has a bit ``valid``; no event can be refused.

    Members
    -------
    launched : Out(EventLayout(warp_launch))
        The work distributor starts a warp in slot ``warp``: from then on events with this slot's
        number are the new warp's.
    issued : Out(EventLayout(issued))
        An instruction leaves the issue unit, at most one a cycle: its sequence number, address,
        word and kind, and the constant operand if it has one. An instruction that cannot be
        executed is issued too, with the kind REFUSED and its ``error``. So are ENTER and LEAVE,
        which the trap unit injects in place of an instruction.
    written : Out(lane_write)
        A beat of an instruction writes a register, predicates or CC in some of the warp's lanes.
    flow : Out(EventLayout(flow_result))
        A flow instruction, or an ENTER or LEAVE, is complete: the warp's next pc, its active
        threads and the reason why others are not, the destination register's value, whether the
        warp has ended, and the error.
    withdrawn : Out(EventLayout(warp))
        The barrier unit takes back the arrival of a warp that waits at a CTA barrier, because the
        warp has to enter the trap handler. The barrier no longer counts the warp. Its BAR was
        complete when it arrived; the warp executes it again after it returns from the handler. An
        ENTER of the warp is issued later.
    completed : Out(array of completion), by COMPLETION_SOURCES
        An instruction is complete: all that it writes is written.
    errors : Out(array of error_event), by ERROR_SOURCES
        An instruction raises an error that is reported; it has written nothing.
    """

    def __init__(self, params: SmParams) -> None:
        completions = data.ArrayLayout(completion(params), len(COMPLETION_SOURCES))
        errors = data.ArrayLayout(error_event(params), len(ERROR_SOURCES))
        super().__init__({
            "launched": Out(EventLayout(warp_launch(params))),
            "issued": Out(EventLayout(issued(params))),
            "written": Out(lane_write(params)),
            "flow": Out(EventLayout(flow_result(params))),
            "withdrawn": Out(data.StructLayout({"valid": 1, "warp": params.warp_bits})),
            "completed": Out(completions),
            "errors": Out(errors),
        })
