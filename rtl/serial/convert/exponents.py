"""How far an integer is shifted, and what exponent a result has."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.convert.formats import DOUBLE, SINGLE, Format
from rtl.convert.instruction import DOUBLE_BITS, SHIFT_BITS
from rtl.structs import struct_value

from .instruction import BYTE, EXPONENT, UNSHIFTED, ConversionState, Phase, Scaling

__all__ = ["SerialExponents"]

_FAR = UNSHIFTED + DOUBLE_BITS + BYTE
"""Shifts from here on are replaced by shorter ones, which leave nothing but the sticky bit, too."""
_FAR_BITS = slice(4, 7)
_FAR_VALUE = 0b101
"""What these bits of a shift are then: 80 to 95, 56 or more beside UNSHIFTED."""
assert _FAR == 0b110 << 4


class SerialExponents(wiring.Component):
    """One sum, used twice: it gives the shift, then the exponent.

    Members
    -------
    state : In(ConversionState)
        The sum is the shift in the phase SHIFT, and the exponent in the phase EXPONENT.
    scaling : Out(Scaling)
    """

    state: In(ConversionState())
    scaling: Out(Scaling)

    def __init__(self) -> None:
        super().__init__()
        self._is_double = Signal()
        self._is_normal = Signal()
        self._stored = Signal(DOUBLE.exponent)
        """The source's stored exponent."""
        self._total = Signal(EXPONENT)
        """The shift, or the exponent."""
        self._shift = Signal.like(self.scaling.shift)
        self._exponent = Signal(EXPONENT)
        self._is_nan = Signal()
        self._gives_zero = Signal()
        self._gives_one = Signal()
        """See Scaling."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        is_subnormal_single = ~self._is_normal & ~self._is_double
        m.d.comb += self._is_double.eq(self.state.instruction.source_is_double)
        m.d.comb += self._stored.eq(
            Mux(self._is_double, self._stored_in(DOUBLE), self._stored_in(SINGLE)))
        self._add(m)
        self._keep(m)
        self._classify_source(m)
        self._classify_reciprocal(m)
        m.d.comb += self.scaling.eq(struct_value(
            Scaling,
            shift=self._shift,
            exponent=self._exponent,
            is_normal=self._is_normal,
            is_flushed=self.state.instruction.flush & is_subnormal_single,
            is_nan=self._is_nan,
            is_too_large=self._exponent[-1],
            gives_zero=self._gives_zero,
            gives_one=self._gives_one))
        return m

    def _stored_in(self, format_: Format) -> Value:
        """The exponent of a number of a format."""
        head = self.state.source.head
        sign_bit = len(head) - 1
        return head[sign_bit - format_.exponent:sign_bit]

    def _add(self, m: Module) -> None:
        """A constant plus the number of the leading bit, -1 without one; or minus the stored
        exponent. That is subtracted as its complement, and one, which is in the constants."""
        instruction = self.state.instruction
        source = self.state.source
        width = len(self._total)
        # As a signed number it is the complement of the leading bit's number.
        complement = Cat(source.position, source.has_leading_bit.replicate(width - SHIFT_BITS))
        term = Signal(EXPONENT)
        constant = Signal(EXPONENT)
        m.d.comb += term.eq(~Mux(instruction.is_i2f, complement, self._stored))
        m.d.comb += self._total.eq(term + constant)

        is_shift = self.state.phase == Phase.SHIFT
        result_is_double = instruction.to_size[0]
        with m.If(instruction.is_rcp):
            # The exponent of the reciprocal of 1 + f is one less than that of the reciprocal of 1.
            # If f is 0, rounding carries into the exponent, which makes up for it.
            m.d.comb += constant.eq(2 * SINGLE.bias - 1)
        with m.Elif(instruction.is_i2f):
            for format_ in (SINGLE, DOUBLE):
                shift = UNSHIFTED - format_.fraction
                exponent = format_.bias - 1
                with m.If(result_is_double == (format_ is DOUBLE)):
                    m.d.comb += constant.eq(Mux(is_shift, shift, exponent))
        with m.Else():
            for format_ in (SINGLE, DOUBLE):
                shift = format_.bias + format_.fraction + UNSHIFTED + 1
                room = format_.bias + DOUBLE_BITS
                with m.If(self._is_double == (format_ is DOUBLE)):
                    m.d.comb += constant.eq(Mux(is_shift, shift, room))

    def _keep(self, m: Module) -> None:
        """The shift and the exponent."""
        instruction = self.state.instruction
        phase = self.state.phase
        total = self._total
        is_far = ~total[-1] & (total[7:].any() | (total[5] & total[6]))
        with m.Switch(phase):
            with m.Case(Phase.SHIFT), m.If(instruction.is_i2f | instruction.is_f2i):
                m.d.sync += self._shift.eq(Cat(total[:_FAR_BITS.stop], total[-1]))
                with m.If(is_far):
                    m.d.sync += self._shift[_FAR_BITS].eq(_FAR_VALUE)
            with m.Case(Phase.EXPONENT, Phase.OUTPUT):
                pass
            with m.Default():
                m.d.sync += self._shift.eq(UNSHIFTED)
        with m.If(phase == Phase.EXPONENT):
            m.d.sync += self._exponent.eq(total)
        with m.Elif(self._gives_one):
            m.d.sync += self._exponent.eq(SINGLE.bias)

    def _classify_source(self, m: Module) -> None:
        """What kind of a floating-point number the source is."""
        is_special = Mux(
            self._is_double, self._stored_in(DOUBLE).all(), self._stored_in(SINGLE).all())
        m.d.comb += self._is_normal.eq(self._stored.any())
        m.d.comb += self._is_nan.eq(is_special & self.state.source.has_leading_bit)

    def _classify_reciprocal(self, m: Module) -> None:
        """Whether MUFU.RCP has a result that is not calculated."""
        instruction = self.state.instruction
        source = self.state.source
        exponent = self._exponent
        is_negative = exponent[-1]
        # The reciprocal of a power of two with exponent -1 is rounded up into the normal range.
        rounds_up = exponent[0] & exponent[1] & ~source.has_leading_bit
        is_subnormal = is_negative & ~rounds_up
        saturates_to_zero = instruction.saturate & (source.sign | self._is_nan)
        is_one_or_more = ~is_negative & (exponent[7] | exponent[1:7].all())
        saturates_to_one = instruction.saturate & ~self._gives_zero & is_one_or_more
        m.d.comb += self._gives_zero.eq(is_subnormal | saturates_to_zero)
        m.d.comb += self._gives_one.eq(instruction.is_rcp & saturates_to_one)
