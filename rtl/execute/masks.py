"""Which threads of each warp are active."""

from amaranth.hdl import Module
from amaranth.lib.wiring import In

from rtl.component import Component
from rtl.layouts import Event, flow_result
from rtl.params import WARP_THREADS, SmParams
from rtl.words import Words

from .reads import WarpRead

__all__ = ["ActiveMasks"]


class ActiveMasks(Component):
    """A copy of the active masks of the flow unit, updated by its results.

    Members
    -------
    read : In(WarpRead of 32 bits)
        The active threads of a warp. A result of the same cycle does not count yet.
    result : In(Event of flow_result)
        The results of the flow unit.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        super().__init__({
            "read": In(WarpRead(params, WARP_THREADS)),
            "result": In(Event(flow_result(params))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.masks = masks = Words(WARP_THREADS, self._warps)
        m.d.comb += self.read.value.eq(masks.read(m, self.read.warp))
        result = self.result.payload
        masks.write(m, self.result.valid, result.warp, result.active)
        return m
