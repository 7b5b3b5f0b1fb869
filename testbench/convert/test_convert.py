"""The conversion unit: decoder, functions and bounds, the unit by its testbench."""

import os
import random
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rtl.convert import ConversionDecoder
from rtl.convert.bound import IntegerBound
from rtl.convert.datapath import DATAPATH_STAGES, FUNCTION_DELAY, ConversionDatapath
from rtl.convert.decode import CONVERSION_FORMS
from rtl.convert.instruction import SIZES, ConversionOperation
from rtl.convert.narrow import NarrowConversion
from rtl.convert.unpack import FloatUnpack
from rtl.isa.effects import effects
from rtl.isa.kinds import MultiFunction
from rtl.isa.syntax import RZ, Constant, Immediate, Register
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.model.warp.vector.functions import rro
from sim.model.warp.vector.single import ffma
from testbench import simulation
from testbench.convert import make_table, tb_convert
from testbench.convert.cases import calculated, case_of, random_word
from testbench.convert.driver import ConvertDriver
from testbench.convert.formats import typed, unpacked
from testbench.execute.singles import SINGLES
from testbench.instructions.functions import errors
from testbench.simulation import combinational, failure, simulate

passes = partial(simulation.passes, "convert")


def test_what_a_lane_converts_by_itself():
    """POPC, and I2I up to 32 bits: every pair of types, numbers at their edges, absolute and
    negated.
    """
    source, dut = random.Random(0), NarrowConversion()
    edges = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF]

    def expected(word, size, signed, part, absolute, negate, to_size, to_signed, saturate):
        bits, to_bits = SIZES[size], SIZES[to_size]
        number = (word >> 8 * part) % (1 << bits)
        number -= signed << bits if number >> bits - 1 else 0
        number = (-1 if negate else 1) * (abs(number) if absolute else number)
        low = -(1 << to_bits - 1) if to_signed else 0
        if saturate:
            number = min(max(number, low), low + (1 << to_bits) - 1)
        number %= 1 << to_bits
        return (number - (to_signed << to_bits if number >> to_bits - 1 else 0)) % (1 << 32)

    def instruct(ctx, fields):
        operation = fields["operation"]
        ctx.set(dut.instruction, fields)
        ctx.set(
            dut.bound,
            {name: fields.get(name, 0) for name in ("to_size", "to_signed", "saturate")}
            | {
                "converts": operation is ConversionOperation.INTEGER_TO_INTEGER,
                "counts": operation is ConversionOperation.COUNT,
            },
        )

    async def body(ctx):
        for size, signed, to_size, to_signed, absolute, negate, saturate in product(
            range(3), (0, 1), range(3), (0, 1), (0, 1), (0, 1), (0, 1)
        ):
            part = source.randrange(0, 4, SIZES[size] // 8) if size < 2 else 0
            fields = {
                "size": size,
                "signed": signed,
                "part": part,
                "absolute": absolute,
                "negate": negate,
                "to_size": to_size,
                "to_signed": to_signed,
                "saturate": saturate,
            }
            instruct(ctx, fields | {"operation": ConversionOperation.INTEGER_TO_INTEGER})
            for edge in (*edges, source.getrandbits(32)):
                word = (edge << 8 * part | source.getrandbits(8 * part)) % (1 << 32)
                ctx.set(dut.source, word)
                await ctx.tick()
                assert ctx.get(dut.result) == expected(word, **fields), (hex(word), fields)
        for invert in (0, 1):
            instruct(ctx, {"operation": ConversionOperation.COUNT, "invert": invert})
            for edge in edges:
                ctx.set(dut.source, edge)
                await ctx.tick()
                assert ctx.get(dut.result) == (
                    32 - edge.bit_count() if invert else edge.bit_count()
                )

    simulate(dut, body)


def test_the_decoder_reads_what_the_table_says():
    source, dut = random.Random(0), ConversionDecoder(True)

    async def body(ctx):
        for form in CONVERSION_FORMS:
            for _ in range(25):
                word = random_word(source, form)
                values = form.values(word)
                constant = source.getrandbits(32)
                ctx.set(dut.word, word)
                ctx.set(dut.constant, constant)
                decoded, uniform = ctx.get(dut.decoded), ctx.get(dut.uniform)
                got, used = decoded.instruction, effects(form, values)
                operand = form.operands["a" if "a" in form.operands else "b"]
                assert decoded.gathers == isinstance(operand, Register)
                registers = [int(number) for number in decoded.registers if number != RZ]
                assert registers == sorted(used.reads), hex(word)
                assert decoded.destination == values["Rd"]
                wide = got.to_size == 3
                assert values["Rd"] == RZ or used.writes == set(
                    range(values["Rd"], values["Rd"] + 1 + wide)
                )
                assert got.conditional == used.writes_cc
                if isinstance(operand, Constant):
                    wide, upper = got.size == SIZES.index(64), (values["offset"] & 0xFFFF) + 4
                    assert (uniform.word, uniform.needs_upper_word) == (constant, wide)
                    assert not wide or (uniform.bank, uniform.address) == (values["bank"], upper), (
                        hex(word)
                    )
                if isinstance(operand, Immediate):
                    upper = operand.real == 64
                    assert uniform.is_upper == upper
                    assert uniform.word == values[operand.field] >> 32 * upper & (1 << 32) - 1
                if "part" in values:
                    halves = form.fields["part"].width == 1
                    assert got.part == (values["part"] << halves if got.size < 2 else 0)
                for name, flag in (
                    ("saturate", "saturate"),
                    ("flush", "flush"),
                    ("shift", "from_top"),
                    ("invert_b", "invert"),
                    ("signed", "signed"),
                ):
                    assert name not in values or got[flag] == values[name], (hex(word), name)

    combinational(dut, body)


def test_the_table_is_what_makes_it():
    assert make_table.main(["--check"]) == 0


def test_only_a_table_that_has_changed_is_written(tmp_path, monkeypatch):
    path = tmp_path / "table.py"
    path.write_text("old")
    os.utime(path, (1, 1))
    monkeypatch.setattr(make_table, "PATH", path)
    for text in ("old", "new"):
        monkeypatch.setattr(make_table, "table_text", lambda text=text: text)
        assert make_table.main([]) == 0
        assert (path.read_text(), path.stat().st_mtime == 1) == (text, text == "old")


@pytest.mark.parametrize("function", [MultiFunction.RCP, MultiFunction.RSQ, MultiFunction.LG2])
def test_every_significand_is_near_enough(function):
    """All significands, with even and odd exponents, and with those where a logarithm is near 0."""
    for exponent in (126, 127, 128):
        for first in range(0, 1 << 23, 1 << 20):
            words = np.arange(first, first + (1 << 20), dtype=np.uint32) | np.uint32(exponent << 23)
            found = calculated(function, words).view(np.float32)
            error, allowed = errors(function, words.view(np.float32), found)
            assert (error <= allowed).all()


def _fused(a, b, c, *, negated: int = 0):
    """``a * b + c``, or with ``negated`` ``c - a * b``, rounded once."""
    fields = {"flush": 0, "round": 0, "saturate": 0, "negate_b": negated, "negate_c": 0}
    words: Any = SimpleNamespace(
        **{name: part.view(np.uint32) for name, part in zip("abc", (a, b, c), strict=True)}
    )
    value: Any = ffma(words, fields).value
    return value.view(np.float32)


def test_every_significand_has_its_reciprocal_and_its_root():
    """The steps of compiled rcp.rn and sqrt.rn round to nearest, if the function is accurate
    enough.
    """
    one = np.float32(1)
    for exponent in (127, 128):
        for first in range(0, 1 << 23, 1 << 20):
            words = np.arange(first, first + (1 << 20), dtype=np.uint32) | np.uint32(exponent << 23)
            x = words.view(np.float32)
            ones, half = np.full_like(x, one), np.float32(0.5)
            y = calculated(MultiFunction.RCP, words).view(np.float32)
            assert np.array_equal(_fused(y, _fused(x, y, ones, negated=1), y), one / x)
            y = calculated(MultiFunction.RSQ, words).view(np.float32)
            root = x * y
            rest = _fused(root, root, x, negated=1)
            assert np.array_equal(_fused(rest, y * half, root), np.sqrt(x))


@pytest.mark.parametrize(
    ("function", "lowest", "highest"),
    [
        (MultiFunction.EX2, -126, 128),
        (MultiFunction.EX2, -1, 1),
        (MultiFunction.SIN, -0.5, 0.5),
        (MultiFunction.COS, -0.5, 0.5),
        (MultiFunction.SIN, -1000, 1000),
        (MultiFunction.COS, -1000, 1000),
    ],
)
def test_a_dense_sample_is_near_enough(function, lowest, highest):
    words = (
        np.linspace(lowest, highest, 1_000_003, endpoint=False, dtype=np.float64)
        .astype(np.float32)
        .view(np.uint32)
    )
    found = calculated(function, words).view(np.float32)
    error, allowed = errors(function, words.view(np.float32), found)
    assert (error <= allowed).all()


@pytest.mark.parametrize("function", [MultiFunction.SIN, MultiFunction.COS])
def test_sines_of_radians_are_near_enough(function):
    """Radians are converted as compiled code does, by RRO."""
    words = np.linspace(-np.pi, np.pi, 1_000_003).astype(np.float32).view(np.uint32)
    read: Any = SimpleNamespace(b=words)
    turns: Any = rro(read, {"mode": 0, "absolute_b": 0, "negate_b": 0}).value
    found = calculated(function, turns).view(np.float32)
    exact = (np.sin if function is MultiFunction.SIN else np.cos)(
        words.view(np.float32).astype(np.float64)
    )
    assert np.abs(found - exact).max() <= 2**-20.9


def test_square_roots_are_near_enough():
    """The square root is the reciprocal of RSQ, as in compiled code."""
    for exponent in (126, 127):
        words = np.arange(0, 1 << 23, 3, dtype=np.uint32) | np.uint32(exponent << 23)
        inverse = calculated(MultiFunction.RSQ, words)
        found = calculated(MultiFunction.RCP, inverse).view(np.float32)
        exact = np.sqrt(words.view(np.float32).astype(np.float64))
        assert (np.abs(found - exact) / exact).max() <= 2**-23


def test_the_reciprocal_of_a_machine_without_floating_point():
    source, dut = random.Random(1), ConversionDatapath(False, False)
    words = [*SINGLES, *(source.getrandbits(32) for _ in range(300))]
    expected = calculated(MultiFunction.RCP, np.array(words, np.uint32))
    cycles = DATAPATH_STAGES + FUNCTION_DELAY

    async def body(ctx):
        ctx.set(
            dut.instruction,
            {
                "operation": ConversionOperation.FUNCTION,
                "function": MultiFunction.RCP,
                "size": 2,
                "to_size": 2,
            },
        )
        for position in range(len(words) + cycles):
            if position < len(words):
                ctx.set(dut.source, words[position])
            if position >= cycles:
                assert ctx.get(dut.result) == expected[position - cycles], hex(
                    words[position - cycles]
                )
            await ctx.tick()

    simulate(dut, body)


def test_significands_and_shifts():
    source, dut = random.Random(2), FloatUnpack(True)

    async def body(ctx):
        for size, (fraction, exponent) in ((1, (10, 5)), (2, (23, 8)), (3, (52, 11))):
            bias = (1 << exponent - 1) - 1
            ctx.set(
                dut.instruction, {"operation": ConversionOperation.FLOAT_TO_INTEGER, "size": size}
            )
            for power in [*range(-4, min(67, bias + 1)), -bias, bias + 1]:
                bits = source.choice(
                    [0, 1, 1 << fraction - 1, (1 << fraction) - 1, source.getrandbits(fraction)]
                )
                pattern = power + bias << fraction | bits
                ctx.set(dut.pattern, pattern)
                value = unpacked(pattern, size)
                finite = power <= bias
                assert ctx.get(dut.unpacked.is_nan) == (not finite and bits != 0)
                assert ctx.get(dut.unpacked.overflows) == (not finite or value >= 1 << 64)
                if ctx.get(dut.unpacked.overflows):
                    continue
                if value >= 1:
                    assert ctx.get(dut.unpacked.significand) == value * 2 ** ctx.get(
                        dut.unpacked.shift
                    )
                else:
                    assert not ctx.get(dut.unpacked.significand)
                assert not finite or value >= 1 or ctx.get(dut.unpacked.round) == (value >= 0.5)
                assert value >= 1 or ctx.get(dut.unpacked.sticky) == (value not in (0, 0.5))

    combinational(dut, body)


def test_exponents_and_how_far_numbers_of_narrower_formats_go_down():
    source, dut = random.Random(4), FloatUnpack(True)

    async def body(ctx):
        sizes = {1: (10, 5), 2: (23, 8), 3: (52, 11)}
        for (size, (fraction, exponent)), (to_size, (_, to_exponent)) in product(
            sizes.items(), repeat=2
        ):
            bias, lowest = (1 << exponent - 1) - 1, 2 - (1 << to_exponent - 1)
            ctx.set(
                dut.instruction,
                {"operation": ConversionOperation.FLOAT_TO_FLOAT, "size": size, "to_size": to_size},
            )
            for stored in sorted(
                {
                    *range(1, (1 << exponent) - 1, 7),
                    *(
                        power
                        for end in (1, bias + lowest, 2 * bias)
                        for power in range(end - 70, end + 70)
                        if 1 <= power <= 2 * bias
                    ),
                }
            ):
                ctx.set(dut.pattern, stored << fraction | source.getrandbits(fraction))
                value, steps = unpacked(ctx.get(dut.pattern), size), ctx.get(dut.unpacked.shift)
                below = max(0, lowest + bias - stored) if to_size < size else 0
                assert (ctx.get(dut.unpacked.significand) == 0) == (below > 63)
                assert below > 63 or steps == below
                assert below > 63 or ctx.get(dut.unpacked.significand) == value / Fraction(2) ** (
                    stored - bias - 63
                )
                assert ctx.get(dut.unpacked.exponent) == stored - bias + 1 - lowest
                assert ctx.get(dut.unpacked.round) == (below == 64)
                assert ctx.get(dut.unpacked.sticky) == (
                    below > 64 or (below == 64 and bool(ctx.get(dut.pattern) % (1 << fraction)))
                )
                assert not ctx.get(dut.unpacked.overflows) and not ctx.get(dut.unpacked.is_nan)

    combinational(dut, body)


def test_integers_within_their_types():
    source, dut = random.Random(3), IntegerBound()
    edges = [
        0,
        1,
        *(1 << bits for bits in (6, 7, 8, 14, 15, 16, 30, 31, 32, 62, 63)),
        (1 << 64) - 1,
    ]
    magnitudes = sorted(
        {max(0, min(edge + step, (1 << 64) - 1)) for edge in edges for step in (-1, 0, 1)}
    )

    def expected(magnitude, negative, kind, code, saturate, double):
        size, is_signed = SIZES[code & 3], code >> 2
        lowest, highest = (
            (-1 << size - 1, (1 << size - 1) - 1) if is_signed else (0, (1 << size) - 1)
        )
        value = -magnitude if negative else magnitude
        if kind == "nan":
            value = typed(1 << size - 1, code) if double or size == 64 else 0
        elif kind == "overflow":
            value = lowest if negative else highest
        else:
            value = min(max(value, lowest), highest) if saturate else typed(value, code)
        return value & (1 << 64) - 1

    async def body(ctx):
        for code in range(8):
            for negative, saturate, double in product((0, 1), repeat=3):
                for kind in ["", "overflow", "nan"]:
                    for magnitude in magnitudes if not kind else [source.choice(magnitudes)]:
                        ctx.set(
                            dut.type,
                            {
                                "size": code & 3,
                                "signed": code >> 2,
                                "saturate": saturate,
                                "double": double,
                            },
                        )
                        ctx.set(
                            dut.number,
                            {
                                "bits": -magnitude % (1 << 64) if negative else magnitude,
                                "negative": negative,
                                "overflows": kind == "overflow",
                                "is_nan": kind == "nan",
                            },
                        )
                        await ctx.tick()
                        assert ctx.get(dut.bounded) == expected(
                            magnitude, negative, kind, code, saturate, double
                        ), (code, negative, saturate, double, kind, hex(magnitude))

    simulate(dut, body)


@pytest.mark.parametrize("seed", [0, 1])
def test_conversions_of_every_form_agree_with_the_model(seed):
    passes(tb_convert.check_forms, seed)


def test_conversions_of_edge_values_agree_with_the_model():
    passes(tb_convert.check_corners)


def test_conversions_between_all_types_agree_with_the_model():
    checks = passes(tb_convert.check_types).checks
    assert checks["instructions, of every type, 8 lanes"] == 100
    assert checks["instructions, of every type, 1 lanes"] == 20


def test_every_function_agrees_with_the_warp_model():
    assert passes(tb_convert.check_functions).checks["results of functions"] > 6 * 1000


@pytest.mark.parametrize("floats", [False, True])
def test_values_convert_between_all_formats(floats):
    passed = passes(partial(tb_convert.check_formats, floats=floats))
    assert passed.checks["conversions of formats"] > (200 if floats else 100) * 100


def test_instructions_that_come_as_fast_as_there_is_room_follow_each_other():
    passes(tb_convert.check_crowd)


@pytest.mark.parametrize(("what", "named"), [("after", "R4"), ("conditions", "CC")])
def test_a_wrong_result_is_seen(what, named):
    def body(bench: Bench) -> None:
        form = next(form for form in CONVERSION_FORMS if form.name == "I2I")
        case = case_of(
            bench.random, form, random_word(bench.random, form, Rd=4, Rb=8, guard_not=0, cc=1)
        )
        assert case.conditions is not None
        wrong = {
            "after": {4: [case.after[4][0] ^ 1, *case.after[4][1:]]},
            "conditions": [*case.conditions[:-1], case.conditions[-1] ^ 2],
        }
        ConvertDriver(bench, SmParams(), [replace(case, **{what: wrong[what]})]).run()

    assert named in failure("convert", body)
