"""Kernels of CUDA C++ on the models, compiled by NVIDIA's compilers and, from their PTX, by this
project's compiler.

The expected results are those of a host compiler's code of the same source.
"""

from functools import cache

import pytest

from sim.launch import Launch, prepare
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.compiler import compile_module
from sim.toolchain.cubin.loader import load, read_cubin
from sim.toolchain.ptx.front_end import read_ptx
from testbench.ended import on_threads, on_warps
from testbench.execute.refused import refused_words
from testbench.kernels.manifest import DEBUG, LEVELS, build
from testbench.programs.cuda.runs import CUDA_LEVELS, CUDA_RUNS, complaints, expectation_file

LIMIT = 50_000
FOLDER = next(iter(CUDA_RUNS.values())).folder
KERNELS = sorted({run.kernel for run in CUDA_RUNS.values()})
ALIKE = [name for name, run in CUDA_RUNS.items() if not run.compared]
"""Runs whose results are the same when each thread runs alone."""
PTX = [
    *((name, "ptx") for name in CUDA_RUNS),
    *((name, f"{DEBUG}.ptx") for name in list(CUDA_RUNS)[::4]),
]
"""Runs, and the PTX file that is compiled for each: compilation takes most of the time."""


@cache
def optimised(name: str) -> Launch:
    """Returns the launch of a run's optimised kernel, after it has run on the warp model."""
    return on_warps(build(CUDA_RUNS[name], LEVELS[1]), LIMIT)


@pytest.mark.parametrize("level", CUDA_LEVELS)
@pytest.mark.parametrize("name", CUDA_RUNS)
def test_warps_leave_what_a_host_does(name, level):
    run = CUDA_RUNS[name]
    assert (
        complaints(
            run, optimised(name) if level == LEVELS[1] else on_warps(build(run, level), LIMIT)
        )
        == []
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ALIKE)
def test_threads_alone_leave_what_a_host_does(name, level):
    run = CUDA_RUNS[name]
    assert complaints(run, on_threads(build(run, level))) == []


@pytest.mark.parametrize(("name", "suffix"), PTX)
def test_the_compiler_here_makes_code_that_leaves_the_same(name, suffix):
    run = CUDA_RUNS[name]
    source = run.folder / f"{run.kernel}.{suffix}"
    launch = prepare(
        load(assemble(compile_module(read_ptx(source)), run.kernel)),
        run.launch_arguments(LEVELS[1]),
        entry=run.entry,
        grid=run.grid,
        block=run.block,
        dynamic_shared=run.dynamic_shared,
    )
    assert complaints(run, on_warps(launch, LIMIT)) == []


@pytest.mark.parametrize("level", CUDA_LEVELS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_compiled_code_has_nothing_that_is_refused(kernel, level):
    """Code that no run reaches is checked as well."""
    module = read_cubin(CUDA_RUNS[kernel].cubin(level))
    assert refused_words(module) == []


def test_every_source_has_a_run_and_nothing_is_kept_without_a_source():
    sources = {path.stem for path in FOLDER.glob("*.cu")}
    assert len(sources) == 60
    assert sources == set(KERNELS)
    kept = {
        f"{kernel}{suffix}"
        for kernel in KERNELS
        for suffix in (".ptx", f".{DEBUG}.ptx", *(f".{level}.cubin" for level in CUDA_LEVELS))
    }
    kept |= {expectation_file(run).name for run in CUDA_RUNS.values()}
    assert kept == {
        path.name for path in FOLDER.iterdir() if path.suffix in (".ptx", ".cubin", ".json")
    }


@pytest.mark.parametrize("name", CUDA_RUNS)
def test_a_wrong_byte_is_noticed(name):
    """The wrong byte is the last one of every buffer, in a launch whose buffers were correct
    before.
    """
    run = CUDA_RUNS[name]
    launch = optimised(name)
    for buffer, (base, size) in launch.buffers.items():
        kept = launch.memory.read(base + size - 1, 1)
        launch.memory.write(base + size - 1, bytes([kept[0] ^ 0x80]))
        assert [line.split(": ")[:2] for line in complaints(run, launch)] == [[run.name, buffer]]
        launch.memory.write(base + size - 1, kept)
