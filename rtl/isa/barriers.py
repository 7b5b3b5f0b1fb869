"""CTA barriers: how many there are, how registers name them, and the state that B2R and R2B
move."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from .fields import bits
from .syntax import Form, Register

__all__ = ["BARRIERS", "PACKED_COUNT", "SYNCALL_BARRIER", "BarrierState", "is_packed"]

BARRIERS = 16
"""Barriers of a CTA."""

SYNCALL_BARRIER = BARRIERS
"""Where BAR.SYNCALL meets: one more barrier, which no other instruction can name (ours)."""

PACKED_COUNT = bits(16, 12)
"""Where BAR's count is in a register that holds barrier and count; the other bits are the barrier's
number.

NVIDIA's compiler inserts the count there and names the register twice. A number that is in a
register alone, because the other one is in the instruction, is the whole register.
"""


def is_packed(form: Form) -> bool:
    """Whether a form of BAR has barrier and count in registers: Ra has the number and Rb the count
    of such a pair, also where they are different registers (ours).
    """
    return all(isinstance(form.operands.get(operand), Register) for operand in ("a", "b"))


class BarrierState(data.Struct):
    """A barrier, in the format of a register (ours). Warps are counted, not threads."""

    arrived: unsigned(7)
    """Warps that have arrived."""
    expected: unsigned(7)
    """Warps that the barrier waits for, by its last arrival; 0: every live warp of the CTA."""
    population: unsigned(12)
    """Threads that arrived with the predicate of a reduction."""
    some_false: unsigned(1)
    """A thread arrived without it."""
    some_true: unsigned(1)
    """A thread arrived with it."""
