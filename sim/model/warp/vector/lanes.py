"""Vectors of 32 threads, and the inputs and results of operations on them.

The functions between vectors and masks also accept the values of
:mod:`sim.model.warp.native.recording`, which replace vectors and masks while an operation is
translated.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rtl.isa.condition import TRUTH
from rtl.params import WARP_THREADS

__all__ = [
    "ALL_THREADS",
    "TRUE_PREDICATE",
    "Bools",
    "Condition",
    "Doubles",
    "LaneOutcome",
    "Sources",
    "Words",
    "bits_of",
    "bools_of",
    "doubles",
    "mask_of",
    "pair",
    "threads_of",
    "uniform",
]

Words = NDArray[np.uint32]
"""A 32-bit value of every thread."""
Doubles = NDArray[np.uint64]
"""A 64-bit value of every thread."""
Bools = NDArray[np.bool_]
"""A condition of every thread."""

ALL_THREADS = (1 << WARP_THREADS) - 1
"""The mask of every thread of a warp."""
TRUE_PREDICATE = ALL_THREADS
"""The value of PT."""
_CACHED_MASKS = 1 << 14


@lru_cache(_CACHED_MASKS)
def _bools_of(mask: int) -> Bools:
    octets = np.frombuffer(mask.to_bytes(WARP_THREADS // 8, "little"), np.uint8)
    vector = np.unpackbits(octets, bitorder="little").view(np.bool_)
    vector.flags.writeable = False
    return vector


def bools_of(mask: int) -> Bools:
    """Returns a mask as a read-only vector of Booleans."""
    return _bools_of(mask) if isinstance(mask, int) else mask.as_bools()


@lru_cache(_CACHED_MASKS)
def _bits_of(mask: int) -> Words:
    vector = bools_of(mask).astype(np.uint32)
    vector.flags.writeable = False
    return vector


def bits_of(mask: int) -> Words:
    """Returns a mask as a read-only vector of 0 and 1."""
    return _bits_of(mask) if isinstance(mask, int) else mask.as_bits()


@lru_cache(_CACHED_MASKS)
def threads_of(mask: int) -> NDArray[np.intp]:
    """Returns the numbers of the threads in a mask, ascending, as a read-only vector."""
    vector = np.flatnonzero(bools_of(mask))
    vector.flags.writeable = False
    return vector


def mask_of(vector: Bools) -> int:
    """Returns a vector of conditions as a mask."""
    if not isinstance(vector, np.ndarray):
        return vector.as_mask()
    return int.from_bytes(np.packbits(vector, bitorder="little").tobytes(), "little")


@lru_cache(_CACHED_MASKS)
def _uniform(value: int) -> Words:
    vector = np.full(WARP_THREADS, value & 0xFFFF_FFFF, np.uint32)
    vector.flags.writeable = False
    return vector


def uniform(value: int) -> Words:
    """Returns a read-only vector of the same 32-bit value for every thread."""
    return _uniform(value) if isinstance(value, int) else value.as_words()


def doubles(vector: Words, signed: bool = False) -> Doubles:
    """Extends 32-bit values to 64 bits, with their sign or with zeros."""
    return (
        vector.view(np.int32).astype(np.int64).view(np.uint64)
        if signed
        else vector.astype(np.uint64)
    )


def pair(low: Words, high: Words) -> Doubles:
    """Joins low and high words to 64-bit values."""
    return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)


@dataclass(slots=True)
class Condition:
    """CC of a warp: each flag as a mask of threads."""

    zero: int = 0
    sign: int = 0
    carry: int = 0
    overflow: int = 0

    def holds(self, test: int) -> int:
        """Returns the threads for which ``test``, a code of ConditionCode, holds."""
        truth, result = TRUTH[test], 0
        flags = (self.zero, self.sign, self.carry, self.overflow)
        for nibble in range(16):
            if truth >> nibble & 1:
                term = ALL_THREADS
                for position, flag in enumerate(flags):
                    term &= flag if nibble >> position & 1 else ~flag
                result |= term
        return result

    def nibbles(self) -> Words:
        """Returns the four flags of every thread as a number in the layout of
        rtl.isa.condition.Flags.
        """
        return (
            bits_of(self.zero)
            | bits_of(self.sign) << np.uint32(1)
            | bits_of(self.carry) << np.uint32(2)
            | bits_of(self.overflow) << np.uint32(3)
        )


class Sources:
    """The inputs of an operation. Only the attributes for which its form has operands are set.

    Attributes:
        threads: Mask of the threads that execute the instruction.
        a, b, c: The sources as read from registers, constants or immediates; the operation itself
            applies modifiers (negation, inversion, selection of a part).
        a_high, b_high, c_high: The high words of 64-bit sources.
        x, y, z: Predicate sources as masks, already negated where the instruction negates them.
        predicates: P0 to P6 and PT, as masks.
        condition: CC before the instruction.
    """

    __slots__ = (
        "a",
        "a_high",
        "b",
        "b_high",
        "c",
        "c_high",
        "condition",
        "predicates",
        "threads",
        "x",
        "y",
        "z",
    )

    a: Words
    b: Words
    c: Words
    a_high: Words
    b_high: Words
    c_high: Words
    x: int
    y: int
    z: int

    def __init__(self, threads: int, predicates: list[int], condition: Condition) -> None:
        self.threads = threads
        self.predicates = predicates
        self.condition = condition


@dataclass(slots=True)
class LaneOutcome:
    """The results of an operation. An absent result is None.

    Attributes:
        value: Written to the destination register.
        value_high: Written to the next register.
        p, q: Written to the destination predicates.
        predicates: Written to predicates by number.
        condition: Written to CC. Without it CC gets Z and S of the value, ``carry`` and
            ``overflow``.
        carry: CC's carry; clear if absent.
        overflow: CC's overflow; clear if absent.
    """

    value: Words | None = None
    value_high: Words | None = None
    carry: Bools | None = None
    overflow: Bools | None = None
    p: int | None = None
    q: int | None = None
    predicates: dict[int, int] | None = None
    condition: Condition | None = None
