"""What atomic operations leave, as whole numbers."""

from collections.abc import Callable

from rtl.isa.kinds import AtomicOperation

__all__ = ["ATOMICS", "modified"]

ATOMICS: dict[AtomicOperation, Callable[[int, int], int]] = {
    AtomicOperation.ADD: lambda old, new: old + new, AtomicOperation.MIN: min, AtomicOperation.MAX: max,
    AtomicOperation.INC: lambda old, new: old + 1 if old < new else 0,
    AtomicOperation.DEC: lambda old, new: old - 1 if 0 < old <= new else new,
    AtomicOperation.AND: lambda old, new: old & new, AtomicOperation.OR: lambda old, new: old | new,
    AtomicOperation.XOR: lambda old, new: old ^ new, AtomicOperation.EXCH: lambda old, new: new}
"""Of what memory holds and of the operand. Only the least and the greatest depend on whether they are signed."""


def modified(operation: AtomicOperation, old: int, operand: int, bits: int, is_signed: bool) -> int:
    """What an operation leaves of ``old``; all are numbers of so many bits."""
    top = 1 << bits
    if is_signed and operation in (AtomicOperation.MIN, AtomicOperation.MAX):
        old, operand = ((value ^ top >> 1) - (top >> 1) for value in (old, operand))
    return ATOMICS[operation](old, operand) % top
