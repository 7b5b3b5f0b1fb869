"""Flow results: which of them lets a warp go on, and where."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import GROUP_INSTRUCTIONS
from rtl.layouts import Event, flow_result, redirect
from rtl.params import SmParams

from .store import GROUP_AT, WORD_AT

__all__ = ["FlowResults", "address_of", "flow_issued"]

_COUNTER_BITS = 6


def flow_issued(params: SmParams) -> data.StructLayout:
    """An instruction that has issued, and its own address: whether it has a flow result, and whether it holds its
    warp."""
    return data.StructLayout({"warp": params.warp_bits, "pc": 32, "flow": 1, "holds": 1})


def address_of(pc: Any) -> Any:
    """An instruction's own address, for a pc that may be its group's."""
    return Cat(pc[:WORD_AT], pc[WORD_AT] | ~pc[WORD_AT + 1], pc[WORD_AT + 1:])


class FlowResults(Component):
    """Counts, for each warp, flow instructions and results, and knows where it is.

    Members
    -------
    issued : In(Event of flow_issued)
        Two cycles after its selection.
    result : In(Event of flow_result)
    begins : In(1 bit a warp)
        What comes for it is the result of its launch, which is not counted.
    over, same : Out(1)
        The result, if it is none of a launch, is the last one that is to come, of an instruction that holds its warp;
        the warp goes on behind the instruction that it issued last.
    redirect : Out(Event of redirect)
        A cycle after the result.
    settled : Out(1 bit a warp)
        No result is to come.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "issued": In(Event(flow_issued(params))), "result": In(Event(flow_result(params))),
            "begins": In(params.warps), "over": Out(1), "same": Out(1), "redirect": Out(Event(redirect(params))),
            "settled": Out(params.warps)})
        self.behind = memory.Memory(shape=32 - WORD_AT, depth=params.warps, init=[])
        """Of each warp, the address behind the instruction that it issued last, in units of an instruction."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warps, issued, result = self._params.warps, self.issued.payload, self.result.payload
        counts = data.StructLayout({"holds": 1, "count": _COUNTER_BITS})
        m.submodules.issues = issues = memory.Memory(shape=counts, depth=warps, init=[])
        # How often results have come, and one more: when that is how often something was issued, the next is the last.
        m.submodules.answers = answers = memory.Memory(shape=_COUNTER_BITS, depth=warps, init=[1] * warps)
        m.submodules.behind = self.behind
        begins, flows, counted = Signal(), Signal(), Signal()
        m.d.comb += [
            begins.eq(self.begins.bit_select(result.warp, 1)), flows.eq(self.issued.valid & issued.flow),
            counted.eq(self.result.valid & ~begins)]

        # Counters.
        issue, before, awaited, later = issues.write_port(), *(issues.read_port(domain="comb") for _ in range(3))
        answer, answered, then = answers.write_port(), *(answers.read_port(domain="comb") for _ in range(2))
        last = Signal.like(result.warp)
        m.d.comb += [
            issue.addr.eq(issued.warp), before.addr.eq(issued.warp), issue.en.eq(flows),
            issue.data.count.eq(before.data.count + 1), issue.data.holds.eq(issued.holds),
            awaited.addr.eq(result.warp), answered.addr.eq(result.warp), answer.addr.eq(result.warp),
            answer.en.eq(counted), answer.data.eq(answered.data + 1), later.addr.eq(last), then.addr.eq(last)]
        m.d.sync += Assert(~(counted & ((awaited.data.count + 1)[:_COUNTER_BITS] == answered.data)),
                           "a flow result that nobody awaits")

        # A warp that waits has nothing on the way that could be counted later.
        m.d.comb += self.over.eq(awaited.data.holds & (awaited.data.count == answered.data))

        # Where it is.
        note, noted = self.behind.write_port(), self.behind.read_port(domain="comb")
        number, group = issued.pc[WORD_AT:GROUP_AT], issued.pc[GROUP_AT:]
        ends = number == GROUP_INSTRUCTIONS
        m.d.comb += [
            note.en.eq(self.issued.valid), note.addr.eq(issued.warp), noted.addr.eq(result.warp),
            note.data.eq(Cat(Mux(ends, 1, number + 1)[:GROUP_AT - WORD_AT], (group + ends)[:len(group)])),
            self.same.eq(Cat(Const(0, WORD_AT), noted.data) == address_of(result.pc))]
        m.d.sync += [
            self.redirect.valid.eq(self.result.valid & ~result.terminated
                                   & (begins | self.over & ~self.same)),
            self.redirect.payload.warp.eq(result.warp), self.redirect.payload.pc.eq(result.pc)]

        # Told a cycle later, unless more has been issued.
        looks, none, settled, of = Signal(), Signal(), Signal(), Signal.like(last)
        newer = flows & (issued.warp == last)
        m.d.comb += none.eq((later.data.count + 1)[:_COUNTER_BITS] == then.data)
        m.d.sync += [
            last.eq(result.warp), looks.eq(self.result.valid), of.eq(last), settled.eq(looks & none & ~newer)]
        one_hot = Signal(warps)
        m.d.sync += one_hot.eq(Cat(last == warp for warp in range(warps)))
        m.d.comb += self.settled.eq(one_hot & (settled & ~(flows & (issued.warp == of))).replicate(warps))
        return m
