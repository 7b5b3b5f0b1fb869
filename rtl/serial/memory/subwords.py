"""Bytes and halves of words: loads from a word, stores to a word."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .accumulator import REGISTER_BITS
from .words import BYTE_BITS, StoredBytes

__all__ = ["LoadExtractor", "StoreAligner", "Subword"]

_BYTE = 8
_HALF = 16


class Subword(data.Struct):
    """The bytes of a word that an instruction accesses."""

    size: unsigned(3)
    """The number of bytes, as a power of two. From 2 on, the whole word is accessed."""
    is_signed: unsigned(1)
    """A byte or half that is loaded is extended by its sign, else by zeros."""
    place: unsigned(BYTE_BITS)
    """The number of the lowest byte in the word. Bit 0 is ignored for a half, both bits for a
    word."""

    @property
    def is_byte(self) -> Value:
        return self.size == 0

    @property
    def is_narrow(self) -> Value:
        """Whether a byte or a half is accessed, not a whole word."""
        return self.size <= 1


class LoadExtractor(wiring.Component):
    """Extracts a byte or a half from a word, extended by its sign or by zeros; or returns the word.
    Combinational.

    Members
    -------
    subword : In(Subword)
    word : In(32)
    loaded : Out(32)
    """

    subword: In(Subword)
    word: In(REGISTER_BITS)
    loaded: Out(REGISTER_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        is_byte = self.subword.is_byte
        place = self.subword.place
        half = Mux(place[1], self.word[_HALF:], self.word[:_HALF])
        byte = Mux(place[0], half[_BYTE:], half[:_BYTE])
        sign = Signal()
        m.d.comb += sign.eq(self.subword.is_signed & Mux(is_byte, byte[-1], half[-1]))
        second_byte = Mux(is_byte, sign.replicate(_BYTE), half[_BYTE:])
        upper_half = Mux(
            self.subword.is_narrow, sign.replicate(_HALF), self.word[_HALF:])
        m.d.comb += self.loaded.eq(Cat(byte, second_byte, upper_half))
        return m


class StoreAligner(wiring.Component):
    """Replicates a byte or a half over the word to store, and makes the mask of the bytes that are
    written. Combinational.

    Members
    -------
    subword : In(Subword)
    value : In(32)
        The byte, half or word to store, in the low bits.
    stored : Out(StoredBytes)
    """

    subword: In(Subword)
    value: In(REGISTER_BITS)
    stored: Out(StoredBytes)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        is_byte = self.subword.is_byte
        is_narrow = self.subword.is_narrow
        place = self.subword.place
        mask = self.stored.mask
        byte = self.value[:_BYTE]
        second_byte = Mux(is_byte, byte, self.value[_BYTE:_HALF])
        third_byte = Mux(is_narrow, byte, self.value[_HALF:_HALF + _BYTE])
        fourth_byte = Mux(is_narrow, second_byte, self.value[_HALF + _BYTE:])
        m.d.comb += self.stored.value.eq(Cat(byte, second_byte, third_byte, fourth_byte))
        with m.If(is_byte):
            m.d.comb += mask.eq(0b0001 << place)
        with m.Elif(is_narrow):
            m.d.comb += mask.eq(0b0011 << Cat(Const(0, 1), place[1]))
        with m.Else():
            m.d.comb += mask.eq(0b1111)
        return m
