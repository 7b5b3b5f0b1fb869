"""The flow unit: where a warp goes on, and with which threads."""

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import REPORT_BITS, Event, StackPort, flow_launch, flow_request, flow_result
from rtl.params import SmParams
from rtl.words import Words

from .conclude import ConcludeStage
from .decide import DecideStage
from .gather import GatherStage
from .in_flight import OutcomesInFlight
from .stages import thread_state

__all__ = ["FlowUnit"]


class FlowUnit(Component):
    """Keeps the threads' masks of all warps, and executes the instructions that change them or the
    pc.

    A warp may send an instruction in the cycle after one that only pushes, or after a direct branch
    that all its active threads take and that cannot fail, and in the cycle after the result of any
    other. Warps follow each other in any order, one instruction a cycle, except that the stack
    takes a warp's next request two cycles after a push or such a branch: if the warp sends its next
    instruction at once, that waits in the decide stage for a cycle. ::

        request, launch --> GATHER --> DECIDE --> outcomes in flight --> CONCLUDE --> result
                              ^          |                                  ^  |
                              |          +--> call/return stack ------------+  |
                              +-- states of all warps <------------------------+

    ========  =====  ===============================================================
    stage     cycle  what is known at its end
    ========  =====  ===============================================================
    gather    0      which threads execute the instruction; its target
    decide    1      what is requested of the stack, and what the instruction does
                     unless the stack refuses. The stack takes the request
    conclude  4      the stack has answered: next pc, active threads and codes are
                     written, and are the result
    ========  =====  ===============================================================

    An operation for which the stack needs more steps is overtaken by those of other warps; all that
    is needed of its outcome then is parked, a word a warp.

    Error: the instruction does nothing, and the warp goes on behind it (ours); only
    RET_EMPTY_STACK_ERROR ends the warp as well. What the trap unit makes a warp do and fails leaves
    the warp where it is.

    Two that come at once: a launch goes before a request. An indexed branch that pushes two tokens
    has the decide stage for three cycles, entering the trap handler until its frame is pushed.

    An instruction whose request the stack does not take waits in the decide stage, and holds up the
    instructions of all warps behind it: as long as its warp is busy there (a line is read behind
    its last result), or a push finds all lines of its warp dirty and full. The stack's engine and
    memory end that without the flow unit, so it cannot deadlock.

    Members
    -------
    request : In(stream of flow_request)
    launch : In(stream of flow_launch)
        A new warp; goes before ``request``. Its result says where it begins.
    report_mask : In(32)
        Bit n: errors of code n are reported. One that is not makes the instruction do nothing; one
        of entering the trap handler always is.
    result : Out(Event of flow_result)
        Four cycles after the request, or later: the warp's next request may come five cycles after
        this one. What is dispatched to :class:`~rtl.flow.FlowQueue` is requested a cycle later: six
        cycles from dispatch to dispatch.
    stack : Out(StackPort)

    Attributes
    ----------
    states : Words
        Of each warp its active threads, and the codes of the others: a thread_state.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "request": In(stream.Signature(flow_request(params))),
            "launch": In(stream.Signature(flow_launch(params))),
            "report_mask": In(REPORT_BITS),
            "result": Out(Event(flow_result(params))),
            "stack": Out(StackPort(params)),
        })
        self.states = Words(thread_state(), params.warps)
        self.gather = GatherStage(params)
        self.decide = DecideStage(params)
        self.in_flight = OutcomesInFlight(params)
        self.conclude = ConcludeStage(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.states = self.states
        m.submodules.gather = self.gather
        m.submodules.decide = self.decide
        m.submodules.in_flight = self.in_flight
        m.submodules.conclude = self.conclude
        self._connect_gather(m)
        self._connect_decide(m)
        self._connect_conclude(m)
        return m

    def _connect_gather(self, m: Module) -> None:
        """Instructions and launches, with the state of the instruction's warp."""
        gather = self.gather
        connect(m, flipped(self.request), gather.request)
        connect(m, flipped(self.launch), gather.launch)
        m.d.comb += gather.state.eq(self.states.read(m, self.request.payload.warp))
        connect(m, gather.gathered, self.decide.gathered)

    def _connect_decide(self, m: Module) -> None:
        """The request to the stack, and the outcome that travels beside it."""
        in_flight = self.in_flight
        connect(m, self.decide.stack, flipped(self.stack))
        connect(m, self.decide.decided, in_flight.decided)
        m.d.comb += in_flight.decides.eq(self.decide.gathered.valid)
        m.d.comb += in_flight.report_mask.eq(self.report_mask)
        connect(m, flipped(self.stack.result), in_flight.result, self.conclude.stack_result)

    def _connect_conclude(self, m: Module) -> None:
        """The stack's answer, and its warp's outcome and state."""
        conclude = self.conclude
        warp = self.stack.result.payload.warp
        m.d.comb += conclude.outcome.eq(self.in_flight.outcome)
        m.d.comb += conclude.report_mask.eq(self.report_mask)
        m.d.comb += conclude.state.eq(self.states.read(m, warp))
        self.states.write(m, self.stack.result.valid, warp, conclude.next_state)
        connect(m, conclude.result, flipped(self.result))
