"""The flow unit, joined."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import memory, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import STACK_RESULT_CYCLES, Event, StackPort, flow_launch, flow_request, flow_result
from rtl.params import SmParams
from rtl.word import instruction_address

from .conclude import REPORT_BITS, FlowConclusion
from .decide import FlowDecision
from .gather import ThreadGather
from .stages import WaitingUnwind, WarpState

__all__ = ["FlowUnit"]


class FlowUnit(Component):
    """Keeps the threads' masks of all warps, and executes the instructions that change them or the pc.

    A warp may send an instruction in the cycle after one that only pushes, and in the cycle after the result of any
    other. Warps take turns in any order, one instruction a cycle.

    Members
    -------
    request : In(stream of flow_request)
    launch : In(stream of flow_launch)
        A new warp; goes before ``request``. Its result tells where it begins.
    report_mask : In(32)
        Bit n: warp errors of code n are reported.
    result : Out(Event of flow_result)
        Four cycles after the request, or later: the warp's next request may come five cycles after this one.
    stack : Out(StackPort)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "request": In(stream.Signature(flow_request(params))), "launch": In(stream.Signature(flow_launch(params))),
            "report_mask": In(REPORT_BITS), "result": Out(Event(flow_result(params))), "stack": Out(StackPort(params))})
        self.states = memory.Memory(shape=WarpState, depth=params.warps, init=[])

    def elaborate(self, platform: object) -> Module:
        params = self._params
        m = Module()
        m.submodules.states = states = self.states
        m.submodules.gather = gather = ThreadGather(params)
        m.submodules.decision = decision = FlowDecision(params)
        m.submodules.conclusion = conclusion = FlowConclusion(params)
        m.submodules.waiting = waiting = memory.Memory(shape=WaitingUnwind, depth=params.warps, init=[])
        state, old, new = *(states.read_port(domain="comb") for _ in range(2)), states.write_port()
        keep, kept = waiting.write_port(), waiting.read_port(domain="comb")

        # Gather threads and target.
        connect(m, flipped(self.request), gather.request)
        connect(m, flipped(self.launch), gather.launch)
        m.d.comb += [state.addr.eq(self.request.payload.warp), gather.state.eq(state.data)]

        # Decide, and ask the stack.
        gathered, deciding = gather.gathered, decision.gathered
        connect(m, decision.stack, flipped(self.stack))
        m.d.comb += gathered.ready.eq(deciding.ready)
        with m.If(deciding.ready):
            m.d.sync += [deciding.valid.eq(gathered.valid), deciding.payload.eq(gathered.payload)]

        # Wait for it: the usual time beside it, or in a place of the warp's own.
        answer, outcome, valid = self.stack.result, decision.outcome, decision.decided
        m.d.comb += [keep.en.eq(valid & decision.waits), keep.addr.eq(outcome.warp), kept.addr.eq(answer.warp)]
        m.d.comb += [keep.data[name].eq(outcome[name]) for name in ("pc", "following", "quad", "kept")]
        for cycle in range(STACK_RESULT_CYCLES):
            next_valid, next_outcome = Signal(name=f"valid_{cycle}"), Signal.like(outcome, name=f"outcome_{cycle}")
            m.d.sync += [next_valid.eq(valid), next_outcome.eq(outcome)]
            if cycle == 1:
                m.d.sync += next_outcome.near.eq(~outcome.loud & (
                    instruction_address(outcome.target) == instruction_address(outcome.following)))
            valid, outcome = next_valid, next_outcome

        # Conclude. Of what has waited only this counts; what its threads and its target would be means nothing.
        known = conclusion.outcome
        m.d.comb += known.eq(outcome)
        with m.If(~valid):
            m.d.comb += [known[name].eq(kept.data[name]) for name in ("pc", "following", "quad", "kept")]
            m.d.comb += [known[name].eq(0) for name in ("jumps", "stays", "moves", "marks", "mute", "loud")]
            m.d.comb += known.error.eq(WarpError.NONE)
        m.d.comb += [
            conclusion.stack.valid.eq(self.stack.result_valid), conclusion.stack.payload.eq(answer),
            conclusion.report_mask.eq(self.report_mask), old.addr.eq(answer.warp), conclusion.old.eq(old.data),
            new.en.eq(self.stack.result_valid), new.addr.eq(answer.warp), new.data.eq(conclusion.new)]
        connect(m, conclusion.result, flipped(self.result))
        m.d.sync += Assert(~(valid & self.stack.result_valid & (outcome.warp != answer.warp)),
                           "the stack answers out of order")
        return m
