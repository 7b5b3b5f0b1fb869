"""The difference of two words, or of each of their four bytes, in one carry chain."""

from amaranth.hdl import Assert, Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.sums import sum_with_carry

from .control import LaneControl
from .stages import PREPARED_SUM_BITS, WORD_BYTES, without_gaps

__all__ = ["ByteDifference"]

_GAP = 2
_PITCH = 8 + _GAP
"""From the first bit of a byte to that of the next one."""
_INNER = range(WORD_BYTES - 1)
"""The bytes with a gap above them."""


class ByteDifference(wiring.Component):
    """A sum or a difference of 34 bits, or four differences of bytes; combinational.

    The carry chain has two additional bits between bytes::

        a    a[31:24]  x  s   a[23:16]  x  s   a[15:8]  x  s   a[7:0]
        b    b[31:24]  0  t   b[23:16]  0  t   b[15:8]  0  t   b[7:0]

    For one sum or difference ``x = s = 1, t = 0``: carries propagate through them. For four
    differences ``s`` and ``t`` are the sign extensions of the bytes below (of b complemented), so
    that their sum is the ninth bit of the difference; with ``x = 0`` the bit above holds the carry,
    which does not propagate. So no second carry chain is needed.

    Members
    -------
    control : In(LaneControl)
        ``bytes``: four differences, of bytes that are signed if ``signed_a`` and ``signed_b`` are
        set; ``adds``: the sum of a and b.
    a, b : In(34)
        The words, sign-extended.
    carry : In(1)
        The carry in of a + b, or of a + ~b; 1 for a difference. It is 0 for four differences, each
        of which is one less than the true one.
    difference : Out(34)
    is_below : Out(4)
        Of each byte: a is below b. The last one is the sign of the whole.
    ninths : Out(3)
        Of each byte but the last one: the ninth bit of its difference.
    """

    control: In(LaneControl)
    a: In(PREPARED_SUM_BITS)
    b: In(PREPARED_SUM_BITS)
    carry: In(1)
    difference: Out(PREPARED_SUM_BITS)
    is_below: Out(WORD_BYTES)
    ninths: Out(WORD_BYTES - 1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control = self.control
        are_bytes = control.bytes
        b = self.b ^ (~control.adds).replicate(PREPARED_SUM_BITS)
        signs_a = Signal(len(_INNER))
        signs_b = Signal(len(_INNER))
        for place in _INNER:
            last = 8 * place + 7
            m.d.comb += signs_a[place].eq(~are_bytes | (control.signed_a & self.a[last]))
            m.d.comb += signs_b[place].eq(are_bytes & ~(control.signed_b & self.b[last]))

        spread = Signal(_PITCH * WORD_BYTES)
        spread_a = self._spread(self.a, [Cat(sign, ~are_bytes) for sign in signs_a])
        spread_b = self._spread(b, [Cat(sign, Const(0, 1)) for sign in signs_b])
        m.d.comb += spread.eq(sum_with_carry(spread_a, spread_b, self.carry))
        m.d.comb += self.difference.eq(without_gaps(spread, _PITCH))
        plain = sum_with_carry(self.a, b, self.carry)[:PREPARED_SUM_BITS]
        m.d.sync += Assert(
            are_bytes | (self.difference == plain), "gaps change a sum or a difference")

        # A byte of a is below that of b by their signs if these differ, else if there is no carry.
        for place in _INNER:
            ninth = _PITCH * place + 8
            signs_differ = signs_a[place] ^ signs_b[place]
            m.d.comb += self.ninths[place].eq(spread[ninth])
            m.d.comb += self.is_below[place].eq(signs_differ ^ spread[ninth + 1])
        m.d.comb += self.is_below[-1].eq(self.difference[-1])
        return m

    def _spread(self, word: Value, gaps: list[Value]) -> Value:
        """A word with gaps between its bytes."""
        spread: list[Value] = []
        for place, gap in enumerate(gaps):
            spread.append(word[8 * place:8 * place + 8])
            spread.append(gap)
        return Cat(*spread, word[8 * len(gaps):])
