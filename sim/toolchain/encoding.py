"""From an instruction's text to its word: the form of the table whose operands fit.

The opposite of :mod:`sim.toolchain.spelling`: what that prints is encoded to the same word, bits that mean
nothing as the form's default has them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from rtl.isa.syntax import Choice, ConditionTest, Form, Immediate, Operand, Predicate, Register, ScoreboardSet
from rtl.isa.table import find

from .mnemonics import candidates
from .operands import Matcher, MismatchError, Reference, Scope, predicate_number
from .source import Instruction, SourceError

__all__ = ["Encoded", "encode"]


@dataclass(frozen=True)
class Encoded:
    """An instruction word, the reuse bits for its control code, and the number in it that is not known yet."""

    word: int
    reuse: int
    reference: Reference | None


def encode(instruction: Instruction, address: int, scope: Scope) -> Encoded:
    """The word of an instruction that stands at ``address``; SourceError when no form of it fits."""
    try:
        forms = candidates(str(instruction.mnemonic))
    except ValueError as error:
        raise SourceError(instruction.mnemonic, str(error)) from error
    given = instruction.operands or []
    mismatches: list[MismatchError] = []
    for form, modifiers in forms:
        for operands in _selections(form, len(given)):
            matcher = Matcher(form, modifiers, address, scope)
            try:
                matcher.match(operands, given)
            except MismatchError as error:
                mismatches.append(error)
                continue
            _set_guard(matcher, instruction)
            if find(matcher.word) is form and not form.refuses(form.values(matcher.word)):
                return Encoded(matcher.word, matcher.reuse, matcher.reference)
    raise _complaint(instruction, [form for form, _ in forms], len(given), mismatches)


def _optional(operand: Operand) -> bool:
    """Whether an operand may be left out of the text."""
    match operand:
        case Predicate(optional=optional) | Register(optional=optional):
            return optional
        case Immediate(default=default) | Choice(default=default):
            return default is not None
        case ConditionTest() | ScoreboardSet():
            return True
    return False


def _selections(form: Form, count: int) -> Iterator[list[Operand]]:
    """The form's operands without as many optional ones as leave ``count``, in every way."""
    operands = list(form.operands.values())
    optional = [index for index, operand in enumerate(operands) if _optional(operand)]
    if len(operands) >= count:
        for left_out in combinations(optional, len(operands) - count):
            yield [operand for index, operand in enumerate(operands) if index not in left_out]


def _set_guard(matcher: Matcher, instruction: Instruction) -> None:
    guard = instruction.guard
    if guard is None:
        return
    index = predicate_number(guard.predicate)
    if index is None:
        raise SourceError(guard.predicate, f"{guard.predicate} is no predicate: P0 to P6, and PT")
    if not matcher.form.guarded:
        raise SourceError(guard.predicate, f"{matcher.form.name} has no guard")
    matcher.put("guard", index, guard.predicate)
    matcher.put("guard_not", guard.negated is not None, guard.predicate)


def _complaint(instruction: Instruction, forms: list[Form], count: int, mismatches: list[MismatchError]) -> SourceError:
    """What is wrong when no form fits: what those say that fit longest."""
    if not mismatches:
        counts = sorted({len(operands) - left_out for form in forms
                         for operands in [form.operands.values()]
                         for left_out in range(sum(map(_optional, operands)) + 1)})
        if count in counts:
            return SourceError(instruction.mnemonic, f"{instruction.mnemonic} is illegal with these operands")
        expected = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
        return SourceError(instruction.mnemonic, f"{instruction.mnemonic} takes {expected} operands, not {count}")
    furthest = max(error.index for error in mismatches)
    found = [error for error in mismatches if error.index == furthest]
    found = [error for error in found if error.close] or found
    messages = dict.fromkeys(str(error) for error in found)
    if all(message.startswith(_EXPECTED) for message in messages):
        return SourceError(found[0].token, _EXPECTED + " or ".join(m.removeprefix(_EXPECTED) for m in messages))
    return SourceError(found[0].token, next(iter(messages)))


_EXPECTED = "expected "
