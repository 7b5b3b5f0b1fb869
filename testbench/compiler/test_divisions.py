"""Divisions, reciprocals and square roots of compiled code, which are functions of the runtime
library.

Floating-point ones are compared with MPFR in every rounding, integer ones with Python, on all pairs
of edge values and on random numbers.
"""

from collections.abc import Iterator
from importlib import import_module
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from sim.toolchain.compiler import compile_module
from sim.toolchain.compiler.library import filled_in, functions_with
from sim.toolchain.ptx.front_end import parse_ptx
from sim.toolchain.runtime import library_text
from testbench.compiler.doubles import DOUBLE, doubles
from testbench.compiler.doubles import EDGES as DOUBLE_EDGES
from testbench.compiler.operations import LONGS, WORDS
from testbench.compiler.singles import BLOCK, DIRECTIONS, SINGLE, Precision, computed, operands
from testbench.execute.singles import EDGES as SINGLE_EDGES
from testbench.ptx.text import HEADER

gmpy2: Any = import_module("gmpy2")  # it has no type annotations

_FORMATS = {
    4: {"precision": 24, "emin": -148, "emax": 128},
    8: {"precision": 53, "emin": -1073, "emax": 1024},
}
"""Precision and exponent range for MPFR, by size in bytes; the smallest exponent is that of the
smallest subnormal number.
"""
_ROUNDINGS = {
    "rn": gmpy2.RoundToNearest,
    "rz": gmpy2.RoundToZero,
    "rm": gmpy2.RoundDown,
    "rp": gmpy2.RoundUp,
}
_LEAST = 2.0**-126
_NAN = {4: 0x7FFF_FFFF, 8: 0x7FF8 << 48}


def _flushed(x: float) -> float:
    return float(np.copysign(0.0, x)) if abs(x) < _LEAST else x


def _exact(name: str, direction: str, flush: bool, size: int, x: float, y: float) -> float:
    """Returns MPFR's result. With .ftz a result that is subnormal before rounding is zero."""
    if flush:
        x, y = _flushed(x), _flushed(y)
    with gmpy2.context(precision=200):
        one, other = gmpy2.mpfr(x), gmpy2.mpfr(y)
    form = {**_FORMATS[size], "round": _ROUNDINGS[direction]}

    def compute() -> Any:
        match name:
            case "div":
                return gmpy2.div(one, other)
            case "rcp":
                return gmpy2.div(1, one)
        return gmpy2.sqrt(one)

    if flush:
        with gmpy2.context(precision=200):
            wide = compute()
        if 0 < abs(wide) < _LEAST:
            return -0.0 if wide < 0 else 0.0
    with gmpy2.context(subnormalize=True, **form):
        return float(compute())


def _check(precision: Precision, operations: list[tuple[str, str, bool]], rows: np.ndarray) -> None:
    size = precision.size
    texts = [
        f"{name}.{direction}{'.ftz' * flush}.f{8 * size} d, a{', b' * (name == 'div')}"
        for name, direction, flush in operations
    ]
    found = computed(texts, rows, precision)
    with np.errstate(invalid="ignore"):
        numbers = rows.view(precision.kind).astype(np.float64)
    for column, (name, direction, flush) in enumerate(operations):
        exact = np.array(
            [_exact(name, direction, flush, size, float(x), float(y)) for x, y, _ in numbers]
        ).astype(precision.kind)
        words = exact.view(precision.word)
        words[np.isnan(exact)] = _NAN[size]
        for row in np.flatnonzero(found[:, column] != words)[:1]:
            a, b, _ = (hex(word) for word in rows[row])
            raise AssertionError(
                f"{texts[column]} of {a}, {b} is {found[row, column]:#x}, not {words[row]:#x}"
            )


def _pairs(edges: tuple[int, ...] | list[int], word: np.dtype) -> np.ndarray:
    """Returns all pairs of edge values, repeated until they fill blocks."""
    pairs = [(a, b, 0) for a, b in product(edges, edges)]
    pairs += pairs[: -len(pairs) % BLOCK]
    return np.array(pairs, word)


@pytest.mark.parametrize("flush", [False, True], ids=["", "ftz"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_single_precision_is_that_of_mpfr(direction, flush):
    operations = [(name, direction, flush) for name in ("div", "rcp", "sqrt")]
    rows = np.concatenate([_pairs(SINGLE_EDGES, SINGLE.word), operands(8 * BLOCK, 11)])
    _check(SINGLE, operations, rows)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_double_precision_is_that_of_mpfr(direction):
    operations = [(name, direction, False) for name in ("div", "rcp", "sqrt")]
    rows = np.concatenate([_pairs(DOUBLE_EDGES, DOUBLE.word), doubles(8 * BLOCK, 11)])
    _check(DOUBLE, operations, rows)


def _integer(bits: int) -> tuple[Precision, tuple[int, ...]]:
    word = np.dtype(f"u{bits // 8}")
    body = (
        HEADER
        + f""".visible .entry k(.param .u64 out)
{{{{ .reg .b{bits} a, b, c, d; .reg .b32 i, t, e; .reg .b64 x, y;
  mov.u32 t, %ctaid.x; mov.u32 i, %ntid.x; mov.u32 e, %tid.x; mad.lo.u32 t, t, i, e;
  ld.param.u64 x, [out]; mul.wide.u32 y, t, {{bytes}}; add.u64 x, x, y;
  ld.global.b{bits} a, [x]; ld.global.b{bits} b, [x+{bits // 8}];
{{body}} ret; }}}}
"""
    )
    return Precision(word, body), WORDS if bits == 32 else LONGS


def _quotient_and_rest(x: int, y: int, bits: int, signed: bool) -> tuple[int, int]:
    if signed:
        x, y = (value - (value >> bits - 1 << bits) for value in (x, y))
    if not y:
        return -1, -1
    quotient = abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)
    return quotient, x - quotient * y


@pytest.mark.parametrize("bits", [32, 64])
def test_integers_are_those_of_python(bits):
    """The operands are all pairs of edge values, random numbers of every length, and numbers at
    multiples of their divisors.
    """
    precision, edges = _integer(bits)
    source = Random(bits)
    near = [(edge + other) % (1 << bits) for edge in edges for other in (-1, 0, 1)]
    pairs = [*product(sorted(set(near)), edges)]
    pairs += [
        tuple(source.getrandbits(source.randrange(1, bits + 1)) for _ in range(2))
        for _ in range(8 * BLOCK)
    ]
    for _ in range(16 * BLOCK):
        b = source.getrandbits(source.randrange(1, bits + 1)) or 1
        multiple = source.randrange((1 << bits) // b) * b
        pairs.append((multiple + source.choice([-1, 0, 1]) & (1 << bits) - 1, b))
    pairs += pairs[: -len(pairs) % BLOCK]
    rows = np.array([(a, b, 0) for a, b in pairs], precision.word)
    kinds = [(name, sign) for sign in "us" for name in ("div", "rem")]
    found = computed([f"{name}.{sign}{bits} d, a, b" for name, sign in kinds], rows, precision)
    for (a, b), row in zip(pairs, found.tolist(), strict=True):
        for (name, sign), result in zip(kinds, row, strict=True):
            exact = _quotient_and_rest(a, b, bits, sign == "s")[name == "rem"] % (1 << bits)
            assert result == exact, f"{name}.{sign}{bits} of {a:#x}, {b:#x} is {result:#x}"


def _templates() -> Iterator[tuple[str, str, bool]]:
    for direction in DIRECTIONS:
        for flush in (False, True):
            yield "single_division.ptx.in", direction, flush
        yield "double_division.ptx.in", direction, False


@pytest.mark.parametrize(("name", "direction", "flush"), list(_templates()))
def test_a_template_that_is_filled_in_is_a_program(name, direction, flush):
    text = filled_in(library_text(name), direction, flush)
    assert "$" not in text and "#" not in text
    functions = parse_ptx(text, name).functions
    mode = f"{direction}{'_ftz' * flush}"
    kind = "f32" if name.startswith("single") else "f64"
    assert {f"__{opcode}_{mode}_{kind}" for opcode in ("div", "rcp", "sqrt")} <= set(functions)


def test_lines_of_a_template_stay_where_their_name_holds():
    text = "#if nearest\nA$round\n#else\nB$mode$ftz\n#endif\n#if outwards\n$outwards\n#endif\nC"
    assert filled_in(text, "rn", False).split() == ["Arn", "C"]
    assert filled_in(text, "rm", True).split() == ["Brm_ftz.ftz", "lt", "C"]
    assert filled_in(text, "rz", False).split() == ["Brz", "C"]


def test_functions_that_are_not_visible_are_inlined():
    """A 32-bit division has no call, a 64-bit one calls only the visible function."""
    text = (
        HEADER
        + """.visible .entry k(.param .u64 out) {{ .reg .b{bits} a, b; .reg .b64 x;
  ld.param.u64 x, [out]; ld.global.b{bits} a, [x]; ld.global.b{bits} b, [x+8];
  div.u{bits} a, a, b; st.global.b{bits} [x], a; ret; }}"""
    )
    short, long = (compile_module(parse_ptx(text.format(bits=bits), "t.ptx")) for bits in (32, 64))
    assert "CAL" not in short and "__" not in short
    assert long.count("CAL") == 1 and "__divide_u64" in long and "__div_u64" not in long


def test_only_functions_that_are_needed_are_read():
    assert [*functions_with("__rem_s32")] == ["__divide_u32", "__rem_s32"]
    assert [*functions_with("__rcp_rn_f64")][-2:] == ["__div_rn_f64", "__rcp_rn_f64"]


def test_a_library_may_divide():
    """The file has functions for other files and functions of the runtime library."""
    text = (
        HEADER
        + """.visible .func (.reg .b64 q) f(.reg .b64 a, .reg .b64 b) { div.u64 q, a, b; ret; }
.visible .entry k(.param .u64 x) { .reg .b64 a, b; ld.param.u64 a, [x]; call (b), f, (a, a);
st.global.b64 [a], b; ret; }"""
    )
    assert "__divide_u64" in compile_module(parse_ptx(text, "t.ptx"), library=True)
