"""The stack pointers of all warps."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from rtl.layouts import DEPTH_BITS, StackPointer
from rtl.params import SmParams

__all__ = ["StackPointers"]


class StackPointers(wiring.Component):
    """Depth, API call depth and kill bit of every warp: two reads and two writes a cycle.

    A push must be seen by the warp's next instruction, one cycle later, while the outcome of another warp's
    unwind is written: so there are two memories, one for each writer, and a bit a warp that tells which of
    them was written last.

    Members
    -------
    warp : In
        Whose pointer ``pointer`` is, and whose ``push`` writes.
    pointer : Out(StackPointer)
    aside_warp, aside_depth : In, Out
        A second look at the depths.
    push, pushed : In, In(StackPointer)
        Write ``pushed`` as the pointer of ``warp``.
    commit, commit_warp, committed : In, In, In(StackPointer)
        Write ``committed`` as the pointer of ``commit_warp``, which is never at the same time that of ``push``.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        super().__init__({
            "warp": In(params.warp_bits), "pointer": Out(StackPointer),
            "aside_warp": In(params.warp_bits), "aside_depth": Out(DEPTH_BITS),
            "push": In(1), "pushed": In(StackPointer),
            "commit": In(1), "commit_warp": In(params.warp_bits), "committed": In(StackPointer)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.by_push = by_push = memory.Memory(shape=StackPointer, depth=self._warps, init=[])
        m.submodules.by_commit = by_commit = memory.Memory(shape=StackPointer, depth=self._warps, init=[])
        by_push_latest = Signal(self._warps)

        for bank, enable, warp, value in ((by_push, self.push, self.warp, self.pushed),
                                          (by_commit, self.commit, self.commit_warp, self.committed)):
            write = bank.write_port()
            m.d.comb += [write.en.eq(enable), write.addr.eq(warp), write.data.eq(value)]
        with m.If(self.push):
            m.d.sync += by_push_latest.bit_select(self.warp, 1).eq(1)
        with m.If(self.commit):
            m.d.sync += by_push_latest.bit_select(self.commit_warp, 1).eq(0)

        latest = Array(by_push_latest)
        for warp, result in ((self.warp, self.pointer), (self.aside_warp, None)):
            pushed, committed = by_push.read_port(domain="comb"), by_commit.read_port(domain="comb")
            m.d.comb += [pushed.addr.eq(warp), committed.addr.eq(warp)]
            if result is not None:
                m.d.comb += result.eq(Mux(latest[warp], pushed.data.as_value(), committed.data.as_value()))
            else:
                m.d.comb += self.aside_depth.eq(Mux(latest[warp], pushed.data.depth, committed.data.depth))
        return m
