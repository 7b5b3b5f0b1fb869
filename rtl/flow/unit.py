"""The flow unit, joined."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import STACK_RESULT_CYCLES, StackPort, flow_launch, flow_request, flow_result
from rtl.params import SmParams

from .conclude import REPORT_BITS, FlowConclusion
from .decide import FlowDecision
from .gather import ThreadGather
from .stages import WaitingUnwind
from .states import WarpStates

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
    result_valid, result : Out(1), Out(flow_result)
        Four cycles after the request, or later: the warp's next request may come five cycles after this one.
    stack : Out(StackPort)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "request": In(stream.Signature(flow_request(params))), "launch": In(stream.Signature(flow_launch(params))),
            "report_mask": In(REPORT_BITS), "result_valid": Out(1), "result": Out(flow_result(params)),
            "stack": Out(StackPort(params))})
        self.states = WarpStates(params)

    def elaborate(self, platform: object) -> Module:
        params = self._params
        m = Module()
        m.submodules.states = states = self.states
        m.submodules.gather = gather = ThreadGather(params)
        m.submodules.decision = decision = FlowDecision(params)
        m.submodules.conclusion = conclusion = FlowConclusion(params)
        m.submodules.waiting = waiting = memory.Memory(shape=WaitingUnwind, depth=params.warps, init=[])

        # Gather threads and target.
        connect(m, flipped(self.request), gather.request)
        connect(m, flipped(self.launch), gather.launch)
        m.d.comb += [states.warp.eq(self.request.payload.warp), gather.state.eq(states.state)]

        # Decide, and ask the stack.
        gathered, deciding = gather.gathered, decision.gathered
        m.d.comb += gathered.ready.eq(deciding.ready)
        with m.If(deciding.ready):
            m.d.sync += deciding.valid.eq(gathered.valid)
            m.d.sync += deciding.payload.eq(gathered.payload)
        asked, port = decision.stack, self.stack
        m.d.comb += [
            port.request.valid.eq(asked.request.valid), port.request.payload.eq(asked.request.payload),
            asked.request.ready.eq(port.request.ready), port.configuration.eq(asked.configuration),
            asked.killed.eq(port.killed), asked.pushed.eq(port.pushed), asked.holes.eq(port.holes),
            asked.entry.eq(port.entry)]

        # Wait for it: the usual time beside it, or in a place of the warp's own.
        keep, kept = waiting.write_port(), waiting.read_port(domain="comb")
        outcome = decision.outcome
        m.d.comb += [
            keep.en.eq(decision.decided & decision.waits), keep.addr.eq(outcome.warp), keep.data.pc.eq(outcome.pc),
            keep.data.quad.eq(outcome.quad), keep.data.kept.eq(outcome.kept), kept.addr.eq(port.result.warp)]
        valid = decision.decided
        for _ in range(STACK_RESULT_CYCLES):
            next_valid, next_outcome = Signal(), Signal.like(outcome)
            m.d.sync += [next_valid.eq(valid), next_outcome.eq(outcome)]
            valid, outcome = next_valid, next_outcome

        # Conclude.
        late = Signal.like(outcome)
        m.d.comb += [late.pc.eq(kept.data.pc), late.quad.eq(kept.data.quad), late.kept.eq(kept.data.kept)]
        m.d.comb += [
            conclusion.valid.eq(port.result_valid), conclusion.stack.eq(port.result),
            conclusion.outcome.eq(Mux(valid, outcome.as_value(), late.as_value())),
            conclusion.report_mask.eq(self.report_mask), states.old_warp.eq(port.result.warp),
            conclusion.old.eq(states.old), states.write.eq(conclusion.valid), states.new.eq(conclusion.new),
            self.result_valid.eq(conclusion.result_valid), self.result.eq(conclusion.result)]
        return m
