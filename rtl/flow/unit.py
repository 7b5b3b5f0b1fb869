"""The flow unit: computes a warp's next pc and active threads."""

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
    """Stores the active threads and codes of all warps, and executes the instructions that change
    them or the pc.

    The unit accepts one instruction a cycle, of warps in any order. A warp may send its next
    instruction in the cycle after a push, or after a direct branch that all its active threads take
    and that cannot fail; after any other instruction, in the cycle after its result. The stack
    accepts a warp's next request two cycles after a push or such a branch. If the warp sends its
    next instruction at once, that instruction waits in the decide stage for a cycle. ::

        request, launch --> GATHER --> DECIDE --> outcomes in flight --> CONCLUDE --> result
                              ^          |                                  ^  |
                              |          +--> call/return stack ------------+  |
                              +-- states of all warps <------------------------+

    ========  =====  ===============================================================
    stage     cycle  what is known at its end
    ========  =====  ===============================================================
    gather    0      the threads that execute the instruction; its target
    decide    1      the request to the stack, which accepts it; the outcome of the
                     instruction unless the stack refuses
    conclude  4      the stack's result; next pc, active threads and codes are
                     written and sent as the flow result
    ========  =====  ===============================================================

    Long operations: if the stack needs more steps for an operation, operations of other warps
    overtake it. The part of its outcome that is still needed is parked, one word for each warp.

    Errors: the instruction does nothing, and the warp continues at the next instruction (ours).
    RET_EMPTY_STACK_ERROR also ends the warp. If an operation of the trap unit fails, the warp's pc
    does not change.

    Priority: a launch has priority over a request. An indexed branch that pushes two tokens
    occupies the decide stage for three cycles. ENTER_TRAP occupies it until its frame is pushed.

    Stalls: an instruction whose request the stack does not accept waits in the decide stage, and
    stalls the instructions of all warps after it. It waits while its warp is busy in the stack (a
    line is read after its last result), or while a push finds all lines of its warp dirty and full.
    The stack's engine and memory end both conditions without the flow unit, so the flow unit cannot
    deadlock.

    Members
    -------
    request : In(stream of flow_request)
    launch : In(stream of flow_launch)
        A new warp; it has priority over ``request``. Its result contains the pc where it begins.
    report_mask : In(32)
        Bit n: errors of code n are reported. An instruction with another error does nothing. Errors
        of entering the trap handler are always reported.
    result : Out(Event of flow_result)
        Four cycles after the request or later, so the warp's next request may follow five cycles
        after this one. FlowQueue adds a cycle: six cycles from dispatch to dispatch.
    stack : Out(StackPort)

    Attributes
    ----------
    states : Words
        The thread_state of each warp.
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
        """Connects requests and launches, and reads the state of the request's warp."""
        gather = self.gather
        connect(m, flipped(self.request), gather.request)
        connect(m, flipped(self.launch), gather.launch)
        m.d.comb += gather.state.eq(self.states.read(m, self.request.payload.warp))
        connect(m, gather.gathered, self.decide.gathered)

    def _connect_decide(self, m: Module) -> None:
        """Connects the request to the stack, and the outcome."""
        in_flight = self.in_flight
        connect(m, self.decide.stack, flipped(self.stack))
        connect(m, self.decide.decided, in_flight.decided)
        m.d.comb += in_flight.decides.eq(self.decide.gathered.valid)
        m.d.comb += in_flight.report_mask.eq(self.report_mask)
        connect(m, flipped(self.stack.result), in_flight.result, self.conclude.stack_result)

    def _connect_conclude(self, m: Module) -> None:
        """Connects the stack's result, and the outcome and the state of its warp."""
        conclude = self.conclude
        warp = self.stack.result.payload.warp
        m.d.comb += conclude.outcome.eq(self.in_flight.outcome)
        m.d.comb += conclude.report_mask.eq(self.report_mask)
        m.d.comb += conclude.state.eq(self.states.read(m, warp))
        self.states.write(m, self.stack.result.valid, warp, conclude.next_state)
        connect(m, conclude.result, flipped(self.result))
