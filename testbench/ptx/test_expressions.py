"""Constant expressions of PTX: random ones against the C compiler, and some with known values."""

import math
import random
import re
import struct
import subprocess
from shutil import which

import pytest

from sim.toolchain.ptx.module import PtxAddress, PtxImmediate, PtxVariable
from testbench.ptx.text import complaint, instructions

_COUNT = 400
_MASK = (1 << 64) - 1
_EDGES = (0, 1, 2, 7, 63, 64, 0x7FFF_FFFF, 0xFFFF_FFFF, 1 << 32, (1 << 63) - 1, 1 << 63, _MASK)
_LOOSE = ("||", "&&", "|", "^", "&", "==", "!=", "<", "<=", ">", ">=", "<<", ">>", "+", "-", "*")
_DECLARED = ".global .u32 v; .reg .b32 r; .reg .b64 d; .reg .f64 e; .reg .f32 f; .reg .pred p;"


def numbers_of(expressions: list[str], kind: str = "u64", register: str = "d") -> list[int]:
    """Returns the values of expressions, as bits of a type."""
    body = "".join(f"mov.{kind} {register}, {text};\n" for text in expressions)
    found = []
    for instruction in instructions(f".visible .entry k {{ {_DECLARED}\n{body} ret; }}"):
        if instruction.opcode == "mov":
            value = instruction.operands[1]
            assert isinstance(value, PtxImmediate)
            found.append(value.value)
    return found


class Writer:
    """Writes random expressions in PTX and in C, with the same types and precedences."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)

    def number(self, nonzero: bool = False) -> tuple[str, str]:
        value = self.source.choice([*_EDGES, self.source.randrange(100)])
        value = max(value, 2) if nonzero else value
        unsigned = value >> 63 or self.source.random() < 0.2
        ptx = self.source.choice([str(value), hex(value), bin(value), f"0{value:o}"])
        return f"{ptx}{'U' * bool(unsigned)}", f"(({'u' * bool(unsigned)}int64_t){value}ull)"

    def term(self, depth: int) -> tuple[str, str]:
        choice = self.source.random()
        if not depth or choice < 0.3:
            return self.number()
        if choice < 0.5:
            sign = self.source.choice("+-~!")
            ptx, c = self.term(depth - 1)
            return (
                (f"{sign} {ptx}", f"{sign} {c}") if sign != "!" else (f"!{ptx}", f"(int64_t)!{c}")
            )
        if choice < 0.6:
            kind = self.source.choice(["s64", "u64"])
            ptx, c = self.term(depth - 1)
            return f"(.{kind}) {ptx}", f"({'u' * (kind == 'u64')}int64_t) {c}"
        ptx, c = self.sum(depth - 1)
        return f"({ptx})", f"(({c}) + 0ll)"  # a comparison has 32 bits in C

    def sum(self, depth: int) -> tuple[str, str]:
        """Returns terms joined by operators, which have the precedences of C."""
        ptx, c = self.term(depth)
        for _ in range(self.source.randrange(4)):
            operator = self.source.choice([*_LOOSE, "/", "%", "*", "+", "-"])
            if operator in ("/", "%"):
                right = self.number(nonzero=True)
            elif operator in ("<<", ">>"):
                count = self.source.randrange(64)
                ptx, c = (f"({text} {operator} {count})" for text in (ptx, c))
                continue
            else:
                right = self.term(depth)
            ptx, c = f"{ptx} {operator} {right[0]}", f"{c} {operator} {right[1]}"
        return ptx, c


@pytest.mark.skipif(which("gcc") is None, reason="there is no C compiler")
def test_whole_expressions_have_the_values_that_c_gives_them(tmp_path):
    writer = Writer(1)
    pairs = [writer.sum(3) for _ in range(_COUNT)]
    lines = "".join(f'printf("%llu\\n", (unsigned long long)({c}));\n' for _, c in pairs)
    program = tmp_path / "values.c"
    program.write_text(f"#include <stdint.h>\n#include <stdio.h>\nint main(void) {{ {lines} }}\n")
    command = ["gcc", "-w", "-O0", "-fwrapv", "-o", tmp_path / "values", program]
    subprocess.run(command, check=True, timeout=60)
    left = subprocess.run(
        [tmp_path / "values"], check=True, capture_output=True, text=True, timeout=60
    )
    wanted = [int(line) for line in left.stdout.split()]
    found = numbers_of([ptx for ptx, _ in pairs])
    assert [
        pair for pair, *both in zip(pairs, found, wanted, strict=True) if both[0] != both[1]
    ] == []


VALUES = {
    "1 ? 2 : 1 / 0": 2,
    "0 ? 1 / 0 : 3": 3,
    "0 ? 1 : 0 ? 2 : 5": 5,
    "(1 ? 2 : 3) + 4": 6,
    "2 + 1 == 3 ? 10 : 20": 10,
    "1 << 64": 1,
    "1 << 65": 2,
    "-8 >> 66": -2,
    "0x8000000000000000 >> 63": 1,
    "-7 / 2": -3,
    "7 / -2": -3,
    "-7 / -2": 3,
    "-1 / 1": -1,
    "1 / -1": -1,
    "-1 / -1": 1,
    "0 / -5": 0,
    "0 % -5": 0,
    "-7 % 3": -1,
    "7 % -3": 1,
    "-1 > 0U": 1,
    "-1 > 0": 0,
    "(-1 > 0U) - 2 < 0": 1,
    "!0U - 2 < 0": 1,
    "(.s64) 0xffffffffffffffff < 0": 1,
    "(.u64) -1 > 0": 1,
    "0xffffffffffffffff > 0": 1,
    "0x7fffffffffffffff + 1 < 0": 1,
    "WARP_SZ * 2": 64,
    "10 - 3 - 2": 5,
    "100 / 5 / 2": 10,
    "2 + 3 * 4 << 1": 28,
    "1 | 2 ^ 3 & 1": 3,
    "1 || 0 && 0": 1,
    "2 && 3": 1,
    "0 || 4": 1,
    "1 == 1 != 0": 1,
    "3 > 2 > 1": 0,
}


@pytest.mark.parametrize("expression", VALUES)
def test_a_whole_expression_has_a_known_value(expression):
    assert numbers_of([expression]) == [VALUES[expression] & _MASK]


def _double(number: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", number))[0]


def _single(number: float) -> int:
    return struct.unpack("<I", struct.pack("<f", number))[0]


REALS = {
    "1.5": 1.5,
    "-1.5": -1.5,
    "+ 2.5": 2.5,
    "- - 0.1": 0.1,
    "1.5 + 2.25 * 2.0": 6.0,
    "(1.0 - 3.0) / 4.0": -0.5,
    "0.1 + 0.2": 0.1 + 0.2,
    "1e300 * 1e10": math.inf,
    "0d3ff8000000000000": 1.5,
    "0D3ff8000000000000 + 1.0": 2.5,
    "-0d0000000000000000": -0.0,
}


@pytest.mark.parametrize("expression", REALS)
def test_a_real_expression_is_in_double_precision(expression):
    number = REALS[expression]
    assert numbers_of([expression], "f64", "e") == [_double(number)]


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("0f3fc00000", 0x3FC0_0000),
        ("0F3FC00000", 0x3FC0_0000),
        ("0.1", _single(0.1)),
        ("1.5 + 1.0", _single(2.5)),
        ("1e39", 0x7F80_0000),
        ("-1e39", 0xFF80_0000),
        ("3.4028235677973366e38", 0x7F80_0000),  # halfway to the next power of two
        ("3.4028235677973362e38", 0x7F7F_FFFF),
        ("0d3ff8000000000000", 0x3FC0_0000),
    ],
)
def test_a_real_number_is_rounded_to_single_precision(text, bits):
    assert numbers_of([text], "f32", "f") == [bits]


def test_single_precision_becomes_double():
    assert numbers_of(["0f3fc00000", "0f00000001"], "f64", "e") == [
        _double(1.5),
        _double(2.0**-149),
    ]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 / 0", "division by 0"),
        ("1 % (2 - 2)", "division by 0"),
        ("1.0 ? 2 : 3", "a whole number chooses between both sides of :"),
        ("v ? 2 : 3", "a whole number chooses between both sides of :"),
        ("v + v", "+ can't join these: only a number can be added to a name"),
        ("3 - v", "- can't join these: only a number can be added to a name"),
        ("v * 2", "* can't join these: only a number can be added to a name"),
        ("~v", "~ can't stand before this"),
        ("-v", "- can't stand before this"),
        ("~1.5", "~ can't stand before this"),
        ("1 + 1.5", "+ can't join these: one is a floating-point number"),
        ("1.5 + 1", "+ can't join these: one is a floating-point number"),
        ("1.5 < 2.5", "< can't join these floating-point numbers"),
        ("(.s64) v", "(.s64) and (.u64) stand before whole numbers, and there are no others"),
        ("(.s64) 1.5", "(.s64) and (.u64) stand before whole numbers, and there are no others"),
        ("(.u32) 1", "(.s64) and (.u64) stand before whole numbers, and there are no others"),
        ("r[1]", "r is no array"),
        ("v[v]", "the index of v is no constant"),
        ("v[1.5]", "the index of v is no constant"),
    ],
)
def test_an_expression_without_a_value_is_refused(expression, message):
    found = complaint(f".visible .entry k {{ {_DECLARED} mov.u64 d, {expression}; ret; }}")
    assert re.sub(r"^\d+:\d+: ", "", found) == message


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1.5 / 0.0", "division by 0"),
        ("-0f3f800000", "- can't stand before this"),
        ("0f3f800000 + 1.0", "+ can't join these floating-point numbers"),
        ("0d3ff00000", "0d3ff00000: 0d wants 16 digits behind it"),
    ],
)
def test_a_real_expression_without_a_value_is_refused(expression, message):
    found = complaint(f".visible .entry k {{ {_DECLARED} mov.f64 e, {expression}; ret; }}")
    assert re.sub(r"^\d+:\d+: ", "", found) == message


ADDRESSES = {
    "v": 0,
    "v + 4": 4,
    "4 + v": 4,
    "v - 4": -4,
    "v + 2 * 3": 6,
    "v[3]": 12,
    "v[1 + 1] + 1": 9,
    "v + 4 - 8": -4,
    "v + 0xffffffff": 0xFFFF_FFFF,
    "v - 0x80000000": -0x8000_0000,
    "v[0x3fffffff] + 3": 0xFFFF_FFFF,
}


@pytest.mark.parametrize("expression", ADDRESSES)
def test_a_number_is_added_to_an_address(expression):
    loaded = instructions(
        f".visible .entry k {{ {_DECLARED} ld.global.u32 r, [{expression}]; ret; }}"
    )[0]
    address = loaded.operands[1]
    assert isinstance(address, PtxAddress)
    assert isinstance(address.base, PtxVariable)
    assert address.base.name == "k.v"
    assert address.offset == ADDRESSES[expression]
