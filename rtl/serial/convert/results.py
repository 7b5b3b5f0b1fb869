"""Results of a warp's threads: written by bytes, read by words."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.convert.instruction import DOUBLE_BITS, WORD_BITS
from rtl.params import WARP_THREADS
from rtl.wires import IN_BLOCKS

from .instruction import BYTE, ConversionState, Phase

__all__ = ["ResultWords"]

_WORD_BYTES = WORD_BITS // BYTE
_WORDS = DOUBLE_BITS // WORD_BITS
_BYTE_OF_WORD_BITS = exact_log2(_WORD_BYTES)
_BYTE_OF_RESULT_BITS = exact_log2(_WORDS * _WORD_BYTES)


class ResultWords(wiring.Component):
    """Keeps results as bytes, each with a bit that is 1 if it or a byte below it is not 0: the bit
    of a result's highest byte gives the zero flag.

    Members
    -------
    state : In(ConversionState)
        In the phases OUTPUT and FILL the thread's byte of the step's number is written, unless that
        is below 0 or above 7; else its word is read.
    byte : In(8)
        A result's bytes come in consecutive cycles, the lowest first.
    reads_upper : In(1)
        The upper word is read, not the lower one.
    value : Out(32)
        The word, a cycle later.
    is_zero : Out(1)
        All bits of it and of the words below it are 0.
    """

    state: In(ConversionState())
    byte: In(BYTE)
    reads_upper: In(1)
    value: Out(WORD_BITS)
    is_zero: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = words = memory.Memory(
            shape=data.ArrayLayout(BYTE + 1, _WORD_BYTES), depth=_WORDS * WARP_THREADS, init=[],
            attrs=IN_BLOCKS)
        state = self.state
        number = state.step[:_BYTE_OF_RESULT_BITS]
        byte_of_word = number[:_BYTE_OF_WORD_BITS]
        is_in_result = state.step[_BYTE_OF_RESULT_BITS:] == 0
        writes = (state.phase == Phase.OUTPUT) | (state.phase == Phase.FILL)

        lower_is_nonzero = Signal()
        is_nonzero = Signal()
        m.d.comb += is_nonzero.eq(self.byte.any() | (lower_is_nonzero & (number != 0)))
        m.d.sync += lower_is_nonzero.eq(is_nonzero)

        write = words.write_port(granularity=1)
        m.d.comb += write.addr.eq(Cat(state.thread, number[_BYTE_OF_WORD_BITS]))
        m.d.comb += write.en.eq(Mux(writes & is_in_result, 1 << byte_of_word, 0))
        m.d.comb += write.data.eq(Cat(self.byte, is_nonzero).replicate(_WORD_BYTES))

        read = words.read_port(domain="comb")
        word = Signal(read.data.shape())
        m.d.comb += read.addr.eq(Cat(state.thread, self.reads_upper))
        m.d.sync += word.eq(read.data)
        m.d.comb += self.value.eq(Cat(part[:BYTE] for part in word))
        m.d.comb += self.is_zero.eq(~word[-1][-1])
        return m
