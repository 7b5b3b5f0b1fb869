"""The ECP5's global nets, for signals that are not clocks."""

from amaranth.hdl import Const, Elaboratable, Instance, Module, Signal

__all__ = ["GlobalNet"]


class GlobalNet(Elaboratable):
    """A signal on one of the device's global nets, which have a routing of their own to the reset
    inputs of all registers.

    nextpnr puts only clocks there by itself. The reset of a whole machine would be routed to each
    tile like other signals, and pull all registers together where they are placed. In simulation it
    is a wire.

    Attributes
    ----------
    i, o : Signal
        In and out.
    """

    def __init__(self) -> None:
        self.i = Signal()
        self.o = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if platform is None:
            m.d.comb += self.o.eq(self.i)
        else:
            m.submodules.buffer = Instance("DCCA", i_CLKI=self.i, i_CE=Const(1), o_CLKO=self.o)
        return m
