"""What has to be known of every instruction, whichever unit executes it."""

from collections.abc import Callable, Iterable

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.syntax import WORD_BITS, Constant, Form, Pipe, Predicate
from rtl.isa.table import FORMS
from rtl.word import field_of, pattern_of

__all__ = ["CommonDecoder"]

_WORD_ALIGNMENT = 3


def _patterns(chosen: Callable[[Form], bool]) -> Iterable[str]:
    return {pattern_of(form): None for form in FORMS if chosen(form)}


def _tests(form: Form) -> bool:
    """A flow instruction that tests CC."""
    return form.pipe is Pipe.FLOW and "test" in form.fields


def _reads_barrier_predicate(form: Form) -> bool:
    return form.pipe is Pipe.BARRIER and isinstance(form.operands.get("x"), Predicate)


def _goes_to_constant(form: Form) -> bool:
    """A flow instruction with a constant at a fixed address, in bytes."""
    target = form.operands.get("target")
    return form.pipe is Pipe.FLOW and isinstance(target, Constant) and target.index is None


class CommonDecoder(wiring.Component):
    """Guard, test and operands of instructions that are not the lanes' alone; combinational.

    Members
    -------
    word : In(64)
    guarded : Out(1)
        It has a guard.
    tested : Out(1)
        Its test of CC decides who executes it.
    votes : Out(1)
        It is a BAR with a predicate operand.
    misaligned : Out(1)
        Its constant operand is not a word of the bank.
    """

    word: In(WORD_BITS)
    guarded: Out(1)
    tested: Out(1)
    votes: Out(1)
    misaligned: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word = self.word
        constants = [form for form in FORMS if _goes_to_constant(form)]
        offset = field_of(word, constants[0].fields["offset"])
        assert all(form.fields["offset"] == constants[0].fields["offset"] for form in constants)
        m.d.comb += [
            self.guarded.eq(~word.matches(*_patterns(lambda form: not form.guarded))),
            self.tested.eq(word.matches(*_patterns(_tests))),
            self.votes.eq(word.matches(*_patterns(_reads_barrier_predicate))),
            self.misaligned.eq(word.matches(*_patterns(_goes_to_constant)) & (offset & _WORD_ALIGNMENT).any())]
        return m
