"""Flow instructions in the table: direct branches and calls, and where fetch continues after them
before the flow unit has executed them."""

from collections.abc import Collection
from typing import NamedTuple

from amaranth.hdl import Const, Mux, Value

from rtl.isa.condition import ConditionCode
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.syntax import PT, Field, Form, Pipe, Target
from rtl.isa.table import FORMS
from rtl.word import field_of, telling_patterns

__all__ = [
    "DIRECT_BRANCHES",
    "FLOW_FORMS",
    "has_form",
    "is_predicted_taken",
    "is_unconditional",
    "target_of",
]

FLOW_FORMS: tuple[Form, ...] = tuple(form for form in FORMS if form.pipe is Pipe.FLOW)
"""The instructions of the flow unit."""
_ALIGNMENT_BITS = (INSTRUCTION_BYTES - 1).bit_length()
_BRANCHES = ("BRA", "JMP")
_CALLS = ("CAL", "JCAL")


class _DirectTarget(NamedTuple):
    """Where the word of a direct branch or call has its target."""

    field: Field
    is_relative: bool
    """The target counts from the next instruction."""


def _direct_target(form: Form) -> _DirectTarget | None:
    """The target of a branch or call to a fixed address; None for other forms."""
    target = form.operands.get("target")
    if form.name not in _BRANCHES + _CALLS:
        return None
    if not isinstance(target, Target) or target.index is not None:
        return None
    return _DirectTarget(form.fields[target.field], target.relative)


DIRECT_BRANCHES: dict[Form, _DirectTarget] = {
    form: target for form in FLOW_FORMS if (target := _direct_target(form)) is not None}
"""Branches and calls to a fixed address, with their targets."""
_RELATIVE = [form for form, target in DIRECT_BRANCHES.items() if target.is_relative]
(_RELATIVE_FIELD,) = {DIRECT_BRANCHES[form].field for form in _RELATIVE}
(_ABSOLUTE_FIELD,) = {
    target.field for target in DIRECT_BRANCHES.values() if not target.is_relative}
"""Where targets are: all relative ones in one field of the word, all absolute ones in another."""


def has_form(word: Value, forms: Collection[Form]) -> Value:
    """Whether the word of a flow instruction has one of these forms."""
    others = [form for form in FLOW_FORMS if form not in forms]
    return word.matches(*telling_patterns(forms, others))


def target_of(word: Value, next_pc: Value) -> Value:
    """The target of a direct branch or call, whose next instruction is at ``next_pc``. It may be
    negative, or have more bits than a pc."""
    relative = next_pc + field_of(word, _RELATIVE_FIELD)
    return Mux(has_form(word, _RELATIVE), relative, field_of(word, _ABSOLUTE_FIELD))


def is_unconditional(word: Value, form: Form) -> Value:
    """Whether all active threads take a direct branch, and it cannot fail but by a target beyond
    the last or before the first address. A call can: its token may find no room."""
    if form.name in _CALLS:
        return Const(0, 1)
    target = field_of(word, DIRECT_BRANCHES[form].field)
    is_aligned = target[:_ALIGNMENT_BITS] == 0
    is_limited = field_of(word, form.fields["limited"])
    return _has_no_guard(word, form) & is_aligned & ~is_limited


def is_predicted_taken(word: Value, form: Form) -> Value:
    """Whether fetch continues at the target of a direct branch or call when that issues: a call; a
    branch without a guard; a branch backward, which is likely the end of a loop's body."""
    if form.name in _CALLS:
        return Const(1, 1)
    target = DIRECT_BRANCHES[form]
    if target.is_relative:
        return _has_no_guard(word, form) | field_of(word, target.field)[-1]
    return _has_no_guard(word, form)


def _has_no_guard(word: Value, form: Form) -> Value:
    """The guard is PT, and CC is not tested."""
    guard_is_true = (field_of(word, form.fields["guard"]) == PT) & ~field_of(
        word, form.fields["guard_not"])
    return guard_is_true & (field_of(word, form.fields["test"]) == ConditionCode.T.value)
