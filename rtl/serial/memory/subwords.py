"""Bytes and halves of words: how they are loaded from a word, and stored to one."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.memory.instruction import MemoryInstruction

from .accumulator import REGISTER_BITS
from .words import BYTE_BITS

__all__ = ["LoadExtractor", "StoreAligner"]

_BYTE = 8
_HALF = 16


def _is_byte(instruction: Any) -> Value:
    return instruction.size == 0


def _is_narrow(instruction: Any) -> Value:
    """A byte or a half."""
    return instruction.size <= 1


class LoadExtractor(wiring.Component):
    """What is loaded from a word: the byte or the half at ``address``, extended by its sign or by
    zeros; or the word. Combinational."""

    instruction: In(MemoryInstruction)
    address: In(BYTE_BITS)
    word: In(REGISTER_BITS)
    loaded: Out(REGISTER_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        is_byte = _is_byte(self.instruction)
        half = Mux(self.address[1], self.word[_HALF:], self.word[:_HALF])
        byte = Mux(self.address[0], half[_BYTE:], half[:_BYTE])
        sign = Signal()
        m.d.comb += sign.eq(self.instruction.is_signed & Mux(is_byte, byte[-1], half[-1]))
        second_byte = Mux(is_byte, sign.replicate(_BYTE), half[_BYTE:])
        upper_half = Mux(
            _is_narrow(self.instruction), sign.replicate(_HALF), self.word[_HALF:])
        m.d.comb += self.loaded.eq(Cat(byte, second_byte, upper_half))
        return m


class StoreAligner(wiring.Component):
    """The word in which a byte, a half or a word is stored at ``address``, and the mask of its
    bytes: a byte stands in all four of them, a half in both halves. Combinational."""

    instruction: In(MemoryInstruction)
    address: In(BYTE_BITS)
    value: In(REGISTER_BITS)
    word: Out(REGISTER_BITS)
    mask: Out(REGISTER_BITS // _BYTE)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        is_byte = _is_byte(self.instruction)
        is_narrow = _is_narrow(self.instruction)
        byte = self.value[:_BYTE]
        second_byte = Mux(is_byte, byte, self.value[_BYTE:_HALF])
        third_byte = Mux(is_narrow, byte, self.value[_HALF:_HALF + _BYTE])
        fourth_byte = Mux(is_narrow, second_byte, self.value[_HALF + _BYTE:])
        m.d.comb += self.word.eq(Cat(byte, second_byte, third_byte, fourth_byte))
        with m.If(is_byte):
            m.d.comb += self.mask.eq(0b0001 << self.address)
        with m.Elif(is_narrow):
            m.d.comb += self.mask.eq(0b0011 << Cat(Const(0, 1), self.address[1]))
        with m.Else():
            m.d.comb += self.mask.eq(0b1111)
        return m
