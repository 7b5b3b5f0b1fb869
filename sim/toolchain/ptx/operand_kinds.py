"""Kinds of operands: what is allowed in one place of an instruction's text.

The table of instructions (:mod:`~sim.toolchain.ptx.forms`) consists of them, and
:mod:`~sim.toolchain.ptx.operands` reads an operand by its kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from .module import Type

__all__ = [
    "AddressOperand",
    "AddressRegister",
    "BarrierNumber",
    "BranchTarget",
    "CallOperands",
    "ControlOperands",
    "IndexedBranchTargets",
    "LoadResult",
    "MoveResult",
    "MoveSource",
    "NumberBelow",
    "OperandKind",
    "OperandType",
    "PointerSource",
    "ResultAndPredicate",
    "ResultOperand",
    "SourceOperand",
    "SourceRegister",
    "StoreSource",
    "ThreadCount",
    "TypeOf",
    "type_of",
]

_TWICE = {Type.U16: Type.U32, Type.S16: Type.S32, Type.U32: Type.U64, Type.S32: Type.S64}


class TypeOf(Enum):
    """The type of an operand, as one of the instruction's types in the order of the text."""

    FIRST = auto()
    SECOND = auto()
    THIRD = auto()
    TWICE_FIRST = auto()
    """The first type with twice its bits."""


OperandType = Type | TypeOf


def type_of(kind: OperandType, types: Sequence[Type]) -> Type:
    """Returns the type of an operand of an instruction with these types."""
    match kind:
        case Type():
            return kind
        case TypeOf.FIRST:
            return types[0]
        case TypeOf.SECOND:
            return types[1]
        case TypeOf.THIRD:
            return types[2]
        case TypeOf.TWICE_FIRST:
            return _TWICE[types[0]]


@dataclass(frozen=True, kw_only=True)
class OperandKind:
    """A kind of operand.

    ``optional`` operands may be omitted. A Sink takes the place of an omitted operand before a
    written one.
    """

    optional: bool = False


@dataclass(frozen=True)
class ResultOperand(OperandKind):
    """A register that receives a result.

    Attributes:
        type: The result's type.
        wider: Whether the register may be wider.
        sink: Whether ``_`` is allowed.
        subword: Whether a byte or half of the register may be selected, as in ``r.b0``.
        lanes: For SIMD video instructions the number of bytes or halves of the register, of which
            some may be selected, as in ``r.b320``. 0: no selection.
    """

    type: OperandType
    wider: bool = False
    sink: bool = False
    subword: bool = False
    lanes: int = 0

    @property
    def is_selective(self) -> bool:
        """Whether the text may select the part of the register that receives the result."""
        return self.subword or self.lanes > 0


@dataclass(frozen=True)
class ResultAndPredicate(OperandKind):
    """``d|p``: a register for a result, and optionally another one for a predicate. They are two
    operands.
    """

    type: OperandType


@dataclass(frozen=True)
class SourceOperand(OperandKind):
    """A register or a number.

    Attributes:
        type: The operand's type.
        wider: Whether a register may be wider. A special register is then also allowed.
        complement: Whether ``!p`` is allowed for a predicate.
        minus: Whether ``-r`` is allowed.
        subword: Whether a byte or half of the register may be selected, as in ``r.h1``.
        lanes: For SIMD video instructions the number of bytes or halves of the operand. They may be
            selected from both sources, as in ``r.b7654``. 0: no selection.
    """

    type: OperandType
    wider: bool = False
    complement: bool = False
    minus: bool = False
    subword: bool = False
    lanes: int = 0

    @property
    def is_selective(self) -> bool:
        """Whether the text may select the part of the register that is read, or negate it."""
        return self.subword or self.minus or self.lanes > 0


@dataclass(frozen=True)
class SourceRegister(OperandKind):
    """A register; numbers are not allowed."""

    type: OperandType


@dataclass(frozen=True)
class AddressRegister(OperandKind):
    """A register of 32 or 64 bits with a generic address."""


@dataclass(frozen=True)
class PointerSource(OperandKind):
    """The source of cvta: a register, a number, or the address of a variable."""

    type: OperandType


@dataclass(frozen=True)
class AddressOperand(OperandKind):
    """``[r + 4]``: an address in memory."""


@dataclass(frozen=True)
class LoadResult(OperandKind):
    """The result of ld: a register, or a vector of the instruction's length."""


@dataclass(frozen=True)
class StoreSource(OperandKind):
    """The source of st: a register or a number, or a vector of the instruction's length."""


@dataclass(frozen=True)
class MoveResult(OperandKind):
    """The result of mov: a register, or a vector into which the source is split."""


@dataclass(frozen=True)
class MoveSource(OperandKind):
    """The source of mov: a value of any kind, or a vector whose elements are packed into one
    value.
    """


@dataclass(frozen=True)
class NumberBelow(OperandKind):
    """A constant from 0 to ``limit`` - 1."""

    limit: int


@dataclass(frozen=True)
class BarrierNumber(OperandKind):
    """The number of a barrier: a register or a constant."""


@dataclass(frozen=True)
class ThreadCount(OperandKind):
    """The number of threads at a barrier: a register or a constant, a multiple of the warp size."""


class ControlOperands(OperandKind):
    """All operands of a control flow instruction, which are not values."""


class BranchTarget(ControlOperands):
    """The operand of bra: a label."""


class IndexedBranchTargets(ControlOperands):
    """The operands of brx.idx: an index, and the label of a target list."""


class CallOperands(ControlOperands):
    """The operands of call: results, a function or a register with its address, arguments, and
    possible targets.
    """
