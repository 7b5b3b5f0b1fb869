"""Kernels that test arithmetic on integers of up to 32 bits."""

from collections.abc import Mapping
from itertools import product

from .outcome import WORD, Inputs, Kernels, OneOf, Outcome, exact, signed

__all__ = ["KERNELS", "quotient", "remainder"]

KERNELS = Kernels()


def quotient(x: int, y: int) -> int:
    """Returns the quotient as PTX defines it: rounded towards zero."""
    return abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)


def remainder(x: int, y: int) -> int:
    """Returns the remainder of that division, which has the dividend's sign."""
    return x - y * quotient(x, y)


def _saturated(value: int) -> int:
    return max(-1 << 31, min(value, (1 << 31) - 1))


@KERNELS.changing("k21_alu32", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    a, t = inputs.values["a"], 0
    x, y = o[0], o[1]
    sx, sy = signed(x), signed(y)
    count = min(y, 32)
    wide = x * y
    o[4:49] = [
        value & WORD
        for value in (
            x + y,
            x + a,
            x + 0x12345678,
            x + 77,
            x - y,
            a - x,
            100 - x,
            x * y,
            x * y >> 32,
            sx * sy >> 32,
            x * y + t,
            (x * y >> 32) + t,
            x * 1000,
            x * 8,
            x * a,
            x * 0x12345,
            x << count,
            x >> count,
            sx >> count,
            x << 3,
            x >> 9,
            sx >> 5,
            x & y,
            x | y,
            x ^ y,
            ~x,
            x & 0xFF00FF,
            int(x == 0),
            x & a,
            (x & 0xFFFFFF) * (y & 0xFFFFFF),
            signed(x, 24) * signed(y, 24) + t,
            abs(x - y) + t,
            -sx,
            abs(sx),
            min(sx, sy),
            max(x, y),
            wide,
            wide >> 32,
            sx * sy,
            sx * sy >> 32,
            x * a + wide,
            x * a + wide >> 32,
            _saturated(sx + sy),
            _saturated(sx - sy),
            _saturated((sx * sy >> 32) + t),
        )
    ]


@KERNELS.changing("k23_compare_select", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    a = inputs.values["a"]
    x, y = o[0], o[1]
    sx, sy, sa = signed(x), signed(y), signed(a)
    p1, p2, p3, p4 = sx < sy, x <= y, sx > sa, x >= 100
    p5, p6, p7, p8 = x == y, x != 0, x < y, x >= a
    p9, p10 = (sx < sy) & p1, (not sx < sy) & p1
    p11, p12 = (x > a) | (not p3), (not x > a) | (not p3)
    p13, p14 = (x != y) ^ p5, (x == y) ^ p5
    o[4:8] = [x if p1 else y, x if p2 else 7, int(p3), a if p4 else x]
    bits = (p1 & p2, p3 | p4, p5 ^ p6, not p7, p8 & p9, p10, p11, p12, p13, p14)
    o[8:12] = [
        sum(bit << place for place, bit in enumerate(bits)),
        -(sx < sy),
        -((x > a) & p13),
        x if sa >= 0 else y,
    ]
    o[12] = x if sy >= 0 else a


def _extracted(value: int, first: int, length: int, is_signed: bool) -> int:
    """PTX's bfe."""
    first, length = first & 0xFF, length & 0xFF
    last = min(first + length - 1, 31)
    fill = value >> last & 1 if is_signed and length else 0
    bits = [
        value >> at & 1 if at <= 31 and at < first + length else fill
        for at in range(first, first + 32)
    ]
    return sum(bit << place for place, bit in enumerate(bits))


def _inserted(source: int, base: int, first: int, length: int) -> int:
    """PTX's bfi."""
    first, length = first & 0xFF, length & 0xFF
    for place in range(length):
        at = first + place
        if at <= 31:
            base = base & ~(1 << at) | (source >> place & 1) << at
    return base


def _permuted(a: int, b: int, selectors: list[int]) -> int:
    """PTX's prmt, given the four selectors, lowest first."""
    everything = [(b << 32 | a) >> 8 * number & 0xFF for number in range(8)]
    picked = [everything[selector & 7] for selector in selectors]
    return sum(
        (0xFF * (byte >> 7) if selector & 8 else byte) << 8 * place
        for place, (byte, selector) in enumerate(zip(picked, selectors, strict=True))
    )


def _funnel(low: int, high: int, count: int, left: bool) -> int:
    """PTX's shf."""
    pair = high << 32 | low
    return (pair << count >> 32 if left else pair >> count) & WORD


def _table_lookup(x: int, y: int, z: int, table: int) -> int:
    """PTX's lop3."""
    return sum(
        (table >> ((x >> at & 1) << 2 | (y >> at & 1) << 1 | z >> at & 1) & 1) << at
        for at in range(32)
    )


def _nibbles(value: int) -> list[int]:
    return [value >> 4 * place & 15 for place in range(4)]


@KERNELS.changing("k24_bitops", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    a = inputs.values["a"]
    x, y, z, w = o[:4]
    highest = x.bit_length() - 1
    highest_signed = (~x & WORD if signed(x) < 0 else x).bit_length() - 1
    back = [(z & 3) - place & 7 for place in range(4)]
    o[4:26] = [
        value & WORD
        for value in (
            _extracted(x, 3, 7, False),
            _extracted(x, 9, 5, True),
            _extracted(x, y, z, False),
            _extracted(x, y, a, True),
            _inserted(x, y, 4, 8),
            _inserted(x, y, z, w),
            x.bit_count(),
            32 - x.bit_length(),
            highest,
            highest_signed,
            31 - highest if x else -1,
            int(f"{x:032b}"[::-1], 2),
            _permuted(x, y, _nibbles(0x3021)),
            _permuted(x, y, _nibbles(z)),
            _permuted(x, y, back),
            _funnel(x, y, z & 31, True),
            _funnel(x, y, min(z, 32), False),
            _funnel(x, y, 9, True),
            _funnel(x, x, 13, False),
            _table_lookup(x, y, z, 0x96),
            _table_lookup(x, y, z, 0xE8),
            _table_lookup(x, 0x1234, z, 0xCA),
        )
    ]


@KERNELS.changing("k25_divrem32", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    x, y = o[0], o[1]
    sx, sy, sa = signed(x), signed(y), signed(inputs.values["a"])
    o[4:12] = [
        x // y,
        x % y,
        quotient(sx, sy),
        remainder(sx, sa),
        x // 10,
        remainder(sx, 7),
        quotient(sx, 16),
        x % 100,
    ]


@KERNELS.of("k27_murmur_xorshift")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    return {
        "o": exact(
            [_mixed(t * 0x9E3779B1 + 1 & WORD, inputs.values["n"]) for t in range(inputs.threads)]
        )
    }


def _mixed(value: int, rounds: int) -> int:
    for _ in range(max(rounds, 1)):
        value ^= value >> 16
        value = value * 0x85EBCA6B & WORD
        value ^= value >> 13
        value = value * 0xC2B2AE35 & WORD
        value ^= value >> 16
        value ^= value << 13 & WORD
        value ^= value >> 17
        value ^= value << 5 & WORD
    return value


@KERNELS.of("k37_cvt16")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    content = inputs.buffers["o"].tobytes()
    h1, h2 = (int.from_bytes(content[at : at + 2], "little") for at in (0, 2))
    s1, s2, h3, h4 = signed(h1, 16), signed(h2, 16), content[4], signed(content[5], 8)
    half = 0xFFFF
    product_signed = s1 * s2
    shorts = {
        8: h1 * h2 + h3,
        9: (h1 << 3) ^ (s2 >> 2),
        10: min(s1, s2),
        11: h1 if s1 < s2 else h2,
        28: max(-0x8000, min(product_signed, 0x7FFF)),
    }
    words = {
        2: h1 * h2,
        3: product_signed,
        8: h1 + h2 & half,
        9: signed(h1 * h2, 16),
        10: h4,
        11: h3,
        12: max(0, min(product_signed, 0xFF)),
        13: product_signed + h1 * h2,
    }
    image = bytearray(content)
    for at, value in words.items():
        image[4 * at : 4 * at + 4] = (value & WORD).to_bytes(4, "little")
    for at, value in shorts.items():
        image[2 * at : 2 * at + 2] = (value & half).to_bytes(2, "little")
    return {"o": exact(list(memoryview(bytes(image)).cast("I")))}


@KERNELS.changing("k38_bignum_carry", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    x, y = (
        sum(word << 32 * place for place, word in enumerate(o[first : first + 4]))
        for first in (0, 4)
    )
    low = o[0] * o[4]
    middle = (low >> 32) + (o[0] * o[5] & WORD)
    high = (o[0] * o[5] >> 32) + (middle >> 32)
    middle = (middle & WORD) + (o[1] * o[4] & WORD)
    high += (o[1] * o[4] >> 32) + (middle >> 32)
    for first, value in ((8, x + y), (12, x - y)):
        o[first : first + 4] = [value >> 32 * place & WORD for place in range(4)]
    o[16:20] = [low, middle, high, high >> 32]


@KERNELS.of("k48_special_regs")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    """For each word the values that a thread may store; None if no document defines the register's
    content.
    """
    grid, block, dynamic = inputs.run.grid, inputs.run.block, inputs.run.dynamic_shared
    seen: list[set[int] | None] = [set() for _ in range(39)]
    # Warp and SM numbers, clocks, timers, counters; the size of shared memory, which may be rounded
    # up.
    for at in (13, 15, 16, 22, 23, 24, 26, 27, 30, 31, 32, 33, 34, 35):
        seen[at] = None
    for thread in inputs.everybody():
        x, y, z = thread.tid
        lane = (x + block[0] * (y + block[1] * z)) % 32
        masks = (1 << lane, (2 << lane) - 1, (1 << lane) - 1, -1 << lane, -2 << lane)
        stored = (
            *thread.tid,
            *block,
            *thread.ctaid,
            *grid,
            lane,
            0,
            0x40,
            0,
            0,
            *masks,
            0,
            0,
            0,
            dynamic,
            0,
            0,
            1,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            32,
        )
        for choices, value in zip(seen, stored, strict=True):
            if choices is not None:
                choices.add(value & WORD)
    untouched = [frozenset([word]) for word in inputs.words("o")[39:]]
    return {
        "o": OneOf(
            [None if choices is None else frozenset(choices) for choices in seen] + untouched
        )
    }


@KERNELS.changing("k56_many_preds", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    x, y, z = o[:3]
    sx, sy, sz = signed(x), signed(y), signed(z)
    tests = (
        sx < 1,
        sx < sy,
        sy < sz,
        z == 7,
        x != z,
        sx > 9,
        y > 5,
        z >= x,
        y < 77,
        y == z,
        sy < 3,
    )
    for (at, holds), (first, value) in product(enumerate(tests), ((3, x), (28, y))):
        if holds == (first == 3):
            o[first + at] = value


@KERNELS.of("k71_clamp")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    given, n, found = inputs.words("v"), inputs.values["n"], []
    for x, y, z in zip(given[::3], given[1::3], given[2::3], strict=True):
        sx, sy, sz = signed(x), signed(y), signed(z)
        found += [
            max(min(sx, 100), sy),
            min(max(sx, 7), sy),
            max(min(x, 0xFFFF), z),
            min(max(x, 0x8000), z),
            abs(x - 50000) + y,
            abs(sx - 32767) + y,
            max(min(sx, sy), sz),
            abs(sx - sy) + z,
            max(min(sx, -3), n),
            min(max(sx, 0), 255),
        ]
    return {"o": exact(found)}
