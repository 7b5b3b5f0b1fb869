"""Truncates or saturates an integer to a type."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .instruction import DOUBLE_BITS, SEGMENTS, SIZES

__all__ = ["BoundType", "IntegerBound", "UnboundedInteger"]


class UnboundedInteger(data.Struct):
    """An integer before it is bounded: it may exceed its type, or be a NaN."""

    bits: unsigned(DOUBLE_BITS)
    """The integer modulo 2**64. Together with ``negative`` it is an integer from 0 to 2**64 - 1, or
    from -2**64 + 1 to 0."""
    negative: unsigned(1)
    overflows: unsigned(1)
    """The integer is outside of that range; ``bits`` have no meaning."""
    is_nan: unsigned(1)
    """The source was a NaN; ``bits`` have no meaning."""


class BoundType(data.Struct):
    """The type of bounded integers, and how they are bounded."""

    size: unsigned(2)
    """As an index of SIZES."""
    signed: unsigned(1)
    saturate: unsigned(1)
    """An integer out of the type's range is replaced by the nearest bound of the range. If this is
    0, it is truncated: its low bits are kept."""
    double: unsigned(1)
    """The source has 64 bits. A NaN becomes an integer with only its top bit set if source or type
    has 64 bits, else 0."""


class IntegerBound(wiring.Component):
    """Truncates an integer to a type, or saturates it to the nearest bound of the type's range.

    There is one register. Bits are treated by SEGMENTS. ::

        number --> any and all of each segment --> register --> fits? --> bits of each segment

    Members
    -------
    number : In(UnboundedInteger)
    type : In(BoundType)
        Has to be the same in the cycle of ``number`` and in the next one.
    bounded : Out(64)
        A cycle after ``number``; sign-extended for a signed type, else zero-extended.
    """

    number: In(UnboundedInteger)
    type: In(BoundType)
    bounded: Out(DOUBLE_BITS)

    def __init__(self) -> None:
        super().__init__()
        self._number: Any = Signal(UnboundedInteger, name="registered")
        # Bit n is about the segment of size n and all segments above it; the last bit about none.
        self._any_set = Signal(len(SIZES) + 1, name="any_set")
        """Any of their bits is 1."""
        self._all_set = Signal(len(SIZES) + 1, name="all_set")
        """All of their bits are 1."""
        self._fits = Signal(name="fits")
        """The number is in the range of the type."""
        self._top = Signal(name="top")
        """The number's bit at the place of the type's top bit."""
        self._is_kept = Signal(name="is_kept")
        """The result is made of the number's low bits, not of a bound."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self._number.eq(self.number)
        self._summarize(m)
        self._compare(m)
        self._select(m)
        return m

    def _summarize(self, m: Module) -> None:
        """Whether any or all bits from a segment on are 1."""
        number: Any = self.number
        some: Value = Const(0, 1)
        all_of: Value = Const(1, 1)
        m.d.comb += self._any_set[-1].eq(0)
        m.d.comb += self._all_set[-1].eq(1)
        for code, (start, stop) in reversed(list(enumerate(SEGMENTS))):
            segment = number.bits[start:stop]
            segment_any = Signal(name=f"segment_any_{code}")
            segment_all = Signal(name=f"segment_all_{code}")
            m.d.sync += segment_any.eq(segment.any())
            m.d.sync += segment_all.eq(segment.all())
            some = segment_any | some
            all_of = segment_all & all_of
            m.d.comb += self._any_set[code].eq(some)
            m.d.comb += self._all_set[code].eq(all_of)

    def _compare(self, m: Module) -> None:
        """Whether the number is in the type's range. A negative one is in that of a signed type if
        the type's top bit and all bits above it are 1, or if it is a zero with ``negative`` set."""
        number = self._number
        to: Any = self.type
        is_zero = ~self._any_set[0]
        with m.Switch(to.size):
            for code, size in enumerate(SIZES):
                none_above = ~self._any_set[code + 1]
                all_above = self._all_set[code + 1]
                top = number.bits[size - 1]
                with m.Case(code):
                    m.d.comb += self._top.eq(top)
                    with m.If(~to.signed):
                        m.d.comb += self._fits.eq(~number.negative & none_above)
                    with m.Elif(number.negative):
                        m.d.comb += self._fits.eq((top & all_above) | is_zero)
                    with m.Else():
                        m.d.comb += self._fits.eq(~top & none_above)
        has_bits = ~number.is_nan & ~number.overflows
        m.d.comb += self._is_kept.eq(has_bits & (self._fits | ~to.saturate))

    def _select(self, m: Module) -> None:
        """The result: bits of the number, or those of a bound, which are all equal below the top
        bit. Bits above the type are all equal in either case."""
        number = self._number
        to: Any = self.type
        is_64_bits = to.size == SIZES.index(DOUBLE_BITS)
        bound_top = Signal()
        """The top bit of a bound."""
        bound_low = Signal()
        """The bits of a bound below its top one: ones in the upper bound, zeros in the lower."""
        above = Signal()
        """The bits above the type: copies of its top bit if it is signed, else 0."""
        with m.If(number.is_nan):
            m.d.comb += bound_top.eq(to.double | is_64_bits)
        with m.Else():
            m.d.comb += bound_top.eq(number.negative ^ ~to.signed)
            m.d.comb += bound_low.eq(~number.negative)
        with m.If(to.signed & self._is_kept):
            m.d.comb += above.eq(self._top)
        with m.Elif(to.signed):
            m.d.comb += above.eq(bound_top)

        for code, (start, stop) in enumerate(SEGMENTS):
            last = stop - 1
            is_in_type = to.size >= code
            fill = Signal(name=f"fill_{code}")
            fill_last = Signal(name=f"fill_last_{code}")
            """The segment's last bit, which may be the top bit of the type."""
            m.d.comb += fill.eq(Mux(is_in_type, bound_low, above))
            m.d.comb += fill_last.eq(Mux(to.size == code, bound_top, fill))
            with m.If(is_in_type & self._is_kept):
                m.d.comb += self.bounded[start:stop].eq(number.bits[start:stop])
            with m.Else():
                m.d.comb += self.bounded[start:last].eq(fill.replicate(last - start))
                m.d.comb += self.bounded[last].eq(fill_last)
