"""The decoded form of an instruction, and the structs that the steps pass on."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum
from amaranth.utils import ceil_log2

from rtl.isa.kinds import Boolean, FloatRounding
from rtl.isa.syntax import PT, RZ
from rtl.layouts import SEQUENCE_BITS
from rtl.params import WARP_THREADS, SmParams

__all__ = [
    "DOUBLE_BITS",
    "THREAD_BITS",
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
THREAD_BITS = ceil_log2(WARP_THREADS)


class DoubleOperation(enum.Enum, shape=3):
    """What is computed."""

    ADD = 0
    """DADD: a * 1 + b, rounded."""
    MULTIPLY = 1
    """DMUL: a * b + 0, the zero with the sign of the product."""
    FUSED = 2
    """DFMA: a * b + c, rounded once."""
    CHOOSE = 3
    """DMNMX: x * 1 + 0, with x the lesser or greater of a and b, the zero with the sign of x."""
    TEST = 4
    """DSETP: compares a and b, writes predicates."""
    TEST_TO_REGISTER = 5
    """DSET: compares a and b, writes a register."""


class Uniform(enum.Enum, shape=2):
    """The source of the uniform operand, the one that is the same in all threads."""

    NONE = 0
    """There is none: all operands are in registers."""
    IMMEDIATE = 1
    """Its upper word is the immediate, its lower one is 0."""
    CONSTANT = 2
    """Its lower word was dispatched with the instruction; the unit requests its upper one."""


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
    """For which outcomes the relation of a and b holds; from bit 0: less, equal, greater,
    unordered."""
    combine: Boolean
    """How the relation is combined with the predicate operand."""
    one: unsigned(1)
    """DSET: a true result is 1.0 in single precision, not all ones."""


class DecodedDouble(data.Struct):
    """What is decoded from the word of an instruction."""

    instruction: DoubleInstruction
    registers: data.ArrayLayout(8, 3) = [RZ, RZ, RZ]
    """The first registers of a, b and c; RZ for one that the instruction does not have, or that is
    uniform."""
    uniform: Uniform
    """The source of the uniform operand."""
    uniform_c: unsigned(1)
    """The uniform operand is c; else b."""
    operand: unsigned(WORD_BITS)
    """A word of the uniform operand: the immediate, or the lower word of the constant."""
    bank: unsigned(5)
    """The bank of the constant."""
    address: unsigned(17)
    """The byte address of the constant's upper word."""
    destination: unsigned(8) = RZ
    """The first register of the result; RZ if there is none."""
    p: unsigned(3) = PT
    q: unsigned(3) = PT
    """The predicates that are written: the combined relation, and the combined negated relation; PT
    where none is."""
    conditional: unsigned(1)
    """CC is written."""


def double_entry(params: SmParams) -> data.StructLayout:
    """An instruction of the unit.

    Fields
    ------
    warp, sequence
    threads : 32
        The threads that execute the instruction.
    predicate : 32
        The predicate operand of each thread.
    decoded : DecodedDouble
    write_barrier, read_barrier : 3
        Scoreboards that the last write and the last gather lower; 7 is none.
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
    """Compute to write: an instruction, ``work``, and the ``entry`` of the result buffer that has
    its results."""
    return data.StructLayout({"work": double_entry(params), "entry": 1})


def gathered_instruction(params: SmParams) -> data.StructLayout:
    """Gather to compute: a buffered_instruction, whose ``entry`` is that of the operand buffer and
    later of the result buffer, and the value of its ``uniform`` operand."""
    return data.StructLayout({"buffered": buffered_instruction(params), "uniform": DOUBLE_BITS})
