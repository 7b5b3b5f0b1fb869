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
_PLACE_BITS = exact_log2(2 * _WORD_BYTES)
_THREAD_BITS = ceil_log2(WARP_THREADS)


class SourceBytes(Component):
    """Sources of a warp's threads in block memory, which is written by words and read by bytes. The constants of the
    parabolas are in another one, which is never written: each word of it holds one, its lowest byte on top.

    Members
    -------
    write, value, second : In(1), In(32), In(1)
        A word of the thread's source, the low one or the ``second`` one.
    thread : In(5)
    index : In(INDEX)
        A byte of it.
    instruction : In(SerialConversion)
        Stable. An immediate source is taken from the word: then that of the thread has to be 0.
    word : In(64)
    parabola, interval : In(1), In(8)
        The constant of an interval instead.
    byte : Out(8)
        A cycle later.
    """

    def __init__(self) -> None:
        super().__init__({
            "write": In(1), "value": In(WORD_BITS), "second": In(1), "thread": In(_THREAD_BITS), "index": In(INDEX),
            "instruction": In(SerialConversion), "word": In(INSTRUCTION_BITS), "parabola": In(1),
            "interval": In(exact_log2(INTERVALS)), "byte": Out(BYTE)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bytes = rows = memory.Memory(
            shape=BYTE, depth=2 * _WORD_BYTES * WARP_THREADS, init=[], attrs=IN_BLOCKS)
        m.submodules.constants = constants = memory.Memory(
            shape=BYTE, depth=_WORD_BYTES * INTERVALS, init=raised_constants(), attrs=IN_BLOCKS)
        for place in range(_WORD_BYTES):
            write = rows.write_port()
            m.d.comb += [
                write.en.eq(self.write), write.data.eq(self.value.word_select(place, BYTE)),
                write.addr.eq(Cat(Const(place, 2), self.second, self.thread))]
        read, known = rows.read_port(domain="comb"), constants.read_port(domain="comb")
        place, asked = Signal(_PLACE_BITS), Signal(_PLACE_BITS)
        source, constant, of_parabola = Signal(BYTE), Signal(BYTE), Signal()
        m.d.comb += [
            place.eq(self.index[:_PLACE_BITS] | self.instruction.part), read.addr.eq(Cat(place, self.thread)),
            known.addr.eq(Cat(place[:2], self.interval)),
            self.byte.eq(Mux(of_parabola, constant, source) | self._immediate(asked))]
        m.d.sync += [asked.eq(place), source.eq(read.data), constant.eq(known.data), of_parabola.eq(self.parabola)]
        return m

    def _immediate(self, place: Value) -> Value:
        """The byte of an immediate source at a place, of any other one 0."""
        instruction, number = self.instruction, field_of(self.word, FIELDS["imm"])
        # An integer is extended; below a floating-point number there are zeros, of 64 bits a word more.
        missing = WORD_BITS - len(number)
        integer = Cat(number, number[-1].replicate(missing + WORD_BITS))
        real = Cat(Const(0, missing), number)
        whole = pick([integer.word_select(each, BYTE) for each in range(2 * _WORD_BYTES)], place)
        part = pick([real.word_select(each, BYTE) for each in range(_WORD_BYTES)], place[:2])
        there = ~instruction.gathers & ~instruction.constant
        low = (instruction.size == size_code(DOUBLE_BITS)) & ~place[2]
        return Mux(there, Mux(instruction.to_integer, Mux(low, 0, part), whole), 0)
