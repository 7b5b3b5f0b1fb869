"""Constant folding: operations on constants against Python, and operations that a constant operand
simplifies.
"""

import operator
import random
from collections.abc import Callable

import pytest

from sim.toolchain.compiler.analysis.definitions import Definitions
from sim.toolchain.compiler.ir import Function
from sim.toolchain.compiler.passes.constant_folding import fold_constants
from sim.toolchain.compiler.passes.constant_propagation import propagate
from sim.toolchain.compiler.passes.dead_code import remove_dead_code
from sim.toolchain.compiler.passes.simplify_cfg import simplify_cfg
from sim.toolchain.compiler.passes.webs import reaching_webs
from testbench.compiler.passes import after

_MASK = 0xFFFF_FFFF
_KNOWN = "ld.shared.v4.u32 {a, b, c, i}, [16]; "
"""Defines %v1 and the following registers: those of a, b, c and i that the body reads."""
_STORE = " st.shared.u32 [64], d;"
_NUMBERS = (0, 1, 2, 31, 32, 33, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFE, 0xFFFF_FFFF, 0x1234_5678)


def _propagate(function: Function) -> bool:
    return propagate(function, Definitions(function))


def folded(body: str) -> list[str]:
    """Returns the lines of a body without its loads and stores."""
    listing = after(
        _KNOWN + body,
        simplify_cfg,
        reaching_webs,
        *[_propagate, fold_constants] * 3,
        simplify_cfg,
        remove_dead_code,
    )
    lines = [line.strip() for line in listing.strip().splitlines()[1:-1]]
    return [line for line in lines if "LDS.U.128" not in line and "STS" not in line]


def number_of(body: str) -> int:
    """Returns the constant value of d at the end."""
    listing = after(
        _KNOWN + body + _STORE,
        simplify_cfg,
        reaching_webs,
        *[_propagate, fold_constants] * 3,
        simplify_cfg,
        remove_dead_code,
    )
    *lines, last = [line.strip() for line in listing.strip().splitlines()[1:-1]]
    stored = last.split(", ")[1]
    if stored in ("0x0", "0x1"):
        return int(stored, 16)
    assert lines == [f"{stored} = MOV {lines[0].split()[-1]}"]
    return int(lines[0].split()[-1], 16)


def signed(value: int) -> int:
    return value - (value >> 31 << 32)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add.u32": operator.add,
    "sub.u32": operator.sub,
    "and.b32": operator.and_,
    "or.b32": operator.or_,
    "xor.b32": operator.xor,
    "shl.b32": lambda x, y: x << y if y < 32 else 0,
    "shr.u32": lambda x, y: x >> y if y < 32 else 0,
    "shr.s32": lambda x, y: signed(x) >> min(y, 31),
}


@pytest.mark.parametrize("name", _OPERATIONS)
def test_an_operation_on_numbers_is_a_number(name):
    source = random.Random(name)
    pairs = [(x, y) for x in _NUMBERS for y in _NUMBERS]
    for x, y in source.sample(pairs, 25):
        found = number_of(f"{name} d, {x}, {y};")
        assert found == _OPERATIONS[name](x, y) & _MASK, (hex(x), hex(y))


_RELATIONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@pytest.mark.parametrize("kind", ["u32", "s32"])
@pytest.mark.parametrize("relation", _RELATIONS)
def test_a_comparison_of_zero_with_a_number_is_decided(relation, kind):
    for x, y in ((0, 0), (0, 1), (0, 0x7FFFF), (0, 0xFFF8_0000), (0, _MASK)):
        one, other = (signed(x), signed(y)) if kind == "s32" else (x, y)
        wanted = 5 if _RELATIONS[relation](one, other) else 9
        body = (
            f"mov.u32 i, {x}; mov.u32 n, {y}; setp.{relation}.{kind} p, i, n; selp.u32 d, 5, 9, p;"
        )
        assert number_of(body) == wanted, (hex(x), hex(y))
        body = body.replace(
            "selp.u32 d, 5, 9, p", "mov.u32 d, 9; @p mov.u32 d, 5; @!p mov.u32 d, 9"
        )
        assert folded(body + _STORE)[-1].endswith(f"MOV {wanted:#x}")


SIMPLE = {
    "add.u32 d, a, 0;": [],
    "add.u32 d, 0, a;": [],
    "sub.u32 d, a, 0;": [],
    "or.b32 d, a, 0;": [],
    "xor.b32 d, 0, a;": [],
    "and.b32 d, a, -1;": [],
    "and.b32 d, -1, a;": [],
    "and.b32 d, a, 0;": [],
    "and.b32 d, 0, a;": [],
    "shr.u32 d, 0, a;": [],
    "shl.b32 d, 0, a;": [],
    "shl.b32 d, a, 0;": [],
    "shr.u32 d, a, 0;": [],
    "shr.s32 d, a, 0;": [],
    "mad.lo.u32 d, a, 0, b;": [],
    "mad.lo.u32 d, 0, a, b;": [],
    # These can't be simplified.
    "add.u32 d, a, 1;": ["%v5 = IADD %v1, 0x1"],
    "sub.u32 d, 0, a;": ["%v5 = IADD 0x0, -%v1"],
    "or.b32 d, a, 1;": ["%v5 = LOP.OR %v1, 0x1"],
    "and.b32 d, a, 1;": ["%v5 = LOP.AND %v1, 0x1"],
    "xor.b32 d, a, -1;": ["%v5 = LOP.XOR %v1, 0xffffffff"],
    "shr.s32 d, 0, a;": ["%v5 = SHR 0x0, %v1"],
    "mad.lo.u32 d, a, 1, b;": ["%v5 = MAD %v1, 0x1, %v2"],
    "mov.u32 n, 0; add.cc.u32 d, a, n; addc.u32 d, d, 0;": [
        "%v5 = IADD.CC %v1, 0x0",
        "%v6 = IADD.X %v5, 0x0",
    ],
}


@pytest.mark.parametrize("body", SIMPLE)
def test_a_number_that_does_nothing_leaves_the_other_operand(body):
    assert folded(body + _STORE) == SIMPLE[body]


def test_a_branch_that_is_always_taken_leaves_one_side():
    body = (
        "setp.lt.u32 p, 0, {}; @p bra L; st.shared.u32 [64], a; bra E; L: st.shared.u32 [64], b; E:"
    )
    for value, stored in ((3, "%v2"), (0, "%v1")):
        listing = after(
            _KNOWN + body.format(value),
            simplify_cfg,
            reaching_webs,
            _propagate,
            fold_constants,
            _propagate,
            fold_constants,
            simplify_cfg,
            remove_dead_code,
        )
        assert [line for line in listing.splitlines() if "STS" in line] == [
            f"  STS 0x0, {stored}, +0x40"
        ]
        assert "branch" not in listing


def test_an_operation_whose_guard_never_holds_is_gone():
    for guard, count in (("@p", 1), ("@!p", 0)):
        body = f"setp.lt.u32 p, 0, 5; {guard} st.shared.u32 [64], a;"
        listing = after(
            _KNOWN + body, simplify_cfg, reaching_webs, *[_propagate, fold_constants] * 2
        )
        assert listing.count("STS") == count
        assert "@" not in listing
