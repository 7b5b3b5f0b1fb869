"""What the unit does with an instruction: the decoded form that its parts share."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.isa.kinds import Boolean, FloatRounding
from rtl.isa.syntax import PT, RZ
from rtl.layouts import SEQUENCE_BITS
from rtl.params import WARP_THREADS, SmParams

__all__ = [
    "DOUBLE_BITS",
    "WORD_BITS",
    "DecodedDouble",
    "DoubleInstruction",
    "DoubleOperation",
    "Uniform",
    "buffered_instruction",
    "double_entry",
    "gathered_instruction",
]

DOUBLE_BITS = 64
WORD_BITS = 32


class DoubleOperation(enum.Enum, shape=3):
    """What is computed."""

    ADD = 0
    """DADD: a * 1 + b."""
    MULTIPLY = 1
    """DMUL: a * b + a zero of its sign."""
    FUSED = 2
    """DFMA: a * b + c."""
    CHOOSE = 3
    """DMNMX: the lesser or greater of a and b, * 1 + a zero of its sign."""
    TEST = 4
    """DSETP: predicates."""
    TEST_TO_REGISTER = 5
    """DSET: a register."""


class Uniform(enum.Enum, shape=2):
    """Where an operand comes from that is the same in all threads."""

    NONE = 0
    """All operands are in registers."""
    IMMEDIATE = 1
    """The word in the instruction is its upper one, its lower one is 0."""
    CONSTANT = 2
    """The word that was dispatched is its lower one; the unit requests its upper one."""


class DoubleInstruction(data.Struct):
    """A decoded instruction; what does not apply to its operation is 0."""

    operation: DoubleOperation
    negate_a: unsigned(1)
    absolute_a: unsigned(1)
    negate_b: unsigned(1)
    absolute_b: unsigned(1)
    negate_c: unsigned(1)
    round: FloatRounding
    compare: unsigned(4)
    """The outcomes for which a relation holds: less, equal, greater, unordered."""
    combine: Boolean
    one: unsigned(1)
    """DSET gives 1.0 where it holds, not all ones."""


class DecodedDouble(data.Struct):
    """What the word of an instruction says."""

    instruction: DoubleInstruction
    registers: data.ArrayLayout(8, 3) = [RZ, RZ, RZ]
    """Of a, b and c; RZ where there is none, or where it is uniform."""
    uniform: Uniform
    """Where the operand comes from that is the same in all threads."""
    uniform_c: unsigned(1)
    """That is c; else it is b."""
    operand: unsigned(WORD_BITS)
    """One word of it."""
    bank: unsigned(5)
    """Where its other word is, if it is a constant."""
    address: unsigned(17)
    """In bytes."""
    destination: unsigned(8) = RZ
    """RZ if there is none."""
    p: unsigned(3) = PT
    q: unsigned(3) = PT
    """Predicates that are written; PT if there are none."""
    conditional: unsigned(1)
    """CC is written."""


def double_entry(params: SmParams) -> data.StructLayout:
    """An instruction of the unit.

    Fields
    ------
    warp, sequence
    threads : 32
        They execute it.
    predicate : 32
        Its predicate operand in each thread.
    decoded : DecodedDouble
    write_barrier, read_barrier : 3
        Scoreboards.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "sequence": SEQUENCE_BITS,
        "threads": WARP_THREADS,
        "predicate": WARP_THREADS,
        "decoded": DecodedDouble,
        "write_barrier": 3,
        "read_barrier": 3,
    })


def buffered_instruction(params: SmParams) -> data.StructLayout:
    """An instruction, ``work``, and the number of its ``entry`` in a buffer: compute to write, that
    of its results."""
    return data.StructLayout({"work": double_entry(params), "entry": 1})


def gathered_instruction(params: SmParams) -> data.StructLayout:
    """Gather to compute: a buffered_instruction, whose operands are in the buffer, and the value of
    its ``uniform`` operand."""
    return data.StructLayout({"buffered": buffered_instruction(params), "uniform": DOUBLE_BITS})
