"""What the lanes do with an instruction: the decoded form that operands, lanes and results share."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.layouts import GATHER_REGISTERS

__all__ = ["LaneInstruction", "OperandSource", "PredicateOperand"]


class OperandSource(enum.Enum, shape=2):
    """Where an operand of 32 bits comes from."""

    REGISTER = 0
    CONSTANT = 1
    IMMEDIATE = 2


class PredicateOperand(data.Struct):
    """A predicate that is read, PT where there is none."""

    number: unsigned(3)
    negated: unsigned(1)


class LaneInstruction(data.Struct):
    """A decoded instruction of the lanes.

    Operands a, b and c are read through three ports of the register file, one each.
    """

    registers: data.ArrayLayout(8, GATHER_REGISTERS)
    """The registers of a, b and c; RZ where there is none."""
    source_b: OperandSource
    source_c: OperandSource
    immediate: unsigned(32)
    guard: PredicateOperand
    predicates: data.ArrayLayout(PredicateOperand, 3)
    """The predicate operands x, y and z."""
    destination: unsigned(8)
    """The register written; RZ: none."""
    p: unsigned(3)
    """The predicate that the first predicate result goes to; PT: none."""
    q: unsigned(3)
    """The predicate that the second predicate result goes to; PT: none."""
    writes_cc: unsigned(1)
