"""Decodes the fields that all instructions have, of any unit."""

from collections.abc import Callable, Iterable

from amaranth.hdl import Module, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.condition import ConditionCode
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import PT, WORD_BITS, Constant, Form, Pipe, Predicate
from rtl.isa.table import FORMS
from rtl.word import field_of, pattern_of

from .condition import CONDITION_TABLES, ConditionTable, condition_table
from .instruction import PredicateOperand

__all__ = ["CommonDecoder", "CommonInstruction", "tests_condition"]

_WORD_ALIGNMENT = 3


def _patterns(is_chosen: Callable[[Form], bool]) -> Iterable[str]:
    """The words of some forms."""
    return {pattern_of(form): None for form in FORMS if is_chosen(form)}


def _tests(form: Form) -> bool:
    """A flow instruction that tests CC."""
    return form.pipe is Pipe.FLOW and "test" in form.fields


def tests_condition(word: Value) -> Value:
    """Whether it is a flow instruction that tests CC, by its field ``test``."""
    return word.matches(*_patterns(_tests))


def _has_no_guard(form: Form) -> bool:
    """An instruction that all threads execute."""
    return not form.guarded


def _reads_predicate(form: Form) -> bool:
    """An instruction of another unit with a predicate operand."""
    has_predicate = isinstance(form.operands.get("x"), Predicate)
    return form.pipe in (Pipe.BARRIER, Pipe.DOUBLE) and has_predicate


def _reads_fixed_constant(form: Form) -> bool:
    """A flow instruction with a constant at a fixed address, in bytes."""
    target = form.operands.get("target")
    return form.pipe is Pipe.FLOW and isinstance(target, Constant) and target.index is None


_OFFSETS = {form.fields["offset"] for form in FORMS if _reads_fixed_constant(form)}
assert len(_OFFSETS) == 1, "these constants have their offset in one place"
(_OFFSET,) = _OFFSETS


class CommonInstruction(data.Struct):
    """The decoded fields that all instructions have."""

    guard: PredicateOperand
    test: ConditionTable
    """The test of CC of a flow instruction; T (true) for others."""
    predicate: PredicateOperand
    """The predicate operand: x of an instruction of the lanes, or that of another unit's
    instruction."""
    misaligned: unsigned(1)
    """The address of its constant operand is no multiple of 4."""


class CommonDecoder(wiring.Component):
    """Decodes the fields that all instructions have; combinational.

    Members
    -------
    word : In(64)
    x : In(PredicateOperand)
        Predicate x of an instruction of the lanes; PT for others.
    instruction : Out(CommonInstruction)
    """

    word: In(WORD_BITS)
    x: In(PredicateOperand)
    instruction: Out(CommonInstruction)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word = self.word
        instruction = self.instruction
        guard = instruction.guard
        with m.If(word.matches(*_patterns(_has_no_guard))):
            m.d.comb += guard.number.eq(PT)
        with m.Else():
            m.d.comb += guard.number.eq(field_of(word, FIELDS["guard"]))
            m.d.comb += guard.negated.eq(field_of(word, FIELDS["guard_not"]))

        with m.If(tests_condition(word)):
            m.d.comb += instruction.test.eq(condition_table(field_of(word, FIELDS["test"])))
        with m.Else():
            m.d.comb += instruction.test.eq(CONDITION_TABLES[ConditionCode.T.value])

        predicate = instruction.predicate
        with m.If(word.matches(*_patterns(_reads_predicate))):
            m.d.comb += predicate.number.eq(field_of(word, FIELDS["Pc"]))
            m.d.comb += predicate.negated.eq(field_of(word, FIELDS["Pc_not"]))
        with m.Else():
            m.d.comb += predicate.eq(self.x)

        reads_constant = word.matches(*_patterns(_reads_fixed_constant))
        is_unaligned = (field_of(word, _OFFSET) & _WORD_ALIGNMENT).any()
        m.d.comb += instruction.misaligned.eq(reads_constant & is_unaligned)
        return m
