"""Video instructions: subwords of the sources, a first operation on 64-bit numbers, a second one on
words.

Where the first operation's exact result exceeds 64 bits (a left shift, a product), its operands are
compared with the bounds instead. A second operation takes the low 32 bits of the first result;
flags are those of a move (ours).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rtl.isa.kinds import Compare, VideoScale, VideoSecond
from rtl.isa.syntax import Values
from rtl.isa.video import IMMEDIATE_PART, WORD_PART

from .comparison import CONDITIONS, Operation, less, set_predicates
from .lanes import LaneOutcome, Sources, Words, doubles, mask_of

__all__ = ["vabsdiff", "vabsdiff4", "vadd", "vmad", "vmnmx", "vset", "vsetp", "vshl", "vshr"]

_Numbers = NDArray[np.int64]
_First = Callable[[_Numbers, _Numbers, Values], _Numbers]
_HALF_BITS, _BOTH = 16, 3
_SCALE = {VideoScale.NONE: 0, VideoScale.SHR_7: 7, VideoScale.SHR_15: 15}
_MERGED = {
    VideoSecond.MRG_16H: 0xFFFF_0000,
    VideoSecond.MRG_16L: 0xFFFF,
    VideoSecond.MRG_8B0: 0xFF,
    VideoSecond.MRG_8B2: 0xFF_0000,
}
"""The bits of the third operand that the first result replaces."""
_TYPES = {(1, True): np.int8, (1, False): np.uint8, (2, True): np.int16, (2, False): np.uint16}


def _part(word: Words, part: int, signed: bool) -> _Numbers:
    """Returns a byte, half or word of each source, extended."""
    if part == WORD_PART:
        return doubles(word, signed).view(np.int64)
    size, place = (2, part & 1) if part & IMMEDIATE_PART else (1, part)
    return (
        np.ascontiguousarray(word).view(_TYPES[size, signed])[place :: 4 // size].astype(np.int64)
    )


def _parts(sources: Sources, values: Values) -> tuple[_Numbers, _Numbers]:
    return (
        _part(sources.a, values["part_a"], bool(values["signs"] & 1)),
        _part(sources.b, values.get("part_b", IMMEDIATE_PART), bool(values["signs"] & 2)),
    )


def _range(signed: int, then: VideoSecond) -> np.iinfo:
    """Returns the type of the result, or of the part of it that is merged."""
    size = _MERGED.get(then, 0xFFFF_FFFF).bit_count()
    return np.iinfo(f"{'int' if signed else 'uint'}{size}")


def _second(first: _Numbers, sources: Sources, signed: int, then: VideoSecond) -> LaneOutcome:
    """Applies the second operation to the low bits of the first result and the third operand."""
    value = first.astype(np.uint32)
    match then:
        case VideoSecond.ACC:
            value = value + sources.c
        case VideoSecond.MIN:
            value = np.where(less(value, sources.c, signed), value, sources.c)
        case VideoSecond.MAX:
            value = np.where(less(value, sources.c, signed), sources.c, value)
        case VideoSecond.NONE:
            pass
        case merged:
            mask = _MERGED[merged]
            shifted = value << np.uint32((mask & -mask).bit_length() - 1)
            value = (shifted & np.uint32(mask)) | (sources.c & np.uint32(~mask & 0xFFFF_FFFF))
    return LaneOutcome(value)


def _operation(first: _First) -> Operation:
    """Makes a video instruction of a first operation whose result has at most 64 bits."""

    def run(sources: Sources, values: Values) -> LaneOutcome:
        signed, then = values.get("signed_d", 0), VideoSecond(values["then"])
        result = first(*_parts(sources, values), values)
        if values.get("saturate"):
            limits = _range(signed, then)
            result = np.clip(result, limits.min, limits.max)
        return _second(result, sources, signed, then)

    return run


def _sum(a: _Numbers, b: _Numbers, values: Values) -> _Numbers:
    if values["plus_one"] == _BOTH:
        return a + b + 1
    return (-a if values["negate_a"] else a) + (-b if values["negate_b"] else b)


def _relation(sources: Sources, values: Values) -> int:
    a, b = _parts(sources, values)
    return mask_of(CONDITIONS[Compare(values["compare"])](a < b, a == b))


def _shift_count(b: _Numbers, values: Values) -> _Numbers:
    return b & 31 if values["wrap"] else np.minimum(b, 32)


def vabsdiff4(sources: Sources, values: Values) -> LaneOutcome:
    """VABSDIFF4: the absolute differences of the bytes of a and b: their sum added to c, or their
    low bytes packed.
    """
    a, b = (
        np.ascontiguousarray(word)
        .view(_TYPES[1, bool(values["signs"] >> place & 1)])
        .astype(np.int64)
        for place, word in enumerate((sources.a, sources.b))
    )
    distances = np.abs(a - b)
    if values["reduce"]:
        return LaneOutcome(sources.c + distances.reshape(-1, 4).sum(axis=1).astype(np.uint32))
    return LaneOutcome(distances.astype(np.uint8).view(np.uint32))


vadd = _operation(_sum)
vmnmx = _operation(lambda a, b, values: np.maximum(a, b) if values["larger"] else np.minimum(a, b))
vabsdiff = _operation(lambda a, b, values: np.abs(a - b))
vshr = _operation(lambda a, b, values: a >> _shift_count(b, values))
vset = _operation(
    lambda a, b, values: CONDITIONS[Compare(values["compare"])](a < b, a == b).astype(np.int64)
)
vsetp = set_predicates(_relation)


def vshl(sources: Sources, values: Values) -> LaneOutcome:
    """VSHL: a's subword shifted left. The result exceeds a bound if a exceeds that bound shifted
    right.
    """
    a, b = _parts(sources, values)
    count, then = _shift_count(b, values), VideoSecond(values["then"])
    result = a << count
    if values["saturate"]:
        limits = _range(values["signed_d"], then)
        result = np.where(a > limits.max >> count, limits.max, result)
        result = np.where(a < -(-limits.min >> count), limits.min, result)
    return _second(result, sources, values["signed_d"], then)


def vmad(sources: Sources, values: Values) -> LaneOutcome:
    """VMAD: a product plus c, each or both optionally negated, shifted right.

    c is signed if a factor is signed or a term is negated.
    """
    a, b = _parts(sources, values)
    both = values["plus_one"] == _BOTH
    negate_product, negate_c = (values[name] and not both for name in ("negate_ab", "negate_c"))
    signed = bool(values["signs"] or negate_product or negate_c)
    c = doubles(sources.c, signed).view(np.int64)
    if negate_product:
        a = -a
    # The sum is 2**16 times the upper number plus the lower one, of 16 bits.
    lower = a * (b & 0xFFFF) + (-c if negate_c else c) + int(both)
    upper = a * (b >> _HALF_BITS) + (lower >> _HALF_BITS)
    scale = _SCALE[VideoScale(values["scale"])]
    result = (upper << _HALF_BITS - scale) + ((lower & 0xFFFF) >> scale)
    if values["saturate"]:
        limits = np.iinfo(np.int32 if signed else np.uint32)
        result = np.where(upper >= (limits.max + 1 << scale >> _HALF_BITS), limits.max, result)
        result = np.where(upper < (limits.min << scale >> _HALF_BITS), limits.min, result)
    return LaneOutcome(result.astype(np.uint32))
