"""The kernels' PTX through this project's compiler: what they leave in memory, and what their code looks like."""

import re
import shutil
import subprocess
from functools import cache

import numpy as np
import pytest

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.legality import encoding_error
from sim.launch import Launch, prepare
from sim.model.thread import run as run_threads
from sim.model.warp import Machine
from sim.toolchain.assembler import assemble
from sim.toolchain.compiler import compile_module
from sim.toolchain.compiler.allocate import REGISTERS
from sim.toolchain.cubin import load
from sim.toolchain.disassembly import disassembly
from sim.toolchain.elf_writer import write_object
from sim.toolchain.module import Module, ProgramError
from sim.toolchain.object_file import ObjectFile
from sim.toolchain.ptx.front_end import read_ptx
from testbench.compiler_runs import arguments
from testbench.programs.expected import expected
from testbench.programs.manifest import RUNS, Run, cubin
from testbench.programs.outcome import Exact, Outcome

KERNELS = sorted({run.kernel for run in RUNS.values()})
_BY_ADDRESS = "k12_callprototype_param"
_FEW = 24


@cache
def _file(kernel: str, registers: int = REGISTERS) -> ObjectFile:
    """A kernel as this compiler makes it."""
    source = cubin(kernel, "O3").parent / f"{kernel}.ptx"
    return assemble(compile_module(read_ptx(source), registers), kernel)


@cache
def _module(kernel: str, registers: int = REGISTERS) -> Module:
    return load(_file(kernel, registers))


def _launch(run: Run, registers: int = REGISTERS) -> Launch:
    module = _module(run.kernel, registers)
    values = {}
    if run.kernel == _BY_ADDRESS:
        # Here the function that is called by its address is there.
        values["fp"] = module.code.symbols["$k$f0"] - module.code.symbols["k"]
    return prepare(module, arguments(run, values), grid=run.grid, block=run.block, dynamic_shared=run.dynamic_shared)


def _expected(run: Run) -> dict[str, Outcome]:
    if run.kernel == _BY_ADDRESS:
        return {"out": Exact(np.array([thread + 3 * thread for thread in range(run.threads)], "<u4"))}
    return expected(run, "O3")


def _complaints(run: Run, finished: Launch) -> list[str]:
    return [f"{run.name}: {name}: {line}" for name, outcome in _expected(run).items()
            for line in outcome.complaints(finished.memory.read(*finished.buffers[name]))]


@pytest.mark.parametrize("name", RUNS)
def test_memory_is_what_the_ptx_says(name):
    run = RUNS[name]
    launch = _launch(run)
    result = Machine(launch, warps=64).run(1_000_000)
    assert _complaints(run, launch) == []
    assert (result.status != "ok") == run.traps


@pytest.mark.parametrize("kernel", KERNELS)
def test_threads_alone_leave_the_same(kernel):
    run = RUNS[kernel]
    launch = _launch(run)
    ended = run_threads(launch, max_instructions=1_000_000)
    assert _complaints(run, launch) == []
    assert (ended.trap is not None) == run.traps


@pytest.mark.parametrize("kernel", ["k20_local_array_sort", "k22_alu64", "k23_compare_select", "k26_divrem64",
                                    "k29_sha_rounds", "k46_noinline_multilevel", "k48_special_regs"])
def test_few_registers_are_enough(kernel):
    run = RUNS[kernel]
    launch = _launch(run, _FEW)
    assert _module(kernel, _FEW).kernel("k").registers <= _FEW
    assert Machine(launch, warps=64).run(1_000_000).status == "ok"
    assert _complaints(run, launch) == []


def test_too_few_registers_are_refused():
    with pytest.raises(ProgramError, match="there are too few registers"):
        _module("k29_sha_rounds", 4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_compiled_code_has_nothing_that_is_refused(kernel):
    module = _module(kernel)
    registers, code = module.kernel("k").registers, module.code.content
    for place in range(0, len(code), INSTRUCTION_BYTES):
        if place % GROUP_BYTES:
            word = int.from_bytes(code[place:place + INSTRUCTION_BYTES], "little")
            assert encoding_error(word, registers) is WarpError.NONE, f"{word:#018x} at {place:#x}"


@pytest.mark.skipif(shutil.which("nvdisasm") is None, reason="nvdisasm, NVIDIA's disassembler, is not on PATH")
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_disassembler_of_nvidia_prints_the_same(tmp_path, kernel):
    path = tmp_path / "k.cubin"
    path.write_bytes(write_object(_file(kernel)))
    printed = subprocess.run(["nvdisasm", "-hex", "-novliw", str(path)], capture_output=True, text=True,
                             check=True).stdout
    theirs = [re.sub(r"`\(.*\)|\(\*.*|32@.*", "", text).replace(" ", "")
              for text in re.findall(r"/\*[0-9a-f]{4}\*/ +(.*?) ?;", printed)]
    ours = [text.replace(" ", "") for text in re.findall(r"/\*[0-9a-f]{4}\*/ (.*?);", disassembly(_file(kernel)))]
    assert theirs
    assert set(ours[len(theirs):]) <= {"NOP"}
    for one, other in zip(theirs, ours, strict=False):
        assert other.startswith(one)
