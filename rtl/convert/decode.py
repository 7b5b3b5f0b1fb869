"""From an instruction word to what the conversion unit does with it."""

from amaranth.hdl import Module, Mux, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.isa.fields import FIELDS
from rtl.isa.kinds import FloatFormat
from rtl.isa.legality import is_refused
from rtl.isa.syntax import RZ, Constant, Form, Immediate, Pipe, Register
from rtl.isa.syntax import WORD_BITS as INSTRUCTION_BITS
from rtl.isa.table import FORMS
from rtl.word import field_of, pattern_of

from .instruction import CONSTANT_ADDRESS_BITS, SIZES, WORD_BITS, ConversionInstruction, ConversionOperation

__all__ = ["CONVERSION_FORMS", "ConversionDecoder"]

CONVERSION_FORMS: tuple[Form, ...] = tuple(
    form for form in FORMS if form.pipe is Pipe.CONVERSION and not is_refused(form))
"""The instructions of the conversion unit."""

_OPERATIONS = {
    "POPC": ConversionOperation.COUNT, "FLO": ConversionOperation.FIND,
    "I2I": ConversionOperation.INTEGER_TO_INTEGER, "I2F": ConversionOperation.INTEGER_TO_FLOAT,
    "F2F": ConversionOperation.FLOAT_TO_FLOAT, "F2I": ConversionOperation.FLOAT_TO_INTEGER,
    "MUFU": ConversionOperation.FUNCTION}
_FLAGS = {"absolute_a": "absolute", "absolute_b": "absolute", "negate_a": "negate", "negate_b": "negate",
          "invert_b": "invert", "flush": "flush", "saturate": "saturate", "shift": "from_top", "signed": "signed",
          "cc": "conditional",
          "function": "function"}
"""Field of the word -> field of the decoded instruction."""
_WORD, _DOUBLE = SIZES.index(32), SIZES.index(64)
_SIZE_BITS = 2
assert (FloatFormat.F32.value, FloatFormat.F64.value) == (_WORD, _DOUBLE)


class ConversionDecoder(wiring.Component):
    """Reads the instruction table; combinational. ``floats``: the machine has floating point.

    Members
    -------
    word : In(64)
        A word of one of CONVERSION_FORMS that is not refused.
    constant : In(32)
        What its constant operand reads, of 64 bits the lower word.
    instruction : Out(ConversionInstruction)
    gathers : Out(1)
        The source is in registers.
    registers : Out(array of 2 numbers)
        Which; RZ where there is none.
    operand : Out(32)
        The source, where it is not in registers; of 64 bits the lower half, which has its sign, or the upper one.
    upper : Out(1)
        It is the upper one, and the lower one is 0.
    wide : Out(1)
        It is the lower word of a constant of 64 bits.
    bank, address : Out(5), Out(17)
        The upper one's, in bytes.
    destination : Out(8)
        The first register of the result.
    """

    word: In(INSTRUCTION_BITS)
    constant: In(WORD_BITS)
    instruction: Out(ConversionInstruction)
    gathers: Out(1)
    registers: Out(data.ArrayLayout(8, 2))
    operand: Out(WORD_BITS)
    upper: Out(1)
    wide: Out(1)
    bank: Out(5)
    address: Out(CONSTANT_ADDRESS_BITS)
    destination: Out(8)

    def __init__(self, floats: bool) -> None:
        self._floats = floats
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        offset = field_of(self.word, FIELDS["offset"]).as_unsigned() << exact_log2(FIELDS["offset"].scale)
        m.d.comb += [
            self.registers[0].eq(RZ), self.registers[1].eq(RZ), self.bank.eq(field_of(self.word, FIELDS["bank"])),
            self.address.eq(offset[:CONSTANT_ADDRESS_BITS - 1] + WORD_BITS // 8)]
        with m.Switch(self.word):
            for form in CONVERSION_FORMS:
                with m.Case(pattern_of(form)):
                    self._decode(m, form)
                    self._source(m, form)
        return m

    def _decode(self, m: Module, form: Form) -> None:
        """What is computed, and where the result goes."""
        word, fields, instruction = self.word, form.fields, self.instruction
        m.d.comb += [
            instruction.operation.eq(_OPERATIONS[form.name]), self.destination.eq(field_of(word, fields["Rd"]))]
        for name, flag in _FLAGS.items():
            if name in fields:
                m.d.comb += instruction[flag].eq(field_of(word, fields[name]))
        for name in ("round", "whole"):
            if name in fields:
                code = field_of(word, fields[name])
                m.d.comb += [Value.cast(instruction.round).eq(code[:2]), instruction.whole.eq(code[2:].any())]
        if form.name == "F2F" and form.variant == "r" and "whole" in fields:
            # The zero in RZ is one as an integer, too, and several at once: that alone is there without floating point.
            zero = (field_of(word, fields["Rb"]) == RZ) & ~field_of(word, fields["negate_b"]) & (
                instruction.size == _WORD)
            with m.If(zero | (not self._floats)):
                m.d.comb += instruction.operation.eq(ConversionOperation.INTEGER_TO_INTEGER)
        for name, size, signed in (("source", instruction.size, instruction.signed),
                                   ("destination", instruction.to_size, instruction.to_signed)):
            if name in fields:
                code = field_of(word, fields[name])
                m.d.comb += size.eq(code[:_SIZE_BITS])
                if len(code) > _SIZE_BITS:
                    m.d.comb += signed.eq(code[_SIZE_BITS])
            else:
                m.d.comb += size.eq(_WORD)
        if "part" in fields:
            # A half is two bytes.
            part = field_of(word, fields["part"])
            m.d.comb += instruction.part.eq(Mux(instruction.size < _WORD, part << 2 - len(part), 0))

    def _source(self, m: Module, form: Form) -> None:
        """Where the source comes from."""
        match form.operands["a" if "a" in form.operands else "b"]:
            case Register(name):
                number = field_of(self.word, form.fields[name])
                m.d.comb += [self.gathers.eq(1), self.registers[0].eq(number)]
                # A pair begins with an even register, and that of RZ is RZ twice.
                with m.If(self.instruction.size == _DOUBLE):
                    m.d.comb += self.registers[1].eq(number | 1)
            case Constant():
                m.d.comb += [self.operand.eq(self.constant), self.wide.eq(self.instruction.size == _DOUBLE)]
            case Immediate(name):
                number = form.fields[name]
                low = exact_log2(number.scale)
                m.d.comb += [self.operand.eq(field_of(self.word, number) << low % WORD_BITS),
                             self.upper.eq(low >= WORD_BITS)]
            case operand:
                raise TypeError(f"{form.name}: the unit cannot read {operand!r}")
