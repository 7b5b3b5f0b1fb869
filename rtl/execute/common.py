"""What has to be known of every instruction, whichever unit executes it."""

from collections.abc import Callable, Iterable

from amaranth.hdl import Module, Mux, Value, unsigned
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


def _patterns(chosen: Callable[[Form], bool]) -> Iterable[str]:
    return {pattern_of(form): None for form in FORMS if chosen(form)}


def _tests(form: Form) -> bool:
    """A flow instruction that tests CC."""
    return form.pipe is Pipe.FLOW and "test" in form.fields


def tests_condition(word: Value) -> Value:
    """Whether it is a flow instruction that tests CC, by its field ``test``."""
    return word.matches(*_patterns(_tests))


def _reads_predicate(form: Form) -> bool:
    """An instruction of another unit with a predicate operand."""
    return form.pipe in (Pipe.BARRIER, Pipe.DOUBLE) and isinstance(form.operands.get("x"), Predicate)


def _goes_to_constant(form: Form) -> bool:
    """A flow instruction with a constant at a fixed address, in bytes."""
    target = form.operands.get("target")
    return form.pipe is Pipe.FLOW and isinstance(target, Constant) and target.index is None


class CommonInstruction(data.Struct):
    """What an instruction asks of each thread."""

    guard: PredicateOperand
    test: ConditionTable
    """The test of CC that a flow instruction makes: T where there is none."""
    predicate: PredicateOperand
    """Operand x of an instruction of the lanes, or that of another unit's."""
    misaligned: unsigned(1)
    """Its constant operand is not a word of the bank."""


class CommonDecoder(wiring.Component):
    """Combinational.

    Members
    -------
    word : In(64)
    x : In(PredicateOperand)
        Of an instruction of the lanes; elsewhere PT.
    instruction : Out(CommonInstruction)
    """

    word: In(WORD_BITS)
    x: In(PredicateOperand)
    instruction: Out(CommonInstruction)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, instruction = self.word, self.instruction
        guard, predicate = instruction.guard, instruction.predicate
        constants = [form for form in FORMS if _goes_to_constant(form)]
        offset = field_of(word, constants[0].fields["offset"])
        assert all(form.fields["offset"] == constants[0].fields["offset"] for form in constants)
        m.d.comb += [
            instruction.test.eq(Mux(tests_condition(word), condition_table(field_of(word, FIELDS["test"])),
                                    CONDITION_TABLES[ConditionCode.T.value])),
            guard.number.eq(field_of(word, FIELDS["guard"])), guard.negated.eq(field_of(word, FIELDS["guard_not"])),
            predicate.eq(self.x),
            instruction.misaligned.eq(
                word.matches(*_patterns(_goes_to_constant)) & (offset & _WORD_ALIGNMENT).any())]
        with m.If(word.matches(*_patterns(lambda form: not form.guarded))):
            m.d.comb += [guard.number.eq(PT), guard.negated.eq(0)]
        with m.If(word.matches(*_patterns(_reads_predicate))):
            m.d.comb += [predicate.number.eq(field_of(word, FIELDS["Pc"])),
                         predicate.negated.eq(field_of(word, FIELDS["Pc_not"]))]
        return m
