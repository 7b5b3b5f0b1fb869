"""From an instruction's text to an :class:`~sim.toolchain.ptx.module.Instruction`."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sim.toolchain.grammar import SourceError

from . import syntax
from .control import CONTROL
from .forms import Form, ModifierItem, flushing_opcodes, forms, reason_refused
from .module import (
    Boolean,
    Comparison,
    Guard,
    Half,
    Instruction,
    Operand,
    Register,
    Sink,
    Space,
    Type,
    Variable,
)
from .module import Scope as MemoryScope
from .names import Scope
from .operands import OperandReader
from .parts import check_parts, with_parts

__all__ = ["read_guard", "read_instruction", "with_flush_of_target"]

_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
"""Comparisons that are another's spelling for unsigned numbers."""


@dataclass(frozen=True)
class _State:
    """A form with the modifiers that were read: the next item is at ``at``."""

    form: Form
    at: int = 0
    taken: tuple[tuple[str, str], ...] = field(default=())

    def after(self, word: str) -> "_State | None":
        """The state behind one more modifier; None where the form has no place for it."""
        for at in range(self.at, len(self.form.modifiers)):
            item = self.form.modifiers[at]
            if word in item.words:
                return _State(self.form, at + 1, (*self.taken, (item.field, word)))
            if not item.optional:
                return None
        return None

    @property
    def rest(self) -> tuple[ModifierItem, ...]:
        """Items that may come next: up to the first that must."""
        items = self.form.modifiers[self.at:]
        must = next((number for number, item in enumerate(items) if not item.optional), len(items) - 1)
        return items[:must + 1]

    @property
    def complete(self) -> bool:
        """Whether no modifier lacks."""
        return all(item.optional for item in self.rest)


def _expected(states: Sequence[_State]) -> str:
    words = sorted({f".{word}" for state in states for item in state.rest for word in item.words})
    return f"expected {', '.join(words)}" if words else "expected none"


def _match(node: syntax.Instruction) -> _State:
    """The form of an instruction, with its modifiers."""
    opcode, written = node.opcode, str(node.opcode)
    states = [_State(form) for form in forms(opcode)]
    if not states:
        reason = reason_refused(opcode)
        raise SourceError(opcode, f"{opcode}: {reason}" if reason else f"unknown instruction {opcode}")
    for token in node.modifiers:
        word = token[1:]
        following = [state for state in (state.after(word) for state in states) if state is not None]
        if not following:
            reason = reason_refused(word)
            raise SourceError(token, f"{written}{token}: {reason}" if reason else
                              f"{written} has no modifier {token} here: {_expected(states)}")
        states, written = following, f"{written}{token}"
    complete = [state for state in states if state.complete]
    if not complete:
        raise SourceError(opcode, f"{written} lacks a modifier: {_expected(states)}")
    return complete[0]


def _fields(state: _State) -> dict[str, Any]:
    """The modifiers as an Instruction has them."""
    found: dict[str, Any] = {"types": ()}
    for name, word in state.taken:
        match name:
            case "":
                pass
            case "types":
                found["types"] += (Type(word),)
            case "half":
                found[name] = Half(word)
            case "compare":
                found[name] = Comparison(_UNSIGNED.get(word, word))
            case "combine":
                found[name] = Boolean(word)
            case "space":
                found[name] = Space(word)
            case "scope":
                found[name] = MemoryScope(word)
            case "vector":
                found[name] = int(word[1:])
            case "scale":
                found[name] = int(word.removeprefix("shr"))
            case "clamp":
                found[name] = word == "clamp"
            case "operation" | "cache" | "reduction" | "rounding" | "approximation":
                found[name] = word
            case _:
                found[name] = True
    return found


_FIRST_OF_LONG_CVT = (1, 5)
"""The version of PTX since which cvt between single precision and 64 bits flushes for sm_1x."""


def with_flush_of_target(instruction: Instruction, target: str, version: tuple[int, int]) -> Instruction:
    """The instruction as machines before sm_20 execute it: single precision is flushed, with or without .ftz. (Up to
    PTX 1.4 not by cvt from or to 64 bits.)
    """
    types = instruction.types
    if not target.startswith("sm_1") or instruction.opcode not in flushing_opcodes():
        return instruction
    single = Type.F32 in types if instruction.opcode == "cvt" else types[-1] is Type.F32
    long_cvt = instruction.opcode == "cvt" and any(kind.bits == 64 for kind in types)
    if not single or (long_cvt and version < _FIRST_OF_LONG_CVT):
        return instruction
    return replace(instruction, flush=True)


def read_guard(guard: syntax.Guard | None, scope: Scope) -> Guard | None:
    """``@p``: a register that is a predicate."""
    if guard is None:
        return None
    register = scope.find(guard.predicate)
    if register is None:
        raise SourceError(guard.predicate, f"{guard.predicate} is not declared here")
    if not isinstance(register, Register) or register.type is not Type.PRED:
        raise SourceError(guard.predicate, f"{guard.predicate} is no predicate: a guard is a register of type .pred")
    return Guard(register, guard.negated is not None)


def read_instruction(node: syntax.Instruction, scope: Scope, readonly: frozenset[Variable], entry: bool) -> Instruction:
    """The instruction of a statement, with the function's parameters; SourceError says what is wrong with it."""
    state = _match(node)
    opcode = node.opcode
    instruction = Instruction(opcode=state.form.opcode, line=opcode.line or 1, column=opcode.column or 1,
                              guard=read_guard(node.guard, scope), **_fields(state))
    if (instruction.opcode == "cvt" and instruction.saturate and not any(kind.floating for kind in instruction.types)
            and instruction.types[0].holds(instruction.types[1])):
        to, source = (kind.value for kind in instruction.types)
        raise SourceError(opcode, f"cvt.sat.{to}.{source} has nothing to saturate: .{to} has every number of .{source}")
    reader = OperandReader(scope, instruction, readonly, entry)
    patterns = state.form.operands
    if patterns and patterns[0] in CONTROL:
        return CONTROL[patterns[0]](reader, node)
    nodes = node.operands
    if any(pattern[-1] in ".-%" for pattern in patterns):
        patterns, nodes, instruction = with_parts(instruction, patterns, nodes)
    least = sum(not pattern.endswith("?") for pattern in patterns)
    if not least <= len(nodes) <= len(patterns):
        raise SourceError(opcode, _count_message(node, least, len(patterns)))
    if instruction.parts:
        check_parts(instruction, node)
    if patterns and patterns[0] == "M>":
        return replace(instruction, operands=reader.move(nodes, instruction.type))
    return replace(instruction, operands=_operands(reader, patterns, nodes), space=_space(reader, patterns, nodes))


def _operands(reader: OperandReader, patterns: Sequence[str],
              nodes: Sequence[syntax.OperandNode]) -> tuple[Operand, ...]:
    found: list[Operand] = []
    rest = list(nodes)
    for at, pattern in enumerate(patterns):
        if pattern.endswith("?") and len(rest) < len(patterns) - at:
            if rest:
                found.append(Sink())
            continue
        found += reader.read(pattern, rest.pop(0))
    return tuple(found)


def _space(reader: OperandReader, patterns: Sequence[str], nodes: Sequence[syntax.OperandNode]) -> Space | None:
    """The instruction's space: that of the variable it names, where it does not say."""
    if "[]" not in patterns:
        return reader.instruction.space
    _, space = reader.address(nodes[patterns.index("[]")], store=False)
    return space


def _count_message(node: syntax.Instruction, least: int, most: int) -> str:
    count = f"{least}" if least == most else f"{least} to {most}"
    plural = "s" if most != 1 else ""
    return f"{node.opcode} takes {count} operand{plural}, not {len(node.operands)}"


