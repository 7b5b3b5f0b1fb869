"""Where an instruction names its registers."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.decode import LANE_FORMS
from rtl.execute.float_control import FLOAT_OPERATIONS
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import WORD_BITS, Form, Register
from rtl.word import field_of, telling_patterns

__all__ = ["A", "B", "C", "RegisterFields"]

A = 0
"""The operands' places in a list of registers."""
B = 1
C = 2
_FORMS = [form for form in LANE_FORMS if form.name not in FLOAT_OPERATIONS]


def _forms_by_field(operand: str) -> dict[str, list[Form]]:
    """The forms in which the operand is a register, by the field with its number."""
    forms: dict[str, list[Form]] = {}
    for form in _FORMS:
        place = form.operands.get(operand)
        if isinstance(place, Register):
            forms.setdefault(place.field, []).append(form)
    return forms


class RegisterFields(wiring.Component):
    """Finds the register numbers of the operands in an instruction word; combinational.

    Members
    -------
    word : In(64)
    is_lane_instruction : In(1)
        Otherwise registers are where most instructions have them.
    numbers : Out(8 for each of a, b, c)
        The register of each operand; undefined where the operand is none.
    has_no_destination : Out(1)
        It is an instruction of the lanes that writes no register; undefined for other
        instructions.
    """

    word: In(WORD_BITS)
    is_lane_instruction: In(1)
    numbers: Out(data.ArrayLayout(8, 3))
    has_no_destination: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for place, operand in ((A, "a"), (B, "b"), (C, "c")):
            self._find(m, operand, self.numbers[place])
        without = [form for form in _FORMS if not isinstance(form.operands.get("d"), Register)]
        others = [form for form in _FORMS if form not in without]
        m.d.comb += self.has_no_destination.eq(
            self.word.matches(*telling_patterns(without, others)))
        return m

    def _find(self, m: Module, operand: str, number: Value) -> None:
        """The operand's register: the field that most forms use, or one of the others."""
        forms = _forms_by_field(operand)
        usual, *others = sorted(forms, key=lambda field: -len(forms[field]))
        m.d.comb += number.eq(field_of(self.word, FIELDS[usual]))
        for field in others:
            patterns = telling_patterns(forms[field], forms[usual])
            is_elsewhere = Signal(name=f"{operand}_in_{field}")
            m.d.comb += is_elsewhere.eq(self.is_lane_instruction & self.word.matches(*patterns))
            with m.If(is_elsewhere):
                m.d.comb += number.eq(field_of(self.word, FIELDS[field]))
