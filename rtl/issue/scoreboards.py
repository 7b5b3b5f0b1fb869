"""The scoreboards of a warp."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import SCOREBOARDS

__all__ = ["COUNTER_BITS", "Scoreboards"]

COUNTER_BITS = 6
_CROWDED_BITS = 3
"""A counter is as good as full when its upper bits are ones: more instructions may be under way to raise it."""


class Scoreboards(Component):
    """Counters of operations that have not read their registers, or not written them.

    Parameters
    ----------
    lowering : int
        How many can lower them in one cycle.

    Members
    -------
    raises, raised : In(1), In(2 sets of scoreboards)
        An instruction is under way; it raises these by one each.
    lowers, lowered : In(lowering), In(lowering sets of scoreboards)
        Those of each set, whose bit of ``lowers`` is 1, go down by one.
    counters : Out(6 numbers)
    zero : Out(6)
    crowded : Out(1)
        A counter may be full before what is under way has raised it.
    """

    def __init__(self, lowering: int) -> None:
        self._lowering = lowering
        super().__init__({
            "raises": In(1), "raised": In(data.ArrayLayout(SCOREBOARDS, 2)), "lowers": In(lowering),
            "lowered": In(data.ArrayLayout(SCOREBOARDS, lowering)),
            "counters": Out(data.ArrayLayout(COUNTER_BITS, SCOREBOARDS)), "zero": Out(SCOREBOARDS), "crowded": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.If(self.raises | self.lowers.any()):
            for number, counter in enumerate(self.counters):
                up = sum(self.raises & self.raised[which][number] for which in range(2))
                down = sum(self.lowers[source] & self.lowered[source][number] for source in range(self._lowering))
                m.d.sync += counter.eq(counter + up - down)
        m.d.comb += [
            self.zero.eq(Cat(counter == 0 for counter in self.counters)),
            self.crowded.eq(Cat(counter[-_CROWDED_BITS:].all() for counter in self.counters).any())]
        return m
