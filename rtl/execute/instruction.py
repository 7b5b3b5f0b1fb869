"""A decoded instruction of the lanes, which all stages from S3 on use."""

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
    """The source of operand b or c."""

    REGISTER = 0
    CONSTANT = 1
    IMMEDIATE = 2


class ValueSource(enum.Enum, shape=3):
    """The source of operand a. SPECIAL, NEXT_PC and BALLOT pass the lanes unchanged to the
    destination; ONE and TURN are factors."""

    REGISTER = 0
    SPECIAL = 1
    """Special register number ``special``."""
    NEXT_PC = 2
    """The next instruction's pc."""
    BALLOT = 3
    """The mask of executing threads in which predicate x holds (VOTE). The verdict of ``vote``
    replaces x in the lanes."""
    ONE = 4
    """The floating-point number 1."""
    TURN = 5
    """The floating-point number 1 / (2 * pi)."""


class PredicateOperand(data.Struct):
    """A predicate that is read, PT where there is none."""

    number: unsigned(3)
    negated: unsigned(1)


class LaneDestination(data.Struct):
    """The destinations of the results."""

    register: unsigned(8)
    """The register written; RZ: none."""
    p: unsigned(3)
    """The predicate to which the first predicate result is written; PT: none."""
    q: unsigned(3)
    """The predicate to which the second predicate result is written; PT: none."""
    writes_cc: unsigned(1)


class LaneInstruction(data.Struct):
    """A decoded instruction of the lanes.

    Operands a, b and c have a read port of the register file each. Fields without effect are
    undefined: a register or an immediate that is no operand; ``special`` and ``vote`` unless they
    are the source of operand a.
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
    """The number of the special register that is operand a."""
    vote: VoteMode
    quad: unsigned(4)
    """The threads of each quad (group of four) that may execute it: all, except for MOV with a
    mask."""
    control: LaneControl
    """The control signals of the lanes."""
