"""A thread's guard, its predicate operand, and the test of CC."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.common import tests_condition
from rtl.execute.condition import ConditionTable, condition_table
from rtl.execute.decode import LANE_FORMS
from rtl.execute.predicates import ThreadFlags
from rtl.isa.condition import ConditionCode
from rtl.isa.fields import FIELDS
from rtl.isa.table import BY_NAME
from rtl.word import field_of

from .stages import GuardedInstruction

__all__ = ["ThreadGuard", "predicate_of"]

_LANE_TEST = BY_NAME["CSET"][0].fields["test"]
"""Where instructions of the lanes have a test of CC."""
assert all(form.fields["test"] == _LANE_TEST for form in LANE_FORMS if "test" in form.fields)


def predicate_of(flags: Any, operand: Any) -> Value:
    """The value of a PredicateOperand for a thread with these ThreadFlags."""
    predicates = Cat(flags.predicates, 1)
    return predicates.bit_select(operand.number, 1) ^ operand.negated


class ThreadGuard(wiring.Component):
    """Evaluates a thread's guard, its predicate operand, and its test of CC; combinational.

    Members
    -------
    instruction : In(GuardedInstruction)
        A lane instruction has its test of CC in another field, and the lane evaluates it; a flow
        instruction's is part of the guard. Other instructions have none. Both tests are looked up
        here, in one table.
    flags : In(ThreadFlags)
    test_holds, guard_holds, predicate_holds : Out(1)
    """

    instruction: In(GuardedInstruction)
    flags: In(ThreadFlags)
    test_holds: Out(1)
    guard_holds: Out(1)
    predicate_holds: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word = self.instruction.word
        is_lane_instruction = self.instruction.is_lane_instruction
        common = self.instruction.common
        code = Signal(ConditionCode, init=ConditionCode.T)
        with m.If(is_lane_instruction):
            m.d.comb += code.eq(field_of(word, _LANE_TEST))
        with m.Elif(tests_condition(word)):
            m.d.comb += code.eq(field_of(word, FIELDS["test"]))
        table: Any = Signal(ConditionTable)
        m.d.comb += table.eq(condition_table(code.as_value()))
        condition = self.flags.condition
        carry_or_sign = Mux(table.reads_carry, condition.carry, condition.sign)
        outcome = Cat(condition.zero, carry_or_sign, condition.overflow)
        m.d.comb += self.test_holds.eq(table.outcomes.bit_select(outcome, 1))
        m.d.comb += self.guard_holds.eq(
            predicate_of(self.flags, common.guard) & (self.test_holds | is_lane_instruction))
        m.d.comb += self.predicate_holds.eq(predicate_of(self.flags, common.predicate))
        return m
