"""Floating-point instructions of the PTX interpreter, on edge values and random numbers, against
MPFR, which rounds an exact result once.
"""

import math
import operator
import random
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import product
from typing import Any

import pytest

from sim.model.ptx.floats import REALS, added, compares, converted
from sim.toolchain.ptx.module import PtxInstruction, Type
from testbench.ptx.text import HEADER, instructions

gmpy2: Any = import_module("gmpy2")  # it has no type annotations

_ROUNDINGS = {
    "rn": gmpy2.RoundToNearest,
    "rm": gmpy2.RoundDown,
    "rp": gmpy2.RoundUp,
    "rz": gmpy2.RoundToZero,
}
_WHOLE = {f"{name}i": direction for name, direction in _ROUNDINGS.items()}


class _Form:
    """A binary format: widths of the stored mantissa and of the exponent, and the NaN that
    operations generate.
    """

    def __init__(self, fraction: int, exponent: int, nan: int) -> None:
        self.fraction, self.bits, self.nan = fraction, 1 + fraction + exponent, nan
        self.bias = (1 << exponent - 1) - 1
        self.infinity = (1 << exponent) - 1 << fraction
        self.sign = 1 << self.bits - 1

    def context(self, direction: Any) -> Any:
        """Returns an MPFR context that rounds as the format does, including subnormal numbers."""
        return gmpy2.context(
            precision=self.fraction + 1,
            emax=self.bias + 1,
            emin=2 - self.bias - self.fraction,
            subnormalize=True,
            round=direction,
        )

    def number(self, bits: int) -> Any:
        """Returns the number that a word encodes."""
        negative, size = bits & self.sign, bits & self.sign - 1
        with gmpy2.context(precision=64):
            if size > self.infinity:
                return gmpy2.nan()
            if size == self.infinity:
                return gmpy2.inf(-1 if negative else 1)
            stored = size >> self.fraction
            mantissa = size & (1 << self.fraction) - 1 | bool(stored) << self.fraction
            found = mantissa * gmpy2.exp2(max(stored, 1) - self.bias - self.fraction)
            return -found if negative else found

    def word(self, number: Any) -> int:
        """Returns the word of a number that the format can represent."""
        if gmpy2.is_nan(number):
            return self.nan
        negative = self.sign if gmpy2.is_signed(number) else 0
        if gmpy2.is_infinite(number):
            return negative | self.infinity
        if not number:
            return negative
        mantissa, exponent = (int(part) for part in abs(number).as_mantissa_exp())
        place = exponent + mantissa.bit_length() - 1
        stored = place + self.bias
        last = max(place, 1 - self.bias) - self.fraction
        size = mantissa << exponent - last if exponent >= last else mantissa >> last - exponent
        return negative | size + (max(stored - 1, 0) << self.fraction)

    def flushed(self, bits: int, flush: bool = True) -> int:
        """Returns the word, or a zero of its sign if it is subnormal."""
        return bits & self.sign if flush and not bits & self.infinity else bits


HALF, SINGLE = _Form(10, 5, 0x7FFF), _Form(23, 8, 0x7FFF_FFFF)
DOUBLE = _Form(52, 11, 0x7FF8_0000_0000_0000)
FORMS = {"f16": HALF, "f32": SINGLE, "f64": DOUBLE}


@cache
def words(form: _Form, count: int = 10) -> list[int]:
    """Returns words at the limits of a format, with both signs, and random ones."""
    one = form.bias << form.fraction
    step = 1 << form.fraction
    sizes = [
        *(0, 1, step - 1, step, step + 1, 2 * step, one - 1, one, one + 1, one + step, one + 3),
        *(one + step // 2, form.infinity - 1, form.infinity - step, form.infinity),
        *(form.infinity + 1, form.sign - 1),
    ]
    source = random.Random(form.bits)
    near = [one + source.randrange(-2 * step, 2 * step) for _ in range(count)]
    return [
        *(size | sign for size in sizes for sign in (0, form.sign)),
        *near,
        *(source.getrandbits(form.bits) for _ in range(count)),
    ]


_REGISTERS = """.reg .pred p; .reg .b16 a16, b16, c16; .reg .b32 a32, b32, c32; .reg .b64 a64, b64, c64;
"""


@cache
def parsed(text: str) -> PtxInstruction:
    """Returns an instruction whose registers a32, b64 and so on are declared."""
    (found,) = instructions(f".visible .entry k {{ {_REGISTERS} {text}; }}", header=HEADER)[:1]
    return found


def computing(name: str, operands: int) -> tuple[_Form, Callable[..., int]]:
    """Returns the format of an instruction, and a function that executes it."""
    kind = name.rpartition(".")[2]
    bits = FORMS[kind].bits
    registers = ", ".join(f"{letter}{bits}" for letter in "aabc"[: 1 + operands])
    instruction = parsed(f"{name} {registers}")
    return FORMS[kind], REALS[instruction.opcode](instruction)


def saturated(bits: int, form: _Form) -> int:
    """Returns the number clamped to 0 to 1; 0 for a NaN."""
    one = form.bias << form.fraction
    return 0 if bits & form.sign or bits > form.infinity else min(bits, one)


_EXACT: dict[str, tuple[int, Callable[..., Any]]] = {
    "add": (2, gmpy2.add),
    "sub": (2, gmpy2.sub),
    "mul": (2, gmpy2.mul),
    "fma": (3, gmpy2.fma),
}


def _names() -> Iterator[tuple[str, str, str, bool, bool]]:
    for opcode, direction in product(_EXACT, _ROUNDINGS):
        yield opcode, direction, "f64", False, False
        for flush, saturate in product((False, True), repeat=2):
            yield opcode, direction, "f32", flush, saturate


@pytest.mark.parametrize(("opcode", "direction", "kind", "flush", "saturate"), list(_names()))
def test_a_result_is_exact_and_rounded_once(opcode, direction, kind, flush, saturate):
    count, exact = _EXACT[opcode]
    name = f"{opcode}.{direction}{'.ftz' * flush}{'.sat' * saturate}.{kind}"
    form, compute = computing(name, count)
    chosen = words(form)
    source = random.Random(name)
    with form.context(_ROUNDINGS[direction]):
        for a, b in source.sample(list(product(chosen, repeat=2)), 150):
            operands = [a, b, source.choice(chosen)][:count]
            numbers = [form.number(form.flushed(word, flush)) for word in operands]
            wanted = form.flushed(form.word(exact(*numbers)), flush)
            wanted = saturated(wanted, form) if saturate else wanted
            assert compute(*operands) == wanted, [hex(word) for word in operands]


@pytest.mark.parametrize("direction", _ROUNDINGS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_a_sum_of_a_product_that_cancels_is_rounded_once(direction, kind):
    """The product's upper half cancels, so that its lower half is the result."""
    form, compute = computing(f"fma.{direction}.{kind}", 3)
    source = random.Random(direction)
    one = form.bias << form.fraction
    with form.context(_ROUNDINGS[direction]):
        for _ in range(100):
            a, b = (one + source.getrandbits(form.fraction) for _ in range(2))
            c = form.word(gmpy2.mul(form.number(a), form.number(b))) ^ form.sign
            wanted = form.word(gmpy2.fma(form.number(a), form.number(b), form.number(c)))
            assert compute(a, b, c) == wanted
            assert compute(a, one, a ^ form.sign) == (form.sign if direction == "rm" else 0)


@pytest.mark.parametrize("direction", _ROUNDINGS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_quotients_and_roots_are_rounded_once(direction, kind):
    form, divide = computing(f"div.{direction}.{kind}", 2)
    reciprocal = computing(f"rcp.{direction}.{kind}", 1)[1]
    root = computing(f"sqrt.{direction}.{kind}", 1)[1]
    chosen = words(form)
    with form.context(_ROUNDINGS[direction]):
        for a in chosen:
            assert reciprocal(a) == form.word(gmpy2.div(1, form.number(a))), hex(a)
            assert root(a) == form.word(gmpy2.sqrt(form.number(a))), hex(a)
        for a, b in random.Random(kind).sample(list(product(chosen, repeat=2)), 250):
            wanted = form.word(gmpy2.div(form.number(a), form.number(b)))
            assert divide(a, b) == wanted, (hex(a), hex(b))


@pytest.mark.parametrize("direction", _ROUNDINGS)
def test_a_quotient_is_flushed_that_is_too_small_before_its_exponent_is_limited(direction):
    form, divide = computing(f"div.{direction}.ftz.f32", 2)
    reciprocal = computing(f"rcp.{direction}.ftz.f32", 1)[1]
    least = 1 << form.fraction  # the smallest normal number
    near = [*words(form), least + 1, 2 * least - 1, 2 * least, (form.bias + 1 << form.fraction) - 1]
    wide = gmpy2.context(precision=form.fraction + 1, round=_ROUNDINGS[direction])
    limited = form.context(_ROUNDINGS[direction])

    def wanted(a: int, b: int) -> int:
        numbers = [form.number(form.flushed(word)) for word in (a, b)]
        with wide:
            if (found := abs(gmpy2.div(*numbers))) < gmpy2.exp2(1 - form.bias) and found:
                return (a ^ b) & form.sign
        with limited:
            return form.word(gmpy2.div(*numbers))

    for a, b in random.Random(direction).sample(list(product(near, repeat=2)), 400):
        assert divide(a, b) == wanted(a, b), (hex(a), hex(b))
    for a in near:
        assert reciprocal(a) == wanted(form.bias << form.fraction, a), hex(a)


@pytest.mark.parametrize(
    ("b", "expected"),
    [
        (2.0**126, 2.0**-126),
        (2.0**126 * (1 + 2**-23), 0.0),
        (2.0**127, 0.0),
        (-(2.0**127), -0.0),
        (math.inf, 0.0),
        (2.0**125, 2.0**-125),
    ],
)
def test_an_approximated_quotient_by_more_than_2_to_126_is_zero(b, expected):
    one = SINGLE.bias << SINGLE.fraction
    divide = computing("div.approx.f32", 2)[1]
    by = SINGLE.word(gmpy2.mpfr(b))
    assert divide(one, by) == SINGLE.word(gmpy2.mpfr(expected))
    large = abs(b) > 2.0**126
    assert divide(SINGLE.infinity, by) == (
        SINGLE.nan if large else SINGLE.infinity | by & SINGLE.sign
    )
    full = computing("div.full.f32", 2)[1]
    assert full(one, by) == SINGLE.word(gmpy2.mpfr(1 / b))


@pytest.mark.parametrize("name", ["rcp", "rsqrt"])
def test_a_gross_approximation_is_of_upper_words(name):
    """Bits below the upper word of a number in double precision are ignored, and are zero in the
    result.
    """
    compute = computing(f"{name}.approx.ftz.f64", 1)[1]
    upper = _Form(20, 11, 0x7FFF_FFFF)
    with upper.context(gmpy2.RoundToNearest):
        for word in words(upper):
            x = upper.number(upper.flushed(word))
            if name == "rcp":
                wanted = upper.word(gmpy2.div(1, x))
            elif not x:
                wanted = upper.infinity | word & upper.sign
            else:
                wanted = upper.word(gmpy2.rec_sqrt(x))
            for lower in (0, 0xFFFF_FFFF):
                assert compute(word << 32 | lower) == upper.flushed(wanted) << 32, hex(word)


_FUNCTIONS = {
    "sin": gmpy2.sin,
    "cos": gmpy2.cos,
    "ex2": gmpy2.exp2,
    "lg2": gmpy2.log2,
    "rsqrt": gmpy2.rec_sqrt,
}


@pytest.mark.parametrize("flush", [False, True], ids=["subnormal", "ftz"])
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_a_function_is_rounded_to_the_nearest(name, flush):
    form, compute = computing(f"{name}.approx{'.ftz' * flush}.f32", 1)
    chosen = words(form, 40)
    with form.context(gmpy2.RoundToNearest):
        for word in chosen:
            x = form.number(form.flushed(word, flush))
            if name == "rsqrt" and not x:
                wanted = form.infinity | word & form.sign
            elif name == "lg2" and not x:
                wanted = form.infinity | form.sign
            else:
                wanted = form.flushed(form.word(_FUNCTIONS[name](x)), flush)
            assert compute(word) == wanted, hex(word)


def test_an_inverse_root_in_double_precision_is_rounded_to_the_nearest():
    form, compute = computing("rsqrt.approx.f64", 1)
    with form.context(gmpy2.RoundToNearest):
        for word in words(form):
            x = form.number(word)
            wanted = form.infinity | word & form.sign if not x else form.word(gmpy2.rec_sqrt(x))
            assert compute(word) == wanted, hex(word)


@pytest.mark.parametrize(("kind", "flush"), [("f32", False), ("f32", True), ("f64", False)])
def test_signs_and_extremes(kind, flush):
    """A NaN is the result only if both operands are NaNs; the negative zero is less."""
    names = [f"{name}{'.ftz' * flush}.{kind}" for name in ("neg", "abs", "min", "max")]
    form = FORMS[kind]
    negate, absolute = (computing(name, 1)[1] for name in names[:2])
    least, most = (computing(name, 2)[1] for name in names[2:])

    def flushed(word: int) -> int:
        return form.flushed(word, flush)

    for a in words(form):
        is_nan = a & form.sign - 1 > form.infinity
        assert negate(a) == (form.nan if is_nan else flushed(a) ^ form.sign)
        assert absolute(a) == (form.nan if is_nan else flushed(a) & form.sign - 1)
    for a, b in random.Random(kind).sample(list(product(words(form), repeat=2)), 500):
        numbers = [flushed(word) for word in (a, b) if word & form.sign - 1 <= form.infinity]
        numbers.sort(key=lambda word: (form.number(word), not word & form.sign))
        assert least(a, b) == (numbers[0] if numbers else form.nan)
        assert most(a, b) == (numbers[-1] if numbers else form.nan)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_a_sign_is_copied_from_the_first_operand(kind):
    form, compute = computing(f"copysign.{kind}", 2)
    for a, b in product(words(form)[:40], repeat=2):
        assert compute(a, b) == a & form.sign | b & form.sign - 1


_CLASSES: dict[str, Callable[[Any], bool]] = {
    "finite": gmpy2.is_finite,
    "infinite": gmpy2.is_infinite,
    "number": lambda number: not gmpy2.is_nan(number),
    "notanumber": gmpy2.is_nan,
}


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_classes_of_numbers(kind):
    """A zero is normal."""
    form = FORMS[kind]
    register = f"a{form.bits}"
    tests = {name: parsed(f"testp.{name}.{kind} p, {register}") for name in _CLASSES}
    normal, subnormal = (
        REALS["testp"](parsed(f"testp.{name}.{kind} p, {register}"))
        for name in ("normal", "subnormal")
    )
    for word in words(form):
        number = form.number(word)
        for name, holds in _CLASSES.items():
            assert REALS["testp"](tests[name])(word) == holds(number), (name, hex(word))
        small = gmpy2.is_finite(number) and abs(number) < gmpy2.exp2(1 - form.bias)
        assert normal(word) == (gmpy2.is_finite(number) and (not small or not number)), hex(word)
        assert subnormal(word) == (small and number != 0), hex(word)


_RELATIONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@pytest.mark.parametrize("flush", [False, True], ids=["subnormal", "ftz"])
@pytest.mark.parametrize(
    "relation", [*_RELATIONS, *(f"{name}u" for name in _RELATIONS), "num", "nan"]
)
def test_a_comparison_with_a_nan_holds_if_it_is_unordered(relation, flush):
    holds = compares(parsed(f"setp.{relation}{'.ftz' * flush}.f32 p, a32, b32"))
    for a, b in random.Random(relation).sample(list(product(words(SINGLE), repeat=2)), 300):
        x, y = (SINGLE.number(SINGLE.flushed(word, flush)) for word in (a, b))
        if gmpy2.is_nan(x) or gmpy2.is_nan(y):
            wanted = relation == "nan" or (len(relation) == 3 and relation[2] == "u")
        else:
            wanted = relation == "num" or (relation != "nan" and _RELATIONS[relation[:2]](x, y))
        assert holds(a, b) == wanted, (hex(a), hex(b))


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("flush", [False, True], ids=["subnormal", "ftz"])
def test_an_atomic_sum_is_rounded_to_the_nearest(kind, flush):
    form = FORMS[kind]
    chosen = words(form)
    with form.context(gmpy2.RoundToNearest):
        for a, b in random.Random(kind).sample(list(product(chosen, repeat=2)), 300):
            numbers = [form.number(form.flushed(word, flush)) for word in (a, b)]
            wanted = form.flushed(form.word(gmpy2.add(*numbers)), flush)
            assert added(Type(kind), a, b, flush=flush) == wanted


# Conversions

_INTEGERS = [f"{sign}{bits}" for bits in (8, 16, 32, 64) for sign in "us"]


def _limits(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (-1 << bits - 1, (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def _register(kind: str, letter: str) -> str:
    return f"{letter}{max(int(kind[1:]), 16)}"


def conversion(name: str) -> Callable[[int], int]:
    """Returns a function that executes a conversion."""
    *_, to, source = name.split(".")
    return converted(parsed(f"{name} {_register(to, 'a')}, {_register(source, 'b')}"))


def _integer(number: Any, kind: str, source: str, direction: Any) -> int:
    """Returns the number rounded to a type and clamped; NaNs are converted as in NVIDIA's code."""
    least, most = _limits(kind)
    if gmpy2.is_nan(number):
        if "64" not in kind + source:
            return 0
        return {"u8": most, "u16": most, "u32": 1 << 31, "u64": 1 << 63}.get(kind, least)
    if gmpy2.is_infinite(number):
        return least if number < 0 else most
    with gmpy2.context(precision=1100, round=direction):
        return min(max(int(gmpy2.rint(number)), least), most)


def _around(form: _Form) -> list[int]:
    """Returns words near the limits of integers, including halves."""
    found = []
    with form.context(gmpy2.RoundToNearest):
        for bits in (0, 1, 7, 8, 15, 16, 31, 32, 63, 64):
            for more in (-1, -0.5, -0.25, 0, 0.25, 0.5, 1, 1.5):
                word = form.word(gmpy2.mpfr(2) ** bits + more)
                found += [
                    near | sign
                    for near in (word - 1, word, word + 1)
                    for sign in (0, form.sign)
                    if 0 <= near <= form.infinity
                ]
    return [*found, *words(form)]


@pytest.mark.parametrize("direction", _WHOLE)
@pytest.mark.parametrize("kind", FORMS)
def test_a_number_becomes_the_nearest_integer_of_a_type(kind, direction):
    form = FORMS[kind]
    numbers = {word: form.number(word) for word in _around(form)}
    for to in _INTEGERS:
        compute = conversion(f"cvt.{direction}.{to}.{kind}")
        for word, number in numbers.items():
            wanted = _integer(number, to, kind, _WHOLE[direction])
            assert compute(word) == wanted, (to, hex(word))


def test_a_subnormal_number_is_no_integer_but_0_with_ftz():
    for flush, wanted in (("", 1), (".ftz", 0)):
        assert conversion(f"cvt.rpi{flush}.s32.f32")(1) == wanted


@pytest.mark.parametrize("direction", _ROUNDINGS)
@pytest.mark.parametrize("kind", FORMS)
def test_an_integer_is_rounded_to_a_number(kind, direction):
    form = FORMS[kind]
    source = random.Random(kind)
    with form.context(_ROUNDINGS[direction]):
        for of in _INTEGERS:
            least, most = _limits(of)
            compute = conversion(f"cvt.{direction}.{kind}.{of}")
            chosen = [least, least + 1, -1, 0, 1, most - 1, most, most >> 1, 65504, 65519, 65520]
            chosen += [source.randint(least, most) >> source.randrange(64) for _ in range(40)]
            for number in chosen:
                if least <= number <= most:
                    wanted = form.word(gmpy2.mpfr(number))
                    assert compute(number & (1 << int(of[1:])) - 1) == wanted, (of, number)


@pytest.mark.parametrize("direction", _ROUNDINGS)
@pytest.mark.parametrize(("to", "source"), [("f16", "f32"), ("f16", "f64"), ("f32", "f64")])
@pytest.mark.parametrize("saturate", [False, True], ids=["", "sat"])
def test_a_number_is_rounded_to_a_narrower_one(to, source, direction, saturate):
    form, wide = FORMS[to], FORMS[source]
    compute = conversion(f"cvt.{direction}{'.sat' * saturate}.{to}.{source}")
    with wide.context(gmpy2.RoundToNearest):
        # Numbers of the narrow format, and their neighbours in the wide one
        chosen = [
            wide.word(form.number(word)) + near for word in words(form) for near in (-1, 0, 1)
        ]
        half = [
            wide.word(form.number(word)) | 1 << wide.fraction - form.fraction - 1
            for word in words(form)
        ]
    with form.context(_ROUNDINGS[direction]):
        for word in [*chosen, *half, *words(wide)]:
            if not 0 <= word < 1 << wide.bits:
                continue
            wanted = form.word(gmpy2.mpfr(wide.number(word)))
            wanted = saturated(wanted, form) if saturate else wanted
            assert compute(word) == wanted, hex(word)


@pytest.mark.parametrize(("to", "source"), [("f32", "f16"), ("f64", "f16"), ("f64", "f32")])
def test_a_wider_number_is_the_same_one(to, source):
    form, narrow = FORMS[to], FORMS[source]
    compute = conversion(f"cvt.{to}.{source}")
    for word in words(narrow):
        assert compute(word) == form.word(narrow.number(word)), hex(word)


@pytest.mark.parametrize("direction", _WHOLE)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("saturate", [False, True], ids=["", "sat"])
def test_a_number_is_rounded_to_an_integer_of_its_own_format(kind, direction, saturate):
    form = FORMS[kind]
    compute = conversion(f"cvt.{direction}{'.sat' * saturate}.{kind}.{kind}")
    for word in _around(form):
        number = form.number(word)
        with gmpy2.context(precision=64, round=_WHOLE[direction]):
            wanted = form.word(number if not gmpy2.is_finite(number) else gmpy2.rint(number))
        if gmpy2.is_finite(number):
            wanted = wanted & form.sign - 1 | word & form.sign
        assert compute(word) == (saturated(wanted, form) if saturate else wanted), hex(word)


def test_a_conversion_without_a_change_keeps_every_bit():
    for kind, form in FORMS.items():
        if kind != "f16":
            compute = conversion(f"cvt.{kind}.{kind}")
            assert [compute(word) for word in words(form)] == words(form)


def test_what_is_flushed_in_a_conversion_to_single_precision():
    """A number that is too small before rounding is flushed; with .sat one that is too small after
    it.
    """
    below = 0x380F_FFFF_FFFF_FFFF  # just below the smallest normal number
    least = 1 << SINGLE.fraction
    assert conversion("cvt.rn.f32.f64")(below) == least
    assert conversion("cvt.rn.ftz.f32.f64")(below) == 0
    assert conversion("cvt.rn.ftz.f32.f64")(below + 1) == least
    assert conversion("cvt.rn.ftz.sat.f32.f64")(below) == least
    assert conversion("cvt.rz.ftz.sat.f32.f64")(below) == 0
    assert conversion("cvt.rn.ftz.f32.f64")(below | DOUBLE.sign) == SINGLE.sign
    # Operands in single precision are flushed, others are not.
    assert conversion("cvt.ftz.f64.f32")(1) == 0
    assert conversion("cvt.f64.f32")(1) == DOUBLE.word(gmpy2.mpfr(2) ** -149)
    assert conversion("cvt.rn.ftz.f16.f32")(least - 1 | SINGLE.sign) == HALF.sign
    assert conversion("cvt.ftz.f32.f16")(1) == SINGLE.word(gmpy2.mpfr(2) ** -24)
