"""Function addresses in kernels of one file: handles in tables and pointers are the same for all of
them.
"""

from functools import cache
from pathlib import Path

import pytest

from rtl.params import PRESETS
from sim.engine import CompiledEngine
from sim.launch import Buffer, Launch, Scalar, prepare
from sim.machine.hardware import Hardware
from sim.toolchain.cubin.loader import read_cubin
from sim.toolchain.from_ptx import read_ptx_program
from sim.toolchain.module import Module
from testbench.ended import in_lockstep, on_threads, on_warps
from testbench.engine.designs import needs_compiled
from testbench.words import contents

SOURCE = Path(__file__).parents[1] / "data" / "toolchain_function_handles.ptx"
THREADS = 48
FUNCTIONS = [
    lambda a: a + 7,
    lambda a: (a + 10, a * 3, 100 - a, a << 4)[a & 3],
    lambda a: (a ^ 0x55) + (1, 20, 300, 4000)[a & 3],
]
"""Python equivalents of the functions plus, chosen and other."""
EXPECTED = {
    "through_global": [FUNCTIONS[t % 3](t) for t in range(THREADS)],
    "through_constants": [50000 + FUNCTIONS[(t + 2) % 3](t) for t in range(THREADS)],
}


@cache
def module(origin: str) -> Module:
    return (
        read_ptx_program(SOURCE) if origin == "ours" else read_cubin(SOURCE.with_suffix(".cubin"))
    )


@cache
def hardware() -> Hardware:
    return Hardware(PRESETS["tiny"], CompiledEngine, check=True)


def on_hardware(launch: Launch) -> Launch:
    return in_lockstep(hardware(), launch)


ENGINES = [on_warps, on_threads, pytest.param(on_hardware, marks=needs_compiled)]
pytestmark = [
    pytest.mark.parametrize("origin", ["ours", "NVIDIA's"]),
    pytest.mark.parametrize("run", ENGINES),
]


def left(origin: str, run, entry: str, function: int = 0) -> list[int]:
    launch = prepare(
        module(origin),
        [Buffer("out", bytes(4 * THREADS)), Scalar(function, 8)],
        entry=entry,
        block=(THREADS, 1, 1),
    )
    return contents(run(launch), "out")


@pytest.mark.parametrize("entry", EXPECTED)
def test_every_kernel_calls_through_the_same_table(origin, run, entry):
    assert left(origin, run, entry) == EXPECTED[entry]


def test_what_one_kernel_leaves_of_a_function_another_calls(origin, run):
    handles = left(origin, run, "handles")
    assert len(set(handles[0:6:2])) == 3 and handles[1:8:2] == [0] * 4
    assert handles[6] == handles[2]
    for handle, function in zip(handles[0:6:2], FUNCTIONS, strict=True):
        assert left(origin, run, "through_parameter", handle) == [
            function(t) for t in range(THREADS)
        ]
