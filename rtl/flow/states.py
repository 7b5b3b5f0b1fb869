"""Which threads of each warp are active, and why the others are not."""

from amaranth.hdl import Module
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import ThreadCodes
from rtl.params import WARP_THREADS, SmParams

__all__ = ["WarpState", "WarpStates"]


class WarpState(data.Struct):
    """A warp's threads."""

    active: WARP_THREADS
    codes: ThreadCodes


class WarpStates(Component):
    """Written by the last stage, read by it and by the first; reads see what earlier cycles have written.

    Members
    -------
    warp, state : In, Out(WarpState)
        For the first stage.
    old_warp, old : In, Out(WarpState)
        For the last.
    write, new : In(1), In(WarpState)
        Writes the state of ``old_warp``.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        bits = params.warp_bits
        super().__init__({
            "warp": In(bits), "state": Out(WarpState), "old_warp": In(bits), "old": Out(WarpState),
            "write": In(1), "new": In(WarpState)})
        self.states = memory.Memory(shape=WarpState, depth=self._warps, init=[])

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.states = states = self.states
        first, last = states.read_port(domain="comb"), states.read_port(domain="comb")
        write = states.write_port()
        m.d.comb += [
            first.addr.eq(self.warp), self.state.eq(first.data), last.addr.eq(self.old_warp), self.old.eq(last.data),
            write.addr.eq(self.old_warp), write.en.eq(self.write), write.data.eq(self.new)]
        return m
