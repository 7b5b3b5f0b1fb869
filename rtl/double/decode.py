"""From an instruction word to what the unit does with it."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.isa.double import DOUBLE
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import PT, RZ, Constant, Form, Immediate, Register
from rtl.isa.syntax import WORD_BITS as INSTRUCTION_BITS
from rtl.word import field_of, pattern_of

from .instruction import WORD_BITS, DoubleInstruction, DoubleOperation, Uniform

__all__ = ["DoubleDecoder", "is_double"]

_OPERATIONS = {
    "DADD": DoubleOperation.ADD,
    "DMUL": DoubleOperation.MULTIPLY,
    "DFMA": DoubleOperation.FUSED,
    "DMNMX": DoubleOperation.CHOOSE,
    "DSETP": DoubleOperation.TEST,
    "DSET": DoubleOperation.TEST_TO_REGISTER,
}
_MODIFIERS = (
    "negate_a", "absolute_a", "negate_b", "absolute_b", "negate_c", "round", "compare", "combine",
    "one")
"""Fields of a word that are fields of the same name of a DoubleInstruction."""
_OFFSET_BITS = 16


def is_double(word: Value) -> Value:
    """Whether a word that is a legal instruction is for the unit."""
    return word.matches(*map(pattern_of, DOUBLE))


class DoubleDecoder(wiring.Component):
    """Reads the instruction table; combinational.

    Members
    -------
    word : In(64)
        A word of one of DOUBLE.
    constant : In(32)
        What its constant operand reads first.
    instruction : Out(DoubleInstruction)
    registers : Out(array of 3 numbers)
        Of a, b and c; RZ where there is none.
    uniform, uniform_c, operand : Out(Uniform), Out(1), Out(32)
        The operand that is the same in all threads, which is b or c.
    bank, address : Out(5), Out(17)
        Its upper word, in bytes.
    destination, p, q, conditional : Out(8), Out(3), Out(3), Out(1)
        What is written; RZ and PT where there is nothing.
    """

    word: In(INSTRUCTION_BITS)
    constant: In(WORD_BITS)
    instruction: Out(DoubleInstruction)
    registers: Out(data.ArrayLayout(8, 3))
    uniform: Out(Uniform)
    uniform_c: Out(1)
    operand: Out(WORD_BITS)
    bank: Out(5)
    address: Out(_OFFSET_BITS + 1)
    destination: Out(8)
    p: Out(3)
    q: Out(3)
    conditional: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        offset_field = FIELDS["offset"]
        offset_shift = exact_log2(offset_field.scale)
        offset = field_of(self.word, offset_field).as_unsigned() << offset_shift
        for register in self.registers:
            m.d.comb += register.eq(RZ)
        m.d.comb += self.destination.eq(RZ)
        m.d.comb += self.p.eq(PT)
        m.d.comb += self.q.eq(PT)
        m.d.comb += self.bank.eq(field_of(self.word, FIELDS["bank"]))
        m.d.comb += self.address.eq(offset[:_OFFSET_BITS] + WORD_BITS // 8)
        m.d.comb += self.operand.eq(self.constant)
        with m.Switch(self.word):
            for form in DOUBLE:
                with m.Case(pattern_of(form)):
                    self._decode(m, form)
        return m

    def _decode(self, m: Module, form: Form) -> None:
        """An instruction of this form."""
        m.d.comb += self.instruction.operation.eq(_OPERATIONS[form.name])
        for name in _MODIFIERS:
            if name in form.fields:
                field = field_of(self.word, form.fields[name])
                m.d.comb += Value.cast(self.instruction[name]).eq(field)
        for place, role in enumerate("abc"):
            self._decode_operand(m, form, place, form.operands.get(role))
        targets = {"Rd": self.destination, "Pd": self.p, "Pd2": self.q, "cc": self.conditional}
        for name, target in targets.items():
            if name in form.fields:
                m.d.comb += target.eq(field_of(self.word, form.fields[name]))

    def _decode_operand(self, m: Module, form: Form, place: int, operand: Any) -> None:
        """Where an operand comes from."""
        match operand:
            case Register(name):
                m.d.comb += self.registers[place].eq(field_of(self.word, form.fields[name]))
            case Constant():
                m.d.comb += self.uniform.eq(Uniform.CONSTANT)
                m.d.comb += self.uniform_c.eq(place == 2)
            case Immediate(name):
                number = field_of(self.word, form.fields[name])
                padding = Const(0, WORD_BITS - len(number))
                m.d.comb += self.uniform.eq(Uniform.IMMEDIATE)
                m.d.comb += self.operand.eq(Cat(padding, number))
