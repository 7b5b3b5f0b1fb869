"""What the unit does with an instruction: the decoded form that its parts share."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.isa.kinds import Boolean, FloatRounding
from rtl.layouts import SERIAL_BITS
from rtl.params import WARP_THREADS, SmParams

__all__ = ["DOUBLE_BITS", "WORD_BITS", "DoubleInstruction", "DoubleOperation", "Uniform", "double_entry"]

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
    """The word at hand is its upper one, its lower one is 0."""
    CONSTANT = 2
    """The word at hand is its lower one, its upper one is asked for."""


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
    """The outcomes for which a relation holds: less, equal, greater, none of them."""
    combine: Boolean
    one: unsigned(1)
    """DSET gives 1.0 where it holds, not all ones."""


def double_entry(params: SmParams) -> data.StructLayout:
    """An instruction that waits for the unit.

    ``threads`` execute it, and ``predicates`` are its predicate operand. ``registers`` hold a, b and c, RZ where there
    is none; but for one that is ``uniform``, which is c if ``uniform_c``, else b: it begins with ``operand``, and its
    upper word is at ``address`` of ``bank``. The result goes to ``destination``, or to predicates ``p`` and ``q``; and
    to CC, if ``conditional``.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "serial": SERIAL_BITS, "threads": WARP_THREADS, "predicates": WARP_THREADS,
        "instruction": DoubleInstruction, "registers": data.ArrayLayout(8, 3), "uniform": Uniform, "uniform_c": 1,
        "operand": WORD_BITS, "bank": 5, "address": 17, "destination": 8, "p": 3, "q": 3, "conditional": 1,
        "write_barrier": 3, "read_barrier": 3})
