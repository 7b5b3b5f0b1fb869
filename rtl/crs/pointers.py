"""The wide part of all warps' stack pointers."""

from amaranth.hdl import Array, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import DEPTH_BITS
from rtl.params import SmParams

__all__ = ["HIGH_BITS", "LOW_BITS", "StackPointers", "WidePointer"]

LOW_BITS = 4
"""Bits of the topmost token's number that are in the warp's window, where they are at hand earlier."""
HIGH_BITS = DEPTH_BITS - LOW_BITS
"""The others."""


class WidePointer(data.Struct):
    """What of a stack pointer is not needed at once."""

    high: unsigned(HIGH_BITS)
    """Number of the topmost token, less its LOW_BITS lowest bits; all ones when the stack is empty."""
    calls: unsigned(8)
    """API call depth."""
    kill: unsigned(1)
    """Whether limited branches are killed."""


class StackPointers(Component):
    """Three reads and two writes a cycle.

    A push must be seen by the warp's next instruction, one cycle later, while the outcome of another warp's
    unwind is written: so there are two memories, one for each writer, and a bit a warp that tells which of
    them was written last.

    Members
    -------
    warp, pointer, calls_full : In, Out(WidePointer), Out(1)
        A warp's pointer, and whether it has reached the limit of calls.
    select_warp, selected : In, Out(WidePointer)
        Another's.
    aside_warp, aside_high : In, Out
        A second look.
    push, pushed : In, In(WidePointer)
        Write the pointer of ``warp``.
    commit, commit_warp, committed : In, In, In(WidePointer)
        Write the pointer of ``commit_warp``, which is another warp than that of ``push``.
    counted, counted_warp : In(1), In
        A push one cycle ago has reached the limit of calls.
    check, check_warp, checked_full : In(1), In, In(1)
        Whether a pointer committed one cycle ago has reached it.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        super().__init__({
            "warp": In(params.warp_bits), "pointer": Out(WidePointer), "calls_full": Out(1),
            "select_warp": In(params.warp_bits), "selected": Out(WidePointer),
            "aside_warp": In(params.warp_bits), "aside_high": Out(HIGH_BITS),
            "push": In(1), "pushed": In(WidePointer),
            "counted": In(1), "counted_warp": In(params.warp_bits),
            "commit": In(1), "commit_warp": In(params.warp_bits), "committed": In(WidePointer),
            "check": In(1), "check_warp": In(params.warp_bits), "checked_full": In(1),
            })
        self.by_push = memory.Memory(shape=WidePointer, depth=params.warps, init=[])
        self.by_commit = memory.Memory(shape=WidePointer, depth=params.warps, init=[])
        self.push_is_latest = [Signal(name=f"push_is_latest{warp}") for warp in range(params.warps)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.by_push = by_push = self.by_push
        m.submodules.by_commit = by_commit = self.by_commit
        full = Array(Signal(name=f"full{warp}") for warp in range(self._warps))
        push_is_latest = Array(self.push_is_latest)

        for bank, enable, warp, value in ((by_push, self.push, self.warp, self.pushed),
                                          (by_commit, self.commit, self.commit_warp, self.committed)):
            write = bank.write_port()
            m.d.comb += [write.en.eq(enable), write.addr.eq(warp), write.data.eq(value)]
            with m.If(enable):
                m.d.sync += push_is_latest[warp].eq(bank is by_push)
        with m.If(self.counted):
            m.d.sync += full[self.counted_warp].eq(1)
        with m.If(self.check):
            m.d.sync += full[self.check_warp].eq(self.checked_full)
        just_counted = self.counted & (self.counted_warp == self.warp)
        m.d.comb += self.calls_full.eq(full[self.warp] | just_counted)

        for warp, result in ((self.warp, self.pointer), (self.select_warp, self.selected),
                             (self.aside_warp, self.aside_high)):
            pushed, committed = by_push.read_port(domain="comb"), by_commit.read_port(domain="comb")
            m.d.comb += [
                pushed.addr.eq(warp), committed.addr.eq(warp),
                result.eq(Mux(push_is_latest[warp], pushed.data.as_value(), committed.data.as_value()))]
        return m
