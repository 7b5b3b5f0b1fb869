"""Which threads of each warp are active."""

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import WARP_THREADS, SmParams
from rtl.words import Words

__all__ = ["ActiveMasks"]


class ActiveMasks(Component):
    """A copy of what the flow unit knows: its results say who is active.

    Members
    -------
    warp, active : In, Out(32)
        Read, combinational; sees what earlier cycles have written.
    write, write_warp, write_active : In
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        super().__init__({
            "warp": In(params.warp_bits), "active": Out(WARP_THREADS), "write": In(1),
            "write_warp": In(params.warp_bits), "write_active": In(WARP_THREADS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.masks = masks = Words(WARP_THREADS, self._warps)
        read, write = masks.read_port(domain="comb"), masks.write_port()
        m.d.comb += [
            read.addr.eq(self.warp), self.active.eq(read.data), write.addr.eq(self.write_warp),
            write.en.eq(self.write), write.data.eq(self.write_active)]
        return m
