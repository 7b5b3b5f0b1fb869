"""The forms of instructions: the modifiers and operands of an opcode in a version of PTX."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from .instruction_table import Until, instruction_table
from .modifiers import Modifier, ModifierField
from .operand_kinds import AddressOperand, OperandKind, ResultOperand, SourceOperand

__all__ = [
    "BANKS_UNTIL",
    "FIRST_BANK",
    "Dialect",
    "InstructionForm",
    "flushing_opcodes",
    "forms",
    "opcodes",
    "reason_refused",
]

_READ_AS = {"barrier": "bar"}
"""Alternative spellings of opcodes."""

FIRST_BANK, BANKS_UNTIL = "const[0]", (2, 2)
"""The other name of const space, and the PTX version that removed it. The remaining banks were for
drivers.
"""

_SHORT_FLOATS = ("bf16", "bf16x2", "e4m3x2", "e5m2x2", "rna", "tf32")
"""Modifiers for floating-point formats below 32 bits, and their roundings."""


@dataclass(frozen=True)
class Dialect:
    """The version of PTX of a text, and the number of its target, 13 for sm_13."""

    version: tuple[int, int]
    target: int

    def precedes(self, until: Until) -> bool:
        """Whether a text is older than a version, or for a target below one."""
        return self.version < until.version or self.target < until.target


@dataclass(frozen=True)
class InstructionForm:
    """One way to write one instruction: a synopsis of the table for one of its opcodes.

    Modifiers may be in any order, as in NVIDIA's assembler, except types, whose order is fixed.
    ``implied`` are modifiers that the text omits.
    """

    opcode: str
    modifiers: tuple[Modifier, ...]
    operands: tuple[OperandKind, ...]
    implied: tuple[Modifier, ...] = ()
    until: Until | None = None

    @cached_property
    def implied_values(self) -> tuple[tuple[ModifierField, Any], ...]:
        """The attributes that the implied modifiers set, with their values."""
        return tuple(
            (place.field, value) for place in self.implied for value in place.values.values()
        )

    @cached_property
    def least_operands(self) -> int:
        """The least number of operands in the text."""
        return sum(not operand.optional for operand in self.operands)

    @cached_property
    def is_selective(self) -> bool:
        """Whether the text may select parts of registers or negate them, as in video
        instructions.
        """
        return any(
            isinstance(operand, ResultOperand | SourceOperand) and operand.is_selective
            for operand in self.operands
        )

    @cached_property
    def has_address(self) -> bool:
        """Whether an operand is a memory address."""
        return any(isinstance(operand, AddressOperand) for operand in self.operands)


@cache
def _all() -> Mapping[str, tuple[InstructionForm, ...]]:
    """Returns the forms of each opcode, as it is spelled."""
    found: dict[str, tuple[InstructionForm, ...]] = {}
    for synopsis in instruction_table():
        for opcode in synopsis.opcodes.split():
            form = InstructionForm(
                _READ_AS.get(opcode, opcode),
                tuple(synopsis.modifiers),
                tuple(synopsis.operands),
                tuple(synopsis.implied),
                synopsis.until,
            )
            found[opcode] = (*found.get(opcode, ()), form)
    return found


def opcodes() -> Iterable[str]:
    """Returns all opcodes, as they are spelled."""
    return _all().keys()


@cache
def flushing_opcodes() -> frozenset[str]:
    """Returns the opcodes that can flush subnormal numbers."""
    return frozenset(
        form.opcode
        for written in _all().values()
        for form in written
        if any(modifier.field is ModifierField.FLUSH for modifier in form.modifiers)
    )


@cache
def forms(opcode: str, dialect: Dialect) -> tuple[InstructionForm, ...]:
    """Returns the forms of an instruction; none for an unknown opcode."""
    return tuple(
        form
        for form in _all().get(opcode, ())
        if form.until is None or dialect.precedes(form.until)
    )


def reason_refused(word: str) -> str | None:
    """Returns why a modifier of PTX is not supported, or None if no reason is known."""
    if word in _SHORT_FLOATS:
        return "floating point of less than 32 bits is not supported"
    if word == "f16x2":
        return "needs sm_53, and this machine is sm_50"
    return None
