"""A decoded instruction of the lanes, as operands, lanes and results share it."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.isa.kinds import VoteMode
from rtl.layouts import GATHER_REGISTERS

from .control import LaneControl

__all__ = [
    "LaneDestination",
    "LaneInstruction",
    "OperandSource",
    "PredicateOperand",
    "ValueSource",
]


class OperandSource(enum.Enum, shape=2):
    """Where an operand of 32 bits comes from."""

    REGISTER = 0
    CONSTANT = 1
    IMMEDIATE = 2


class ValueSource(enum.Enum, shape=3):
    """Where operand a comes from. All but a register and the factors pass the lanes as they are, to
    the destination."""

    REGISTER = 0
    SPECIAL = 1
    """Special register number ``special``."""
    NEXT_PC = 2
    """The next instruction's pc."""
    BALLOT = 3
    """The executing threads of which predicate x holds. The verdict ``vote`` takes the place of x
    in the lanes."""
    ONE = 4
    """The floating-point number 1."""
    TURN = 5
    """The floating-point number 1 / (2 * pi)."""


class PredicateOperand(data.Struct):
    """A predicate that is read, PT where there is none."""

    number: unsigned(3)
    negated: unsigned(1)


class LaneDestination(data.Struct):
    """Where results go."""

    register: unsigned(8)
    """The register written; RZ: none."""
    p: unsigned(3)
    """The predicate that the first predicate result goes to; PT: none."""
    q: unsigned(3)
    """The predicate that the second predicate result goes to; PT: none."""
    writes_cc: unsigned(1)


class LaneInstruction(data.Struct):
    """A decoded instruction of the lanes.

    Operands a, b and c are read through three ports of the register file, one each. What has no
    effect may be anything: a register or an immediate that is no operand, ``special`` and ``vote``
    unless operand a comes from there.
    """

    registers: data.ArrayLayout(8, GATHER_REGISTERS)
    """The registers of a, b and c."""
    source_a: ValueSource
    source_b: OperandSource
    source_c: OperandSource
    immediate: unsigned(32)
    guard: PredicateOperand
    predicates: data.ArrayLayout(PredicateOperand, 3)
    """The predicate operands x, y and z."""
    destination: LaneDestination
    special: unsigned(8)
    """The special register that operand a comes from."""
    vote: VoteMode
    quad: unsigned(4)
    """The threads of each group of four that execute it; all of them but for MOV with a mask."""
    control: LaneControl
    """What the lanes do."""
