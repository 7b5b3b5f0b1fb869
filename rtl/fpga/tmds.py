"""TMDS: a byte, or two control signals, as ten bits on a pair of wires; DVI 1.0, 3.2."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from rtl.population import population

__all__ = ["CHANNELS", "CONTROL_SYMBOLS", "SHIFTS", "SYMBOL_BITS", "TmdsEncoder", "TmdsSerializer"]

CHANNELS = 3
"""Blue with the synchronisation, green, red."""
SYMBOL_BITS = 10
SHIFTS = SYMBOL_BITS // 2
"""Cycles of the domain ``shift`` in one of ``pixel``: two bits go out in each."""
CONTROL_SYMBOLS = (0b1101010100, 0b0010101011, 0b0101010100, 0b1010101011)
"""By the two control signals."""
_CLOCK_SYMBOL = 0b0000011111


class TmdsEncoder(wiring.Component):
    """One channel's encoder; domain ``pixel``. A symbol comes two cycles after what it stands for.

    Members
    -------
    visible : In(1)
        There is a byte: else control signals.
    value : In(8)
    control : In(2)
    symbol : Out(10)
        Bit 0 goes first.
    """

    visible: In(1)
    value: In(8)
    control: In(2)
    symbol: Out(SYMBOL_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # First stage: few transitions.
        ones = population(self.value)
        inverted = (ones > 4) | ((ones == 4) & ~self.value[0])
        """Each bit is the XNOR with the one before, not the XOR."""
        bits = [self.value[:count + 1].xor() ^ (inverted & (count % 2)) for count in range(8)]
        word, xor, visible, control = Signal(8), Signal(), Signal(), Signal(2)
        m.d.pixel += [word.eq(Cat(bits)), xor.eq(~inverted), visible.eq(self.visible), control.eq(self.control)]
        # Second stage: as many ones as zeros in the long run.
        disparity = Signal(range(-16, 16))
        """Ones less zeros that were sent."""
        excess = Signal(range(-8, 9))
        """Of ones in this word."""
        level, same = Signal(), Signal()
        flipped = Signal()
        m.d.comb += [
            excess.eq((population(word) << 1) - 8), level.eq((disparity == 0) | (excess == 0)),
            same.eq((disparity < 0) == (excess < 0)), flipped.eq(Mux(level, ~xor, same))]
        with m.If(~visible):
            m.d.pixel += [disparity.eq(0), self.symbol.eq(Cat(
                Mux(control[0], Mux(control[1], CONTROL_SYMBOLS[3] >> bit & 1, CONTROL_SYMBOLS[1] >> bit & 1),
                    Mux(control[1], CONTROL_SYMBOLS[2] >> bit & 1, CONTROL_SYMBOLS[0] >> bit & 1))
                for bit in range(SYMBOL_BITS)))]
        with m.Else():
            # The two upper bits add their own: 0 if they differ, 2 if they are ones, -2 if they are zeros.
            upper = Mux(flipped == xor, Mux(xor, 2, -2), 0)
            m.d.pixel += [
                self.symbol.eq(Cat(word ^ flipped.replicate(8), xor, flipped)),
                disparity.eq(disparity + Mux(flipped, -excess, excess) + upper)]
        return m


class TmdsSerializer(wiring.Component):
    """Three channels and the clock, two bits a cycle of the domain ``shift``.

    Its clock is five times that of ``pixel``, in any phase. Symbols are taken two to four cycles after the edge at
    which they have changed.

    Members
    -------
    symbols : In(array of 3 symbols)
    lanes : Out(array of 4 pairs of bits)
        The channels, then the clock; of a pair, bit 0 goes first.
    """

    symbols: In(data.ArrayLayout(SYMBOL_BITS, CHANNELS))
    lanes: Out(data.ArrayLayout(2, CHANNELS + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        turn, seen, before = Signal(), Signal(), Signal()
        m.submodules += FFSynchronizer(turn, seen, o_domain="shift")
        m.d.pixel += turn.eq(~turn)
        m.d.shift += before.eq(seen)
        for index in range(CHANNELS + 1):
            lane = Signal(SYMBOL_BITS, name=f"lane_{index}")
            symbol = self.symbols[index] if index < CHANNELS else Const(_CLOCK_SYMBOL, SYMBOL_BITS)
            m.d.shift += lane.eq(Mux(seen != before, symbol, lane >> 2))
            m.d.comb += self.lanes[index].eq(lane)
        return m
