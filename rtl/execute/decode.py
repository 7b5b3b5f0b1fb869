"""From an instruction word to what the lanes do with it."""

from collections.abc import Container

from amaranth.hdl import Const, Module, Mux, Value
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.isa.kinds import FloatRange
from rtl.isa.legality import is_refused
from rtl.isa.syntax import (
    PT,
    RZ,
    WORD_BITS,
    Constant,
    Form,
    Immediate,
    Operand,
    Predicate,
    Register,
)
from rtl.isa.table import FORMS
from rtl.word import field_of, pattern_of

from .float_control import FLOAT_OPERATIONS
from .instruction import LaneInstruction, OperandSource, ValueSource
from .operations import OPERATIONS

__all__ = ["LANE_FORMS", "LaneDecoder"]

LANE_FORMS: tuple[Form, ...] = tuple(form for form in FORMS if form.name in OPERATIONS and not is_refused(form))
"""The instructions that pass the lanes and have their results then."""

_OTHER_VALUES = {"S2R": ValueSource.SPECIAL, "CS2R": ValueSource.SPECIAL, "LEPC": ValueSource.NEXT_PC,
                 "VOTE": ValueSource.BALLOT}


class LaneDecoder(wiring.Component):
    """Reads the instruction table; combinational. ``floats``: the lanes have floating point. ``names``: it knows no
    other instructions.

    Members
    -------
    word : In(64)
    instruction : Out(LaneInstruction)
        One that writes nothing, for a word that is none of LANE_FORMS.
    """

    word: In(WORD_BITS)
    instruction: Out(LaneInstruction)

    def __init__(self, floats: bool, names: Container[str] = OPERATIONS) -> None:
        self._forms = tuple(form for form in LANE_FORMS if form.name in names and (
            floats or form.name not in FLOAT_OPERATIONS))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction = self.instruction
        for register in (*instruction.registers, instruction.destination):
            m.d.comb += register.eq(RZ)
        for predicate in (instruction.guard.number, instruction.p, instruction.q,
                          *(predicate.number for predicate in instruction.predicates)):
            m.d.comb += predicate.eq(PT)
        m.d.comb += instruction.quad.eq(~0)
        with m.Switch(self.word):
            for form in self._forms:
                with m.Case(pattern_of(form)):
                    self._decode(m, form)
        return m

    def _decode(self, m: Module, form: Form) -> None:
        instruction = self.instruction

        def field(name: str) -> Value:
            return field_of(self.word, form.fields[name]) if name in form.fields else Const(0, 8)

        def signal(value: Value | enum.Enum | int) -> Value:
            return Value.cast(value)

        m.d.comb += [instruction.guard.number.eq(field("guard")), instruction.guard.negated.eq(field("guard_not"))]
        for index, name in enumerate("abc"):
            self._source(m, form, index, form.operands.get(name))
        for index, name in enumerate("xyz"):
            operand = form.operands.get(name)
            if isinstance(operand, Predicate):
                target = instruction.predicates[index]
                m.d.comb += target.number.eq(field(operand.field))
                if operand.negate is not None:
                    m.d.comb += target.negated.eq(field(operand.negate))
        for name in "pq":
            operand = form.operands.get(name)
            if isinstance(operand, Predicate):
                m.d.comb += instruction[name].eq(field(operand.field))
        destination = form.operands.get("d")
        if isinstance(destination, Register):
            m.d.comb += instruction.destination.eq(field(destination.field))
        m.d.comb += instruction.writes_cc.eq(field("which" if form.name == "R2P" else "cc"))
        if "lanes" in form.fields:
            m.d.comb += instruction.quad.eq(field("lanes"))
        if form.name in _OTHER_VALUES:
            m.d.comb += [instruction.source_a.eq(_OTHER_VALUES[form.name]), instruction.special.eq(field("special"))]
        if form.name == "RRO":
            m.d.comb += instruction.source_a.eq(
                Mux(field("mode") == FloatRange.EX2.value, ValueSource.ONE, ValueSource.TURN))
        if form.name == "VOTE":
            m.d.comb += Value.cast(instruction.vote).eq(field("mode"))
        for name, value in FLOAT_OPERATIONS.get(form.name, lambda _: {})(field).items():
            m.d.comb += Value.cast(instruction.control.floating[name]).eq(signal(value))
        for name, value in OPERATIONS[form.name](field).items():
            m.d.comb += Value.cast(instruction.control[name]).eq(signal(value))

    def _source(self, m: Module, form: Form, index: int, operand: Operand | None) -> None:
        """Operand a, b or c."""
        instruction = self.instruction
        source = (None, instruction.source_b, instruction.source_c)[index]
        match operand:
            case Register(field):
                m.d.comb += instruction.registers[index].eq(field_of(self.word, form.fields[field]))
            case Constant() if source is not None:
                m.d.comb += source.eq(OperandSource.CONSTANT)
            case Immediate(field) if source is not None:
                number = form.fields[field]
                m.d.comb += [source.eq(OperandSource.IMMEDIATE),
                             instruction.immediate.eq(field_of(self.word, number) << exact_log2(number.scale))]
