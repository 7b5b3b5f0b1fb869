"""The decoder of the conversion unit."""

from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.isa.fields import FIELDS
from rtl.isa.kinds import FloatFormat
from rtl.isa.legality import is_refused
from rtl.isa.syntax import RZ, Constant, Form, Immediate, Pipe, Register
from rtl.isa.syntax import WORD_BITS as INSTRUCTION_BITS
from rtl.isa.table import FORMS
from rtl.word import field_of, pattern_of

from .instruction import (
    CONSTANT_ADDRESS_BITS,
    SIZES,
    WORD_BITS,
    ConversionOperation,
    DecodedConversion,
    UniformSource,
)

__all__ = ["CONVERSION_FORMS", "ConversionDecoder"]

CONVERSION_FORMS: tuple[Form, ...] = tuple(
    form for form in FORMS if form.pipe is Pipe.CONVERSION and not is_refused(form))
"""The instructions of the conversion unit."""

_OPERATIONS = {
    "POPC": ConversionOperation.COUNT,
    "FLO": ConversionOperation.FIND,
    "I2I": ConversionOperation.INTEGER_TO_INTEGER,
    "I2F": ConversionOperation.INTEGER_TO_FLOAT,
    "F2F": ConversionOperation.FLOAT_TO_FLOAT,
    "F2I": ConversionOperation.FLOAT_TO_INTEGER,
    "MUFU": ConversionOperation.FUNCTION,
}
_FLAGS = {
    "absolute_a": "absolute",
    "absolute_b": "absolute",
    "negate_a": "negate",
    "negate_b": "negate",
    "invert_b": "invert",
    "flush": "flush",
    "saturate": "saturate",
    "shift": "from_top",
    "signed": "signed",
    "cc": "conditional",
    "function": "function",
}
"""Fields of the word, and the fields of ConversionInstruction to which they are copied."""
_WORD = SIZES.index(32)
_DOUBLE = SIZES.index(64)
_SIZE_BITS = 2
_ROUNDING_BITS = 2
assert (FloatFormat.F32.value, FloatFormat.F64.value) == (_WORD, _DOUBLE)


class ConversionDecoder(wiring.Component):
    """Decodes a word by the instruction table; combinational. ``floats``: the machine has floating
    point.

    Members
    -------
    word : In(64)
        A word of one of CONVERSION_FORMS. For any other word ``decoded`` and ``uniform`` have no
        meaning.
    constant : In(32)
        The value of its constant operand, or the lower word of a 64-bit one.
    decoded : Out(DecodedConversion)
    uniform : Out(UniformSource)
    """

    word: In(INSTRUCTION_BITS)
    constant: In(WORD_BITS)
    decoded: Out(DecodedConversion)
    uniform: Out(UniformSource)

    def __init__(self, floats: bool) -> None:
        self._floats = floats
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        uniform = self.uniform
        offset = field_of(self.word, FIELDS["offset"]).as_unsigned()
        address = (offset << exact_log2(FIELDS["offset"].scale))[:CONSTANT_ADDRESS_BITS - 1]
        m.d.comb += uniform.bank.eq(field_of(self.word, FIELDS["bank"]))
        m.d.comb += uniform.address.eq(address + WORD_BITS // 8)
        with m.Switch(self.word):
            for form in CONVERSION_FORMS:
                with m.Case(pattern_of(form)):
                    self._decode_operation(m, form)
                    self._decode_rounding(m, form)
                    self._decode_types(m, form)
                    self._decode_source(m, form)
        return m

    def _decode_operation(self, m: Module, form: Form) -> None:
        """The operation, its modifiers and the destination register."""
        fields = form.fields
        instruction = self.decoded.instruction
        m.d.comb += instruction.operation.eq(_OPERATIONS[form.name])
        m.d.comb += self.decoded.destination.eq(field_of(self.word, fields["Rd"]))
        for name, flag in _FLAGS.items():
            if name in fields:
                m.d.comb += instruction[flag].eq(field_of(self.word, fields[name]))
        if form.name == "F2F" and form.variant == "r" and "whole" in fields:
            # F2F of RZ in single precision is executed as I2I, which is faster: floating-point
            # zero and integer zero have the same bits. Without floating point this is the only F2F.
            is_zero_of_word = (
                (field_of(self.word, fields["Rb"]) == RZ)
                & ~field_of(self.word, fields["negate_b"])
                & (instruction.size == _WORD))
            with m.If(is_zero_of_word | (not self._floats)):
                m.d.comb += instruction.operation.eq(ConversionOperation.INTEGER_TO_INTEGER)

    def _decode_rounding(self, m: Module, form: Form) -> None:
        """The rounding. The field ``whole`` of F2F has one bit above it: round to an integer."""
        instruction = self.decoded.instruction
        for name in ("round", "whole"):
            if name in form.fields:
                code = field_of(self.word, form.fields[name])
                m.d.comb += Value.cast(instruction.round).eq(code[:_ROUNDING_BITS])
                m.d.comb += instruction.whole.eq(code[_ROUNDING_BITS:].any())

    def _decode_types(self, m: Module, form: Form) -> None:
        """The types of source and result: a size, and for integers a sign bit. And ``part``."""
        instruction = self.decoded.instruction
        self._decode_type(m, form, "source", instruction.size, instruction.signed)
        self._decode_type(m, form, "destination", instruction.to_size, instruction.to_signed)
        if "part" in form.fields:
            # The field is the number of a byte or, if it has one bit only, of a half word.
            part = field_of(self.word, form.fields["part"])
            with m.If(instruction.size < _WORD):
                m.d.comb += instruction.part.eq(part << 2 - len(part))

    def _decode_type(self, m: Module, form: Form, field: str, size: Any, signed: Any) -> None:
        """A type. Forms without a field for it have 32 bits."""
        if field not in form.fields:
            m.d.comb += size.eq(_WORD)
            return
        code = field_of(self.word, form.fields[field])
        m.d.comb += size.eq(code[:_SIZE_BITS])
        if len(code) > _SIZE_BITS:
            m.d.comb += signed.eq(code[_SIZE_BITS])

    def _decode_source(self, m: Module, form: Form) -> None:
        """The source: registers, a constant or an immediate."""
        decoded = self.decoded
        uniform = self.uniform
        is_double = decoded.instruction.size == _DOUBLE
        match form.operands["a" if "a" in form.operands else "b"]:
            case Register(name):
                number = field_of(self.word, form.fields[name])
                m.d.comb += decoded.gathers.eq(1)
                m.d.comb += decoded.registers[0].eq(number)
                # A pair begins with an even register, so that ``| 1`` is its other one. RZ is odd:
                # its pair is RZ twice.
                with m.If(is_double):
                    m.d.comb += decoded.registers[1].eq(number | 1)
            case Constant():
                m.d.comb += uniform.word.eq(self.constant)
                m.d.comb += uniform.needs_upper_word.eq(is_double)
            case Immediate(name):
                field = form.fields[name]
                lowest_bit = exact_log2(field.scale)
                m.d.comb += uniform.word.eq(
                    field_of(self.word, field) << lowest_bit % WORD_BITS)
                m.d.comb += uniform.is_upper.eq(lowest_bit >= WORD_BITS)
            case operand:
                raise TypeError(f"{form.name}: the unit cannot read {operand!r}")
