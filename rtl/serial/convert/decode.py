"""From an instruction word to what the serial conversion unit does with it."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.convert.decode import CONVERSION_FORMS
from rtl.convert.instruction import WORD_BITS, size_code
from rtl.isa.fields import FIELDS
from rtl.isa.kinds import FloatFormat
from rtl.isa.syntax import WORD_BITS as INSTRUCTION_BITS
from rtl.isa.syntax import Constant, Field, Form, Register
from rtl.word import field_of, telling_patterns

from .instruction import SerialConversion

__all__ = ["SERIAL_FORMS", "SerialConversionDecoder"]

_WORD = size_code(WORD_BITS)


def _exists(form: Form) -> bool:
    """Whether a machine without floating point has any word of a form."""
    fixed = form.values(form.match)
    if form.name == "F2F":
        is_register_form = form.variant == "r" and "whole" in form.fields
        return is_register_form and fixed["source"] == FloatFormat.F32.value
    return form.name != "F2I" or fixed["source"] != FloatFormat.F16.value


SERIAL_FORMS: tuple[Form, ...] = tuple(form for form in CONVERSION_FORMS if _exists(form))
"""The instructions of the conversion unit that exist without floating point."""


class SerialConversionDecoder(wiring.Component):
    """Reads the instruction table; combinational. As few bits of the word as possible distinguish a
    group of forms from the others.

    Members
    -------
    word : In(64)
        A word of one of SERIAL_FORMS that is not refused.
    instruction : Out(SerialConversion)
    """

    word: In(INSTRUCTION_BITS)
    instruction: Out(SerialConversion)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._decode_operation(m)
        self._decode_source(m)
        self._decode_types(m)
        self._decode_modifiers(m)
        m.d.comb += self.instruction.destination.eq(self._field("Rd"))
        return m

    def _decode_operation(self, m: Module) -> None:
        """What is computed."""
        instruction = self.instruction
        m.d.comb += instruction.is_popc.eq(self._is_named("POPC"))
        m.d.comb += instruction.is_flo.eq(self._is_named("FLO"))
        m.d.comb += instruction.is_i2i.eq(self._is_named("I2I", "F2F"))
        m.d.comb += instruction.is_i2f.eq(self._is_named("I2F"))
        m.d.comb += instruction.is_f2i.eq(self._is_named("F2I"))
        m.d.comb += instruction.is_rcp.eq(self._is_named("MUFU"))

    def _decode_source(self, m: Module) -> None:
        """Where the source comes from."""
        instruction = self.instruction
        m.d.comb += instruction.register.eq(
            Mux(instruction.is_rcp, self._field("Ra"), self._field("Rb")))
        m.d.comb += instruction.reads_register.eq(self._has_operand(Register))
        m.d.comb += instruction.reads_constant.eq(self._has_operand(Constant))
        m.d.comb += instruction.immediate.eq(field_of(self.word, FIELDS["imm"]))

    def _decode_types(self, m: Module) -> None:
        """The types of source and result: a size, and whether an integer is signed."""
        instruction = self.instruction
        is_of_words = instruction.is_popc | instruction.is_flo | instruction.is_rcp
        size = self._field("source")
        is_whole_word = is_of_words | size[1]
        source_is_signed = self._field("source", "I2I", "I2F")[-1]
        part = self._field("part", "I2I", "I2F")
        m.d.comb += instruction.size.eq(Mux(is_of_words, _WORD, size))
        m.d.comb += instruction.signed.eq(
            Mux(instruction.is_flo, self._field("signed"), source_is_signed))
        m.d.comb += instruction.part.eq(Mux(is_whole_word, 0, part))
        m.d.comb += instruction.to_size.eq(Mux(is_of_words, _WORD, self._field("destination")))
        m.d.comb += instruction.to_signed.eq(self._field("destination", "I2I", "F2I")[-1])

    def _decode_modifiers(self, m: Module) -> None:
        """Modifiers of the source and of the result, and the rounding."""
        instruction = self.instruction
        is_rcp = instruction.is_rcp
        has_cc = ~(instruction.is_popc | is_rcp)
        m.d.comb += instruction.absolute.eq(
            Mux(is_rcp, self._field("absolute_a"), self._field("absolute_b")))
        m.d.comb += instruction.negate.eq(
            Mux(is_rcp, self._field("negate_a"), self._field("negate_b")))
        m.d.comb += instruction.invert.eq(self._field("invert_b"))
        m.d.comb += instruction.flush.eq(self._field("flush"))
        m.d.comb += instruction.round.eq(Mux(is_rcp, 0, self._field("round")))
        m.d.comb += instruction.saturate.eq(self._field("saturate"))
        m.d.comb += instruction.from_top.eq(self._field("shift"))
        m.d.comb += instruction.conditional.eq(self._field("cc") & has_cc)

    def _is_named(self, *names: str) -> Value:
        """Whether the word is one of these instructions."""
        return self._matches(lambda form: form.name in names)

    def _has_operand(self, kind: type) -> Value:
        """Whether its source comes from there."""
        return self._matches(lambda form: isinstance(_operand(form), kind))

    def _matches(self, belongs: Callable[[Form], bool]) -> Value:
        """Whether the word's form belongs to a group."""
        forms = [form for form in SERIAL_FORMS if belongs(form)]
        others = [form for form in SERIAL_FORMS if not belongs(form)]
        return self.word.matches(*telling_patterns(forms, others))

    def _field(self, name: str, *forms: str) -> Value:
        """A field, which is at the same place in all forms that have it, or in the forms with these
        names. Of fields of different widths the narrowest."""
        fields = {
            form.fields[name]
            for form in SERIAL_FORMS
            if name in form.fields and (not forms or form.name in forms)}
        narrowest = min(fields, key=_width)
        assert all(field.pieces[0] == narrowest.pieces[0] for field in fields)
        return field_of(self.word, narrowest).as_unsigned()


def _operand(form: Form) -> Any:
    """Where a form's source comes from."""
    return form.operands["a" if "a" in form.operands else "b"]


def _width(field: Field) -> int:
    return sum(width for _, width in field.pieces)
