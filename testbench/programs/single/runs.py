"""Runs of these kernels: on both models, and on the hardware in lockstep with the warp model."""

from functools import cache
from pathlib import Path

import numpy as np

from rtl.params import PRESETS
from sim.engine import ENGINES
from sim.launch import Buffer, Launch, prepare
from sim.machine.hardware import Hardware
from sim.toolchain.cubin.loader import read_cubin
from sim.toolchain.from_ptx import read_ptx_program
from sim.toolchain.module import Module
from testbench.ended import in_lockstep, on_threads, on_warps
from testbench.kernels.manifest import LEVELS
from testbench.programs.single.rounding import LIMIT, words

__all__ = ["FOLDER", "MADE", "on_both_models", "on_hardware"]

FOLDER = Path(__file__).parent
_HERE = "here"
"""Level of code that this project's compiler makes of the same PTX."""
MADE = (*LEVELS, _HERE)
"""Each kernel's programs: by NVIDIA's assembler at each level, and by this project's compiler."""


def on_both_models(
    kernel: str,
    level: str,
    buffers: dict[str, np.ndarray],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
) -> list[np.ndarray]:
    """Returns the words that each model leaves in the first buffer."""
    launches = [_launch_of(kernel, level, buffers, grid, block) for _ in range(2)]
    return [words(on_warps(launches[0], LIMIT * grid[0])), words(on_threads(launches[1]))]


def on_hardware(
    kernel: str,
    level: str,
    buffers: dict[str, np.ndarray],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
) -> np.ndarray:
    """Returns the words that the hardware leaves in the first buffer, in lockstep with the warp
    model.
    """
    return words(
        in_lockstep(_hardware(), _launch_of(kernel, level, buffers, grid, block), LIMIT)
    ).view(np.float32)


@cache
def _module_of(kernel: str, level: str) -> Module:
    """Returns a kernel's program, from NVIDIA's assembler or this project's compiler."""
    return (
        read_ptx_program(FOLDER / f"{kernel}.ptx")
        if level == _HERE
        else read_cubin(FOLDER / f"{kernel}.{level}.cubin")
    )


def _launch_of(
    kernel: str,
    level: str,
    buffers: dict[str, np.ndarray],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
) -> Launch:
    arguments = [Buffer(name, content.tobytes()) for name, content in buffers.items()]
    return prepare(_module_of(kernel, level), arguments, grid=grid, block=block)


@cache
def _hardware() -> Hardware:
    """Returns the machine, which compares every instruction with the warp model."""
    return Hardware(PRESETS["default"], ENGINES["compiled"], check=True)
