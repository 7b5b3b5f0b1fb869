"""Where the bytes of a source come from."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from rtl.component import Component
from rtl.convert.instruction import DOUBLE_BITS, WORD_BITS, size_code
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import WORD_BITS as INSTRUCTION_BITS
from rtl.params import WARP_THREADS
from rtl.pick import pick
from rtl.wires import IN_BLOCKS
from rtl.word import field_of

from .instruction import BYTE, INDEX, SerialConversion
from .reciprocal import INTERVALS, raised_constants

__all__ = ["SourceBytes"]

_WORD_BYTES = WORD_BITS // BYTE
_SOURCE_BYTES = DOUBLE_BITS // BYTE
_PLACE_BITS = exact_log2(_SOURCE_BYTES)
_BYTE_OF_WORD_BITS = exact_log2(_WORD_BYTES)
_THREAD_BITS = ceil_log2(WARP_THREADS)


class SourceBytes(Component):
    """Sources of a warp's threads in block memory, which is written by words and read by bytes. The
    constants of the parabolas are in another one, which is never written: each word of it holds one
    constant, its lowest byte on top.

    Members
    -------
    write, value, second : In(1), In(32), In(1)
        A word of the thread's source, the lower one or the ``second`` one.
    thread : In(5)
    index : In(INDEX)
        A byte of the thread's source.
    instruction : In(SerialConversion)
        Stable. An immediate source is taken from ``word``: the source of the thread in the memory
        has to be 0 then.
    word : In(64)
    is_parabola, interval : In(1), In(8)
        The constant of an interval is read, not the source.
    byte : Out(8)
        A cycle after ``index``.
    """

    def __init__(self) -> None:
        super().__init__({
            "write": In(1),
            "value": In(WORD_BITS),
            "second": In(1),
            "thread": In(_THREAD_BITS),
            "index": In(INDEX),
            "instruction": In(SerialConversion),
            "word": In(INSTRUCTION_BITS),
            "is_parabola": In(1),
            "interval": In(exact_log2(INTERVALS)),
            "byte": Out(BYTE),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        place = Signal(_PLACE_BITS)
        read_place = Signal(_PLACE_BITS)
        read_parabola = Signal()
        m.d.comb += place.eq(self.index[:_PLACE_BITS] | self.instruction.part)
        m.d.sync += read_place.eq(place)
        m.d.sync += read_parabola.eq(self.is_parabola)
        source = self._read_source(m, place)
        constant = self._read_constant(m, place)
        stored = Mux(read_parabola, constant, source)
        m.d.comb += self.byte.eq(stored | self._immediate(read_place))
        return m

    def _read_source(self, m: Module, place: Value) -> Value:
        """The byte at a place of the thread's source, a cycle later."""
        m.submodules.bytes = rows = memory.Memory(
            shape=BYTE, depth=_SOURCE_BYTES * WARP_THREADS, init=[], attrs=IN_BLOCKS)
        for number in range(_WORD_BYTES):
            write = rows.write_port()
            m.d.comb += write.en.eq(self.write)
            m.d.comb += write.data.eq(self.value.word_select(number, BYTE))
            m.d.comb += write.addr.eq(
                Cat(Const(number, _BYTE_OF_WORD_BITS), self.second, self.thread))
        read = rows.read_port(domain="comb")
        source = Signal(BYTE)
        m.d.comb += read.addr.eq(Cat(place, self.thread))
        m.d.sync += source.eq(read.data)
        return source

    def _read_constant(self, m: Module, place: Value) -> Value:
        """The byte at a place of the interval's constant, a cycle later."""
        m.submodules.constants = constants = memory.Memory(
            shape=BYTE, depth=_WORD_BYTES * INTERVALS, init=raised_constants(), attrs=IN_BLOCKS)
        read = constants.read_port(domain="comb")
        constant = Signal(BYTE)
        m.d.comb += read.addr.eq(Cat(place[:_BYTE_OF_WORD_BITS], self.interval))
        m.d.sync += constant.eq(read.data)
        return constant

    def _immediate(self, place: Value) -> Value:
        """The byte of an immediate source at a place; 0 of any other source."""
        instruction = self.instruction
        number = field_of(self.word, FIELDS["imm"])
        # An integer is sign-extended to 64 bits. A floating-point number has the upper bits of a
        # single, or of the upper word of a double, with zeros below.
        missing_bits = WORD_BITS - len(number)
        integer = Cat(number, number[-1].replicate(missing_bits + WORD_BITS))
        real = Cat(Const(0, missing_bits), number)
        integer_bytes = [integer.word_select(each, BYTE) for each in range(_SOURCE_BYTES)]
        real_bytes = [real.word_select(each, BYTE) for each in range(_WORD_BYTES)]
        integer_byte = pick(integer_bytes, place)
        real_byte = pick(real_bytes, place[:_BYTE_OF_WORD_BITS])

        is_immediate = ~instruction.reads_register & ~instruction.reads_constant
        is_double = instruction.size == size_code(DOUBLE_BITS)
        is_lower_word = ~place[_BYTE_OF_WORD_BITS]
        byte_of_real = Mux(is_double & is_lower_word, 0, real_byte)
        return Mux(is_immediate, Mux(instruction.is_f2i, byte_of_real, integer_byte), 0)
