"""PTX arithmetic and its results: an instruction's text, and a Python function for it.

Operands are a, b and c, unsigned numbers; a 64-bit instruction has its operands in 64-bit
registers. A result is truncated to its width.
"""

import math
import operator
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

WORDS = (
    0,
    1,
    2,
    3,
    7,
    10,
    0x7F,
    0xFF,
    0x1234,
    0x8000,
    0xFFFF,
    0x10000,
    0x12345678,
    0x7FFFFFFE,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xDEADBEEF,
    0xFFFF0000,
    0xFFFFFFFE,
    0xFFFFFFFF,
)
"""Edge values of 32 bits."""
LONGS = (
    0,
    1,
    2,
    3,
    10,
    1000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    0x1_0000_0000,
    0x1_0000_0001,
    0x123456789ABCDEF,
    0x7FFF_FFFF_FFFF_FFFF,
    0x8000_0000_0000_0000,
    0x8000_0000_0000_0001,
    0xFEDC_BA98_7654_3210,
    0xFFFF_FFFF_0000_0000,
    0xFFFF_FFFF_FFFF_FFFE,
    0xFFFF_FFFF_FFFF_FFFF,
)
"""Edge values of 64 bits."""
_TESTS = {
    "finite": lambda size: size < 0x7F80_0000,
    "infinite": lambda size: size == 0x7F80_0000,
    "number": lambda size: size <= 0x7F80_0000,
    "notanumber": lambda size: size > 0x7F80_0000,
    "normal": lambda size: 0x0080_0000 <= size < 0x7F80_0000,
    "subnormal": lambda size: 0 < size < 0x0080_0000,
}
"""Predicates of single-precision numbers, on the bits without the sign."""
_M32, _M64 = (1 << 32) - 1, (1 << 64) - 1
_Compute = Callable[[int, int, int], int]


@dataclass(frozen=True)
class Operation:
    """An instruction. ``text`` has the placeholders d, a, b and c; ``bits`` is the width of the
    operands, ``result`` that of the result.
    """

    text: str
    bits: int
    result: int
    compute: _Compute


def _s(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _quotient(x: int, y: int) -> int:
    if y == 0:
        return -1
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _remainder(x: int, y: int) -> int:
    return -1 if y == 0 else x - y * _quotient(x, y)


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def _field(x: int, position: int, length: int, bits: int, signed: bool) -> int:
    position, length = position & 0xFF, length & 0xFF
    if not length:
        return 0
    sign = x >> min(position + length - 1, bits - 1) & 1 if signed else 0
    found = x >> position & (1 << min(length, bits)) - 1 if position < bits else 0
    have = max(0, min(length, bits - position))
    found &= (1 << have) - 1
    return found | (sign * ((1 << bits) - 1) >> have << have)


def _inserted(x: int, base: int, position: int, length: int, bits: int) -> int:
    position, length = position & 0xFF, length & 0xFF
    mask = (1 << min(length, bits)) - 1 << position if position < bits else 0
    return base & ~mask | x << position & mask


def _first(x: int, bits: int) -> int:
    return x.bit_length() - 1 if x else -1


def _first_signed(x: int, bits: int) -> int:
    return _first(~x & (1 << bits) - 1 if x >> bits - 1 else x, bits)


def _reverse(x: int, bits: int) -> int:
    return int(f"{x:0{bits}b}"[::-1], 2)


def _prmt(a: int, b: int, c: int) -> int:
    found = 0
    for at in range(4):
        selector = c >> 4 * at & 15
        byte = (a | b << 32) >> 8 * (selector & 7) & 255
        if selector & 8:
            byte = 255 * (byte >> 7)
        found |= byte << 8 * at
    return found


def _integer(bits: int) -> list[Operation]:
    """Returns the operations that exist for both 32 and 64 bits."""
    u, s, b = f"u{bits}", f"s{bits}", f"b{bits}"

    def sign(value: int) -> int:
        return _s(value, bits)

    mask = (1 << bits) - 1

    def op(text: str, compute: _Compute, result: int = bits) -> Operation:
        return Operation(text, bits, result, compute)

    def shift(c: int) -> int:
        return min(c & _M32, bits)

    return [
        op(f"add.{u} d, a, b", lambda x, y, z: x + y),
        op(f"sub.{s} d, a, b", lambda x, y, z: x - y),
        op(f"mul.lo.{u} d, a, b", lambda x, y, z: x * y),
        op(f"mad.lo.{s} d, a, b, c", lambda x, y, z: x * y + z),
        op(f"mul.hi.{u} d, a, b", lambda x, y, z: x * y >> bits),
        op(f"mul.hi.{s} d, a, b", lambda x, y, z: sign(x) * sign(y) >> bits),
        op(f"mad.hi.{u} d, a, b, c", lambda x, y, z: (x * y >> bits) + z),
        op(f"div.{u} d, a, b", lambda x, y, z: x // y if y else -1),
        op(f"rem.{u} d, a, b", lambda x, y, z: x % y if y else -1),
        op(f"div.{s} d, a, b", lambda x, y, z: _quotient(sign(x), sign(y))),
        op(f"rem.{s} d, a, b", lambda x, y, z: _remainder(sign(x), sign(y))),
        op(f"sad.{u} d, a, b, c", lambda x, y, z: abs(x - y) + z),
        op(f"sad.{s} d, a, b, c", lambda x, y, z: abs(sign(x) - sign(y)) + z),
        op(
            f"mad.lo.cc.{u} d, a, b, c; addc.{u} d, d, 0",
            lambda x, y, z: _with_carry((x * y & mask) + z, bits),
        ),
        op(
            f"mad.hi.cc.{s} d, a, b, c; madc.lo.{s} d, d, a, b",
            lambda x, y, z: _wide_carry(sign(x) * sign(y) >> bits & mask, x, y, z, bits),
        ),
        op(f"neg.{s} d, a", lambda x, y, z: -x),
        op(f"abs.{s} d, a", lambda x, y, z: abs(sign(x))),
        op(f"not.{b} d, a", lambda x, y, z: ~x),
        op(f"cnot.{b} d, a", lambda x, y, z: int(not x)),
        op(f"and.{b} d, a, b", lambda x, y, z: x & y),
        op(f"or.{b} d, a, b", lambda x, y, z: x | y),
        op(f"xor.{b} d, a, b", lambda x, y, z: x ^ y),
        op(f"min.{u} d, a, b", lambda x, y, z: min(x, y)),
        op(f"max.{u} d, a, b", lambda x, y, z: max(x, y)),
        op(f"min.{s} d, a, b", lambda x, y, z: min(sign(x), sign(y))),
        op(f"max.{s} d, a, b", lambda x, y, z: max(sign(x), sign(y))),
        *(
            op(
                f"shl.{b} d, a, {by}",
                lambda x, y, z, by=by: x << shift(z if by == "C" else int(by)),
            )
            for by in ("C", "0", "1", "31", "32", "33", "63")
        ),
        *(
            op(
                f"shr.{u} d, a, {by}",
                lambda x, y, z, by=by: x >> shift(z if by == "C" else int(by)),
            )
            for by in ("C", "0", "1", "31", "32", "33", "63")
        ),
        *(
            op(
                f"shr.{s} d, a, {by}",
                lambda x, y, z, by=by: sign(x) >> shift(z if by == "C" else int(by)),
            )
            for by in ("C", "0", "1", "31", "32", "33", "63")
        ),
        op(f"popc.{b} d, a", lambda x, y, z: x.bit_count(), 32),
        op(f"clz.{b} d, a", lambda x, y, z: bits - x.bit_length(), 32),
        op(f"bfind.{u} d, a", lambda x, y, z: _first(x, bits), 32),
        op(f"bfind.{s} d, a", lambda x, y, z: _first_signed(x, bits), 32),
        op(
            f"bfind.shiftamt.{u} d, a",
            lambda x, y, z: -1 if not x else bits - 1 - _first(x, bits),
            32,
        ),
        op(f"brev.{b} d, a", lambda x, y, z: _reverse(x, bits)),
        *(
            op(
                f"bfe.{u} d, a, {p}, {n}",
                lambda x, y, z, p=p, n=n: _field(x, _number(p, z), _number(n, z), bits, False),
            )
            for p, n in (
                ("C", "5"),
                ("3", "C"),
                ("0", "0"),
                ("5", "20"),
                ("C", "C"),
                (str(bits - 4), "9"),
            )
        ),
        *(
            op(
                f"bfe.{s} d, a, {p}, {n}",
                lambda x, y, z, p=p, n=n: _field(x, _number(p, z), _number(n, z), bits, True),
            )
            for p, n in (
                ("C", "5"),
                ("3", "C"),
                ("0", "0"),
                ("5", "20"),
                ("C", "C"),
                (str(bits - 4), "9"),
            )
        ),
        *(
            op(
                f"bfi.{b} d, a, b, {p}, {n}",
                lambda x, y, z, p=p, n=n: _inserted(x, y, _number(p, z), _number(n, z), bits),
            )
            for p, n in (
                ("C", "5"),
                ("3", "C"),
                ("0", "0"),
                ("5", "20"),
                ("C", "C"),
                (str(bits - 4), "9"),
            )
        ),
        *(
            op(
                f"setp.{name}.{t} p, a, b; selp.{b} d, a, b, p",
                lambda x, y, z, t=t, f=f: (
                    x if f(*((sign(x), sign(y)) if t[0] == "s" else (x, y))) else y
                ),
            )
            for t in (u, s)
            for name, f in (
                ("lt", int.__lt__),
                ("le", int.__le__),
                ("gt", int.__gt__),
                ("ge", int.__ge__),
                ("eq", int.__eq__),
                ("ne", int.__ne__),
            )
        ),
        op(
            f"setp.lt.and.{s} p|q, a, b, o; selp.{b} d, a, b, p; @q add.{u} d, d, 1",
            lambda x, y, z: _both(sign(x) < sign(y), z & 1, x, y),
        ),
        *(
            op(
                f"{name}.{kind} d, a, {n}",
                lambda x, y, z, name=name, kind=kind, n=n: _divided(name, kind, x, n, bits),
            )
            for name in ("div", "rem")
            for kind in (u, s)
            for n in (1, 2, 3, 7, 10, 16, 641, 1000, 0x7FFFFFFF)
        ),
        *(
            op(f"mul.lo.{u} d, a, {n}", lambda x, y, z, n=n: x * n)
            for n in (0, 1, 2, 3, 8, 1000, 65536, 0x12345, 0xFFFFFFFF)
        ),
        op(f"add.{u} d, a, 0x7fffffff", lambda x, y, z: x + 0x7FFFFFFF),
        op(f"sub.{u} d, 100, a", lambda x, y, z: 100 - x),
        op(f"sub.{u} d, a, 1", lambda x, y, z: x - 1),
        op(f"and.{b} d, a, 0x7fffff", lambda x, y, z: x & 0x7FFFFF),
        op(f"setp.gt.{u} p, a, 0; selp.{b} d, 5, b, p", lambda x, y, z: 5 if x else y),
    ]


def _with_carry(total: int, bits: int) -> int:
    return total + (total >> bits)


def _wide_carry(product: int, x: int, y: int, z: int, bits: int) -> int:
    total = product + z
    return (total & (1 << bits) - 1) * x + y + (total >> bits)


def _number(text: str, z: int) -> int:
    return z if text == "C" else int(text)


def _both(first: bool, second: int, x: int, y: int) -> int:
    return (x if first and second else y) + (1 if not first and second else 0)


def _divided(name: str, kind: str, x: int, n: int, bits: int) -> int:
    value = _s(x, bits) if kind[0] == "s" else x
    return _quotient(value, n) if name == "div" else _remainder(value, n)


_SPECIAL_32 = [
    Operation(text, 32, result, compute)
    for text, result, compute in (
        ("mul.wide.u32 d, a, b", 64, lambda x, y, z: x * y),
        ("mul.wide.s32 d, a, b", 64, lambda x, y, z: _s(x) * _s(y)),
        ("mul.wide.s32 d, a, 4", 64, lambda x, y, z: _s(x) * 4),
        ("mul.wide.u32 d, a, 24", 64, lambda x, y, z: x * 24),
        ("mul.wide.s32 d, a, -3", 64, lambda x, y, z: _s(x) * -3),
        ("mad.wide.u32 d, a, b, l", 64, lambda x, y, z: x * y + (x | y << 32)),
        ("mad.wide.s32 d, a, b, l", 64, lambda x, y, z: _s(x) * _s(y) + (x | y << 32)),
        ("mul24.lo.u32 d, a, b", 32, lambda x, y, z: (x & 0xFFFFFF) * (y & 0xFFFFFF)),
        ("mul24.hi.u32 d, a, b", 32, lambda x, y, z: (x & 0xFFFFFF) * (y & 0xFFFFFF) >> 16),
        ("mad24.lo.s32 d, a, b, c", 32, lambda x, y, z: _s(x, 24) * _s(y, 24) + z),
        ("add.sat.s32 d, a, b", 32, lambda x, y, z: _clamp(_s(x) + _s(y), -1 << 31, (1 << 31) - 1)),
        ("sub.sat.s32 d, a, b", 32, lambda x, y, z: _clamp(_s(x) - _s(y), -1 << 31, (1 << 31) - 1)),
        (
            "mad.hi.sat.s32 d, a, b, c",
            32,
            lambda x, y, z: _clamp((_s(x) * _s(y) >> 32) + _s(z), -1 << 31, (1 << 31) - 1),
        ),
        ("prmt.b32 d, a, b, c", 32, _prmt),
        ("prmt.b32 d, a, b, 0x3021", 32, lambda x, y, z: _prmt(x, y, 0x3021)),
        ("shf.l.wrap.b32 d, a, b, c", 32, lambda x, y, z: (x | y << 32) << (z & 31) >> 32),
        ("shf.r.wrap.b32 d, a, b, c", 32, lambda x, y, z: (x | y << 32) >> (z & 31)),
        ("shf.l.clamp.b32 d, a, b, c", 32, lambda x, y, z: (x | y << 32) << min(z, 32) >> 32),
        ("shf.r.clamp.b32 d, a, b, c", 32, lambda x, y, z: (x | y << 32) >> min(z, 32)),
        ("shf.r.wrap.b32 d, a, b, 13", 32, lambda x, y, z: (x | y << 32) >> 13),
        *(
            (
                f"lop3.b32 d, a, b, c, {table}",
                32,
                lambda x, y, z, table=table: sum(
                    (table >> (x >> i & 1) * 4 + (y >> i & 1) * 2 + (z >> i & 1) & 1) << i
                    for i in range(32)
                ),
            )
            for table in (0x96, 0xE8, 0xCA, 0x01)
        ),
        ("set.lt.u32.s32 d, a, b", 32, lambda x, y, z: -(_s(x) < _s(y))),
        ("set.ge.u32.u32 d, a, b", 32, lambda x, y, z: -(x >= y)),
        ("set.lt.f32.s32 d, a, b", 32, lambda x, y, z: 0x3F800000 if _s(x) < _s(y) else 0),
        ("set.hs.f32.u32 d, a, b", 32, lambda x, y, z: 0x3F800000 if x >= y else 0),
        ("slct.b32.s32 d, a, b, c", 32, lambda x, y, z: x if _s(z) >= 0 else y),
        ("slct.f32.s32 d, a, b, c", 32, lambda x, y, z: x if _s(z) >= 0 else y),
        (
            "slct.b64.s32 l, l, k, c; mov.b64 d, l",
            64,
            lambda x, y, z: (x | y << 32) if _s(z) >= 0 else (y | x << 32),
        ),
        ("cvt.s64.s32 d, a", 64, lambda x, y, z: _s(x)),
        ("cvt.u64.u32 d, a", 64, lambda x, y, z: x),
        ("cvt.u32.u8 d, a", 32, lambda x, y, z: x & 255),
        ("cvt.s32.s8 d, a", 32, lambda x, y, z: _s(x, 8)),
        ("cvt.s32.s16 d, a", 32, lambda x, y, z: _s(x, 16)),
        ("cvt.u32.u16 d, a", 32, lambda x, y, z: x & 0xFFFF),
        ("cvt.sat.u8.s32 d, a", 32, lambda x, y, z: _clamp(_s(x), 0, 255)),
        ("cvt.sat.s8.s32 d, a", 32, lambda x, y, z: _clamp(_s(x), -128, 127)),
        ("cvt.sat.u16.u32 d, a", 32, lambda x, y, z: min(x, 0xFFFF)),
        ("cvt.sat.s16.u32 d, a", 32, lambda x, y, z: min(x, 0x7FFF)),
        ("cvt.sat.u32.s32 d, a", 32, lambda x, y, z: max(_s(x), 0)),
        ("cvt.sat.s32.u32 d, a", 32, lambda x, y, z: min(x, 0x7FFFFFFF)),
        ("cvt.sat.u64.s32 d, a", 64, lambda x, y, z: max(_s(x), 0)),
        ("cvt.sat.u64.s8 d, a", 64, lambda x, y, z: max(_s(x, 8), 0)),
        ("cvt.s32.s32 d, a", 64, lambda x, y, z: _s(x)),
        ("cvt.u32.s32 d, a", 64, lambda x, y, z: x),
        *(
            (
                f"xor.b32 d, a, {sign | start}; testp.{test}.f32 p, d; selp.u32 d, 1, 0, p",
                32,
                lambda x, y, z, start=start, accepts=accepts: accepts((x ^ start) & 0x7FFF_FFFF),
            )
            for test, accepts in _TESTS.items()
            for sign, start in ((0, 0x7F80_0000), (1 << 31, 0x0080_0000))
        ),
        ("mov.b64 d, {a, b}", 64, lambda x, y, z: x | y << 32),
        ("mov.b32 {h, g}, a; mov.b32 d, {g, h}", 32, lambda x, y, z: x >> 16 | x << 16),
        (
            "cvt.u16.u32 h, a; cvt.u16.u32 g, b; add.u16 h, h, g; cvt.u32.u16 d, h",
            32,
            lambda x, y, z: x + y & 0xFFFF,
        ),
        (
            "cvt.u16.u32 h, a; cvt.u16.u32 g, b; mul.lo.u16 h, h, g; cvt.s32.s16 d, h",
            32,
            lambda x, y, z: _s(x * y, 16),
        ),
        (
            "cvt.u16.u32 h, a; cvt.u16.u32 g, b; mul.hi.s16 h, h, g; cvt.s32.s16 d, h",
            32,
            lambda x, y, z: _s(x, 16) * _s(y, 16) >> 16,
        ),
        (
            "cvt.u16.u32 h, a; cvt.u16.u32 g, b; mul.wide.s16 d, h, g",
            32,
            lambda x, y, z: _s(x, 16) * _s(y, 16),
        ),
        (
            "cvt.u16.u32 h, a; cvt.u16.u32 g, b; div.s16 h, h, g; cvt.s32.s16 d, h",
            32,
            lambda x, y, z: _s(_quotient(_s(x, 16), _s(y, 16)), 16),
        ),
        ("cvt.u16.u32 h, a; shr.s16 h, h, 3; cvt.s32.s16 d, h", 32, lambda x, y, z: _s(x, 16) >> 3),
        (
            "cvt.u16.u32 h, a; cvt.u16.u32 g, b; max.s16 h, h, g; cvt.s32.s16 d, h",
            32,
            lambda x, y, z: max(_s(x, 16), _s(y, 16)),
        ),
        (
            "cvt.u16.u32 h, a; cvt.u16.u32 g, b; setp.lt.u16 p, h, g; selp.u32 d, 1, 0, p",
            32,
            lambda x, y, z: int(x & 0xFFFF < y & 0xFFFF),
        ),
        (
            "add.cc.u32 d, a, b; addc.u32 d, d, c",
            32,
            lambda x, y, z: (x + y & _M32) + z + (x + y >> 32),
        ),
        ("sub.cc.u32 d, a, b; subc.u32 d, d, c", 32, lambda x, y, z: (x - y & _M32) - z - (x < y)),
        (
            "mad.lo.cc.u32 d, a, b, c; addc.u32 d, d, 0",
            32,
            lambda x, y, z: ((x * y & _M32) + z & _M32) + ((x * y & _M32) + z >> 32),
        ),
        (
            "add.cc.u32 d, a, b; madc.hi.u32 d, a, b, d",
            32,
            lambda x, y, z: (x * y >> 32) + (x + y & _M32) + (x + y >> 32),
        ),
        (
            "add.cc.u32 d, a, b; add.u64 l, l, k; mov.b64 {e, f}, l; add.u32 e, e, f; addc.u32 d, d, e",
            32,
            lambda x, y, z: 3 * (x + y) + 2 * (x + y >> 32),
        ),
        (
            "add.cc.u32 d, a, b; @o bra OTHER; add.u32 d, d, 5; OTHER: addc.u32 d, d, c",
            32,
            lambda x, y, z: (x + y & _M32) + z + (x + y >> 32) + (0 if z & 1 else 5),
        ),
        (
            "mad.lo.u32 d, a, b, a; shl.b32 d, d, 2; add.u32 d, d, c; sub.u32 d, d, b",
            32,
            lambda x, y, z: (x * y + x) * 4 + z - y,
        ),
        (
            "and.b32 d, a, b; or.b32 d, d, c; xor.b32 d, d, a; not.b32 d, d",
            32,
            lambda x, y, z: ~((x & y | z) ^ x),
        ),
        (
            "and.b32 d, a, b; setp.eq.u32 p, d, 0; selp.u32 d, a, c, p",
            32,
            lambda x, y, z: x if not x & y else z,
        ),
        (
            "setp.lt.u32 p, a, b; setp.lt.xor.s32 p, b, c, p; not.pred p, p; and.pred q, p, o; selp.u32 d, a, b, q",
            32,
            lambda x, y, z: x if not ((_s(y) < _s(z)) ^ (x < y)) and z & 1 else y,
        ),
    )
]
_SPECIAL_64 = [
    Operation(text, 64, result, compute)
    for text, result, compute in (
        ("cvt.u32.u64 d, a", 32, lambda x, y, z: x),
        ("cvt.s64.u64 d, a", 64, lambda x, y, z: x),
        ("cvt.s32.s64 d, a", 64, lambda x, y, z: _s(x)),
        ("cvt.u16.u64 d, a", 64, lambda x, y, z: x & 0xFFFF),
        ("cvt.s8.s64 d, a", 64, lambda x, y, z: _s(x, 8)),
        ("cvt.sat.u64.s64 d, a", 64, lambda x, y, z: max(_s(x, 64), 0)),
        ("cvt.sat.s64.u64 d, a", 64, lambda x, y, z: min(x, (1 << 63) - 1)),
        ("cvt.sat.u32.s64 d, a", 32, lambda x, y, z: _clamp(_s(x, 64), 0, _M32)),
        ("cvt.sat.u32.u64 d, a", 32, lambda x, y, z: min(x, _M32)),
        ("cvt.sat.s32.s64 d, a", 32, lambda x, y, z: _clamp(_s(x, 64), -1 << 31, (1 << 31) - 1)),
        ("cvt.sat.s32.u64 d, a", 32, lambda x, y, z: min(x, (1 << 31) - 1)),
        ("cvt.sat.s16.s64 d, a", 32, lambda x, y, z: _clamp(_s(x, 64), -1 << 15, (1 << 15) - 1)),
        ("cvt.sat.u8.u64 d, a", 32, lambda x, y, z: min(x, 255)),
        ("mov.b64 {e, f}, a; add.u32 d, e, f", 32, lambda x, y, z: (x & _M32) + (x >> 32)),
        ("add.u64 d, a, 0x123456789a", 64, lambda x, y, z: x + 0x123456789A),
        ("add.s64 d, a, -4; add.s64 d, d, -4", 64, lambda x, y, z: x - 8),
        ("sub.u64 d, 5, a", 64, lambda x, y, z: 5 - x),
        ("sub.u64 d, a, 0x100000000", 64, lambda x, y, z: x - (1 << 32)),
        ("mad.hi.s64 d, a, b, c", 64, lambda x, y, z: (_s(x, 64) * _s(y, 64) >> 64) + z),
        (
            "add.cc.u64 d, a, b; addc.u64 d, d, c",
            64,
            lambda x, y, z: (x + y & _M64) + z + (x + y >> 64),
        ),
        ("sub.cc.u64 d, a, b; subc.u64 d, d, c", 64, lambda x, y, z: (x - y & _M64) - z - (x < y)),
        ("@o sub.u64 d, a, b; @!o add.u64 d, b, a", 64, lambda x, y, z: x - y if z & 1 else x + y),
        ("@o div.u64 d, a, 7; @!o mov.u64 d, b", 64, lambda x, y, z: x // 7 if z & 1 else y),
    )
]


# Floating point, on integers and numbers with a fraction: none of these is infinite, subnormal or
# NaN


def _packed(number: Fraction | int, bits: int) -> int:
    """Returns the nearest number with this many significant bits; ties go to the even one."""
    digits, form, word = (24, "<f", "<I") if bits == 32 else (53, "<d", "<Q")
    number = Fraction(number)
    if not number:
        return 0
    exponent = math.floor(math.log2(abs(number))) - digits
    unit = Fraction(2) ** exponent
    while abs(round(number / unit)) >= 1 << digits:
        unit *= 2
    return int(struct.unpack(word, struct.pack(form, round(number / unit) * unit))[0])


def _unpacked(bits: int, pattern: int) -> Fraction:
    form, word = ("<f", "<I") if bits == 32 else ("<d", "<Q")
    return Fraction(struct.unpack(form, struct.pack(word, pattern))[0])


def _near(number: int, bits: int) -> Fraction:
    """Returns the floating-point number that is nearest to a signed integer."""
    return _unpacked(bits, _packed(_s(number, bits), bits))


def _of_floats(bits: int) -> Iterator[tuple[str, int, _Compute]]:
    """Yields instructions on v and w, which are the operands a and b converted from integers."""
    kind, one, other = (f"f{bits}", "e", "f") if bits == 32 else (f"f{bits}", "l", "k")
    both = f"cvt.rn.{kind}.s{bits} {one}, a; cvt.rn.{kind}.s{bits} {other}, b; "

    relations = [(name, getattr(operator, name)) for name in ("lt", "le", "gt", "ge", "eq", "ne")]

    def row(
        text: str, compute: Callable[[Fraction, Fraction], Fraction]
    ) -> tuple[str, int, _Compute]:
        return (
            both + text.format(v=one, w=other, kind=kind),
            bits,
            lambda x, y, z: _packed(compute(_near(x, bits), _near(y, bits)), bits),
        )

    for text, compute in (
        ("add.{kind} d, {v}, {w}", operator.add),
        ("sub.{kind} d, {v}, {w}", operator.sub),
        ("fma.rn.{kind} d, {v}, {w}, {v}", lambda v, w: v * w + v),
        ("min.{kind} d, {v}, {w}", min),
        ("max.{kind} d, {v}, {w}", max),
        ("abs.{kind} d, {v}", lambda v, w: abs(v)),
        *(
            (
                f"setp.{name}.{{kind}} p, {{v}}, {{w}}; selp.b{bits} d, {{v}}, {{w}}, p",
                lambda v, w, relation=relation: v if relation(v, w) else w,
            )
            for name, relation in relations
        ),
    ):
        yield row(text, compute)
    yield (
        f"{both}mul.{kind} d, {one}, {other}",
        bits,
        # A zero product has a sign.
        lambda x, y, z: (
            _packed(_near(x, bits) * _near(y, bits), bits)
            or int((_s(x, bits) < 0) != (_s(y, bits) < 0)) << bits - 1
        ),
    )
    for name, relation in relations:
        for text, found in (
            (f"set.{name}.u32.{kind} d, {one}, {other}", lambda holds, also: -holds),
            (f"set.{name}.f32.{kind} d, {one}, {other}", lambda holds, also: holds * 0x3F80_0000),
            (
                f"set.{name}.or.u32.{kind} d, {one}, {other}, o",
                lambda holds, also: -(holds or also),
            ),
            (
                f"setp.{name}.and.{kind} p|q, {one}, {other}, o; selp.u32 d, 1, 0, p; @q add.u32 d, d, 2",
                lambda holds, also: (1 if holds else 2) if also else 0,
            ),
        ):
            yield (
                both + text,
                32,
                lambda x, y, z, relation=relation, found=found: found(
                    relation(_near(x, bits), _near(y, bits)), bool(z & 1)
                ),
            )
    part = "0f3C000000" if bits == 32 else "0d3F80000000000000"  # a 128th
    for way, rounded in (
        ("rni", round),
        ("rzi", math.trunc),
        ("rmi", math.floor),
        ("rpi", math.ceil),
    ):
        for to in (8, 16, 32, 64):
            for least, most, letter in (
                (0, (1 << to) - 1, "u"),
                (-1 << to - 1, (1 << to - 1) - 1, "s"),
            ):
                yield (
                    f"{both}mul.{kind} {one}, {one}, {part}; cvt.{way}.{letter}{to}.{kind} d, {one}",
                    64,
                    lambda x, y, z, rounded=rounded, least=least, most=most: _clamp(
                        rounded(_near(x, bits) / 128), least, most
                    ),
                )
    for size in (8, 16, 32, 64):
        text = "mov.b64 {{e, f}}, a; " if bits == 64 and size < 64 else ""
        source = ("l" if bits == 32 else "a") if size == 64 else ("e" if bits == 64 else "a")
        for letter in "us":
            for result in (32, 64):
                yield (
                    f"{text.format()}cvt.rn.f{result}.{letter}{size} d, {source}",
                    result,
                    lambda x, y, z, size=size, letter=letter, result=result: _packed(
                        _cut_to(x | y << 32 if bits == 32 else x, size, letter), result
                    ),
                )
    yield (
        both + (f"cvt.f64.f32 d, {one}" if bits == 32 else f"cvt.rn.f32.f64 d, {one}"),
        96 - bits,
        lambda x, y, z: _packed(_near(x, bits), 96 - bits),
    )


def _cut_to(number: int, size: int, letter: str) -> int:
    return _s(number, size) if letter == "s" else number & (1 << size) - 1


_FLOATS = [
    Operation(text, bits, result, compute)
    for bits in (32, 64)
    for text, result, compute in _of_floats(bits)
]
OPERATIONS = [*_integer(32), *_integer(64), *_SPECIAL_32, *_SPECIAL_64, *_FLOATS]
"""All operations."""
