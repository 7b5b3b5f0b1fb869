"""Flow results: which of them lets a warp go on, and where."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event, flow_result, redirect
from rtl.one_hot import one_hot
from rtl.params import SmParams

__all__ = ["FlowResults", "flow_issued"]

_COUNTER_BITS = 6


def flow_issued(params: SmParams) -> data.StructLayout:
    """A flow instruction that has issued, and whether it holds its warp."""
    return data.StructLayout({"warp": params.warp_bits, "holds": 1})


class FlowResults(Component):
    """Counts, for each warp, flow instructions and results.

    Members
    -------
    issued : In(Event of flow_issued)
        Two cycles after its selection.
    result : In(Event of flow_result)
    begins : In(1 bit a warp)
        What comes for it is the result of its launch, which is not counted.
    over : Out(1)
        The result, if it is none of a launch, is the last one that is to come, of an instruction that holds its warp.
    redirect : Out(Event of redirect)
        A cycle after the result.
    settled : Out(1 bit a warp)
        No result is to come.
    revoked : Out(1 bit a warp)
        The result in the cycle before does not let the warp go on behind its instruction.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "issued": In(Event(flow_issued(params))), "result": In(Event(flow_result(params))),
            "begins": In(params.warps), "over": Out(1), "redirect": Out(Event(redirect(params))),
            "settled": Out(params.warps), "revoked": Out(params.warps)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warps, issued, result = self._params.warps, self.issued.payload, self.result.payload
        counts = data.StructLayout({"holds": 1, "count": _COUNTER_BITS})
        m.submodules.issues = issues = memory.Memory(shape=counts, depth=warps, init=[])
        # How often results have come, and one more: when that is how often something was issued, the next is the last.
        m.submodules.answers = answers = memory.Memory(shape=_COUNTER_BITS, depth=warps, init=[1] * warps)
        begins, counted, equal, last = Signal(), Signal(), Signal(), Signal.like(result.warp)

        # Counters. A warp that waits has nothing on the way that could be counted later.
        issue, before, awaited = issues.write_port(), *(issues.read_port(domain="comb") for _ in range(2))
        answer, answered = answers.write_port(), answers.read_port(domain="comb")
        m.d.comb += [
            begins.eq(self.begins.bit_select(result.warp, 1)), counted.eq(self.result.valid & ~begins),
            issue.addr.eq(issued.warp), before.addr.eq(issued.warp), issue.en.eq(self.issued.valid),
            issue.data.count.eq(before.data.count + 1), issue.data.holds.eq(issued.holds),
            awaited.addr.eq(result.warp), answered.addr.eq(result.warp), answer.addr.eq(result.warp),
            answer.en.eq(counted), answer.data.eq(answered.data + 1), equal.eq(awaited.data.count == answered.data),
            self.over.eq(awaited.data.holds & equal)]
        m.d.sync += [
            Assert(~(counted & ((awaited.data.count + 1)[:_COUNTER_BITS] == answered.data)),
                   "a flow result that nobody awaits"),
            self.redirect.valid.eq(self.result.valid & ~result.terminated & (begins | self.over & ~result.behind)),
            self.redirect.payload.warp.eq(result.warp), self.redirect.payload.pc.eq(result.pc)]

        # The last of all. Told a cycle later, unless more has been issued.
        settled, latest, aside = Signal(), Signal(warps), Signal()
        newer, newest = (self.issued.valid & (issued.warp == of) for of in (result.warp, last))
        m.d.sync += [
            last.eq(result.warp), latest.eq(one_hot(result.warp, warps)), settled.eq(counted & equal & ~newer),
            aside.eq(self.result.valid & (result.terminated | ~result.behind))]
        m.d.comb += [
            self.settled.eq(latest & (settled & ~newest).replicate(warps)),
            self.revoked.eq(latest & aside.replicate(warps))]
        return m
