"""Global nets of an ECP5 for signals that are not clocks."""

from amaranth.hdl import Const, Elaboratable, Instance, Module, Signal

__all__ = ["GlobalNet"]


class GlobalNet(Elaboratable):
    """Puts a signal on a global net of the device, which has dedicated routing to the reset inputs
    of all registers.

    nextpnr by itself uses global nets for clocks only. The reset of a machine would be routed
    through general routing to each tile, and the placer would move all registers closer together.
    In simulation (``platform`` is None) it is a wire.

    Attributes
    ----------
    i, o : Signal
        Input and output.
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
