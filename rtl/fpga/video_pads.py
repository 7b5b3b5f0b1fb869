"""The pads of a video connector whose wires come straight from the FPGA."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data, io
from amaranth.lib.wiring import In

from rtl.component import Component

from .tmds import CHANNELS

__all__ = ["VideoPads"]


class VideoPads(Component):
    """Sends pairs of bits at both edges of the clock ``shift``, in that domain.

    Parameters
    ----------
    port : Any
        What a platform has for the resource ``hdmi`` when it is asked for ports (``dir="-"``).

    Members
    -------
    lanes : In(array of 4 pairs of bits)
        Blue, green, red, clock.
    """

    def __init__(self, port: Any) -> None:
        self._port = port
        super().__init__({"lanes": In(data.ArrayLayout(2, CHANNELS + 1))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name, port, first in (("d", self._port.d, 0), ("clk", self._port.clk, CHANNELS)):
            pads: Any = io.DDRBuffer(io.Direction.Output, port, o_domain="shift")
            m.submodules[name] = pads
            for bit in range(len(port)):
                m.d.comb += [pads.o[half][bit].eq(self.lanes[first + bit][half]) for half in range(2)]
        return m
