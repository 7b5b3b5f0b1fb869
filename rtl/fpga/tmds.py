"""TMDS: encodes a byte, or two control signals, as ten bits on a pair of wires (DVI 1.0,
section 3.2)."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from rtl.population import population

__all__ = ["CHANNELS", "CONTROL_SYMBOLS", "SHIFTS", "SYMBOL_BITS", "TmdsEncoder", "TmdsSerializer"]

CHANNELS = 3
"""Blue (with the sync signals), green, red."""
SYMBOL_BITS = 10
SHIFTS = SYMBOL_BITS // 2
"""Cycles of the domain ``shift`` in one of ``pixel``: each sends two bits."""
CONTROL_SYMBOLS = (0b1101010100, 0b0010101011, 0b0101010100, 0b1010101011)
"""The symbols of the four values of the control signals."""
_CLOCK_SYMBOL = 0b0000011111


class TmdsEncoder(wiring.Component):
    """The encoder of a channel, in the domain ``pixel``. The latency is two cycles.

    The first stage reduces transitions: each bit is XORed, or XNORed, with the encoded bit before
    it. The second stage balances ones and zeros: it inverts the eight bits or does not. The upper
    two bits of the symbol encode both decisions.

    Members
    -------
    visible : In(1)
        1: ``value`` is encoded. 0: ``control`` is, and the disparity is reset.
    value : In(8)
    control : In(2)
    symbol : Out(10)
        Bit 0 is sent first.
    """

    visible: In(1)
    value: In(8)
    control: In(2)
    symbol: Out(SYMBOL_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._word = Signal(8)
        """The byte after the first stage."""
        self._uses_xor = Signal()
        """Its bits are XORs, not XNORs."""
        self._visible = Signal()
        self._control = Signal(2)
        self._reduce_transitions(m)
        self._balance(m)
        return m

    def _reduce_transitions(self, m: Module) -> None:
        """The first stage: XNOR for a byte with more ones than zeros, XOR for others."""
        ones = population(self.value)
        uses_xnor = (ones > 4) | ((ones == 4) & ~self.value[0])
        # With XOR, each bit is the parity of the bits up to it; XNOR inverts every second one.
        bits = [self.value[:place + 1].xor() ^ (uses_xnor & (place % 2)) for place in range(8)]
        m.d.pixel += self._word.eq(Cat(bits))
        m.d.pixel += self._uses_xor.eq(~uses_xnor)
        m.d.pixel += self._visible.eq(self.visible)
        m.d.pixel += self._control.eq(self.control)

    def _balance(self, m: Module) -> None:
        """The second stage: inverts the word if that brings the disparity closer to zero."""
        word = self._word
        uses_xor = self._uses_xor
        disparity = Signal(range(-16, 16))
        """Ones minus zeros of all symbols since ``visible`` became 1."""
        excess = Signal(range(-8, 9))
        """Ones minus zeros of this word."""
        is_balanced = Signal()
        same_sign = Signal()
        inverts = Signal()
        m.d.comb += excess.eq((population(word) << 1) - 8)
        m.d.comb += is_balanced.eq((disparity == 0) | (excess == 0))
        m.d.comb += same_sign.eq((disparity < 0) == (excess < 0))
        m.d.comb += inverts.eq(Mux(is_balanced, ~uses_xor, same_sign))
        with m.If(~self._visible):
            m.d.pixel += disparity.eq(0)
            m.d.pixel += self.symbol.eq(self._control_symbol())
        with m.Else():
            word_disparity = Mux(inverts, -excess, excess)
            # The two upper bits contribute, too, if they are equal.
            upper_disparity = Mux(inverts == uses_xor, Mux(uses_xor, 2, -2), 0)
            m.d.pixel += disparity.eq(disparity + word_disparity + upper_disparity)
            m.d.pixel += self.symbol.eq(Cat(word ^ inverts.replicate(8), uses_xor, inverts))

    def _control_symbol(self) -> Value:
        """The symbol of the two control signals."""
        return Array(Const(symbol, SYMBOL_BITS) for symbol in CONTROL_SYMBOLS)[self._control]


class TmdsSerializer(wiring.Component):
    """Serialises three channels and the clock, two bits in each cycle of the domain ``shift``.

    The clock of ``shift`` is five times as fast as that of ``pixel``, with any phase.
    A toggle that changes in each cycle of ``pixel`` is synchronised to ``shift``. When it changes
    there, the symbols are loaded, two to four cycles after they have changed; they are stable for
    five.

    Members
    -------
    symbols : In(array of 3 symbols)
        In the domain ``pixel``.
    lanes : Out(array of 4 pairs of bits)
        The channels, then the clock; of a pair, bit 0 is sent first.
    """

    symbols: In(data.ArrayLayout(SYMBOL_BITS, CHANNELS))
    lanes: Out(data.ArrayLayout(2, CHANNELS + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        toggle = Signal()
        m.d.pixel += toggle.eq(~toggle)
        synchronised = Signal()
        m.submodules += FFSynchronizer(toggle, synchronised, o_domain="shift")
        previous = Signal()
        m.d.shift += previous.eq(synchronised)
        loads = synchronised != previous
        clock_symbol = Const(_CLOCK_SYMBOL, SYMBOL_BITS)
        for index, symbol in enumerate([*self.symbols, clock_symbol]):
            lane = Signal(SYMBOL_BITS, name=f"lane_{index}")
            with m.If(loads):
                m.d.shift += lane.eq(symbol)
            with m.Else():
                m.d.shift += lane.eq(lane >> 2)
            m.d.comb += self.lanes[index].eq(lane[:2])
        return m
