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
            "warp": In(params.warp_bits),
            "active": Out(WARP_THREADS),
            "write": In(1),
            "write_warp": In(params.warp_bits),
            "write_active": In(WARP_THREADS),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.masks = masks = Words(WARP_THREADS, self._warps)
        m.d.comb += self.active.eq(masks.read(m, self.warp))
        masks.write(m, self.write, self.write_warp, self.write_active)
        return m
