"""The ECP5's global nets, for signals that are not clocks."""

from amaranth.hdl import Const, Elaboratable, Instance, Module, Signal

__all__ = ["GlobalNet"]


class GlobalNet(Elaboratable):
    """A signal on one of the device's global nets, which reach the reset inputs of all registers on ways of their own.

    nextpnr puts clocks alone there by itself. A reset of a whole machine would else go by those ways to each tile that
    logic needs, and pull all registers together where they are placed. In simulation it is a wire.

    Attributes
    ----------
    i, o : Signal
        In and out.
    """

    def __init__(self) -> None:
        self.i, self.o = Signal(), Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if platform is None:
            m.d.comb += self.o.eq(self.i)
        else:
            m.submodules.buffer = Instance("DCCA", i_CLKI=self.i, i_CE=Const(1), o_CLKO=self.o)
        return m
