"""Kinds of operands: what may stand in one place of an instruction's text.

The table of instructions (:mod:`~sim.toolchain.ptx.forms`) consists of them, and :mod:`~sim.toolchain.ptx.operands`
reads an operand by its kind.
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
    """The type of an operand as one of the instruction's types, in written order."""

    FIRST = auto()
    SECOND = auto()
    THIRD = auto()
    TWICE_FIRST = auto()
    """The type like the first one with twice its bits."""


OperandType = Type | TypeOf


def type_of(kind: OperandType, types: Sequence[Type]) -> Type:
    """The type of an operand of an instruction that has these types."""
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
    """A kind of operands.

    ``optional``: it may be left out. A Sink takes its place where a later operand is written.
    """

    optional: bool = False


@dataclass(frozen=True)
class ResultOperand(OperandKind):
    """A register that receives a result.

    Attributes:
        type: The result's type.
        wider: Whether the register may be wider.
        sink: Whether ``_`` may stand here.
        subword: Whether a byte or half of the register may be named, as in ``r.b0``.
        lanes: Of SIMD video instructions: how many bytes or halves the register has, of which some may be named, as in
            ``r.b320``. 0: none may.
    """

    type: OperandType
    wider: bool = False
    sink: bool = False
    subword: bool = False
    lanes: int = 0

    @property
    def is_selective(self) -> bool:
        """Whether the text may say which part of the register receives the result."""
        return self.subword or self.lanes > 0


@dataclass(frozen=True)
class ResultAndPredicate(OperandKind):
    """``d|p``: a register for a result, and perhaps another one for a predicate. They are two operands."""

    type: OperandType


@dataclass(frozen=True)
class SourceOperand(OperandKind):
    """A register or a number.

    Attributes:
        type: The operand's type.
        wider: Whether a register may be wider. A special register may stand here, too.
        complement: Whether ``!p`` may stand here, where the type is that of predicates.
        minus: Whether ``-r`` may stand here.
        subword: Whether a byte or half of the register may be named, as in ``r.h1``.
        lanes: Of SIMD video instructions: how many bytes or halves the operand consists of. Which ones of both sources
            these are may be named, as in ``r.b7654``. 0: they may not.
    """

    type: OperandType
    wider: bool = False
    complement: bool = False
    minus: bool = False
    subword: bool = False
    lanes: int = 0

    @property
    def is_selective(self) -> bool:
        """Whether the text may say which part of the register is read, or that it is negated."""
        return self.subword or self.minus or self.lanes > 0


@dataclass(frozen=True)
class SourceRegister(OperandKind):
    """A register; a number is refused."""

    type: OperandType


@dataclass(frozen=True)
class AddressRegister(OperandKind):
    """A register of 32 or 64 bits that has a generic address."""


@dataclass(frozen=True)
class PointerSource(OperandKind):
    """What cvta converts: a register, a number, or the address of a variable."""

    type: OperandType


@dataclass(frozen=True)
class AddressOperand(OperandKind):
    """``[r + 4]``: an address in memory."""


@dataclass(frozen=True)
class LoadResult(OperandKind):
    """What ld writes: a register, or a vector of as many as the instruction says."""


@dataclass(frozen=True)
class StoreSource(OperandKind):
    """What st reads: a register or a number, or a vector of as many as the instruction says."""


@dataclass(frozen=True)
class MoveResult(OperandKind):
    """What mov writes: a register, or a vector that the source is divided over."""


@dataclass(frozen=True)
class MoveSource(OperandKind):
    """What mov reads: a value of any kind, or a vector whose elements make one value."""


@dataclass(frozen=True)
class NumberBelow(OperandKind):
    """A constant, at least 0 and less than ``limit``."""

    limit: int


@dataclass(frozen=True)
class BarrierNumber(OperandKind):
    """The number of a barrier: a register or a constant."""


@dataclass(frozen=True)
class ThreadCount(OperandKind):
    """How many threads a barrier counts: a register or a constant, a multiple of a warp's threads."""


class ControlOperands(OperandKind):
    """All operands of an instruction that changes the flow of control: they are no values."""


class BranchTarget(ControlOperands):
    """Of bra: a label."""


class IndexedBranchTargets(ControlOperands):
    """Of brx.idx: an index, and the label of a list of labels."""


class CallOperands(ControlOperands):
    """Of call: results, a function or a register with its address, arguments, what may be called."""
