"""Where the bytes of a source come from."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.convert.formats import SINGLE
from rtl.convert.instruction import DOUBLE_BITS, WORD_BITS
from rtl.layouts import Event
from rtl.params import WARP_THREADS
from rtl.pick import pick
from rtl.wires import IN_BLOCKS

from .instruction import BYTE, ConversionState, SourceByte, SourceWord, computes_parabola
from .reciprocal import INTERVALS, raised_constants

__all__ = ["SourceBytes"]

_WORD_BYTES = WORD_BITS // BYTE
_SOURCE_BYTES = DOUBLE_BITS // BYTE
_PLACE_BITS = exact_log2(_SOURCE_BYTES)
_BYTE_OF_WORD_BITS = exact_log2(_WORD_BYTES)
_INTERVAL_BITS = exact_log2(INTERVALS)


class SourceBytes(wiring.Component):
    """Sources of a warp's threads in block memory, which is written by words and read by bytes. The
    constants of the parabolas are in another one, which is never written: each word of it holds one
    constant, its lowest byte on top.

    Members
    -------
    state : In(ConversionState)
        Reads the step's byte, offset by the shift's bytes; or a byte of the constant of the
        parabola's interval. A source in the memory has to be 0 if the operand is an immediate one,
        which is added to it.
    write : In(Event of SourceWord)
        A word of the thread's source.
    read : Out(SourceByte)
        A cycle after its step.
    """

    state: In(ConversionState())
    write: In(Event(SourceWord))
    read: Out(SourceByte)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        state = self.state
        place = Signal(_PLACE_BITS)
        read_place = Signal(_PLACE_BITS)
        read_parabola = Signal()
        index = Signal.like(self.read.index)
        shift_in_bytes = state.scaling.shift >> exact_log2(BYTE)
        m.d.comb += index.eq(state.step + shift_in_bytes)
        m.d.comb += place.eq(index[:_PLACE_BITS] | state.instruction.part)
        m.d.sync += read_place.eq(place)
        m.d.sync += read_parabola.eq(computes_parabola(state))
        stored = Mux(read_parabola, self._read_constant(m, place), self._read_source(m, place))
        read_index = Signal.like(index)
        m.d.sync += read_index.eq(index)
        m.d.comb += self.read.index.eq(read_index)
        m.d.comb += self.read.byte.eq(stored | self._immediate(read_place))
        return m

    def _read_source(self, m: Module, place: Value) -> Value:
        """The byte at a place of the thread's source, a cycle later."""
        m.submodules.bytes = rows = memory.Memory(
            shape=BYTE, depth=_SOURCE_BYTES * WARP_THREADS, init=[], attrs=IN_BLOCKS)
        word = self.write.payload
        thread = self.state.thread
        for number in range(_WORD_BYTES):
            write = rows.write_port()
            m.d.comb += write.en.eq(self.write.valid)
            m.d.comb += write.data.eq(word.value.word_select(number, BYTE))
            m.d.comb += write.addr.eq(
                Cat(Const(number, _BYTE_OF_WORD_BITS), word.is_upper, thread))
        read = rows.read_port(domain="comb")
        source = Signal(BYTE)
        m.d.comb += read.addr.eq(Cat(place, thread))
        m.d.sync += source.eq(read.data)
        return source

    def _read_constant(self, m: Module, place: Value) -> Value:
        """The byte at a place of the interval's constant, a cycle later."""
        m.submodules.constants = constants = memory.Memory(
            shape=BYTE, depth=_WORD_BYTES * INTERVALS, init=raised_constants(), attrs=IN_BLOCKS)
        read = constants.read_port(domain="comb")
        constant = Signal(BYTE)
        interval = SINGLE.fraction_of(self.state.source.head)[-_INTERVAL_BITS:]
        m.d.comb += read.addr.eq(Cat(place[:_BYTE_OF_WORD_BITS], interval))
        m.d.sync += constant.eq(read.data)
        return constant

    def _immediate(self, place: Value) -> Value:
        """The byte of an immediate source at a place; 0 of any other source."""
        instruction = self.state.instruction
        number = instruction.immediate
        # An integer is sign-extended to 64 bits. A floating-point number has the upper bits of a
        # single, or of the upper word of a double, with zeros below.
        missing_bits = WORD_BITS - len(number)
        integer = Cat(number, number[-1].replicate(missing_bits + WORD_BITS))
        real = Cat(Const(0, missing_bits), number)
        integer_bytes = [integer.word_select(each, BYTE) for each in range(_SOURCE_BYTES)]
        real_bytes = [real.word_select(each, BYTE) for each in range(_WORD_BYTES)]
        integer_byte = pick(integer_bytes, place)
        real_byte = pick(real_bytes, place[:_BYTE_OF_WORD_BITS])

        is_lower_word = ~place[_BYTE_OF_WORD_BITS]
        byte_of_real = Mux(instruction.source_is_double & is_lower_word, 0, real_byte)
        byte = Mux(instruction.is_f2i, byte_of_real, integer_byte)
        return Mux(instruction.is_immediate, byte, 0)
