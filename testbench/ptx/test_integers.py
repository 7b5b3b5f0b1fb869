"""Integer instructions of the PTX interpreter, on edge values and random numbers, against the PTX
manual in Python.
"""

import random
from collections.abc import Callable

import pytest

from sim.model.ptx.bits import BITS
from sim.model.ptx.numbers import ARITHMETIC
from sim.model.ptx.video import VIDEO
from testbench.ptx.test_floats import parsed

_EDGES = (0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65)


def registers(*bits: int) -> str:
    """Returns operands of these widths; the first is the result."""
    names = ("a", "a", "b", "c")
    return ", ".join(f"{name}{size}" for name, size in zip(names, bits, strict=False))


def computing(text: str) -> Callable[..., int]:
    """Returns a function that executes an instruction on the words of its operands."""
    instruction = parsed(text)
    for table in (ARITHMETIC, BITS, VIDEO):
        if instruction.opcode in table:
            return table[instruction.opcode](instruction)
    raise AssertionError(text)


def numbers(bits: int, count: int, seed: str) -> list[int]:
    """Returns edge values and random words of ``bits`` bits."""
    source = random.Random(seed)
    top = 1 << bits - 1
    edges = [*_EDGES, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1, 0xFF, 0x7F, 0x80, 0x8000]
    return [
        source.choice(edges) & 2 * top - 1
        if source.random() < 0.5
        else source.getrandbits(bits) >> source.randrange(bits)
        for _ in range(count)
    ]


def signed(value: int, bits: int) -> int:
    """Returns the two's complement number."""
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def value_of(word: int, kind: str) -> int:
    """Returns the number that a word of a type encodes."""
    bits = int(kind[1:])
    return signed(word, bits) if kind[0] == "s" else word & (1 << bits) - 1


def clamped(number: int, kind: str) -> int:
    """Returns the nearest number of a type."""
    bits = int(kind[1:])
    least = -1 << bits - 1 if kind[0] == "s" else 0
    return min(max(number, least), least + (1 << bits) - 1)


def check(text: str, widths: tuple[int, ...], result: int, wanted: Callable[..., int]) -> None:
    """Compares an instruction on operands of these widths with a formula, in the low bits of a
    result.
    """
    compute = computing(text)
    mask = (1 << result) - 1
    columns = [numbers(bits, 60, f"{text} {at}") for at, bits in enumerate(widths)]
    for operands in zip(*columns, strict=True):
        assert compute(*operands) & mask == wanted(*operands) & mask, [hex(x) for x in operands]


def _quotient(a: int, b: int) -> int:
    """Rounds to zero; a quotient by 0 is all ones."""
    if not b:
        return -1
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


_OF_TWO: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
    "div": _quotient,
    "rem": lambda a, b: a - b * _quotient(a, b) if b else -1,
}
TYPES = ("u16", "u32", "u64", "s16", "s32", "s64")


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", _OF_TWO)
def test_arithmetic_is_modulo_the_width(name, kind):
    bits = int(kind[1:])
    check(
        f"{name}.{kind} {registers(bits, bits, bits)}",
        (bits, bits),
        bits,
        lambda a, b: _OF_TWO[name](value_of(a, kind), value_of(b, kind)),
    )


@pytest.mark.parametrize("kind", TYPES)
def test_products_have_an_upper_half_and_are_added_to(kind):
    bits = int(kind[1:])
    three, four = registers(*[bits] * 3), registers(*[bits] * 4)

    def product(a: int, b: int) -> int:
        return value_of(a, kind) * value_of(b, kind)

    check(f"mul.hi.{kind} {three}", (bits,) * 2, bits, lambda a, b: product(a, b) >> bits)
    check(f"mad.lo.{kind} {four}", (bits,) * 3, bits, lambda a, b, c: product(a, b) + c)
    check(f"mad.hi.{kind} {four}", (bits,) * 3, bits, lambda a, b, c: (product(a, b) >> bits) + c)
    check(
        f"sad.{kind} {four}",
        (bits,) * 3,
        bits,
        lambda a, b, c: c + abs(value_of(a, kind) - value_of(b, kind)),
    )


@pytest.mark.parametrize("kind", ["u16", "u32", "s16", "s32"])
def test_wide_products_are_whole(kind):
    bits = int(kind[1:])
    wide = 2 * bits

    def product(a: int, b: int) -> int:
        return value_of(a, kind) * value_of(b, kind)

    check(f"mul.wide.{kind} {registers(wide, bits, bits)}", (bits,) * 2, wide, product)
    check(
        f"mad.wide.{kind} {registers(wide, bits, bits, wide)}",
        (bits, bits, wide),
        wide,
        lambda a, b, c: product(a, b) + c,
    )


def test_sums_saturate_at_the_limits_of_s32():
    three, four = registers(32, 32, 32), registers(32, 32, 32, 32)
    check(
        f"add.sat.s32 {three}",
        (32, 32),
        32,
        lambda a, b: clamped(signed(a, 32) + signed(b, 32), "s32"),
    )
    check(
        f"sub.sat.s32 {three}",
        (32, 32),
        32,
        lambda a, b: clamped(signed(a, 32) - signed(b, 32), "s32"),
    )
    check(
        f"mad.hi.sat.s32 {four}",
        (32, 32, 32),
        32,
        lambda a, b, c: clamped((signed(a, 32) * signed(b, 32) >> 32) + signed(c, 32), "s32"),
    )
    check(
        f"mad24.hi.sat.s32 {four}",
        (32, 32, 32),
        32,
        lambda a, b, c: clamped((signed(a, 24) * signed(b, 24) >> 16) + signed(c, 32), "s32"),
    )


@pytest.mark.parametrize("kind", ["u32", "s32"])
@pytest.mark.parametrize("half", ["lo", "hi"])
def test_short_products_are_of_24_bits(kind, half):
    def product(a: int, b: int) -> int:
        if kind == "s32":
            a, b = signed(a, 24), signed(b, 24)
        else:
            a, b = a & 0xFF_FFFF, b & 0xFF_FFFF
        return a * b >> (16 if half == "hi" else 0)

    check(f"mul24.{half}.{kind} {registers(32, 32, 32)}", (32, 32), 32, product)
    check(
        f"mad24.{half}.{kind} {registers(32, 32, 32, 32)}",
        (32, 32, 32),
        32,
        lambda a, b, c: product(a, b) + c,
    )


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_signs_are_modulo_the_width(kind):
    bits = int(kind[1:])
    two = registers(bits, bits)
    check(f"abs.{kind} {two}", (bits,), bits, lambda a: abs(signed(a, bits)))
    check(f"neg.{kind} {two}", (bits,), bits, lambda a: -a)


# Bits


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic_and_shifts(bits):
    three, shift = registers(bits, bits, bits), f"a{bits}, b{bits}, c32"
    check(f"and.b{bits} {three}", (bits, bits), bits, lambda a, b: a & b)
    check(f"or.b{bits} {three}", (bits, bits), bits, lambda a, b: a | b)
    check(f"xor.b{bits} {three}", (bits, bits), bits, lambda a, b: a ^ b)
    check(f"not.b{bits} {registers(bits, bits)}", (bits,), bits, lambda a: ~a)
    check(f"cnot.b{bits} {registers(bits, bits)}", (bits,), bits, lambda a: a == 0)
    check(f"shl.b{bits} {shift}", (bits, 32), bits, lambda a, b: a << b if b < bits else 0)
    check(f"shr.u{bits} {shift}", (bits, 32), bits, lambda a, b: a >> b if b < bits else 0)
    check(
        f"shr.s{bits} {shift}", (bits, 32), bits, lambda a, b: signed(a, bits) >> min(b, bits - 1)
    )


@pytest.mark.parametrize("left", [True, False], ids="lr")
@pytest.mark.parametrize("wrap", [True, False], ids=["wrap", "clamp"])
def test_a_funnel_shift_takes_a_word_out_of_two(left, wrap):
    def shifted(a: int, b: int, c: int) -> int:
        count = c % 32 if wrap else min(c, 32)
        return (b << 32 | a) << count >> 32 if left else (b << 32 | a) >> count

    name = f"shf.{'l' if left else 'r'}.{'wrap' if wrap else 'clamp'}.b32"
    check(f"{name} {registers(32, 32, 32, 32)}", (32, 32, 32), 32, shifted)


@pytest.mark.parametrize("kind", ["u32", "u64", "s32", "s64"])
def test_a_field_is_extracted_bit_by_bit(kind):
    """As in the PTX manual, the sign is the field's last bit that exists."""
    bits = int(kind[1:])

    def extracted(a: int, b: int, c: int) -> int:
        place, length = b & 0xFF, c & 0xFF
        sign = a >> min(place + length - 1, bits - 1) & 1 if kind[0] == "s" and length else 0
        return sum(
            (a >> place + at & 1 if at < length and place + at < bits else sign) << at
            for at in range(bits)
        )

    compute = computing(f"bfe.{kind} a{bits}, b{bits}, b32, c32")
    for a in numbers(bits, 12, kind):
        for place in (0, 1, 4, bits - 1, bits, bits + 1, 255, 256):
            for length in (0, 1, 8, bits - 1, bits, bits + 1, 255, 257):
                found = compute(a, place, length) & (1 << bits) - 1
                assert found == extracted(a, place, length), (hex(a), place, length)


@pytest.mark.parametrize("bits", [32, 64])
def test_a_field_is_inserted_bit_by_bit(bits):
    compute = computing(f"bfi.b{bits} a{bits}, b{bits}, c{bits}, b32, c32")
    values = numbers(bits, 12, f"bfi {bits}")
    for a, b in zip(values, reversed(values), strict=True):
        for place in (0, 1, 4, bits - 1, bits, 255, 256):
            for length in (0, 1, 8, bits - 1, bits, 255, 257):
                wanted = b
                for at in range(min(length & 0xFF, max(bits - (place & 0xFF), 0))):
                    where = (place & 0xFF) + at
                    wanted = wanted & ~(1 << where) | (a >> at & 1) << where
                assert compute(a, b, place, length) & (1 << bits) - 1 == wanted


@pytest.mark.parametrize("bits", [32, 64])
def test_bits_are_counted_found_and_reversed(bits):
    def text(word: int) -> str:
        return f"{word:0{bits}b}"

    sources = f"a32, b{bits}"
    check(f"popc.b{bits} {sources}", (bits,), 32, lambda a: text(a).count("1"))
    check(f"clz.b{bits} {sources}", (bits,), 32, lambda a: bits - len(text(a).lstrip("0")))
    check(f"brev.b{bits} a{bits}, b{bits}", (bits,), bits, lambda a: int(text(a)[::-1], 2))
    for kind in "us":

        def place(word: int, kind: str = kind) -> int:
            """Returns the highest bit that differs from the sign."""
            other = "0" if kind == "s" and text(word)[0] == "1" else "1"
            return text(word).find(other)

        check(
            f"bfind.{kind}{bits} {sources}",
            (bits,),
            32,
            lambda a, place=place: -1 if place(a) < 0 else bits - 1 - place(a),
        )
        check(f"bfind.shiftamt.{kind}{bits} {sources}", (bits,), 32, place)


@pytest.mark.parametrize("table", [0x00, 0x01, 0x80, 0xCA, 0x96, 0xE8, 0x2D, 0xFF])
def test_a_table_gives_each_bit_of_three(table):
    def looked_up(a: int, b: int, c: int) -> int:
        return sum(
            (table >> ((a >> at & 1) << 2 | (b >> at & 1) << 1 | c >> at & 1) & 1) << at
            for at in range(32)
        )

    compute = computing(f"lop3.b32 {registers(32, 32, 32, 32)}, {table}")
    for operands in zip(*(numbers(32, 20, f"{table} {at}") for at in range(3)), strict=True):
        assert compute(*operands, table) & 0xFFFF_FFFF == looked_up(*operands)


@pytest.mark.parametrize(
    ("mask", "base", "offset", "expected"),
    [
        (0b1011_0100, 2, 1, 2),  # the bit at the base counts as the first
        (0b1011_0100, 2, 2, 4),
        (0b1011_0100, 2, 4, 7),
        (0b1011_0100, 2, 5, -1),
        (0b1011_0100, 3, 1, 4),
        (0b1011_0100, 3, -1, 2),
        (0b1011_0100, 7, -1, 7),
        (0b1011_0100, 7, -4, 2),
        (0b1011_0100, 7, -5, -1),
        (0b1011_0100, 4, 0, 4),
        (0b1011_0100, 3, 0, -1),
        (0x8000_0001, 31, 1, 31),
        (0x8000_0001, 31, -2, 0),
        (0x8000_0001, 0, 2, 31),
        (0xFFFF_FFFF, 32, 1, -1),
        (0xFFFF_FFFF, 32, -1, -1),
        (0, 0, 1, -1),
    ],
)
def test_the_nth_set_bit_is_counted_from_the_base(mask, base, offset, expected):
    compute = computing("fns.b32 a32, b32, c32, 1")
    assert compute(mask, base, offset & 0xFFFF_FFFF) == expected


_PERMUTED = {
    # Which bytes of {b, a} each mode takes for the control values 0 to 3, the result's lowest byte first.
    "f4e": ([0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]),
    "b4e": ([0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]),
    "rc8": ([0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]),
    "ecl": ([0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]),
    "ecr": ([0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]),
    "rc16": ([0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]),
}
"""The table of modes in the PTX manual."""
_A, _B = 0x83C2_8140, 0x07F6_85A4


@pytest.mark.parametrize("mode", _PERMUTED)
def test_a_mode_permutes_bytes(mode):
    compute = computing(f"prmt.b32.{mode} {registers(32, 32, 32, 32)}")
    both = (_B << 32 | _A).to_bytes(8, "little")
    for control, places in enumerate(_PERMUTED[mode]):
        wanted = int.from_bytes(bytes(both[place] for place in places), "little")
        assert compute(_A, _B, control) == compute(_A, _B, control + 4) == wanted


def test_a_selector_takes_any_byte_or_its_sign():
    both = (_B << 32 | _A).to_bytes(8, "little")

    def permuted(a: int, b: int, c: int) -> int:
        result = []
        for at in range(4):
            byte = both[c >> 4 * at & 7]
            result.append(byte if not c >> 4 * at & 8 else 0xFF if byte >= 0x80 else 0)
        return int.from_bytes(bytes(result), "little")

    compute = computing(f"prmt.b32 {registers(32, 32, 32, 32)}")
    for control in [
        *range(16),
        *(at << 4 * digit for at in range(16) for digit in range(1, 4)),
        0x89AB,
    ]:
        assert compute(_A, _B, control) == permuted(_A, _B, control), hex(control)


# Video

_PARTS = {
    "b0": (0, 8),
    "b1": (8, 8),
    "b2": (16, 8),
    "b3": (24, 8),
    "h0": (0, 16),
    "h1": (16, 16),
    "": (0, 32),
}
_VIDEO: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
    "vshl.wrap": lambda a, b: a << b % 32,
    "vshl.clamp": lambda a, b: a << min(b, 32),
    "vshr.wrap": lambda a, b: a >> b % 32,
    "vshr.clamp": lambda a, b: a >> min(b, 32),
}
_VSET: dict[str, Callable[[int, int], int]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def part_of(word: int, part: str, kind: str) -> int:
    """Returns the number in a part of a word."""
    place, bits = _PARTS[part]
    return value_of(word >> place, f"{kind[0]}{bits}")


def video(name: str, kinds: tuple[str, str, str], sat: bool, shown: str) -> str:
    """Returns the text of a video instruction with types; ``shown`` is the rest."""
    opcode, _, mode = name.partition(".")
    types = ".".join(kinds)
    return f"{opcode}.{types}{'.sat' * sat}{f'.{mode}' * bool(mode)}{shown}"


@pytest.mark.parametrize("saturate", [False, True], ids=["", "sat"])
@pytest.mark.parametrize("name", _VIDEO)
def test_a_video_instruction_computes_on_parts(name, saturate):
    source = random.Random(name)
    shift = name.startswith("vsh")
    for part_a in _PARTS:
        part_b = source.choice(list(_PARTS))
        kinds = (
            source.choice(("u32", "s32")),
            source.choice(("u32", "s32")),
            "u32" if shift else source.choice(("u32", "s32")),
        )
        dots = [f".{part}" if part else "" for part in (part_a, part_b)]
        for second in ("", "add", "min", "max"):
            tail = f"{f'.{second}' * bool(second)} a32, b32{dots[0]}, c32{dots[1]}"
            tail += ", a32" * bool(second)
            compute = computing(video(name, kinds, saturate, tail))
            for a, b, c in zip(*(numbers(32, 12, f"{name} {at}") for at in range(3)), strict=True):
                result = _VIDEO[name](part_of(a, part_a, kinds[1]), part_of(b, part_b, kinds[2]))
                if saturate:
                    result = clamped(result, kinds[0])
                result, third = value_of(result, kinds[0]), value_of(c, kinds[0])
                wanted = {
                    "": result,
                    "add": result + third,
                    "min": min(result, third),
                    "max": max(result, third),
                }[second]
                found = compute(a, b, c) if second else compute(a, b)
                assert found & 0xFFFF_FFFF == wanted & 0xFFFF_FFFF, (
                    kinds,
                    part_a,
                    part_b,
                    hex(a),
                    hex(b),
                )


@pytest.mark.parametrize("saturate", [False, True], ids=["", "sat"])
@pytest.mark.parametrize("into", [part for part in _PARTS if part])
def test_a_video_result_takes_the_place_of_a_part(into, saturate):
    place, bits = _PARTS[into]
    for kinds in (("s32", "s32", "u32"), ("u32", "u32", "s32")):
        compute = computing(video("vadd", kinds, saturate, f" a32.{into}, b32, c32, a32"))
        for a, b, c in zip(*(numbers(32, 20, f"{into} {at}") for at in range(3)), strict=True):
            result = value_of(a, kinds[1]) + value_of(b, kinds[2])
            if saturate:
                result = clamped(result, f"{kinds[0][0]}{bits}")
            mask = (1 << bits) - 1 << place
            assert compute(a, b, c) == c & ~mask | result << place & mask, (kinds, hex(a), hex(b))


@pytest.mark.parametrize("relation", _VSET)
def test_a_video_comparison_is_1_or_0(relation):
    for kinds in (("u32", "u32"), ("s32", "u32"), ("s32", "s32")):
        compute = computing(f"vset.{'.'.join(kinds)}.{relation} a32, b32, c32")
        for a, b in [
            *zip(*(numbers(32, 40, f"{relation}{at}") for at in range(2)), strict=True),
            (5, 5),
        ]:
            wanted = _VSET[relation](value_of(a, kinds[0]), value_of(b, kinds[1]))
            assert compute(a, b) == wanted, (kinds, hex(a), hex(b))


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", ["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg"])
@pytest.mark.parametrize("mode", ["", ".sat", ".add"])
def test_a_packed_video_instruction_computes_each_part(name, count, mode):
    """All parts, or some of them, selected from either operand."""
    size, letter = 32 // count, "hb"[count == 4]
    source = random.Random(f"{name}{count}")

    def average(x: int, y: int) -> int:
        return x + y + (x + y >= 0) >> 1

    of_two = average if name == "vavrg" else _VIDEO[name]
    for kinds in (("s32", "s32", "u32"), ("u32", "u32", "u32"), ("s32", "s32", "s32")):
        for _ in range(4):
            written = sorted(source.sample(range(count), source.randrange(1, count + 1)))
            taken = [[source.randrange(2 * count) for _ in range(count)] for _ in range(2)]
            shown = [f"{letter}{''.join(map(str, reversed(places)))}" for places in taken]
            into = f"{letter}{''.join(map(str, reversed(written)))}"
            compute = computing(
                f"{name}{count}.{'.'.join(kinds)}{mode} a32.{into}, b32.{shown[0]}, c32.{shown[1]}, a32"
            )
            for a, b, c in zip(*(numbers(32, 10, f"{name} {at}") for at in range(3)), strict=True):
                results = {}
                for place in written:
                    parts = [
                        value_of((b << 32 | a) >> size * places[place], f"{kind[0]}{size}")
                        for places, kind in zip(taken, kinds[1:], strict=True)
                    ]
                    results[place] = of_two(*parts)
                if mode == ".add":
                    wanted = c + sum(results.values()) & 0xFFFF_FFFF
                else:
                    wanted = c
                    for place, result in results.items():
                        if mode:
                            result = clamped(result, f"{kinds[0][0]}{size}")
                        mask = (1 << size) - 1 << size * place
                        wanted = wanted & ~mask | result << size * place & mask
                assert compute(a, b, c) == wanted, (kinds, into, shown, hex(a), hex(b), hex(c))


@pytest.mark.parametrize("scale", ["", ".shr7", ".shr15"])
@pytest.mark.parametrize("saturate", [False, True], ids=["", "sat"])
def test_a_video_product_is_added_to_scaled_and_saturated(scale, saturate):
    shift = int(scale[4:] or 0)
    forms = [
        # Signs of a, b and c; whether 1 is added
        ("a32, b32.h0, c32.h0, a32", 1, 1, False),
        ("a32, -b32.h0, c32.h0, a32", -1, 1, False),
        ("a32, b32.h0, -c32.h0, a32", -1, 1, False),
        ("a32, b32.h0, c32.h0, -a32", 1, -1, False),
    ]
    if not saturate:
        forms.append((".po a32, b32.h0, c32.h0, a32", 1, 1, True))
    for kinds in (("u32", "u32", "u32"), ("s32", "s32", "s32"), ("s32", "u32", "s32")):
        for text, sign, addend, one in forms:
            minus = sign < 0 or addend < 0
            if kinds[0] == "u32" and minus:
                kinds = ("s32", *kinds[1:])
            po, operands = (".po", text[4:]) if one else ("", text)
            compute = computing(f"vmad.{'.'.join(kinds)}{po}{'.sat' * saturate}{scale} {operands}")
            is_signed = "s32" in kinds[1:] or minus
            for a, b, c in zip(*(numbers(32, 20, f"{text}{at}") for at in range(3)), strict=True):
                total = sign * part_of(a, "h0", kinds[1]) * part_of(b, "h0", kinds[2])
                total += addend * value_of(c, "s32" if is_signed else "u32") + one
                total >>= shift
                if saturate:
                    total = clamped(total, "s32" if is_signed else "u32")
                assert compute(a, b, c) & 0xFFFF_FFFF == total & 0xFFFF_FFFF, (kinds, text)
