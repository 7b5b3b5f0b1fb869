"""Vectors of 32 threads, and the inputs and results of operations on them.

The functions between vectors and masks also take the values of :mod:`sim.model.warp.native.recording`, which stand for
vectors and masks while an operation is translated.
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
"""What PT holds."""
_CACHED_MASKS = 1 << 14


@lru_cache(_CACHED_MASKS)
def _bools_of(mask: int) -> Bools:
    octets = np.frombuffer(mask.to_bytes(WARP_THREADS // 8, "little"), np.uint8)
    vector = np.unpackbits(octets, bitorder="little").view(np.bool_)
    vector.flags.writeable = False
    return vector


def bools_of(mask: int) -> Bools:
    """A mask as a vector (not to be written)."""
    return _bools_of(mask) if isinstance(mask, int) else mask.as_bools()


@lru_cache(_CACHED_MASKS)
def _bits_of(mask: int) -> Words:
    vector = bools_of(mask).astype(np.uint32)
    vector.flags.writeable = False
    return vector


def bits_of(mask: int) -> Words:
    """A mask as a vector of 0 and 1 (not to be written)."""
    return _bits_of(mask) if isinstance(mask, int) else mask.as_bits()


@lru_cache(_CACHED_MASKS)
def threads_of(mask: int) -> NDArray[np.intp]:
    """The numbers of the threads in a mask, ascending (not to be written)."""
    vector = np.flatnonzero(bools_of(mask))
    vector.flags.writeable = False
    return vector


def mask_of(vector: Bools) -> int:
    """A vector of conditions as a mask."""
    if not isinstance(vector, np.ndarray):
        return vector.as_mask()
    return int.from_bytes(np.packbits(vector, bitorder="little").tobytes(), "little")


@lru_cache(_CACHED_MASKS)
def _uniform(value: int) -> Words:
    vector = np.full(WARP_THREADS, value & 0xFFFF_FFFF, np.uint32)
    vector.flags.writeable = False
    return vector


def uniform(value: int) -> Words:
    """The same 32-bit value for every thread (not to be written)."""
    return _uniform(value) if isinstance(value, int) else value.as_words()


def doubles(vector: Words, signed: bool = False) -> Doubles:
    """32-bit values extended to 64 bits, with their sign or with zeros."""
    return (
        vector.view(np.int32).astype(np.int64).view(np.uint64)
        if signed
        else vector.astype(np.uint64)
    )


def pair(low: Words, high: Words) -> Doubles:
    """64-bit values from their halves."""
    return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)


@dataclass(slots=True)
class Condition:
    """CC of a warp: each flag as a mask of threads."""

    zero: int = 0
    sign: int = 0
    carry: int = 0
    overflow: int = 0

    def holds(self, test: int) -> int:
        """The threads of which ``test``, a code of ConditionCode, holds."""
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
        """The four flags of every thread as a number, laid out as rtl.isa.condition.Flags."""
        return (
            bits_of(self.zero)
            | bits_of(self.sign) << np.uint32(1)
            | bits_of(self.carry) << np.uint32(2)
            | bits_of(self.overflow) << np.uint32(3)
        )


class Sources:
    """What an operation reads. The attributes that its form has operands for are set, the others are not.

    Attributes:
        threads: Mask of the threads that execute the instruction.
        a, b, c: The sources as they are in registers, constants or immediates; what the form does to them first
            (negate, invert, select a part) is the operation's business.
        a_high, b_high, c_high: The high words of those that are 64 bits wide.
        x, y, z: Predicate sources as masks, negated already where the instruction says so.
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
    """What an operation gives; None is what it does not.

    ``value`` is written to the destination register, ``value_high`` to the next one; ``p`` ``q`` to
    its predicates, ``predicates`` to those it names by number. CC gets ``condition`` unchanged, or
    else Z and S of the value beside ``carry`` and ``overflow``, absent ones being clear.
    """

    value: Words | None = None
    value_high: Words | None = None
    carry: Bools | None = None
    overflow: Bools | None = None
    p: int | None = None
    q: int | None = None
    predicates: dict[int, int] | None = None
    condition: Condition | None = None
