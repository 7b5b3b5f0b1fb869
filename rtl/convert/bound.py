"""An integer brought into a type."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .instruction import DOUBLE_BITS, SEGMENTS, SIZES

__all__ = ["IntegerBound"]


class IntegerBound(wiring.Component):
    """Cuts an integer to a type's size, or keeps it at the type's nearest bound.

    Members
    -------
    number : In(64)
        Modulo 2**64; if ``negative``, from 0 down to -2**64 + 1, else from 0 up.
    negative : In(1)
    excess : In(1)
        It is larger than that, in either direction.
    none : In(1)
        There is no number.
    size, signed : In(2), In(1)
        The type. It, ``saturate`` and ``double`` are stable while numbers pass.
    saturate : In(1)
        Keep it at the nearest bound.
    double : In(1)
        It was made from 64 bits: then no number gives the type's top bit alone, otherwise 0. With 64 bits in the type
        it gives the top bit, too.
    bounded : Out(64)
        Extended by the type; a cycle later.
    """

    number: In(DOUBLE_BITS)
    negative: In(1)
    excess: In(1)
    none: In(1)
    size: In(2)
    signed: In(1)
    saturate: In(1)
    double: In(1)
    bounded: Out(DOUBLE_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # What a segment comes to, alone, and what goes along.
        number, negative, excess, none = (Signal.like(value, name=name) for name, value in (
            ("passed", self.number), ("below", self.negative), ("beyond", self.excess), ("nothing", self.none)))
        m.d.sync += [number.eq(self.number), negative.eq(self.negative), excess.eq(self.excess), none.eq(self.none)]
        # Of each segment, and all above it: whether any bit is 1, whether all are.
        some: list[Value] = [Const(0, 1)]
        full: list[Value] = [Const(1, 1)]
        for start, stop in reversed(SEGMENTS):
            any_set, all_set = Signal(name=f"some{start}"), Signal(name=f"full{start}")
            m.d.sync += [any_set.eq(self.number[start:stop].any()), all_set.eq(self.number[start:stop].all())]
            some.insert(0, any_set | some[0])
            full.insert(0, all_set & full[0])
        signed, fits, top, marked = self.signed, Signal(), Signal(), Signal()
        with m.Switch(self.size):
            for code, size in enumerate(SIZES):
                with m.Case(code):
                    m.d.comb += [
                        top.eq(number[size - 1]), marked.eq(self.double | (size == DOUBLE_BITS)),
                        fits.eq(Mux(signed, Mux(negative, top & full[code + 1] | ~some[0], ~top & ~some[code + 1]),
                                    ~negative & ~some[code + 1]))]

        # Where the number is not kept, the type's bits but for the top are all the same: all ones in the highest
        # number, else zeros. Bits above the type are all the same in any case.
        kept, low, high, above = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            kept.eq(~none & ~excess & (fits | ~self.saturate)), low.eq(~none & ~negative),
            high.eq(Mux(none, marked, negative ^ ~signed)),
            above.eq(signed & Mux(kept, top, Mux(none, marked, negative)))]
        for code, (start, stop) in enumerate(SEGMENTS):
            last, inside = stop - 1, self.size >= code
            keeps, fill, fill_last = Signal(name=f"keeps{code}"), Signal(name=f"fill{code}"), Signal(name=f"last{code}")
            m.d.comb += [
                keeps.eq(inside & kept), fill.eq(Mux(inside, low, above)),
                fill_last.eq(Mux(self.size == code, high, fill)),
                self.bounded[start:last].eq(Mux(keeps, number[start:last], fill.replicate(last - start))),
                self.bounded[last].eq(Mux(keeps, number[last], fill_last))]
        return m
