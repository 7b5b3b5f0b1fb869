"""Which threads of each warp are active."""

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event, flow_result
from rtl.params import WARP_THREADS, SmParams
from rtl.words import Words

__all__ = ["ActiveMasks"]


class ActiveMasks(Component):
    """A copy of what the flow unit knows: its results say who is active.

    Members
    -------
    warp, active : In, Out(32)
        Read, combinational; sees what earlier cycles have written.
    result : In(Event of flow_result)
        The flow unit's.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        super().__init__({
            "warp": In(params.warp_bits),
            "active": Out(WARP_THREADS),
            "result": In(Event(flow_result(params))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.masks = masks = Words(WARP_THREADS, self._warps)
        m.d.comb += self.active.eq(masks.read(m, self.warp))
        result = self.result.payload
        masks.write(m, self.result.valid, result.warp, result.active)
        return m
