"""Flow results: which of them lets a warp go on, and where."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event, flow_result, redirect
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.words import Words

from .records import COUNTER_BITS

__all__ = ["FlowResults"]


class FlowResults(Component):
    """Counts, for each warp, flow instructions and results.

    Members
    -------
    issued, holds : In(Event of a warp), In(1)
        A flow instruction of it has issued, two cycles ago; its flow result lets the warp go on.
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
        The result in the cycle before was the last one that the warp waited for, and it does not go on behind its
        instruction.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "issued": In(Event(params.warp_bits)), "holds": In(1), "result": In(Event(flow_result(params))),
            "begins": In(params.warps), "over": Out(1), "redirect": Out(Event(redirect(params))),
            "settled": Out(params.warps), "revoked": Out(params.warps)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warps, issued, result = self._params.warps, self.issued, self.result.payload
        held = data.StructLayout({"holds": 1, "count": COUNTER_BITS})
        m.submodules.sweep = sweep = Sweep(warps)
        m.submodules.issues = issues = Words(held, warps, sweep)
        # How often results have come, and one more: when that is how often something was issued, the next is the last.
        m.submodules.answers = answers = Words(COUNTER_BITS, warps, sweep, initial=1)
        begins, counts, equal, last = Signal(), Signal(), Signal(), Signal.like(result.warp)

        # Counters. A warp that waits has nothing on the way that could be counted later.
        awaited, answered = issues.read(m, result.warp), answers.read(m, result.warp)
        issues.write(m, issued.valid, issued.payload, {
            "holds": self.holds, "count": issues.read(m, issued.payload).count + 1})
        answers.write(m, counts, result.warp, answered + 1)
        m.d.comb += [
            begins.eq(self.begins.bit_select(result.warp, 1)), counts.eq(self.result.valid & ~begins),
            equal.eq(awaited.count == answered), self.over.eq(awaited.holds & equal)]
        m.d.sync += Assert(~(counts & ((awaited.count + 1)[:COUNTER_BITS] == answered)),
                           "a flow result that nobody awaits")

        # The last of all. Told a cycle later, unless more has been issued.
        settled, latest = Signal(), Signal(warps)
        newer, newest = (issued.valid & (issued.payload == of) for of in (result.warp, last))
        m.d.sync += [
            last.eq(result.warp), latest.eq(one_hot(result.warp, warps)), settled.eq(counts & equal & ~newer)]
        m.d.comb += self.settled.eq(latest & (settled & ~newest).replicate(warps))

        # Where it goes on. What is known last of a result is put together a cycle later.
        came, begun, over, aside, ended = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.sync += [
            came.eq(self.result.valid), begun.eq(begins), over.eq(self.over), aside.eq(~result.behind),
            ended.eq(result.terminated), self.redirect.payload.pc.eq(result.pc)]
        m.d.comb += [
            self.revoked.eq(latest & (came & over & (aside | ended)).replicate(warps)),
            self.redirect.payload.warp.eq(last),
            self.redirect.valid.eq(came & ~ended & (begun | over & aside))]
        return m
