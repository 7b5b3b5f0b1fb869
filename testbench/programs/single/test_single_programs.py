"""Kernels in single precision on both models, against NumPy, and on the hardware in lockstep with
the warp model.
"""

import numpy as np
import pytest

from sim.run import main
from sim.toolchain.cuda import CompilerError
from testbench.engine.designs import needs_compiled
from testbench.kernels.manifest import LEVELS
from testbench.programs.cuda.build import optimised
from testbench.programs.single.cases import CASES
from testbench.programs.single.runs import FOLDER, MADE, on_both_models, on_hardware


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
    pull = bodies[None, :, 3] / ((distance**2).sum(axis=2) + 0.01) ** 1.5
    return bodies, (pull[:, :, None] * distance).sum(axis=1)


KERNELS = {"softmax": (_rows, 2), "normalise": (_vectors, 2), "bodies": (_bodies, 1)}
"""Kernel -> its inputs and expected results, and the number of blocks of 64 threads."""


def _summands(source: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns eighths between 0 and 64, whose sums are exact in any order."""
    return (source.integers(0, 512, 128) / 8).astype(np.float32), source.uniform(-4, 4, 272).astype(
        np.float32
    )


def _summed(x: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Returns the buffer after the kernel, from its content ``before``."""
    after = before.copy()
    after[:8] += [x[x.astype(int) % 8 == number].sum() for number in range(8)]
    after[8] += x.sum()
    once = before[16:144] + x
    after[16:144] = once + x * np.float32(1e-7)
    after[144:] = before[16:144] + once
    return after


@pytest.mark.parametrize("level", MADE)
def test_a_product_of_matrices(level):
    """Each element is a chain of fused multiply-adds, which doubles round like singles for these
    numbers.
    """
    source = np.random.default_rng(1)
    a, b = (source.uniform(-4, 4, (16, 16)).astype(np.float32) for _ in range(2))
    exact = np.zeros((16, 16), np.float32)
    for step in range(16):
        exact = (np.outer(a[:, step].astype(np.float64), b[step]) + exact).astype(np.float32)
    for left in on_both_models(
        "matrix_product",
        level,
        {"out": np.zeros((16, 16), np.float32), "a": a, "b": b},
        (2, 2, 1),
        (8, 8, 1),
    ):
        assert np.array_equal(left, exact.view(np.uint32).ravel())


@pytest.mark.parametrize("level", MADE)
@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_made_of_functions(kernel, level):
    inputs, blocks = KERNELS[kernel]
    given, exact = inputs(np.random.default_rng(4))
    for left in on_both_models(
        kernel,
        level,
        {"out": np.zeros(exact.shape, np.float32), "in": given},
        (blocks, 1, 1),
        (64, 1, 1),
    ):
        assert np.allclose(left.view(np.float32).reshape(exact.shape), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_atomic_sums_of_compiled_code_are_exact_where_their_order_does_not_matter(level):
    """The order of the threads is undefined; where several threads add to one word, sums of their
    summands are exact.
    """
    x, out = _summands(np.random.default_rng(7))
    out[:16] = 0
    for left in on_both_models("sums", level, {"out": out, "in": x}, (2, 1, 1), (64, 1, 1)):
        assert np.array_equal(left.view(np.float32), _summed(x, out))


@pytest.mark.parametrize("level", MADE)
@pytest.mark.parametrize("kernel", CASES)
def test_numpy_leaves_the_same(kernel, level):
    case = CASES[kernel](np.random.default_rng(5))
    for left in on_both_models(kernel, level, case.buffers, case.grid, case.block):
        case.check(left)


@needs_compiled
@pytest.mark.parametrize("level", ["O0", "O3"])
def test_the_hardware_keeps_step(level):
    """Compiled code issues dependent multiply-adds 6 cycles apart."""
    source = np.random.default_rng(2)
    a, b = (source.uniform(-4, 4, (16, 16)).astype(np.float32) for _ in range(2))
    product = on_hardware(
        "matrix_product",
        level,
        {"out": np.zeros((16, 16), np.float32), "a": a, "b": b},
        (2, 2, 1),
        (8, 8, 1),
    )
    assert np.allclose(product.reshape(16, 16), a @ b, rtol=1e-5, atol=1e-4)


@needs_compiled
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_hardware_keeps_step_with_functions(kernel, level):
    inputs, blocks = KERNELS[kernel]
    given, exact = inputs(np.random.default_rng(5))
    found = on_hardware(
        kernel,
        level,
        {"out": np.zeros(exact.shape, np.float32), "in": given},
        (blocks, 1, 1),
        (64, 1, 1),
    )
    assert np.allclose(found.reshape(exact.shape), exact, rtol=1e-5, atol=1e-5)


@needs_compiled
@pytest.mark.parametrize("level", ["O0", "O3"])
def test_the_hardware_keeps_step_with_atomic_sums(level):
    """Sums of arbitrary numbers: the warp model takes the order of the additions from the hardware."""
    source = np.random.default_rng(8)
    x, out = (source.uniform(0.1, 64, count).astype(np.float32) for count in (128, 272))
    x[:40:3] = np.float32(1e-39)
    found = on_hardware("sums", level, {"out": out, "in": x}, (2, 1, 1), (64, 1, 1))
    assert np.allclose(found, _summed(x, out), rtol=1e-5)


@needs_compiled
@pytest.mark.parametrize(
    ("kernel", "level"), [(kernel, MADE[at % len(MADE)]) for at, kernel in enumerate(CASES)]
)
def test_the_hardware_leaves_the_same(kernel, level):
    case = CASES[kernel](np.random.default_rng(6))
    case.check(on_hardware(kernel, level, case.buffers, case.grid, case.block).view(np.uint32))


def test_a_machine_without_floating_point_refuses_it(capsys):
    kernel = str(FOLDER / "matrix_product.O3.cubin")
    with pytest.raises(SystemExit) as error:
        main([kernel, "--preset", "tiny", "--engine", "model", *["--arg=buf:X=u32[256]"] * 3])
    assert error.value.code == 2
    assert capsys.readouterr().err.endswith(
        "FFMA R8, R8, R22, RZ: preset tiny has no floating point\n"
    )


def test_a_source_still_makes_its_files():
    try:
        files = [*optimised(FOLDER / "triangles.cu")]
    except (CompilerError, OSError) as error:
        pytest.skip(f"NVIDIA's compilers: {error}")
    assert [path.name for path, content in files if path.read_bytes() != content] == []
    sources = {path.stem for path in FOLDER.glob("*.cu")}
    assert {path.name for path in FOLDER.glob("*.*.cubin")} == {
        f"{name}.{level}.cubin" for name in sources for level in LEVELS
    }
