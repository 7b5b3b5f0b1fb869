"""Reads an instruction's text as a :class:`~sim.toolchain.ptx.module.PtxInstruction`."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from sim.toolchain.grammar import SourceError, line_and_column

from . import syntax
from .control import CONTROL
from .forms import (
    BANKS_UNTIL,
    FIRST_BANK,
    Dialect,
    InstructionForm,
    flushing_opcodes,
    forms,
    reason_refused,
)
from .machines import first_machine, is_texture
from .modifiers import Modifier, ModifierField
from .module import Operand, PtxGuard, PtxInstruction, PtxRegister, PtxVariable, Sink, Type
from .names import Scope, TextureError
from .operand_kinds import ControlOperands, MoveResult, OperandKind
from .operand_selectors import check_selectors, without_selectors
from .operands import OperandReader

__all__ = ["read_guard", "read_instruction", "with_flush_of_target"]

_SAME = {"shared::cta": "shared", "param::entry": "param", "param::func": "param"}
"""Modifiers that are equivalent on a machine without clusters."""
_BRACKETS = (1, 2)
"""The first version in which addresses are in brackets."""


@dataclass(frozen=True)
class _PartialForm:
    """A form with the modifiers read so far: ``chosen`` are the attributes that they set, ``rest``
    the places that are still empty.
    """

    form: InstructionForm
    rest: tuple[Modifier, ...]
    chosen: tuple[tuple[ModifierField, Any], ...] = ()

    def after(self, word: str) -> "_PartialForm | None":
        """Returns the state after one more modifier, or None if the form has no place for it."""
        for at, place in self._next():
            if word in place.values:
                before = tuple(other for other in self.rest[:at] if not other.after_opcode)
                value = place.values[word]
                return _PartialForm(
                    self.form, before + self.rest[at + 1 :], (*self.chosen, (place.field, value))
                )
        return None

    def _next(self) -> Iterator[tuple[int, Modifier]]:
        """Yields the places that the next modifier may take, with their indices in ``rest``. The
        order of types is fixed.
        """
        typed = False
        for at, place in enumerate(self.rest):
            if place.field is ModifierField.TYPES and typed:
                continue
            typed |= place.field is ModifierField.TYPES
            yield at, place
            if place.after_opcode and not place.optional:
                return

    @property
    def words(self) -> set[str]:
        """The modifiers that may follow."""
        return {f".{word}" for _, place in self._next() for word in place.values}

    @property
    def missing(self) -> tuple[Modifier, ...]:
        """The mandatory places that are still empty."""
        return tuple(place for place in self.rest if not place.optional)

    @cached_property
    def instruction(self) -> PtxInstruction:
        """An instruction with the modifiers, without a place in the text."""
        attributes: dict[str, Any] = {}
        types: list[Type] = []
        for attribute, value in (*self.chosen, *self.form.implied_values):
            if attribute is ModifierField.TYPES:
                types.append(value)
            elif attribute is not ModifierField.IGNORED:
                attributes[attribute.value] = value
        return PtxInstruction(
            opcode=self.form.opcode, line=1, column=1, types=tuple(types), **attributes
        )


def _expected(states: Sequence[_PartialForm]) -> str:
    words = sorted(set().union(*(state.words for state in states)))
    return f"expected {', '.join(words)}" if words else "expected none"


@cache
def _matched(spelled: str, dialect: Dialect) -> _PartialForm | None:
    """Returns the form of an opcode with its modifiers, or None."""
    opcode, *modifiers = (word for word, _ in syntax.words_of(spelled))
    states = [_PartialForm(form, form.modifiers) for form in forms(opcode, dialect)]
    for modifier in modifiers:
        word = _plain(modifier, dialect)
        states = [state for state in (state.after(word) for state in states) if state is not None]
    return next((state for state in states if not state.missing), None)


def _match(node: syntax.InstructionNode, dialect: Dialect) -> _PartialForm:
    """Returns the form of an instruction, with its modifiers."""
    found = _matched(node.spelled, dialect)
    if found is not None:
        return found
    opcode = node.opcode
    if is_texture(opcode):
        raise TextureError(opcode, "")
    machine = first_machine(opcode, [token[1:] for token in node.modifiers])
    if machine is not None:
        raise SourceError(opcode, f"{node.spelled}: needs {machine}, and this machine is sm_50")
    raise _mismatch(node, [_plain(token, dialect) for token in node.modifiers], dialect)


def _plain(modifier: str, dialect: Dialect) -> str:
    """Returns a modifier without its dot, as forms spell it."""
    word = modifier[1:]
    if word == FIRST_BANK and dialect.version < BANKS_UNTIL:
        return "const"
    return _SAME.get(word, word)


def _mismatch(node: syntax.InstructionNode, words: Sequence[str], dialect: Dialect) -> SourceError:
    """Returns the error for an opcode with modifiers that no form has."""
    opcode, written = node.opcode, str(node.opcode)
    states = [_PartialForm(form, form.modifiers) for form in forms(opcode, dialect)]
    if not states:
        return SourceError(opcode, f"unknown instruction {opcode}")
    for token, word in zip(node.modifiers, words, strict=True):
        following = [
            state for state in (state.after(word) for state in states) if state is not None
        ]
        if not following:
            reason = reason_refused(word)
            return SourceError(
                token,
                f"{written}{token}: {reason}"
                if reason
                else f"{written} has no modifier {token} here: {_expected(states)}",
            )
        states, written = following, f"{written}{token}"
    least = min(len(state.missing) for state in states)
    wanted = {
        f".{word}"
        for state in states
        if len(state.missing) == least
        for place in state.missing[:1]
        for word in place.values
    }
    return SourceError(opcode, f"{written} lacks a modifier: expected {', '.join(sorted(wanted))}")


_FIRST_OF_LONG_CVT = (1, 5)
"""The PTX version since which cvt between single precision and 64 bits flushes for sm_1x."""


_FIRST_WITH_SUBNORMALS = 20
"""The number of the first machine with subnormal numbers in single precision: sm_20."""


def with_flush_of_target(instruction: PtxInstruction, dialect: Dialect) -> PtxInstruction:
    """Returns the instruction as its target executes it: before sm_20 single precision is flushed
    even without .ftz, except, up to PTX 1.4, by cvt from or to 64 bits.
    """
    types = instruction.types
    if dialect.target >= _FIRST_WITH_SUBNORMALS or instruction.opcode not in flushing_opcodes():
        return instruction
    single = Type.F32 in types if instruction.opcode == "cvt" else types[-1] is Type.F32
    long_cvt = instruction.opcode == "cvt" and any(kind.bits == 64 for kind in types)
    if not single or (long_cvt and dialect.version < _FIRST_OF_LONG_CVT):
        return instruction
    return instruction.changed(flush=True)


def read_guard(guard: syntax.GuardNode | None, scope: Scope) -> PtxGuard | None:
    """Reads the guard ``@p``, a predicate register."""
    if guard is None:
        return None
    register = scope.find(guard.predicate)
    if register is None:
        raise SourceError(guard.predicate, f"{guard.predicate} is not declared here")
    if not isinstance(register, PtxRegister) or register.type is not Type.PRED:
        raise SourceError(
            guard.predicate,
            f"{guard.predicate} is no predicate: a guard is a register of type .pred",
        )
    return PtxGuard(register, guard.negated is not None)


def read_instruction(
    node: syntax.InstructionNode,
    scope: Scope,
    readonly: Set[PtxVariable],
    results: Set[PtxVariable],
    entry: bool,
    dialect: Dialect,
) -> list[PtxInstruction]:
    """Reads a statement of a function with these parameters and results.

    Returns:
        Instructions that compute operands, then the instruction itself, or one for each element in
        a mov of vectors.

    Raises:
        SourceError: The statement is not valid.
    """
    state, place = _match(node, dialect), node.words[0]
    line, column = line_and_column(place)
    instruction = state.instruction.changed(
        line=line, column=column, guard=read_guard(node.guard, scope)
    )
    if (
        instruction.opcode == "cvt"
        and instruction.saturate
        and not any(kind.floating for kind in instruction.types)
        and instruction.types[0].holds(instruction.types[1])
    ):
        to, source = (kind.value for kind in instruction.types)
        raise SourceError(
            place,
            f"cvt.sat.{to}.{source} has nothing to saturate: .{to} has every number of .{source}",
        )
    reader = OperandReader(
        scope, instruction, readonly, results, entry, dialect.version < _BRACKETS
    )
    found = _with_operands(reader, node, state.form)
    return [*reader.before, *found]


def _with_operands(
    reader: OperandReader, node: syntax.InstructionNode, form: InstructionForm
) -> list[PtxInstruction]:
    """Returns the instruction with its operands."""
    instruction, nodes, kinds = reader.instruction, node.operands, form.operands
    first = kinds[0] if kinds else None
    if isinstance(first, ControlOperands):
        return [CONTROL[type(first)](reader, node)]
    if form.is_selective:
        nodes, instruction = without_selectors(instruction, kinds, nodes)
    if not form.least_operands <= len(nodes) <= len(kinds):
        raise SourceError(node.opcode, _count_message(node, form.least_operands, len(kinds)))
    if form.is_selective:
        check_selectors(instruction, node)
    if isinstance(first, MoveResult):
        if instruction.vector > 1:
            return reader.move_vector(nodes, instruction.type, instruction.vector)
        return [instruction.changed(operands=reader.move(nodes, instruction.type))]
    operands = _operands(reader, kinds, nodes)
    space = reader.space if form.has_address else instruction.space
    return [instruction.changed(operands=operands, space=space)]


def _operands(
    reader: OperandReader, kinds: Sequence[OperandKind], nodes: Sequence[syntax.OperandNode]
) -> tuple[Operand, ...]:
    found: list[Operand] = []
    rest = list(nodes)
    for at, kind in enumerate(kinds):
        if kind.optional and len(rest) < len(kinds) - at:
            if rest:
                found.append(Sink())
            continue
        found += reader.read(kind, rest.pop(0))
    return tuple(found)


def _count_message(node: syntax.InstructionNode, least: int, most: int) -> str:
    count = f"{least}" if least == most else f"{least} to {most}"
    plural = "s" if most != 1 else ""
    return f"{node.opcode} takes {count} operand{plural}, not {len(node.operands)}"
