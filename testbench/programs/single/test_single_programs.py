"""Kernels in single precision on both models, against numpy, and on the hardware in lockstep with the warp model."""

import random
from pathlib import Path

import numpy as np
import pytest

from rtl.params import PRESETS
from sim.engine import ENGINES
from sim.launch import Buffer, Launch, prepare
from sim.machine.hardware import Hardware
from sim.model.thread import run as run_threads
from sim.model.warp import Machine
from sim.run import main
from sim.toolchain.cubin import read_cubin
from testbench.engine.designs import needs_compiled
from testbench.execute.singles import SINGLES, singles

FOLDER = Path(__file__).parent
LIMIT = 200_000
PAIRS = 2 * 1024
"""Of numbers that are divided."""


def on_both_models(kernel: str, level: str, buffers: dict[str, np.ndarray], grid: tuple[int, int, int],
                   block: tuple[int, int, int]) -> list[np.ndarray]:
    """What each model leaves in the first buffer, as words."""
    left = []
    for model in ("warp", "thread"):
        arguments = [Buffer(name, content.tobytes()) for name, content in buffers.items()]
        launch = prepare(read_cubin(FOLDER / f"{kernel}.{level}.cubin"), arguments, grid=grid, block=block)
        if model == "warp":
            result = Machine(launch).run(LIMIT * grid[0])
            assert result.status == "ok", result.reason
        else:
            run_threads(launch)
        left.append(words(launch, next(iter(buffers))))
    return left


def words(launch: Launch, name: str) -> np.ndarray:
    address, size = launch.buffers[name]
    return np.frombuffer(launch.memory.read(address, size), np.uint32)


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
    """Compiled division on numbers of every kind: its short way, its slow way, and the check between them. Quotients
    that are no number are left out: there compiled code comes to MUFU.RSQ, which the machine does not have.
    """
    source, count = random.Random(level), PAIRS
    edges = [number | sign for number in SINGLES for sign in (0, 1 << 31)]
    first, second, _ = singles(source, count - len(edges) ** 2)
    numbers = np.array([*((a, b) for a in edges for b in edges), *zip(first, second, strict=True)], np.uint32)
    with np.errstate(all="ignore"):
        numbers[np.isnan(np.divide(*numbers.view(np.float32).T))] = 0x3F80_0000
    a, b = numbers.view(np.float32).T
    with np.errstate(all="ignore"):
        quotient = a / b
        ordered = ~np.isnan(a) & ~np.isnan(b) & (a != b)
        exact = np.array([np.where(np.isnan(quotient), np.float32(-1), quotient),
                          np.where(a < b, 1, np.where(a > b, 2, np.where(a == b, 3, 4))),
                          np.where(ordered, np.minimum(a, b), 0), np.where(ordered, np.maximum(np.abs(a), 2), 0)],
                         np.float32).T
    out = np.zeros((count, 4), np.float32)
    for left in on_both_models("quotients", level, {"out": out, "in": numbers}, (count // 64, 1, 1), (64, 1, 1)):
        wrong = np.flatnonzero((left.reshape(count, 4) != exact.view(np.uint32)).any(axis=1))
        assert not wrong.size, [(hex(numbers[i][0]), hex(numbers[i][1]), left.reshape(count, 4)[i],
                                 exact.view(np.uint32)[i]) for i in wrong[:5]]


@needs_compiled
@pytest.mark.parametrize("level", ["O0", "O3"])
def test_the_hardware_keeps_step(level):
    """Multiply-adds back to back, as compiled code has them 6 cycles apart."""
    source, hardware = np.random.default_rng(2), Hardware(PRESETS["default"], ENGINES["compiled"], check=True)
    a, b = (source.uniform(-4, 4, (16, 16)).astype(np.float32) for _ in range(2))
    arguments = [Buffer("out", bytes(1024)), Buffer("a", a.tobytes()), Buffer("b", b.tobytes())]
    launch = prepare(read_cubin(FOLDER / f"matrix_product.{level}.cubin"), arguments, grid=(2, 2, 1), block=(8, 8, 1))
    result, lockstep = hardware.run(launch, LIMIT), hardware.lockstep
    assert result.status == "ok", result.reason
    assert lockstep is not None
    assert lockstep.difference is None
    assert lockstep.compared == result.instructions > 0
    assert not lockstep.compare_memory(hardware.memory)
    address, size = launch.buffers["out"]
    product = np.frombuffer(hardware.memory.read(address, size), np.float32).reshape(16, 16)
    assert np.allclose(product, a @ b, rtol=1e-5, atol=1e-4)


def test_a_machine_without_floating_point_refuses_it(capsys):
    kernel = str(FOLDER / "matrix_product.O3.cubin")
    with pytest.raises(SystemExit) as error:
        main([kernel, "--preset", "tiny", "--engine", "model", *["--arg=buf:X=u32[256]"] * 3])
    assert error.value.code == 2
    assert capsys.readouterr().err.endswith("FFMA R8, R8, R22, RZ: preset tiny has no floating point\n")
