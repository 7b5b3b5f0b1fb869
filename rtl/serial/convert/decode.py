"""From an instruction word to what the serial conversion unit does with it."""

from typing import Any

from amaranth.hdl import Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.convert.decode import CONVERSION_FORMS
from rtl.convert.instruction import WORD_BITS, size_code
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
        return form.variant == "r" and "whole" in form.fields and fixed["source"] == FloatFormat.F32.value
    return form.name != "F2I" or fixed["source"] != FloatFormat.F16.value


SERIAL_FORMS: tuple[Form, ...] = tuple(form for form in CONVERSION_FORMS if _exists(form))
"""The instructions of the conversion unit that are there without floating point."""


class SerialConversionDecoder(wiring.Component):
    """Reads the instruction table; combinational. A group of forms is told from the others by as few bits as do that.

    Members
    -------
    word : In(64)
        A word of one of SERIAL_FORMS that is not refused.
    instruction : Out(SerialConversion)
    source : Out(8)
        The first register of the source, if it is in registers.
    destination : Out(8)
        The first register of the result.
    """

    word: In(INSTRUCTION_BITS)
    instruction: Out(SerialConversion)
    source: Out(8)
    destination: Out(8)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction: Any = self.instruction
        calculates, counts, finds = instruction.calculates, instruction.counts, instruction.finds
        for flag, names in (("counts", ("POPC",)), ("finds", ("FLO",)), ("converts", ("I2I", "F2F")),
                            ("to_float", ("I2F",)), ("to_integer", ("F2I",)), ("calculates", ("MUFU",))):
            m.d.comb += instruction[flag].eq(self._is(lambda form, names=names: form.name in names))
        for flag, kind in (("gathers", Register), ("constant", Constant)):
            m.d.comb += instruction[flag].eq(self._is(lambda form, kind=kind: isinstance(_operand(form), kind)))
        words = counts | finds | calculates
        size, to_size, integer = self._field("source"), self._field("destination"), ("I2I", "I2F")
        m.d.comb += [
            self.source.eq(Mux(calculates, self._field("Ra"), self._field("Rb"))),
            self.destination.eq(self._field("Rd")),
            instruction.size.eq(Mux(words, _WORD, size)), instruction.to_size.eq(Mux(words, _WORD, to_size)),
            instruction.signed.eq(Mux(finds, self._field("signed"), self._field("source", *integer)[-1])),
            instruction.to_signed.eq(self._field("destination", "I2I", "F2I")[-1]),
            instruction.part.eq(Mux(words | size[1], 0, self._field("part", *integer))),
            instruction.absolute.eq(Mux(calculates, self._field("absolute_a"), self._field("absolute_b"))),
            instruction.negate.eq(Mux(calculates, self._field("negate_a"), self._field("negate_b"))),
            instruction.invert.eq(self._field("invert_b")), instruction.flush.eq(self._field("flush")),
            instruction.round.eq(Mux(calculates, 0, self._field("round"))),
            instruction.saturate.eq(self._field("saturate")), instruction.from_top.eq(self._field("shift")),
            instruction.conditional.eq(self._field("cc") & ~(counts | calculates))]
        return m

    def _is(self, belongs: Any) -> Value:
        """Whether the word's form is one of these."""
        return self.word.matches(*telling_patterns([form for form in SERIAL_FORMS if belongs(form)],
                                                   [form for form in SERIAL_FORMS if not belongs(form)]))

    def _field(self, name: str, *forms: str) -> Value:
        """A field, which is at the same place in all forms that have it, or in those of these names."""
        fields = {form.fields[name] for form in SERIAL_FORMS if name in form.fields and (
            form.name in forms if forms else True)}
        least = min(fields, key=_width)
        assert all(field.pieces[0] == least.pieces[0] for field in fields)
        return field_of(self.word, least).as_unsigned()


def _operand(form: Form) -> Any:
    """Where a form's source comes from."""
    return form.operands["a" if "a" in form.operands else "b"]


def _width(field: Field) -> int:
    return sum(width for _, width in field.pieces)
