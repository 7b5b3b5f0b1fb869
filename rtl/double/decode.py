"""The decoder of the unit for double precision."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.isa.double import DOUBLE
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import WORD_BITS as INSTRUCTION_BITS
from rtl.isa.syntax import Constant, Form, Immediate, Register
from rtl.word import field_of, pattern_of

from .instruction import WORD_BITS, DecodedDouble, DoubleOperation, Uniform

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
"""Fields of a word that are copied to the fields of the same name of a DoubleInstruction."""
_OFFSET_BITS = 16


def is_double(word: Value) -> Value:
    """Whether the word of a legal instruction is one of double precision."""
    return word.matches(*map(pattern_of, DOUBLE))


class DoubleDecoder(wiring.Component):
    """Decodes a word by the instruction table; combinational.

    Members
    -------
    word : In(64)
        A word of one of the forms in ``rtl.isa.double.DOUBLE``.
    constant : In(32)
        The lower word of its constant operand.
    decoded : Out(DecodedDouble)
    """

    word: In(INSTRUCTION_BITS)
    constant: In(WORD_BITS)
    decoded: Out(DecodedDouble)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        decoded = self.decoded
        offset_field = FIELDS["offset"]
        offset_shift = exact_log2(offset_field.scale)
        offset = field_of(self.word, offset_field).as_unsigned() << offset_shift
        m.d.comb += decoded.bank.eq(field_of(self.word, FIELDS["bank"]))
        m.d.comb += decoded.address.eq(offset[:_OFFSET_BITS] + WORD_BITS // 8)
        m.d.comb += decoded.operand.eq(self.constant)
        with m.Switch(self.word):
            for form in DOUBLE:
                with m.Case(pattern_of(form)):
                    self._decode(m, form)
        return m

    def _decode(self, m: Module, form: Form) -> None:
        """The operation, modifiers, operands and destinations of a form."""
        decoded = self.decoded
        m.d.comb += decoded.instruction.operation.eq(_OPERATIONS[form.name])
        for name in _MODIFIERS:
            if name in form.fields:
                field = field_of(self.word, form.fields[name])
                m.d.comb += Value.cast(decoded.instruction[name]).eq(field)
        for place, role in enumerate("abc"):
            self._decode_operand(m, form, place, form.operands.get(role))
        targets = {
            "Rd": decoded.destination,
            "Pd": decoded.p,
            "Pd2": decoded.q,
            "cc": decoded.conditional,
        }
        for name, target in targets.items():
            if name in form.fields:
                m.d.comb += target.eq(field_of(self.word, form.fields[name]))

    def _decode_operand(self, m: Module, form: Form, place: int, operand: Any) -> None:
        """The source of operand a, b or c, which is ``place`` 0, 1 or 2."""
        decoded = self.decoded
        match operand:
            case Register(name):
                m.d.comb += decoded.registers[place].eq(field_of(self.word, form.fields[name]))
            case Constant():
                m.d.comb += decoded.uniform.eq(Uniform.CONSTANT)
                m.d.comb += decoded.uniform_c.eq(place == 2)
            case Immediate(name):
                number = field_of(self.word, form.fields[name])
                padding = Const(0, WORD_BITS - len(number))
                m.d.comb += decoded.uniform.eq(Uniform.IMMEDIATE)
                m.d.comb += decoded.operand.eq(Cat(padding, number))
