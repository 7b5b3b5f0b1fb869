"""Kernels in single precision on both models, against numpy, and on the hardware in lockstep with the warp model."""

import random
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from rtl.isa.kinds import FloatFormat
from rtl.params import PRESETS
from sim.engine import ENGINES
from sim.kernels.manifest import LEVELS
from sim.launch import Buffer, Launch, prepare
from sim.machine.hardware import Hardware
from sim.run import main
from sim.toolchain.cubin import read_cubin
from sim.toolchain.cuda import CompilerError
from sim.toolchain.from_ptx import read_ptx_program
from sim.toolchain.module import Module
from testbench.convert.cases import edges, random_pattern
from testbench.ended import in_lockstep, on_threads, on_warps
from testbench.engine.designs import needs_compiled
from testbench.execute.singles import EDGES, singles
from testbench.model.test_conversions import numbers, rounded
from testbench.model.test_conversions import words as form_words
from testbench.programs.cuda.build import optimised
from testbench.programs.single import rounding
from testbench.programs.single.rounding import LIMIT, exact_quotients, exact_roots, words

FOLDER = Path(__file__).parent
PAIRS = 2 * 1024
"""Of numbers that are divided."""
HERE = "here"
"""Code that the compiler here makes of the same PTX."""
MADE = (*LEVELS, HERE)


def on_both_models(kernel: str, level: str, buffers: dict[str, np.ndarray], grid: tuple[int, int, int],
                   block: tuple[int, int, int]) -> list[np.ndarray]:
    """What each model leaves in the first buffer, as words."""
    launches = [launch_of(kernel, level, buffers, grid, block) for _ in range(2)]
    return [words(on_warps(launches[0], LIMIT * grid[0])), words(on_threads(launches[1]))]


@cache
def module_of(kernel: str, level: str) -> Module:
    """A kernel's program: made by NVIDIA's assembler, or here."""
    return read_ptx_program(FOLDER / f"{kernel}.ptx") if level == HERE else read_cubin(
        FOLDER / f"{kernel}.{level}.cubin")


def launch_of(kernel: str, level: str, buffers: dict[str, np.ndarray], grid: tuple[int, int, int],
              block: tuple[int, int, int]) -> Launch:
    arguments = [Buffer(name, content.tobytes()) for name, content in buffers.items()]
    return prepare(module_of(kernel, level), arguments, grid=grid, block=block)


@pytest.mark.parametrize("level", MADE)
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


@pytest.mark.parametrize("level", MADE)
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


@pytest.mark.parametrize("level", MADE)
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
    for size, more in ((32, []), (64, ["--double"])):
        assert rounding.main([*arguments, *more]) == 0
        assert capsys.readouterr().out.splitlines() == [
            f"{kernel} of {size} bits, O3: 2,048 checked, 0 wrong" for kernel in ("quotients", "roots")]
    monkeypatch.setattr(rounding, "SINGLE", replace(rounding.SINGLE, exact={
        **rounding.SINGLE.exact, "roots": lambda numbers: exact_roots(numbers) ^ (numbers == 1)[:, None]}))
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


@pytest.mark.parametrize("level", MADE)
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


@pytest.mark.parametrize("level", MADE)
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


@pytest.mark.parametrize("level", MADE)
@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_made_of_functions(kernel, level):
    inputs, blocks = KERNELS[kernel]
    given, exact = inputs(np.random.default_rng(4))
    for left in on_both_models(kernel, level, {"out": np.zeros(exact.shape, np.float32), "in": given}, (blocks, 1, 1),
                               (64, 1, 1)):
        assert np.allclose(left.view(np.float32).reshape(exact.shape), exact, rtol=1e-5, atol=1e-5)


def _summands(source: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Eighths between 0 and 64: their sums are exact, in any order."""
    return (source.integers(0, 512, 128) / 8).astype(np.float32), source.uniform(-4, 4, 272).astype(np.float32)


def _summed(x: np.ndarray, before: np.ndarray) -> np.ndarray:
    """What is left of ``before``: a place of its own is summed up in twice."""
    after = before.copy()
    after[:8] += [x[x.astype(int) % 8 == number].sum() for number in range(8)]
    after[8] += x.sum()
    once = before[16:144] + x
    after[16:144] = once + x * np.float32(1e-7)
    after[144:] = before[16:144] + once
    return after


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_atomic_sums(level):
    """The order in which threads meet is not defined: those that do have summands whose sums are exact."""
    x, out = _summands(np.random.default_rng(7))
    out[:16] = 0
    for left in on_both_models("sums", level, {"out": out, "in": x}, (2, 1, 1), (64, 1, 1)):
        assert np.array_equal(left.view(np.float32), _summed(x, out))
# Kernels of which the order of every sum is known, so that numpy leaves the same words

Arrays = dict[str, np.ndarray]
FLOAT = np.float32


def fused(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> np.ndarray:
    """A fused multiply-add, where doubles round as singles do once: products are exact, and sums of these numbers."""
    return (np.asarray(a, np.float64) * np.asarray(b) + np.asarray(c)).astype(FLOAT)


@dataclass(frozen=True)
class Case:
    """A run: the buffers but for the first one, what has to be in that, and how far from it a number may be."""

    inputs: Arrays
    exact: np.ndarray
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    error: float = 0.0

    @property
    def buffers(self) -> Arrays:
        """All of them, in the order of the parameters."""
        return {"out": np.zeros(self.exact.shape, FLOAT), **self.inputs}

    def check(self, left: np.ndarray) -> None:
        """Compares the first buffer's words."""
        found = left.view(FLOAT).reshape(self.exact.shape)
        if self.error:
            assert np.allclose(found, self.exact, rtol=self.error, atol=self.error)
        else:
            assert np.array_equal(left, self.exact.astype(FLOAT).view(np.uint32).ravel()), (found, self.exact)


def _stencil(source: np.random.Generator) -> Case:
    plate = source.uniform(0, 100, (10, 18)).astype(FLOAT)
    around = (plate[1:-1, :-2] + plate[1:-1, 2:]) + (plate[:-2, 1:-1] + plate[2:, 1:-1])
    left = np.zeros_like(plate)
    left[1:-1, 1:-1] = fused(FLOAT(0.125), around, FLOAT(0.5) * plate[1:-1, 1:-1])
    return Case({"in": plate}, left, (2, 1, 1), (8, 8, 1))


def _reduction(source: np.random.Generator) -> Case:
    numbers = source.normal(0, 100, 256).astype(FLOAT)
    sums = np.zeros(64, FLOAT)
    for part in numbers.reshape(4, 64):
        sums = sums + part
    while len(sums) > 1:
        sums = sums[:len(sums) // 2] + sums[len(sums) // 2:]
    return Case({"in": numbers}, np.array([sums[0], numbers.max()], FLOAT), (1, 1, 1), (64, 1, 1))


def _fourier(source: np.random.Generator) -> Case:
    numbers = source.normal(0, 1, (64, 2)).astype(FLOAT)
    angles = -2 * np.pi * np.arange(32) / 64
    roots = np.array([np.cos(angles), np.sin(angles)], FLOAT).T.copy()
    held, thread = numbers, np.arange(32)
    for power in range(6):
        length = 1 << power
        part = thread & length - 1
        (c, s), a, (x, y) = roots[part * (32 // length)].T, held[:32], held[32:].T
        turned = np.array([fused(x, c, -(y * s)), fused(x, s, y * c)]).T
        to, new = 2 * thread - part, np.zeros_like(held)
        new[to], new[to + length] = a + turned, a - turned
        held = new
    exact = np.fft.fft(numbers[:, 0] + 1j * numbers[:, 1])
    assert np.allclose(held[:, 0] + 1j * held[:, 1], exact, atol=1e-4)
    return Case({"in": numbers, "roots": roots}, held, (1, 1, 1), (32, 1, 1))


def _mandelbrot(_source: np.random.Generator) -> Case:
    x, y = (axis.astype(FLOAT) for axis in np.meshgrid(np.arange(16), np.arange(8)))
    cx, cy = fused(x, FLOAT(0.1875), FLOAT(-2.25)), fused(y, FLOAT(0.34375), FLOAT(-1.25))
    zx, zy, steps = np.zeros_like(cx), np.zeros_like(cx), np.zeros_like(cx)
    for _ in range(40):
        xx, yy = zx * zx, zy * zy
        stays = xx + yy <= 4
        zx, zy = np.where(stays, (xx - yy) + cx, zx), np.where(stays, fused(zx + zx, zy, cy), zy)
        steps += stays
    return Case({}, np.dstack([steps, zx, zy, np.sqrt(fused(zx, zx, zy * zy))]), (2, 1, 1), (16, 4, 1))


def _options(source: np.random.Generator) -> Case:
    """By the same formulas in doubles: functions and sums in single precision are some units off."""
    price, strike, time = source.uniform(5, 30, 64), source.uniform(5, 30, 64), source.uniform(0.25, 3, 64)
    given = np.array([price, strike, time, time], FLOAT).T.copy()
    price, strike, time, _ = given.T.astype(np.float64)
    rate, change = 0.02, 0.3

    def below(d: np.ndarray) -> np.ndarray:
        t = 1 / (1 + 0.2316419 * np.abs(d))
        factors = (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.31938153, 0.0)
        above = 0.39894228 * np.exp(-0.5 * d * d) * np.polyval(factors, t)
        return np.where(d > 0, 1 - above, above)

    first = (np.log(price / strike) + (rate + 0.5 * change ** 2) * time) / (change * np.sqrt(time))
    p, q = below(first), below(first - change * np.sqrt(time))
    worth = strike * np.exp(-rate * time)
    return Case({"in": given}, np.array([price * p - worth * q, worth * (1 - q) - price * (1 - p)]).T, (2, 1, 1),
                (32, 1, 1), error=2e-5)


def _means(source: np.random.Generator) -> Case:
    points = (source.normal(0, 0.5, (64, 2)) + source.choice([-2, 2], (64, 2))).astype(FLOAT)
    means, nearest = points[:4].copy(), np.zeros(64, int)
    for _ in range(3):
        x, y = (points[:, None] - means[None]).transpose(2, 0, 1)
        nearest = fused(x, x, y * y).argmin(axis=1)
        for mean in range(4):
            own = points[nearest == mean]
            if len(own):
                means[mean] = own.cumsum(axis=0, dtype=FLOAT)[-1] / FLOAT(len(own))
    return Case({"points": points}, np.array([*nearest, *means.ravel()], FLOAT), (1, 1, 1), (64, 1, 1))


def _triangles(source: np.random.Generator) -> Case:
    matrix = source.uniform(-1, 1, (8, 8)).astype(FLOAT) + 4 * np.eye(8, dtype=FLOAT)
    a = matrix.copy()
    for step in range(7):
        a[step + 1:, step] /= a[step, step]
        a[step + 1:, step + 1:] = fused(-a[step + 1:, step, None], a[None, step, step + 1:], a[step + 1:, step + 1:])
    assert np.allclose((np.tril(a, -1) + np.eye(8)) @ np.triu(a), matrix, atol=1e-5)
    return Case({"in": matrix}, a, (1, 1, 1), (8, 8, 1))


def _jacobi(source: np.random.Generator) -> Case:
    matrix = source.uniform(-1, 1, (32, 32)).astype(FLOAT) + 32 * np.eye(32, dtype=FLOAT)
    right = source.uniform(-32, 32, 32).astype(FLOAT)
    inverse, x, far = FLOAT(1) / matrix.diagonal(), np.zeros(32, FLOAT), np.zeros(32, FLOAT)
    for _ in range(6):
        total = right
        for at in range(32):
            total = np.where(np.arange(32) == at, total, fused(-matrix[:, at], x[at], total))
        far, x = np.abs(total * inverse - x), total * inverse
    assert np.allclose(matrix.astype(np.float64) @ x, right, atol=1e-1)
    return Case({"matrix": matrix, "right": right}, np.array([x, far]), (1, 1, 1), (32, 1, 1))


def _sorted(source: np.random.Generator) -> Case:
    numbers = source.normal(0, 1, 128).astype(FLOAT) * np.exp2(source.integers(-140, 120, 128)).astype(FLOAT)
    numbers[:3] = np.inf, -np.inf, 0
    return Case({"in": numbers}, np.sort(numbers), (1, 1, 1), (64, 1, 1))


CASES = {"stencil": _stencil, "reduction": _reduction, "fourier": _fourier, "mandelbrot": _mandelbrot,
         "options": _options, "means": _means, "triangles": _triangles, "jacobi": _jacobi, "sorted": _sorted}


@pytest.mark.parametrize("level", MADE)
@pytest.mark.parametrize("kernel", CASES)
def test_numpy_leaves_the_same(kernel, level):
    case = CASES[kernel](np.random.default_rng(5))
    for left in on_both_models(kernel, level, case.buffers, case.grid, case.block):
        case.check(left)


@cache
def hardware() -> Hardware:
    """The machine, which looks at every instruction beside the warp model."""
    return Hardware(PRESETS["default"], ENGINES["compiled"], check=True)


def on_hardware(kernel: str, level: str, buffers: dict[str, np.ndarray], grid: tuple[int, int, int],
                block: tuple[int, int, int]) -> np.ndarray:
    """What the hardware leaves in the first buffer, in step with the warp model."""
    return words(in_lockstep(hardware(), launch_of(kernel, level, buffers, grid, block), LIMIT)).view(np.float32)


def test_a_source_still_makes_its_files():
    try:
        files = [*optimised(FOLDER / "triangles.cu")]
    except (CompilerError, OSError) as error:
        pytest.skip(f"NVIDIA's compilers: {error}")
    assert [path.name for path, content in files if path.read_bytes() != content] == []
    sources = {path.stem for path in FOLDER.glob("*.cu")}
    assert {path.name for path in FOLDER.glob("*.*.cubin")} == {f"{name}.{level}.cubin" for name in sources
                                                                for level in LEVELS}


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
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_hardware_keeps_step_with_functions(kernel, level):
    inputs, blocks = KERNELS[kernel]
    given, exact = inputs(np.random.default_rng(5))
    found = on_hardware(kernel, level, {"out": np.zeros(exact.shape, np.float32), "in": given}, (blocks, 1, 1),
                        (64, 1, 1))
    assert np.allclose(found.reshape(exact.shape), exact, rtol=1e-5, atol=1e-5)


@needs_compiled
@pytest.mark.parametrize("level", ["O0", "O3"])
def test_the_hardware_keeps_step_with_atomic_sums(level):
    """Sums of any numbers: the warp model is told in which order the hardware's instructions meet."""
    source = np.random.default_rng(8)
    x, out = (source.uniform(0.1, 64, count).astype(np.float32) for count in (128, 272))
    x[:40:3] = np.float32(1e-39)
    found = on_hardware("sums", level, {"out": out, "in": x}, (2, 1, 1), (64, 1, 1))
    assert np.allclose(found, _summed(x, out), rtol=1e-5)


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


@needs_compiled
@pytest.mark.parametrize(("kernel", "level"), [(kernel, MADE[at % len(MADE)]) for at, kernel in enumerate(CASES)])
def test_the_hardware_leaves_the_same(kernel, level):
    case = CASES[kernel](np.random.default_rng(6))
    case.check(on_hardware(kernel, level, case.buffers, case.grid, case.block).view(np.uint32))
