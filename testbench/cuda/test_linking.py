"""The linker and NVIDIA's assembler in CUDA programs: PTX texts, relocatable cubins, both."""

import os
import subprocess
from pathlib import Path

import pytest

from rtl.params import PRESETS
from sim.cuda import command, setup
from sim.cuda.compilers import JitOptions, OwnCompiler, Ptxas
from sim.cuda.device import Device
from sim.cuda.errors import CudaError
from sim.cuda.images import link_images
from sim.cuda.server import Server
from sim.cuda.setup import environment, find_ptxas
from sim.engine.build import missing_tool
from sim.runner import ModelRunner
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.front_end import parse_ptx
from sim.toolchain.ptx.joining import join

needs_compiler = pytest.mark.skipif(missing_tool() is not None, reason=f"{missing_tool()}")
needs_ptxas = pytest.mark.skipif(find_ptxas([]) is None, reason="ptxas is not installed")
_DATA = Path(__file__).parents[1] / "data"
FIRST, SECOND = _DATA / "link_first.ptx", _DATA / "link_second.ptx"
FIRST_CUBIN, SECOND_CUBIN = (path.with_suffix(".relocatable.cubin") for path in (FIRST, SECOND))
RESULT = (5 + 1) * 2 * 3 + 70 * 2 + 1 + 1000
"""The result of the kernel of both files, each of which has its own `count`, `factor` and `add`."""
HEADER = ".version 4.3\n.target sm_50\n.address_size 64\n"
ENTRY = ".visible .entry k() { ret; }\n"


def ptxas():
    """Returns the path of NVIDIA's assembler."""
    found = find_ptxas([])
    assert found is not None
    return Ptxas(found)


def linked(client, compiler, level, *files):
    """Returns the client's output when it links files: the kernel's number, or the error."""
    server = Server(Device(ModelRunner(PRESETS["default"]), 1 << 30, 10_000), compiler)
    try:
        done = subprocess.run(
            [client, "link", str(level), *files],
            env=os.environ | environment(server.name, []),
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.stdout.splitlines()[0], server.device.launches
    finally:
        server.close()
        server.device.memory.close()


@needs_compiler
@pytest.mark.parametrize(
    "files",
    [(FIRST, SECOND), (SECOND, FIRST), (FIRST_CUBIN, SECOND_CUBIN), (SECOND_CUBIN, FIRST_CUBIN)],
)
def test_static_names_are_each_inputs_own(client, files):
    assert linked(client, OwnCompiler(), 4, *files)[0] == str(RESULT)


@needs_compiler
def test_ptx_and_cubins_are_refused_together(client):
    assert (
        linked(client, OwnCompiler(), 4, FIRST, SECOND_CUBIN)[0]
        == "200: PTX is linked with cubins by NVIDIA's assembler only: --ptxas"
    )


@needs_compiler
@needs_ptxas
@pytest.mark.parametrize("files", [(FIRST, SECOND), (FIRST, SECOND_CUBIN), (FIRST_CUBIN, SECOND)])
def test_the_assembler_links_ptx_and_cubins(client, files):
    assert linked(client, ptxas(), 4, *files)[0] == str(RESULT)


@needs_compiler
def test_an_input_has_its_own_limit_of_registers_and_the_level_of_all(client, monkeypatch):
    compiler, heard = OwnCompiler(), []
    cubin = compiler.cubin
    monkeypatch.setattr(
        compiler, "cubin", lambda text, options: heard.append(options) or cubin(text, options)
    )
    link = compiler.link
    monkeypatch.setattr(
        compiler,
        "link",
        lambda texts, cubins: heard.extend(options for _, options in texts) or link(texts, cubins),
    )
    assert linked(client, compiler, 3, f"16:{FIRST}", SECOND)[0] == str(RESULT)
    assert heard[:3] == [JitOptions(16, 3), JitOptions(0, 3), JitOptions(16)]


@needs_compiler
@needs_ptxas
def test_the_assembler_hears_the_level_of_optimisation(client):
    compiler = ptxas()
    (slow, before), (fast, after) = (
        linked(client, compiler, level, FIRST, SECOND) for level in (0, 4)
    )
    assert slow == fast == str(RESULT)
    assert before[0].outcome.instructions > after[0].outcome.instructions


@needs_ptxas
def test_the_assembler_hears_the_limit_of_registers():
    compiler = ptxas()
    text = (_DATA.parent / "programs" / "k08_fib_recursion.ptx").read_text()
    registers = [
        max(
            section.registers
            for section in read_object(
                compiler.cubin(text, JitOptions(limit)), "k"
            ).sections.values()
        )
        for limit in (0, 16)
    ]
    assert registers[0] > registers[1]
    assert registers[1] <= 16


@needs_ptxas
def test_results_of_both_compilers_are_kept_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path))
    text, assembler = HEADER + ENTRY, ptxas()
    made = [
        compiler.cubin(text, options)
        for options in (JitOptions(), JitOptions(32), JitOptions(level=0))
        for compiler in (assembler, OwnCompiler())
    ]
    # The project's compiler has one level.
    assert len(list(tmp_path.glob("*.cubin"))) == 5
    assert [compiler.cubin(text, JitOptions()) for compiler in (assembler, OwnCompiler())] == made[
        :2
    ]


@needs_ptxas
def test_the_output_of_the_assembler_is_reported():
    with pytest.raises(CudaError, match="Unknown symbol 'nothing'") as refused:
        ptxas().cubin(HEADER + ".visible .entry k() { bra nothing; }", JitOptions())
    assert refused.value.result == 218


def test_a_missing_assembler_is_reported(monkeypatch, capsys):
    monkeypatch.setattr(command, "find_ptxas", lambda _command: None)
    with pytest.raises(SystemExit) as ended:
        command.main(["--engine", "model", "--ptxas", "--", "true"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "python -m sim.cuda: --ptxas: no ptxas that knows sm_50 is installed "
        "(CUDA 13 cannot compile for it): pip install -e '.[cuda]'\n"
    )


def test_an_assembler_without_sm_50_is_passed_over(monkeypatch, tmp_path):
    """The assembler of CUDA 13 has no sm_50 and may be the first in PATH."""
    for folder, machines in (("new", "'sm_75','sm_120'"), ("old/bin", "'sm_50','sm_75'")):
        program = tmp_path / folder / "ptxas"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\necho "Allowed values: {machines}"\n')
        program.chmod(0o755)
    monkeypatch.setattr(setup, "_targets", lambda _path: {})
    monkeypatch.setenv("PATH", f"{tmp_path / 'new'}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert find_ptxas([]) is None
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "old"))
    assert find_ptxas([]) == tmp_path / "old" / "bin" / "ptxas"
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "nowhere"))
    assert find_ptxas([]) == tmp_path / "old" / "bin" / "ptxas"


@pytest.mark.parametrize(
    ("images", "line"),
    [
        (
            (_DATA / "toolchain_two_kernels.cubin", FIRST_CUBIN),
            "input 1: it is linked already: only relocatable files are "
            "linked (nvcc -rdc=true, ptxas -c)",
        ),
        ((FIRST_CUBIN, FIRST_CUBIN), "one is defined in input 1 and in input 2"),
        ((FIRST, FIRST), "one is defined in two of the texts that are linked"),
    ],
)
def test_inputs_that_are_not_linked_are_refused(images, line):
    with pytest.raises(CudaError) as refused:
        link_images([(path.read_bytes(), JitOptions()) for path in images], OwnCompiler())
    assert refused.value.message == line


def variables(*texts):
    """Returns the alignment of the variables of linked texts, by name."""
    module = parse_ptx(join([HEADER + text for text in texts]), "PTX")
    return {variable.name: variable.alignment for variable in module.variables}


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        (".global .u32 a;", ".global .u32 a, b;", {"a": 4, "a$2": 4, "b": 4}),
        (".global .u32 a;", ".visible .global .u32 a;", {"a$1": 4, "a": 4}),
        (".extern .global .u32 a;", ".visible .global .u32 a = 3;", {"a": 4}),
        (".visible .global .u32 a = 3;", ".extern .global .u32 a;", {"a": 4}),
        (".weak .global .u32 a;", ".weak .global .u32 a;", {"a": 4}),
        (".weak .global .u32 a;", ".visible .global .align 8 .u32 a = 1;", {"a": 8}),
        (".common .global .u32 a;", ".common .global .u32 a;", {"a": 4}),
        (".extern .shared .align 4 .b8 s[];", ".extern .shared .align 16 .b8 s[];", {"s": 16}),
        (".global .u32 a$2; .global .u32 a;", ".global .u32 a;", {"a$2": 4, "a": 4, "a$2_": 4}),
        (".global .u32 a; // .global .u32 b;", "/* a; */ .global .u32 b;", {"a": 4, "b": 4}),
    ],
)
def test_variables_of_several_texts(first, second, found):
    assert variables(first, second) == found


def test_a_static_name_that_is_an_operation_changes_only_where_it_is_a_name():
    body = ".global .u32 add; .func ret() { .reg .u32 r; .reg .pred p; add: @p add.u32 r, r, 1; @!p bra add; ret; }"
    text = join([HEADER + body, HEADER + body])
    assert text.rstrip().endswith(
        ".global .u32 add$2;\n.func ret$2() { .reg .u32 r; .reg .pred p; add$2: "
        "@p add.u32 r, r, 1; @!p bra add$2; ret; }"
    )


def test_the_newest_version_and_machine_hold_for_all():
    text = join(
        [
            ".version 4.3\n.target sm_35\n.address_size 64\n" + ENTRY,
            ".version 7.8\n.target sm_50, debug\n",
        ]
    )
    assert text.startswith(
        ".version 7.8\n.target sm_50, debug\n.address_size 64\n.visible .entry k()"
    )


def test_two_visible_definitions_are_refused():
    with pytest.raises(ProgramError, match=r"^f is defined in two of the texts that are linked$"):
        join([HEADER + ".visible .func f() { ret; }", HEADER + ".visible .func f() { ret; }"])
