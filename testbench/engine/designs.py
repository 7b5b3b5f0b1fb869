"""Designs that the tests of the engines simulate."""

import pytest
from amaranth.hdl import Assert, Cat, Cover, Format, Module, Mux, Print, Signal
from amaranth.hdl import signed as signed_shape
from amaranth.lib import data, enum, memory, wiring
from amaranth.lib.wiring import In, Out

from sim.engine import CompiledEngine

NO_COMPILER = CompiledEngine.missing()
needs_compiled = pytest.mark.skipif(
    NO_COMPILER is not None, reason=f"engine compiled: {NO_COMPILER}"
)


class Color(enum.Enum, shape=2):
    RED = 0
    GREEN = 1
    BLUE = 2


class Sample(data.Struct):
    color: Color
    level: signed_shape(5)
    pair: data.ArrayLayout(3, 2)


class Zoo(wiring.Component):
    """A design with some of every construct."""

    step: In(8)
    color: In(Color)
    sample: Out(Sample)
    wide: In(100)
    wide_sum: Out(100)
    negative: Out(signed_shape(6))
    row: In(3)
    seen: Out(8)
    stored: Out(8)
    chain: Out(8)
    pieces: Out(9)
    nothing: In(0)
    over: Out(1)
    top: Out(2)

    def __init__(self):
        super().__init__()
        self.count = Signal(8)
        self.limit = Signal(8, init=200)
        self.table = memory.Memory(shape=8, depth=6, init=[10, 11, 12, 13, 14, 15])

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = self.table
        now, later, write = (
            self.table.read_port(domain="comb"),
            self.table.read_port(),
            self.table.write_port(),
        )
        m.d.comb += [
            now.addr.eq(self.row),
            self.seen.eq(now.data),
            later.addr.eq(self.row),
            self.stored.eq(later.data ^ 1),
            write.addr.eq(self.count),
            write.data.eq(self.count * 3),
            write.en.eq(self.count[0]),
            self.sample.pair[1].eq(self.sample.pair[0] ^ 5),
            self.sample.pair[0].eq(self.count),
            self.negative.eq(-self.count),
            self.over.eq(self.count > 100),
            self.top.eq(self.count[6:]),
        ]
        m.d.comb += [self.chain[0].eq(self.count[0])]
        m.d.comb += [
            self.chain[bit].eq(self.chain[bit - 1] ^ self.count[bit]) for bit in range(1, 8)
        ]
        m.d.comb += self.sample.level.eq(self.count)
        with m.If(self.step[0]):
            m.d.comb += self.pieces[:4].eq(5)
        m.d.comb += self.pieces[:4].eq(self.count)  # overrides the assignment above
        with m.If(self.step[1]):
            m.d.comb += self.pieces[4:7].eq(self.pieces[:3] + 1)
            with m.If(self.count[2]):
                m.d.comb += self.pieces[7:].eq(2)
        m.d.comb += self.sample.color.eq(Mux(self.chain[7], self.color, Color.GREEN))
        m.d.sync += [
            self.count.eq(self.count + self.step),
            self.wide_sum.eq(self.wide_sum + self.wide),
        ]
        with m.If(self.count == 21):
            m.d.sync += Print(Format("count is {:d}", self.count))
            m.d.sync += [Cover(self.count[0], "odd"), Cover(self.count[1], "not with 21")]
        m.d.sync += Assert(
            self.count <= self.limit, Format("count {:d} is over the limit", self.count)
        )
        return m


class Ripple(wiring.Component):
    """Bits that are computed from lower bits of the same word: a combinational loop only if whole
    words are considered.
    """

    a: In(1)
    total: Out(4)
    kept: Out(4)

    def elaborate(self, platform):
        m = Module()
        word, result = Signal(4), Signal(4)
        m.d.comb += [
            result.eq(word ^ 3),
            word.eq(Cat(self.a ^ self.kept[0], result[:3])),
            self.total.eq(result),
        ]
        m.d.sync += self.kept.eq(result)
        return m
