"""Comparisons, selections and atomic operations of the PTX interpreter, against Python; and limits
of accesses.
"""

import operator
from collections.abc import Callable

import pytest

from sim.launch import LOCAL_WINDOW, SHARED_WINDOW
from sim.model.ptx.run import PtxRunError, run
from testbench.ptx.test_integers import numbers, signed
from testbench.ptx.text import KERNEL, kernel, placed, words_left

THREADS = 32


def on_pairs(
    body: str, bits: int, seed: str, block: int = THREADS
) -> tuple[list[int], list[int], list[int]]:
    """Returns r0 of each thread, for two numbers of ``bits`` bits in x and y, and these numbers."""
    xs, ys = (numbers(bits, THREADS, f"{seed} {at}") for at in "xy")
    ys = [x if at % 4 == 0 else y for at, (x, y) in enumerate(zip(xs, ys, strict=True))]
    words = [0] * THREADS
    for x, y in zip(xs, ys, strict=True):
        words += [x & 0xFFFF_FFFF, x >> 32, y & 0xFFFF_FFFF, y >> 32]
    load = f".reg .b{bits} x, y; .reg .b64 z; mul.wide.u32 z, t, 16; add.u64 z, z, d0; "
    load += f"ld.global.b{bits} x, [z+128]; ld.global.b{bits} y, [z+136]; "
    end = " st.global.u32 [d1], r0; ret; }\n"
    left = words_left(KERNEL + load + body + end, words, block)[:THREADS]
    return left, xs, ys


_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}


@pytest.mark.parametrize("kind", ["u16", "u32", "u64", "s16", "s32", "s64"])
@pytest.mark.parametrize("relation", _RELATIONS)
def test_a_comparison_is_of_numbers_of_its_type(relation, kind):
    if kind[0] == "s" and relation in ("lo", "ls", "hi", "hs"):
        kind = f"u{kind[1:]}"
    bits = int(kind[1:])
    body = f"setp.{relation}.{kind} p|q, x, y; selp.u32 r0, 1, 0, p; selp.u32 r1, 2, 0, q; add.u32 r0, r0, r1;"
    left, xs, ys = on_pairs(body, bits, kind)
    for found, x, y in zip(left, xs, ys, strict=True):
        pair = (signed(x, bits), signed(y, bits)) if kind[0] == "s" else (x, y)
        assert found == (1 if _RELATIONS[relation](*pair) else 2), (hex(x), hex(y))


_COMBINED: dict[str, Callable[[int, int], int]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


@pytest.mark.parametrize("negated", [False, True], ids=["", "not"])
@pytest.mark.parametrize("combine", _COMBINED)
def test_a_comparison_and_its_opposite_are_combined_with_a_predicate(combine, negated):
    body = f"""and.b32 r1, t, 1; setp.ne.u32 p, r1, 0;
        setp.lt.{combine}.s32 p|q, x, y, {"!" * negated}p; selp.u32 r0, 1, 0, p; selp.u32 r1, 2, 0, q;
        add.u32 r0, r0, r1;"""
    left, xs, ys = on_pairs(body, 32, combine)
    for thread, (found, x, y) in enumerate(zip(left, xs, ys, strict=True)):
        holds = int(signed(x, 32) < signed(y, 32))
        other = thread % 2 ^ negated
        wanted = _COMBINED[combine](holds, other) + 2 * _COMBINED[combine](1 - holds, other)
        assert found == wanted, (thread, hex(x), hex(y))


@pytest.mark.parametrize(
    ("kind", "true"), [("u32", 0xFFFF_FFFF), ("s32", 0xFFFF_FFFF), ("f32", 0x3F80_0000)]
)
def test_set_gives_all_bits_or_the_number_1(kind, true):
    left, xs, ys = on_pairs(f"set.gt.{kind}.u32 r0, x, y;", 32, kind)
    assert left == [true if x > y else 0 for x, y in zip(xs, ys, strict=True)]
    body = f"and.b32 r1, t, 1; setp.ne.u32 p, r1, 0; set.gt.or.{kind}.s64 r0, x, y, !p;"
    left, xs, ys = on_pairs(body, 64, kind)
    for thread, (found, x, y) in enumerate(zip(left, xs, ys, strict=True)):
        assert found == (true if signed(x, 64) > signed(y, 64) or not thread % 2 else 0)


def test_selections():
    assert kernel("setp.lt.u32 p, t, 5; selp.u32 r0, t, 99, p;") == [*range(5), *[99] * 27]
    assert kernel("setp.lt.u32 p, t, 5; selp.u32 r0, t, 99, !p;") == [*[99] * 5, *range(5, 32)]
    body = "sub.s32 r1, t, 5; slct.u32.s32 r0, 7, 9, r1;"
    assert kernel(body) == [*[9] * 5, *[7] * 27]


@pytest.mark.parametrize(
    ("number", "flush", "chosen"),
    [
        (0x0000_0000, "", 7),
        (0x8000_0000, "", 7),  # -0 is not less
        (0x3F80_0000, "", 7),
        (0xBF80_0000, "", 9),
        (0x8000_0001, "", 9),
        (0x8000_0001, ".ftz", 7),
        (0x7FC0_0000, "", 9),
        (0x7F80_0000, "", 7),
        (0xFF80_0000, "", 9),
    ],
)
def test_a_selection_by_a_floating_point_number(number, flush, chosen):
    assert kernel(f"mov.b32 r1, {number}; slct{flush}.u32.f32 r0, 7, 9, r1;", block=1) == [chosen]


def test_registers_are_packed_and_unpacked_from_the_lowest_on():
    body = """mov.b64 d2, 0x1122334455667788; mov.b64 {h0, h1, h2, h3}, d2; mov.b64 d3, {h3, h2, h1, h0};
        mov.b64 {r1, r2}, d3; mov.b64 {_, r3}, d2; mov.b32 r4, {h1, h3}; xor.b32 r0, r1, r2; xor.b32 r0, r0, r3;
        xor.b32 r0, r0, r4;"""
    d3 = 0x7788_5566_3344_1122
    wanted = d3 & 0xFFFF_FFFF ^ d3 >> 32 ^ 0x1122_3344 ^ 0x1122_5566
    assert kernel(body, block=1) == [wanted]


# Atomic operations

_CHANGES: dict[str, Callable[[int, int, int], int]] = {
    "add.u": lambda old, b, bits: old + b,
    "min.u": lambda old, b, bits: min(old, b),
    "max.u": lambda old, b, bits: max(old, b),
    "min.s": lambda old, b, bits: min(signed(old, bits), signed(b, bits)),
    "max.s": lambda old, b, bits: max(signed(old, bits), signed(b, bits)),
    "and.b": lambda old, b, bits: old & b,
    "or.b": lambda old, b, bits: old | b,
    "xor.b": lambda old, b, bits: old ^ b,
    "exch.b": lambda old, b, bits: b,
}


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", _CHANGES)
def test_an_atomic_operation_returns_the_old_number_and_leaves_the_new_one(name, bits, space):
    """One thread runs at a time, each with its own address."""
    mask = (1 << bits) - 1
    where = {
        "global": "add.u64 d4, z, 128; ",
        "shared": ".shared .align 8 .b8 s[256]; mov.u64 d4, s; mul.wide.u32 d5, t, 8; add.u64 d4, d4, d5; ",
        "generic": ".shared .align 8 .b8 s[256]; mov.u64 d4, s; mul.wide.u32 d5, t, 8; add.u64 d4, d4, d5; "
        "cvta.shared.u64 d4, d4; ",
    }[space]
    dot = "" if space == "generic" else f".{space}"
    body = f"""{where} st{dot}.b{bits} [d4], x; .reg .b{bits} u, v; atom{dot}.{name}{bits} u, [d4], y;
        ld{dot}.b{bits} v, [d4]; setp.eq.u{bits} p, u, x; selp.u32 r0, 0, 1, p; """
    body += (
        "cvt.u32.u64 r1, v; shr.u64 v, v, 32; cvt.u32.u64 r2, v; xor.b32 r1, r1, r2; "
        if bits == 64
        else "mov.b32 r1, v; "
    )
    body += "shl.b32 r0, r0, 31; xor.b32 r0, r0, r1;"
    left, xs, ys = on_pairs(body, bits, name)
    for found, x, y in zip(left, xs, ys, strict=True):
        new = _CHANGES[name](x, y, bits) & mask
        assert found == new & 0xFFFF_FFFF ^ new >> 32, (hex(x), hex(y))


@pytest.mark.parametrize(
    ("name", "old", "b", "new"),
    [
        ("inc", 4, 5, 5),
        ("inc", 5, 5, 0),
        ("inc", 6, 5, 0),
        ("inc", 0, 0, 0),
        ("dec", 5, 5, 4),
        ("dec", 6, 5, 5),
        ("dec", 0, 5, 5),
        ("dec", 1, 5, 0),
    ],
)
def test_counters_wrap_at_their_limit(name, old, b, new):
    body = f"st.global.u32 [d0+128], {old}; red.global.{name}.u32 [d0+128], {b}; ld.global.u32 r0, [d0+128];"
    assert kernel(body, block=1) == [new]


def test_a_comparison_with_what_is_there_decides_an_exchange():
    body = """st.global.u32 [d0+128], 5; atom.global.cas.b32 r1, [d0+128], 5, 7; atom.global.cas.b32 r2, [d0+128], 5, 9;
        ld.global.u32 r0, [d0+128]; mad.lo.u32 r0, r1, 100, r0; mad.lo.u32 r0, r2, 10000, r0;"""
    assert kernel(body, block=1) == [7 + 500 + 70000]


@pytest.mark.parametrize(("space", "left"), [("global", 0), ("shared", 2)])
def test_sums_of_subnormal_numbers_are_zeros_in_global_memory_alone(space, left):
    where = {"global": "add.u64 d4, d0, 128;", "shared": ".shared .u32 s; mov.u64 d4, s;"}[space]
    body = f"{where} st.{space}.u32 [d4], 1; red.{space}.add.f32 [d4], 0f00000001; ld.{space}.u32 r0, [d4];"
    assert kernel(body, block=1) == [left]


# Accesses


@pytest.mark.parametrize("vector", [1, 2, 4])
@pytest.mark.parametrize("kind", ["u8", "s8", "u16", "s16", "u32", "s32"])
def test_elements_of_a_vector_are_extended_one_by_one(kind, vector):
    bits = int(kind[1:])
    content = bytes(
        [0x81, 0x82, 0x03, 0x84, 0x85, 0x06, 0x87, 0x88, 0x89, 0x8A, 0x8B, 0x0C, 1, 2, 3, 0xFF]
    )
    words = [0] * 4 + [int.from_bytes(content[at : at + 4], "little") for at in range(0, 16, 4)]
    registers = ", ".join(f"r{at}" for at in range(vector))
    shown = f".v{vector}" if vector > 1 else ""
    target = f"{{{registers}}}" if vector > 1 else registers
    body = f"ld.global{shown}.{kind} {target}, [d0+16]; "
    body += "".join(f"st.global.u32 [d0+{4 * at}], r{at}; " for at in range(vector))
    left = words_left(f"{KERNEL} {body} ret; }}", words, 1)
    for at in range(vector):
        number = int.from_bytes(content[at * bits // 8 : (at + 1) * bits // 8], "little")
        wanted = signed(number, bits) if kind[0] == "s" else number
        assert left[at] == wanted & 0xFFFF_FFFF


def test_elements_are_stored_one_behind_the_other():
    body = """mov.u32 r1, 0x1234; mov.u32 r2, 0x5678; st.global.v2.u8 [d0+6], {r1, r2};
        st.global.v2.u16 [d0+8], {r1, r2};"""
    assert words_left(f"{KERNEL} {body} ret; }}", block=1)[1:3] == [0x7834_0000, 0x5678_1234]


def fault(body: str) -> str:
    """Returns the error that ends the run of one thread, without its position."""
    with pytest.raises(PtxRunError) as caught:
        run(
            placed(f"{KERNEL}{body} st.global.u32 [d1], r0; ret; }}", block=1),
            max_instructions=1000,
        )
    return str(caught.value).split(": ", 1)[1]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (".shared .b8 s[8]; ld.shared.u32 r0, [s+8];", "shared space has no 4 bytes at 0x8"),
        (".shared .b8 s[8]; ld.shared.u16 r0, [s+7];", "0x7 is no multiple of 2"),
        (
            ".shared .b8 s[8]; ld.shared.v4.u32 {r0, r1, r2, r3}, [s];",
            "shared space has no 16 bytes at 0x0",
        ),
        (".shared .b8 s[8]; ld.shared.v4.u32 {r0, r1, r2, r3}, [s+8];", "0x8 is no multiple of 16"),
        (".local .b8 l[8]; ld.local.u32 r0, [l+4096];", "local space has no 4 bytes at 0x1000"),
        (
            ".local .align 4 .b8 l[8]; mov.u64 d2, l; cvta.local.u64 d2, d2; atom.add.u32 r0, [d2], 1;",
            "an atomic operation on local memory",
        ),
        (".const .u32 c; ld.const.u32 r0, [c+64];", "const space has no 4 bytes at 0x40"),
        ("mov.u64 d2, 0x1000; ld.u32 r0, [d2];", "nothing is mapped at 0x1000"),
    ],
)
def test_an_access_outside_of_its_space_ends_the_run(body, message):
    assert fault(body) == message


def test_the_last_bytes_of_a_space_are_there():
    body = ".shared .align 4 .b8 s[8]; st.shared.u32 [s+4], 5; ld.shared.u32 r0, [s+4];"
    assert kernel(body, block=1) == [5]


@pytest.mark.parametrize(
    ("address", "space"),
    [
        (SHARED_WINDOW - 1, "global"),
        (SHARED_WINDOW, "shared"),
        (SHARED_WINDOW + (1 << 24) - 1, "shared"),
        (
            SHARED_WINDOW + (1 << 24),
            "global" if SHARED_WINDOW + (1 << 24) != LOCAL_WINDOW else "local",
        ),
        (LOCAL_WINDOW - 1, "global" if SHARED_WINDOW + (1 << 24) != LOCAL_WINDOW else "shared"),
        (LOCAL_WINDOW, "local"),
        (LOCAL_WINDOW + (1 << 24) - 1, "local"),
        (LOCAL_WINDOW + (1 << 24), "global"),
        ((1 << 32) + SHARED_WINDOW, "global"),
    ],
)
def test_an_address_is_in_the_space_of_its_window(address, space):
    for asked in ("global", "shared", "local", "const"):
        body = f"mov.u64 d2, {address}; isspacep.{asked} p, d2; selp.u32 r0, 1, 0, p;"
        assert kernel(body, block=1) == [int(asked == space)], asked
