"""Kernels in single precision on both models, against numpy, and on the hardware in lockstep with the warp model."""

import random
import re
from pathlib import Path

import numpy as np
import pytest

from rtl.isa.kinds import FloatFormat
from rtl.params import PRESETS
from sim.engine import ENGINES
from sim.machine.hardware import Hardware
from sim.run import main
from testbench.convert.cases import edges, random_pattern
from testbench.ended import in_lockstep, on_threads, on_warps
from testbench.engine.designs import needs_compiled
from testbench.execute.singles import EDGES, singles
from testbench.model.test_conversions import numbers, rounded
from testbench.model.test_conversions import words as form_words
from testbench.programs.single import rounding
from testbench.programs.single.rounding import LIMIT, exact_quotients, exact_roots, launch_of, words

FOLDER = Path(__file__).parent
PAIRS = 2 * 1024
"""Of numbers that are divided."""


def on_both_models(kernel: str, level: str, buffers: dict[str, np.ndarray], grid: tuple[int, int, int],
                   block: tuple[int, int, int]) -> list[np.ndarray]:
    """What each model leaves in the first buffer, as words."""
    launches = [launch_of(kernel, level, buffers, grid, block) for _ in range(2)]
    return [words(on_warps(launches[0], LIMIT * grid[0])), words(on_threads(launches[1]))]


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_a_product_of_matrices(level):
    """Each element is a chain of fused multiply-adds, which with these numbers doubles round as singles do once."""
    source = np.random.default_rng(1)
    a, b = (source.uniform(-4, 4, (16, 16)).astype(np.float32) for _ in range(2))
    exact = np.zeros((16, 16), np.float32)
    for step in range(16):
        exact = (np.outer(a[:, step].astype(np.float64), b[step]) + exact).astype(np.float32)
    for left in on_both_models("matrix_product", level, {"out": np.zeros((16, 16), np.float32), "a": a, "b": b},
                               (2, 2, 1), (8, 8, 1)):
        assert np.array_equal(left, exact.view(np.uint32).ravel())


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_quotients_are_rounded_to_the_nearest(level):
    """Compiled division on numbers of every kind: its short way, its slow way, and the check between them."""
    source, count = random.Random(level), PAIRS
    first, second, _ = singles(source, count - len(EDGES) ** 2)
    numbers = np.array([*((a, b) for a in EDGES for b in EDGES), *zip(first, second, strict=True)], np.uint32)
    exact = exact_quotients(numbers)
    out = np.zeros((count, 4), np.float32)
    for left in on_both_models("quotients", level, {"out": out, "in": numbers}, (count // 64, 1, 1), (64, 1, 1)):
        wrong = np.flatnonzero((left.reshape(count, 4) != exact).any(axis=1))
        assert not wrong.size, [(hex(numbers[i][0]), hex(numbers[i][1]), left.reshape(count, 4)[i], exact[i])
                                for i in wrong[:5]]


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_roots_and_reciprocals_are_rounded_to_the_nearest(level):
    """Compiled sqrt.rn and rcp.rn: of every exponent, at the edges, and any number."""
    source = random.Random(level)
    powers = [exponent << 23 | source.choice([0, 1, 0x7F_FFFF, source.getrandbits(23)]) for exponent in range(255)]
    first, second, _ = singles(source, 3 * 1024 - len(EDGES) - len(powers))
    numbers = np.array([*EDGES, *powers, *first[::2], *(word & 0x7FFF_FFFF for word in second[1::2])], np.uint32)
    numbers = numbers[:len(numbers) // 64 * 64]
    exact, count = exact_roots(numbers), len(numbers)
    out = np.zeros((count, 2), np.float32)
    for left in on_both_models("roots", level, {"out": out, "in": numbers}, (count // 64, 1, 1), (64, 1, 1)):
        wrong = np.flatnonzero((left.reshape(count, 2) != exact).any(axis=1))
        assert not wrong.size, [(hex(numbers[i]), left.reshape(count, 2)[i], exact[i]) for i in wrong[:5]]


def test_the_command_says_how_many_are_wrong(capsys, monkeypatch):
    arguments = ["--count", "2000", "--seed", "1"]
    assert rounding.main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == ["quotients, O3: 2,048 checked, 0 wrong",
                                                    "roots, O3: 2,048 checked, 0 wrong"]
    monkeypatch.setattr(rounding, "exact_roots", lambda numbers: exact_roots(numbers) ^ (numbers == 1)[:, None])
    assert rounding.main(arguments) == 1
    assert re.search(r"2,048 checked, \d+ wrong: 0x00000001; ", capsys.readouterr().out)


def _near(found: np.ndarray, exact: np.ndarray, *, relative: float = 0.0, absolute: float = 0.0) -> None:
    """Within the larger of two errors, a subnormal result's last bit, and equal where it is no finite number."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        finite = np.isfinite(rounded) & np.isfinite(found)
        bound = np.maximum(np.maximum(relative * np.abs(exact), absolute), 2.0 ** -149)
        good = np.where(finite, np.abs(found.astype(np.float64) - exact) <= bound,
                        (found == rounded) | np.isnan(found) & np.isnan(rounded))
    wrong = np.flatnonzero(~good)
    assert not wrong.size, [(found[i], exact[i]) for i in wrong[:5]]


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_functions_are_as_near_as_the_manual_says(level):
    """With subnormal numbers, for which compiled code scales; angles to pi, arguments of exponentials to 80."""
    source = np.random.default_rng(3)
    edges = np.array(EDGES, np.uint32).view(np.float32)
    small = source.uniform(-np.pi, np.pi, 512).astype(np.float32)
    large = np.concatenate([edges, source.integers(0, 1 << 32, 470, np.uint32).view(np.float32),
                            np.exp2(source.uniform(-149, 127, 512)).astype(np.float32)])
    x = np.concatenate([small, source.uniform(-80, 80, 512).astype(np.float32), large])
    x = x[:len(x) // 64 * 64]
    for left in on_both_models("functions", level, {"out": np.zeros((len(x), 8), np.float32), "in": x},
                               (len(x) // 64, 1, 1), (64, 1, 1)):
        found = left.view(np.float32).reshape(-1, 8).T
        with np.errstate(all="ignore"):
            a = x.astype(np.float64)
            _near(found[0][:512], np.sin(a[:512]), absolute=2 ** -20.9)
            _near(found[1][:512], np.cos(a[:512]), absolute=2 ** -20.9)
            _near(found[2], np.exp2(a), relative=2 ** -22)
            _near(found[3], np.log2(a), relative=2 ** -22, absolute=2 ** -22.6)
            _near(found[4], 1 / np.sqrt(a), relative=2 ** -22.9)
            _near(found[5], np.sqrt(a), relative=2 ** -23)
            usual = (np.abs(a) >= 2.0 ** -126) & (np.abs(a) < 2.0 ** 126)
            _near(found[6][usual], 1 / a[usual], relative=2 ** -22)
            usual = np.abs(a) <= 80
            _near(found[7][usual], np.exp(a[usual]), relative=2 ** -16)


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_integers_beside_numbers(level):
    """F2F's roundings of numbers of every kind, halves among them."""
    first, _, _ = singles(random.Random(level), 512)
    x = np.array([*EDGES, *first], np.uint32).view(np.float32)[:512]
    x[256:384] = np.arange(-64, 64, dtype=np.float32) / 2
    with np.errstate(all="ignore"):
        exact = np.array([np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.where(x > 0, np.minimum(x, 1), 0),
                          np.floor(-x), np.ceil(np.abs(x)), x - np.floor(x)], np.float32).T
    for left in on_both_models("whole", level, {"out": np.zeros((512, 8), np.float32), "in": x}, (8, 1, 1), (64, 1, 1)):
        found = left.view(np.float32).reshape(512, 8)
        assert np.array_equal(found, exact, equal_nan=True)
        kept = ~np.isnan(exact)
        assert np.array_equal(np.signbit(found)[kept], np.signbit(exact)[kept])


def _of_other_formats(given: np.ndarray) -> np.ndarray:
    """What kernel ``formats`` has to leave, in its order: an array for each number."""
    double, single, half = (numbers(given, form) for form in (FloatFormat.F64, FloatFormat.F32, FloatFormat.F16))
    to_zero, upwards = 3, 2
    with np.errstate(all="ignore"):
        of_integers = given.astype(np.int32).astype(np.float32).astype(np.float64)
        integers = np.where(np.isnan(half), 0, np.clip(np.rint(half), -2.0 ** 31, 2.0 ** 31 - 1))
    return np.array([
        form_words(rounded(single, FloatFormat.F16, 0), FloatFormat.F16),
        form_words(rounded(single, FloatFormat.F16, to_zero), FloatFormat.F16),
        form_words(rounded(double, FloatFormat.F16, 0), FloatFormat.F16),
        form_words(rounded(of_integers, FloatFormat.F16, 0), FloatFormat.F16), form_words(half, FloatFormat.F32),
        form_words(rounded(double, FloatFormat.F32, 0), FloatFormat.F32),
        form_words(rounded(double, FloatFormat.F32, upwards), FloatFormat.F32),
        integers.astype(np.int64).astype(np.uint32), form_words(half, FloatFormat.F64),
        form_words(single, FloatFormat.F64), form_words(np.floor(double), FloatFormat.F64)], np.uint64)


def _numbers_to_convert(seed: object) -> np.ndarray:
    source = random.Random(str(seed))
    patterns = [pattern for form in FloatFormat for pattern in (
        *edges(form), *(random_pattern(source, form) for _ in range(200)))]
    return np.array(patterns[:len(patterns) // 64 * 64], np.uint64)


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_numbers_of_other_formats(level):
    """As compiled code converts them: half precision from doubles by singles that are rounded to odd."""
    given = _numbers_to_convert(level)
    exact = _of_other_formats(given)
    for left in on_both_models("formats", level, {"out": np.zeros((len(given), 8), np.uint64), "in": given},
                               (len(given) // 64, 1, 1), (64, 1, 1)):
        rows = left.reshape(-1, 16)
        found = [rows[:, place // 2] >> 16 * (place % 2) & 0xFFFF for place in range(4)]
        found += [rows[:, place] for place in (2, 3, 4, 5)]
        found += [left.view(np.uint64).reshape(-1, 8)[:, place] for place in (3, 4, 5)]
        for place, (results, right) in enumerate(zip(found, exact, strict=True)):
            wrong = np.flatnonzero(results != right)
            assert not wrong.size, [(place, hex(given[i]), hex(results[i]), hex(right[i])) for i in wrong[:5]]


def _rows(source: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = source.normal(0, 3, (2, 64)).astype(np.float32)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return x, powers / powers.sum(axis=1, keepdims=True)


def _vectors(source: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = source.normal(0, 1, (128, 3)).astype(np.float32)
    return x, x / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)


def _bodies(source: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    bodies = source.uniform(-1, 1, (64, 4)).astype(np.float32)
    bodies[:, 3] = np.abs(bodies[:, 3])
    place = bodies[:, :3].astype(np.float64)
    distance = place[None] - place[:, None]
    pull = bodies[None, :, 3] / ((distance ** 2).sum(axis=2) + 0.01) ** 1.5
    return bodies, (pull[:, :, None] * distance).sum(axis=1)


KERNELS = {"softmax": (_rows, 2), "normalise": (_vectors, 2), "bodies": (_bodies, 1)}
"""Input and what has to come out of it; blocks of 64 threads."""


@pytest.mark.parametrize("level", ["O0", "O3"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_made_of_functions(kernel, level):
    inputs, blocks = KERNELS[kernel]
    given, exact = inputs(np.random.default_rng(4))
    for left in on_both_models(kernel, level, {"out": np.zeros(exact.shape, np.float32), "in": given}, (blocks, 1, 1),
                               (64, 1, 1)):
        assert np.allclose(left.view(np.float32).reshape(exact.shape), exact, rtol=1e-5, atol=1e-5)


def on_hardware(kernel: str, level: str, buffers: dict[str, np.ndarray], grid: tuple[int, int, int],
                block: tuple[int, int, int]) -> np.ndarray:
    """What the hardware leaves in the first buffer, in step with the warp model."""
    hardware = Hardware(PRESETS["default"], ENGINES["compiled"], check=True)
    return words(in_lockstep(hardware, launch_of(kernel, level, buffers, grid, block), LIMIT)).view(np.float32)


@needs_compiled
@pytest.mark.parametrize("level", ["O0", "O3"])
def test_the_hardware_keeps_step(level):
    """Multiply-adds back to back, as compiled code has them 6 cycles apart."""
    source = np.random.default_rng(2)
    a, b = (source.uniform(-4, 4, (16, 16)).astype(np.float32) for _ in range(2))
    product = on_hardware("matrix_product", level, {"out": np.zeros((16, 16), np.float32), "a": a, "b": b}, (2, 2, 1),
                          (8, 8, 1))
    assert np.allclose(product.reshape(16, 16), a @ b, rtol=1e-5, atol=1e-4)


@needs_compiled
@pytest.mark.parametrize("level", ["O0", "O3"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_hardware_keeps_step_with_functions(kernel, level):
    inputs, blocks = KERNELS[kernel]
    given, exact = inputs(np.random.default_rng(5))
    found = on_hardware(kernel, level, {"out": np.zeros(exact.shape, np.float32), "in": given}, (blocks, 1, 1),
                        (64, 1, 1))
    assert np.allclose(found.reshape(exact.shape), exact, rtol=1e-5, atol=1e-5)


@needs_compiled
@pytest.mark.parametrize("kernel", ["roots", "functions", "whole", "formats"])
def test_the_hardware_keeps_step_with_any_number(kernel):
    """Slow paths of sqrt.rn and rcp.rn among them."""
    given = np.array(singles(random.Random(6), 128)[0], np.uint32)
    if kernel == "formats":
        given = np.random.default_rng(6).choice(_numbers_to_convert(6), 128)
    on_hardware(kernel, "O3", {"out": np.zeros((128, 16), np.float32), "in": given}, (2, 1, 1), (64, 1, 1))


def test_a_machine_without_floating_point_refuses_it(capsys):
    kernel = str(FOLDER / "matrix_product.O3.cubin")
    with pytest.raises(SystemExit) as error:
        main([kernel, "--preset", "tiny", "--engine", "model", *["--arg=buf:X=u32[256]"] * 3])
    assert error.value.code == 2
    assert capsys.readouterr().err.endswith("FFMA R8, R8, R22, RZ: preset tiny has no floating point\n")
