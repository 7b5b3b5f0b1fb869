"""The kernels' PTX compiled by this project's compiler: results in memory, and properties of the
code.
"""

import re
import shutil
import subprocess

import pytest

from sim.model.thread.run import run as run_threads
from sim.model.warp.model import WarpModel
from sim.toolchain.cubin.elf_writer import write_object
from sim.toolchain.listing.disassembly import disassembly
from sim.toolchain.module import ProgramError
from testbench.compiler.kernels import (
    KERNELS,
    complaints,
    kernel_file,
    kernel_launch,
    kernel_module,
)
from testbench.execute.refused import refused_words
from testbench.kernels.manifest import RUNS

_FEW = 24


@pytest.mark.parametrize("name", RUNS)
def test_memory_is_what_the_ptx_says(name):
    run = RUNS[name]
    launch = kernel_launch(run)
    result = WarpModel(launch, warps=64).run(1_000_000)
    assert complaints(run, launch) == []
    assert (result.status != "ok") == run.traps


@pytest.mark.parametrize("kernel", KERNELS)
def test_threads_alone_leave_the_same(kernel):
    run = RUNS[kernel]
    launch = kernel_launch(run)
    ended = run_threads(launch, max_instructions=1_000_000)
    assert complaints(run, launch) == []
    assert (ended.trap is not None) == run.traps


@pytest.mark.parametrize(
    "kernel",
    [
        "k20_local_array_sort",
        "k22_alu64",
        "k23_compare_select",
        "k26_divrem64",
        "k29_sha_rounds",
        "k46_noinline_multilevel",
        "k48_special_regs",
    ],
)
def test_few_registers_are_enough(kernel):
    run = RUNS[kernel]
    launch = kernel_launch(run, _FEW)
    assert kernel_module(kernel, _FEW).kernel("k").registers <= _FEW
    assert WarpModel(launch, warps=64).run(1_000_000).status == "ok"
    assert complaints(run, launch) == []


def test_too_few_registers_are_refused():
    with pytest.raises(ProgramError, match="there are too few registers"):
        kernel_module("k29_sha_rounds", 4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_compiled_code_has_nothing_that_is_refused(kernel):
    assert refused_words(kernel_module(kernel)) == []


@pytest.mark.skipif(
    shutil.which("nvdisasm") is None, reason="nvdisasm, NVIDIA's disassembler, is not on PATH"
)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_disassembler_of_nvidia_prints_the_same(tmp_path, kernel):
    path = tmp_path / "k.cubin"
    path.write_bytes(write_object(kernel_file(kernel)))
    printed = subprocess.run(
        ["nvdisasm", "-hex", "-novliw", str(path)], capture_output=True, text=True, check=True
    ).stdout
    theirs = [
        re.sub(r"`\(.*\)|\(\*.*|32@.*", "", text).replace(" ", "")
        for text in re.findall(r"/\*[0-9a-f]{4}\*/ +(.*?) ?;", printed)
    ]
    ours = [
        text.replace(" ", "")
        for text in re.findall(r"/\*[0-9a-f]{4}\*/ (.*?);", disassembly(kernel_file(kernel)))
    ]
    assert theirs
    assert set(ours[len(theirs) :]) <= {"NOP"}
    for one, other in zip(theirs, ours, strict=False):
        assert other.startswith(one)
