"""Functions of CUDA's library, which NVIDIA's compiler includes in PTX.

Compiled by this project, their results agree with the host's library within the errors that CUDA's
manual states, and with NVIDIA's assembler for the same PTX.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest

from sim.launch import Buffer, prepare
from sim.toolchain.cuda import CompilerError, ptx_of_cuda
from sim.toolchain.module import Module
from testbench.compiler.runs import compiled
from testbench.compiler.singles import assembled_by_nvidia
from testbench.ended import on_warps

_UNITS = 2
"""The largest error of the functions below, in units in the last place."""
FUNCTIONS: dict[str, Callable[[float], float]] = {
    "log": math.log,
    "atan": math.atan,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "cbrt": np.cbrt,
    "log1pf": lambda x: float(np.float32(math.log1p(x))),
}
_NUMBERS = np.array(
    [
        1.0,
        0.5,
        2.0,
        1e-300,
        1e300,
        0.1,
        3.14159,
        12345.678,
        5e-310,
        1 + 2.0**-52,
        0.9999,
        7e-20,
        33.0,
        1.5e10,
        2.0**-30,
        0.7071067811865476,
    ]
)
SOURCE = """struct half { unsigned short bits; };
__device__ half nearest(float f) { half h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(f)); return h; }
__device__ half cut(float f) { half h; asm("cvt.rz.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(f)); return h; }
__device__ float single(half h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h.bits)); return f; }
extern "C" __global__ void k_half(double *b)
{ b[threadIdx.x] = single(cut(single(nearest(b[threadIdx.x])) * 3.1f)); }
""" + "".join(
    f"""extern "C" __global__ void k_{name}(double *b) {{ b[threadIdx.x] = {name}(b[threadIdx.x]); }}
"""
    for name in FUNCTIONS
)
"""Source of the kernels; halves are written as CUDA's headers write them."""


@pytest.fixture(scope="module")
def ptx() -> str:
    try:
        return ptx_of_cuda(SOURCE, "library.cu", debug=False)
    except CompilerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def ours(ptx) -> Module:
    return compiled(ptx)


def _left(module: Module, entry: str, numbers: np.ndarray) -> np.ndarray:
    launch = prepare(
        module, [Buffer("b", numbers.tobytes())], entry=entry, block=(len(numbers), 1, 1)
    )
    return np.frombuffer(on_warps(launch, 2_000_000).memory.read(*launch.buffers["b"]), np.float64)


def test_functions_are_those_of_the_hosts_library(ptx, ours, tmp_path):
    theirs = assembled_by_nvidia(ptx, tmp_path)
    for name, function in FUNCTIONS.items():
        found = _left(ours, f"k_{name}", _NUMBERS)
        single = name.endswith("f")
        with np.errstate(all="ignore"):
            numbers = _NUMBERS.astype(np.float32).astype(np.float64) if single else _NUMBERS
            exact = np.array(
                [function(number) if math.isfinite(number) else math.inf for number in numbers]
            )
        kind = np.float32 if single else np.float64
        finite = np.isfinite(exact)
        units = np.abs(found[finite] - exact[finite]) / np.spacing(
            np.abs(exact[finite]).astype(kind)
        )
        assert units.max() <= _UNITS, f"{name}: {units}"
        assert (
            np.abs(found.view(np.int64) - _left(theirs, f"k_{name}", _NUMBERS).view(np.int64)).max()
            <= 1
        ), name


def test_halves_are_converted_as_numpy_does(ours):
    numbers = np.array([0.1, 1.0, 65504.0, 1e-7, -3.7, 2048.5, 1e-8, 6e-5])
    halves = numbers.astype(np.float32).astype(np.float16).astype(np.float32) * np.float32(3.1)
    with np.errstate(over="ignore"):
        nearest = halves.astype(np.float16)
    beyond = np.abs(nearest.astype(np.float64)) > np.abs(halves.astype(np.float64))
    expected = np.where(beyond, np.nextafter(nearest, np.float16(0)), nearest).astype(np.float64)
    assert _left(ours, "k_half", numbers).tolist() == expected.tolist()
