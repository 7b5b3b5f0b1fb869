"""An integer brought into a type."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .instruction import DOUBLE_BITS, SEGMENTS, SIZES

__all__ = ["BoundType", "IntegerBound", "UnboundedInteger"]


class UnboundedInteger(data.Struct):
    """An integer that may be beyond its type, or none."""

    bits: unsigned(DOUBLE_BITS)
    """Modulo 2**64; if ``negative``, from 0 down to -2**64 + 1, else from 0 up."""
    negative: unsigned(1)
    overflows: unsigned(1)
    """It is larger than that, in either direction."""
    is_nan: unsigned(1)
    """There is no number."""


class BoundType(data.Struct):
    """The type into which integers are brought, and how."""

    size: unsigned(2)
    """As a code."""
    signed: unsigned(1)
    saturate: unsigned(1)
    """A number that the type does not have is replaced by the nearest bound. Otherwise its low bits
    are kept."""
    double: unsigned(1)
    """It was made from 64 bits: then a NaN gives the type's top bit alone, otherwise 0. With 64
    bits in the type it gives the top bit, too."""


class IntegerBound(wiring.Component):
    """Cuts an integer to a type's size, or replaces it by the type's nearest bound.

    One register. Bits are treated in segments: those that each size has beyond the next smaller
    one. ::

        number --> any and all of each segment --> register --> fits? --> bits of each segment

    Members
    -------
    number : In(UnboundedInteger)
    type : In(BoundType)
        Stable while numbers pass.
    bounded : Out(64)
        Extended by the type; a cycle later.
    """

    number: In(UnboundedInteger)
    type: In(BoundType)
    bounded: Out(DOUBLE_BITS)

    def __init__(self) -> None:
        super().__init__()
        self._number: Any = Signal(UnboundedInteger, name="registered")
        # Bit n: of the segment of size n and all above it.
        self._any_set = Signal(len(SIZES) + 1, name="any_set")
        """A bit is 1; of no segments: none is."""
        self._all_set = Signal(len(SIZES) + 1, name="all_set")
        """All bits are 1."""
        self._fits = Signal(name="fits")
        """The type has the number."""
        self._top = Signal(name="top")
        """The type's top bit, of the number."""
        self._is_kept = Signal(name="is_kept")
        """The result has the number's low bits."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self._number.eq(self.number)
        self._summarize(m)
        self._compare(m)
        self._select(m)
        return m

    def _summarize(self, m: Module) -> None:
        """Whether bits of a segment, and of all above it, are all the same."""
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
        """Whether the type has the number. A signed type has a negative number if its top bit and
        all bits above are 1, and 0 of a negative sign."""
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
        """The number's bits, or the nearest bound's: below its top bit they are all the same. Bits
        above the type are all the same in any case."""
        number = self._number
        to: Any = self.type
        is_64_bits = to.size == SIZES.index(DOUBLE_BITS)
        bound_top = Signal()
        """The top bit of a bound."""
        bound_low = Signal()
        """All bits below: ones in the highest number, else zeros."""
        above = Signal()
        """Bits above the type: its top bit, if it is signed."""
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
