"""Encodes an instruction's text: selects the form of the table whose operands fit.

It is the inverse of :mod:`sim.toolchain.assembly.spelling`: the text that this prints is encoded as
the same word, with don't-care bits from the form's default.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from rtl.isa.syntax import (
    Choice,
    ConditionTest,
    Form,
    Immediate,
    Operand,
    Predicate,
    Register,
    ScoreboardSet,
)
from rtl.isa.table import find

from . import source
from .mnemonics import candidates
from .operands import (
    Matcher,
    NameResolver,
    OperandMismatchError,
    OperandShape,
    Reference,
    fitting_kinds,
    kind_of,
    predicate_number,
)
from .source import SassInstruction, SourceError

__all__ = ["Encoded", "encode", "legal_form"]


@dataclass(frozen=True)
class Encoded:
    """An instruction word, the reuse bits for its control code, and the unresolved number in it.

    ``settled`` says that the word does not depend on the instruction's address, as it contains no
    name.
    """

    word: int
    reuse: int
    reference: Reference | None
    settled: bool


def encode(instruction: SassInstruction, address: int, scope: NameResolver) -> Encoded:
    """Returns the word of an instruction at ``address``.

    Raises:
        SourceError: No form of the instruction fits.
    """
    given = instruction.operands or []
    try:
        choices = _choices(str(instruction.mnemonic), len(given))
    except ValueError as error:
        raise SourceError(instruction.mnemonic, str(error)) from error
    kinds = [kind_of(operand) for operand in given]
    settled = True
    for choice in choices:
        if not all(kind in fitting for kind, fitting in zip(kinds, choice.kinds, strict=True)):
            continue
        matcher = Matcher(choice.form, choice.word, address, scope)
        try:
            matcher.match(choice.operands, given)
        except OperandMismatchError:
            settled &= matcher.settled
            continue
        _set_guard(matcher, instruction)
        if legal_form(matcher.word) is choice.form:
            return Encoded(
                matcher.word, matcher.reuse, matcher.reference, settled and matcher.settled
            )
    raise _complaint(instruction, given, address, scope)


@dataclass(frozen=True)
class _Choice:
    """One interpretation of an instruction: the form, its word with all modifiers, the operands
    that the text has, and their kinds.
    """

    form: Form
    word: int
    operands: tuple[Operand, ...]
    kinds: tuple[frozenset[OperandShape], ...]


@lru_cache(maxsize=4096)
def _choices(mnemonic: str, count: int) -> tuple[_Choice, ...]:
    """Returns the interpretations of a mnemonic with ``count`` operands.

    Raises:
        ValueError: There is none; the message gives the reason.
    """
    found = []
    for form, modifiers in candidates(mnemonic):
        word = form.default
        for field, value in modifiers.items():
            word = form.fields[field].put(word, value)
        found += [
            _Choice(form, word, tuple(operands), tuple(map(fitting_kinds, operands)))
            for operands in _selections(form, count)
        ]
    return tuple(found)


@lru_cache(1 << 16)
def legal_form(word: int) -> Form | None:
    """Returns the form of a word, or None if the machine refuses it."""
    form = find(word)
    return None if form is None or form.refuses(form.values(word)) else form


def _optional(operand: Operand) -> bool:
    """Whether an operand may be omitted in the text."""
    match operand:
        case Predicate(optional=optional) | Register(optional=optional):
            return optional
        case Immediate(default=default) | Choice(default=default):
            return default is not None
        case ConditionTest() | ScoreboardSet():
            return True
    return False


def _selections(form: Form, count: int) -> Iterator[list[Operand]]:
    """Yields the form's operands with optional ones omitted in all possible ways that leave
    ``count``.
    """
    operands = list(form.operands.values())
    optional = [index for index, operand in enumerate(operands) if _optional(operand)]
    if len(operands) >= count:
        for left_out in combinations(optional, len(operands) - count):
            yield [operand for index, operand in enumerate(operands) if index not in left_out]


def _set_guard(matcher: Matcher, instruction: SassInstruction) -> None:
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


def _complaint(
    instruction: SassInstruction,
    given: Sequence[source.SassOperand],
    address: int,
    scope: NameResolver,
) -> SourceError:
    """Returns the error for an instruction that fits no form: the objections of the forms that
    match furthest.
    """
    count = len(given)
    mismatches = []
    for choice in _choices(str(instruction.mnemonic), count):
        try:
            Matcher(choice.form, choice.word, address, scope).match(choice.operands, given)
        except OperandMismatchError as error:
            mismatches.append(error)
    if not mismatches:
        forms = [form for form, _ in candidates(str(instruction.mnemonic))]
        counts = sorted(
            {
                len(operands) - left_out
                for form in forms
                for operands in [form.operands.values()]
                for left_out in range(sum(map(_optional, operands)) + 1)
            }
        )
        if count in counts:
            return SourceError(
                instruction.mnemonic, f"{instruction.mnemonic} is illegal with these operands"
            )
        expected = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
        return SourceError(
            instruction.mnemonic, f"{instruction.mnemonic} takes {expected} operands, not {count}"
        )
    furthest = max(error.index for error in mismatches)
    found = [error for error in mismatches if error.index == furthest]
    found = [error for error in found if error.close] or found
    messages = dict.fromkeys(str(error) for error in found)
    # In compiled code, the place of a message is that of the instruction.
    place = found[0].token if found[0].token.line is not None else instruction.mnemonic
    if all(message.startswith(_EXPECTED) for message in messages):
        return SourceError(
            place, _EXPECTED + " or ".join(m.removeprefix(_EXPECTED) for m in messages)
        )
    return SourceError(place, next(iter(messages)))


_EXPECTED = "expected "
