"""The pads of a video connector that is wired to the FPGA without a transmitter chip."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data, io
from amaranth.lib.wiring import In

from rtl.component import Component

from .tmds import CHANNELS

__all__ = ["VideoPads"]


class VideoPads(Component):
    """Output pads that send two bits in a cycle of the domain ``shift``, one at each edge.

    Parameters
    ----------
    port : Any
        The platform's resource ``hdmi``, requested with ``dir="-"``.

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
        data_pads: Any = io.DDRBuffer(io.Direction.Output, self._port.d, o_domain="shift")
        m.submodules.d = data_pads
        for channel in range(CHANNELS):
            self._drive(m, data_pads, channel, self.lanes[channel])
        clock_pad: Any = io.DDRBuffer(io.Direction.Output, self._port.clk, o_domain="shift")
        m.submodules.clk = clock_pad
        self._drive(m, clock_pad, 0, self.lanes[CHANNELS])
        return m

    @staticmethod
    def _drive(m: Module, pads: Any, pin: int, pair: Any) -> None:
        """Sends a pair of bits on a pin: bit 0 at the rising edge, bit 1 at the falling one."""
        m.d.comb += pads.o[0][pin].eq(pair[0])
        m.d.comb += pads.o[1][pin].eq(pair[1])
