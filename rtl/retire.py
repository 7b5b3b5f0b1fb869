"""The retirement interface: the events of the whole machine, for testbenches and checkers.

Instructions of a warp issue in order and complete out of order. A sequence number, the field
``sequence``, lets a listener match the events of an instruction: it is issued, it writes registers,
predicates or CC in one or more beats, and it completes. An instruction with a reported error writes
nothing, but completes too; an error event has no sequence number, but the instruction's pc. Flow
instructions, ENTER and LEAVE complete with the flow unit's result; a warp's results are in program
order, so they have no sequence number. GETCRSPTR and GETLMEMBASE (kind FLOW_READ) have both: a flow
result, and later the completion of the write of their register, by the lanes.
"""

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from rtl.layouts import (
    ErrorEvents,
    Event,
    completion,
    flow_result,
    issued,
    lane_write,
    warp_launch,
)
from rtl.params import SmParams

__all__ = ["CompletionEvents", "RetirementPort"]


class CompletionEvents(wiring.Signature):
    """The instructions that complete in one cycle, by the unit that reports it; several units may
    do so in the same cycle. The flow unit has no event here: its result is the completion.

    Members
    -------
    issue, lanes, memory, conversion, barrier, trap : Out(Event(completion))
    """

    def __init__(self, params: SmParams) -> None:
        event = Event(completion(params))
        super().__init__({
            "issue": Out(event),
            "lanes": Out(event),
            "memory": Out(event),
            "conversion": Out(event),
            "barrier": Out(event),
            "trap": Out(event),
        })


class RetirementPort(wiring.Signature):
    """All events of a cycle.

    Members
    -------
    launched : Out(Event(warp_launch))
        The work distributor starts a warp in slot ``warp``: from then on events with this slot's
        number are the new warp's.
    issued : Out(Event(issued))
        An instruction leaves the issue unit, at most one a cycle: its sequence number, address,
        word and kind, and the constant operand if it has one. An instruction that cannot be
        executed is issued too, with the kind REFUSED and its ``error``. So are ENTER and LEAVE,
        which the trap unit injects in place of an instruction.
    written : Out(Event(lane_write))
        A beat of an instruction writes a register, predicates or CC in some of the warp's lanes.
    flow : Out(Event(flow_result))
        A flow instruction, or an ENTER or LEAVE, is complete: the warp's next pc, its active
        threads and the reason why others are not, the destination register's value, whether the
        warp has ended, and the error.
    withdrawn : Out(Event(warp))
        The barrier unit takes back the arrival of a warp that waits at a CTA barrier, because the
        warp has to enter the trap handler. The warp's arrival at the barrier is withdrawn. Its BAR
        was complete when it arrived; the warp executes it again after it returns from the handler.
        An ENTER of the warp is issued later.
    completed : Out(CompletionEvents)
        An instruction is complete: all that it writes is written.
    errors : Out(ErrorEvents)
        An instruction raises an error that is reported; it writes nothing. Its completion is in the
        same cycle or later. An error of the source ``stack`` belongs to no instruction.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "launched": Out(Event(warp_launch(params))),
            "issued": Out(Event(issued(params))),
            "written": Out(Event(lane_write(params))),
            "flow": Out(Event(flow_result(params))),
            "withdrawn": Out(Event(params.warp_bits)),
            "completed": Out(CompletionEvents(params)),
            "errors": Out(ErrorEvents(params)),
        })
