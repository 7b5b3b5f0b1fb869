"""Values that record NumPy's operations and return them as C: text and type of each, and operations
without a translation.
"""

from typing import Any

import numpy as np
import pytest

from rtl.isa.kinds import FloatRounding
from rtl.params import WARP_THREADS
from sim.model.warp.native.recording import (
    Mask,
    RecordedNode,
    RecordedScalar,
    UnrecordableError,
    Vector,
    as_mask,
    as_vector,
    c_type,
    literal,
)

WORD, SIGNED, LONG = np.dtype(np.uint32), np.dtype(np.int32), np.dtype(np.uint64)
SINGLE, DOUBLE, BOOL = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.bool_)


def vector(name: str, dtype: np.dtype = WORD) -> Vector:
    return Vector(RecordedNode("row", name, dtype))


def mask(name: str = "m", **kind: bool) -> Mask:
    return Mask(RecordedNode("input", name, WORD), **kind)


A, B, S, T = vector("a"), vector("b"), vector("i", SIGNED), vector("j", SIGNED)
F, G, D, E = vector("f", SINGLE), vector("g", SINGLE), vector("d", DOUBLE), vector("e", DOUBLE)
P, L = vector("p", BOOL), vector("l", LONG)


def text(value: Vector | Mask) -> str:
    """Returns the C expression of a value, with tables replaced by their numbers."""

    def written(node: RecordedNode) -> str:
        if node.kind == "table":
            return "{" + ", ".join(map(str, node.content)) + "}"
        return node.text.format(*map(written, node.arguments))

    return written(value.node)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (np.bool_, "bool"),
        (np.uint8, "u8"),
        (np.int16, "i16"),
        (np.uint32, "u32"),
        (np.int64, "i64"),
        (np.float32, "f32"),
        (np.float64, "f64"),
    ],
)
def test_types_of_c(kind, name):
    assert c_type(np.dtype(kind)) == name


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (7, WORD, "((u32)7ull)"),
        (0xFFFF_FFFF, WORD, "((u32)4294967295ull)"),
        (-7, SIGNED, "((i32)-7ll)"),
        (-1 << 63, np.dtype(np.int64), "((i64)(1ull << 63))"),
        (True, BOOL, "true"),
        (0, BOOL, "false"),
        (1.5, SINGLE, "bits_as<f32>((u32)0x3fc00000ull)"),
        (-0.0, DOUBLE, "bits_as<f64>((u64)0x8000000000000000ull)"),
    ],
)
def test_numbers_of_c(value, dtype, expected):
    assert literal(value, dtype) == expected


RECORDED = {
    "sum": (A + B, WORD, "((u32)(a + b))"),
    "difference": (A - np.uint32(3), WORD, "((u32)(a - ((u32)3ull)))"),
    "product of signed numbers": (S * T, SIGNED, "((i32)(i * j))"),
    "product of a number": (2 * A, WORD, "((u32)(((u32)2ull) * a))"),
    "and": (A & B, WORD, "((u32)(a & b))"),
    "or": (A | B, WORD, "((u32)(a | b))"),
    "exclusive or": (A ^ B, WORD, "((u32)(a ^ b))"),
    "and of conditions": (P & P, BOOL, "((bool)(p & p))"),
    "complement": (~A, WORD, "((u32)~a)"),
    "complement of a condition": (~P, BOOL, "(!p)"),
    "less": (A < B, BOOL, "(a < b)"),
    "less or equal": (A <= B, BOOL, "(a <= b)"),
    "greater": (S > T, BOOL, "(i > j)"),
    "greater or equal": (F >= G, BOOL, "(f >= g)"),
    "equal": (A == B, BOOL, "(a == b)"),
    "unequal": (A != B, BOOL, "(a != b)"),
    "left": (A << B, WORD, "shift_left<u32>(a, b)"),
    "right": (S >> T, SIGNED, "shift_right<i32>(i, j)"),
    "lesser": (np.minimum(A, B), WORD, "(a < b ? a : b)"),
    "greater one": (np.maximum(S, T), SIGNED, "(i > j ? i : j)"),
    "absolute value": (np.absolute(S), SIGNED, "((i32)(i < 0 ? -i : i))"),
    "negated": (-S, SIGNED, "((i32)-i)"),
    "population": (
        np.bitwise_count(A),
        np.dtype(np.uint8),
        "((u8)__builtin_popcountll((u64)(u32)a))",
    ),
    "wider": (A.astype(np.uint64), LONG, "((u64)a)"),
    "the same type": (A.astype(np.uint32), WORD, "a"),
    "a condition": (A.astype(np.bool_), BOOL, "(a != 0)"),
    "mixed types": (L + A, LONG, "((u64)(l + ((u64)a)))"),
    "seen as signed": (A.view(np.int32), SIGNED, "(i32)(a)"),
    "seen as single": (A.view(np.float32), SINGLE, "bits_as<f32>(a)"),
    "seen as it is": (A.view(np.uint32), WORD, "a"),
    "sum of singles": (F + G, SINGLE, "((f32)(f + g))"),
    "is no number": (np.isnan(F), BOOL, "(f != f)"),
    "is finite": (np.isfinite(F), BOOL, "(__builtin_fabsf(f) <= bits_as<f32>((u32)0x7f7fffffull))"),
    "is finite, in double precision": (
        np.isfinite(D),
        BOOL,
        "(__builtin_fabs(d) <= bits_as<f64>((u64)0x7fefffffffffffffull))",
    ),
    "sign bit": (np.signbit(F), BOOL, "((bits_as<u32>(f) >> 31) != 0)"),
    "sign bit of a double": (np.signbit(D), BOOL, "((bits_as<u64>(d) >> 63) != 0)"),
    "copied sign": (np.copysign(F, G), SINGLE, "__builtin_copysignf(f, g)"),
    "next": (np.nextafter(D, E), DOUBLE, "__builtin_nextafter(d, e)"),
    "scaled": (np.ldexp(F, S), SINGLE, "power_of_two_product(f, i)"),
    "negated single": (-F, SINGLE, "(-f)"),
    "absolute single": (np.absolute(F), SINGLE, "__builtin_fabsf(f)"),
    "fused": (D.fused(E, D, FloatRounding.RN), DOUBLE, "__builtin_fma(d, e, d)"),
    "fused and rounded up": (
        D.fused(E, 1.0, FloatRounding.RP),
        DOUBLE,
        "fused_rounded(d, e, bits_as<f64>((u64)0x3ff0000000000000ull), FE_UPWARD)",
    ),
    "fused and rounded down": (
        D.fused(E, D, FloatRounding.RM),
        DOUBLE,
        "fused_rounded(d, e, d, FE_DOWNWARD)",
    ),
    "fused and rounded to zero": (
        D.fused(E, D, FloatRounding.RZ),
        DOUBLE,
        "fused_rounded(d, e, d, FE_TOWARDZERO)",
    ),
    "choice": (np.where(P, A, B), WORD, "(p ? a : b)"),
    "choice by a number": (np.where(A, A, np.uint32(0)), WORD, "((a != 0) ? a : ((u32)0ull))"),
    "choice of wider numbers": (np.where(P, A, L), LONG, "(p ? ((u64)a) : l)"),
    "known choice": (np.where(P, A, 5), WORD, "(p ? a : ((u32)5ull))"),
    "clipped": (
        np.clip(S, -3, 4),
        SIGNED,
        "((i > ((i32)-3ll) ? i : ((i32)-3ll)) < ((i32)4ll) ? (i > ((i32)-3ll) ? i : ((i32)-3ll)) "
        ": ((i32)4ll))",
    ),
    "the same number for all": (A + np.full(32, 7, np.uint32), WORD, "((u32)(a + ((u32)7ull)))"),
    "gathered": (A[B], WORD, "a[b & 31]"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_an_operation_of_numpy_is_recorded_as_c(name):
    value, dtype, expected = RECORDED[name]
    assert text(value) == expected
    assert value.dtype == dtype


def test_numbers_that_differ_between_threads_are_a_table():
    lanes = np.arange(WARP_THREADS, dtype=np.uint32)
    numbers = ", ".join(map(str, range(WARP_THREADS)))
    assert text(A + lanes) == f"((u32)(a + {{{numbers}}}[i]))"


def test_an_operation_into_an_array_has_its_type():
    target: Any = L
    added: Any = np.add(A, B, out=target)
    assert text(added) == "((u64)((u32)(a + b)))"
    assert added.dtype == LONG


def test_columns_of_a_table_are_picked_by_a_number_that_is_in_range():
    first, second = A.picked(np.array([[1, 2], [3, 4], [5, 6]], np.uint32))
    assert text(first) == "{1, 3, 5}[(u64)a < 3 ? a : 0]"
    assert text(second) == "{2, 4, 6}[(u64)a < 3 ? a : 0]"
    assert first.dtype == WORD


def test_arrays_like_a_vector_are_known():
    assert np.zeros_like(A).tolist() == [0] * 32
    assert np.ones_like(A, dtype=np.bool_).tolist() == [True] * 32
    assert np.zeros_like(F).dtype == SINGLE
    assert len(A) == 32
    assert A.shape == (32,)


UNRECORDABLE = {
    "add.reduce": lambda: np.add.reduce(A),
    "add.__call__": lambda: np.add(A, B, where=np.ones(32, np.bool_)),
    "sort": lambda: np.sort(A),
    "sqrt of float32": lambda: np.sqrt(F),
    "add of bool": lambda: P + P,
    "floor_divide of uint32": lambda: A // B,
    "less of signed and unsigned numbers": lambda: vector("k", np.dtype(np.int64)) < L,
    "a float made an integer": lambda: F.astype(np.uint32),
    "uint32 seen as uint64": lambda: A.view(np.uint64),
    "bool seen as uint8": lambda: P.view(np.uint8),
    "a part of a vector": lambda: A[3],
    "a mask of numbers": lambda: A.as_mask(),
    "a number that is not known yet": lambda: bool(A),
    "an array of shape (3,)": lambda: A + np.zeros(3, np.uint32),
    "an array of shape (2, 16)": lambda: A + np.zeros((2, 16), np.uint32),
    "an operand of type str": lambda: as_vector("x"),
    "a mask of type Vector": lambda: as_mask(A),
    "a product of masks": lambda: mask() * 0xFFFF_FFFF,
    "a mask that is not known yet": lambda: bool(mask()),
    "a part of a number": lambda: (RecordedScalar("n") >> 5).as_words(),
}


@pytest.mark.parametrize("message", UNRECORDABLE)
def test_what_has_no_translation_is_refused(message):
    with pytest.raises(UnrecordableError) as caught:
        UNRECORDABLE[message]()
    assert str(caught.value) == message


def test_masks_are_joined():
    one, other = mask("m"), mask("n")
    assert text(one & other) == "(m & n)"
    assert text(one | 5) == "(m | 0x5u)"
    assert text(-1 ^ one) == "(m ^ 0xffffffffu)"
    assert text(~one) == "(~m)"
    assert text(one & 0xFFFF_FFFF) == "m"
    assert text(one == other) == "(m == n ? ALL_THREADS : 0u)"
    assert text(one != 0) == "(m != 0x0u ? ALL_THREADS : 0u)"


def test_a_fact_about_the_warp_is_a_mask_of_all_threads():
    fact = mask("m") == mask("n")
    assert (fact * 0xFFFF_FFFF) is fact
    assert ((fact & fact) * 0xFFFF_FFFF).node.text == "({0} & {1})"
    for value in (fact & mask("m"), fact & 5, mask("m")):
        with pytest.raises(UnrecordableError):
            _ = value * 0xFFFF_FFFF
    with pytest.raises(UnrecordableError):
        _ = fact * 0xFFFF


def test_an_if_takes_a_mask_that_holds():
    held = mask(holds=True)
    assert bool(held)
    assert bool(held & 5)
    for value in (held | 5, held & mask("n")):
        with pytest.raises(UnrecordableError):
            bool(value)


def test_a_mask_is_seen_thread_by_thread():
    assert text(mask().as_bools()) == "(bit_of(m, i) != 0)"
    assert mask().as_bools().dtype == BOOL
    assert text(mask().as_bits()) == "bit_of(m, i)"
    assert text(mask().as_words()) == "m"
    assert P.as_mask().node.kind == "reduce"


def test_words_of_a_number_of_the_instruction():
    number = RecordedScalar("n")
    assert text(number.as_words()) == "n.0"
    assert text((number >> 32).as_words()) == "n.1"
    assert text((number >> 16 >> 16).as_words()) == "n.1"
