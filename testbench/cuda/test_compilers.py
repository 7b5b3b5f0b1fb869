"""Compilers of PTX: caching of compiled code, the assembler's flags, results of invalid texts."""

from pathlib import Path

import pytest

from sim.cuda import compilers
from sim.cuda.compilers import DEFAULT_LEVEL, Compiler, JitOptions, OwnCompiler, Ptxas
from sim.cuda.errors import RESULTS, CudaError
from sim.engine import cache
from sim.launch.programs import read_program
from sim.toolchain.ptx.joining import join

PTX = """\
.version 4.3
.target sm_50
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<2>;
    .reg .b64 %d<2>;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %d0, [out];
    st.global.u32 [%d0], %r0;
    ret;
}
"""
OTHER = PTX.replace("entry k(", "entry other(")


class Counting(Compiler):
    """A compiler that only records its inputs."""

    def __init__(self, identity=b"a"):
        self.identity, self.compiled = identity, []

    def _identity(self, options):
        return self.identity + str(options.max_registers).encode()

    def _compile(self, text, options):
        self.compiled.append((text, options))
        return b"cubin of " + text.encode()

    def link(self, texts, cubins):
        raise AssertionError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def result_of(call):
    with pytest.raises(CudaError) as refused:
        call()
    return RESULTS[refused.value.result][0], refused.value.message


def test_a_text_is_compiled_once_for_each_compiler_and_its_options(folder):
    one, options = Counting(), JitOptions()
    for _ in range(3):
        assert one.cubin("text", options) == b"cubin of text"
    assert one.compiled == [("text", options)]
    (path,) = folder.iterdir()
    assert path.suffix == ".cubin" and len(path.stem) == 24
    assert Counting().cubin("text", options) == b"cubin of text"
    one.cubin("text", JitOptions(20))
    one.cubin("other", options)
    other = Counting(b"b")
    other.cubin("text", options)
    assert [text for text, _ in one.compiled] == ["text", "text", "other"]
    assert len(other.compiled) == 1 and len(list(folder.iterdir())) == 4


def test_without_a_cache_everything_is_compiled_and_nothing_is_kept(folder):
    one = Counting()
    one.cubin("text", JitOptions())
    cache.switch(False)
    try:
        one.cubin("text", JitOptions())
        one.cubin("new", JitOptions())
    finally:
        cache.switch(True)
    assert [text for text, _ in one.compiled] == ["text", "text", "new"]
    assert len(list(folder.iterdir())) == 1


def test_what_cannot_be_kept_is_compiled_all_the_same(monkeypatch):
    def full(_path, _content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compilers, "store", full)
    one = Counting()
    assert one.cubin("text", JitOptions()) == b"cubin of text"


def test_options_are_those_of_cuda_by_default():
    assert (JitOptions().max_registers, JitOptions().level) == (0, 4) and DEFAULT_LEVEL == 4


# The project's compiler


def test_the_own_compilers_results_depend_on_registers_and_its_sources(monkeypatch):
    made = OwnCompiler()
    assert made._identity(JitOptions(20)) != made._identity(JitOptions(0))
    assert made._identity(JitOptions(20, 1)) == made._identity(JitOptions(20, 4))
    before = made._identity(JitOptions())
    assert len(compilers._toolchain()) == 32 and before.endswith(compilers._toolchain())
    monkeypatch.setattr(compilers, "_toolchain", lambda: b"other")
    assert made._identity(JitOptions()) != before


def test_the_digest_of_the_sources_changes_with_each_of_them(tmp_path, monkeypatch):
    for name in (
        "sim/toolchain/deep/a.py",
        "sim/toolchain/b.lark",
        "rtl/isa/c.ptx",
        "rtl/isa/d.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(compilers, "__file__", str(tmp_path / "sim" / "cuda" / "compilers.py"))
    digest = compilers._toolchain.__wrapped__
    found = [digest()]
    for name in ("sim/toolchain/deep/a.py", "sim/toolchain/b.lark", "rtl/isa/c.ptx"):
        (tmp_path / name).write_text("changed")
        found.append(digest())
    assert len(set(found)) == 4
    (tmp_path / "rtl/isa/d.txt").write_text("changed")
    assert digest() == found[-1]


@pytest.mark.parametrize(("registers", "most"), [(0, 255), (16, 16), (1000, 255)])
def test_a_limit_of_registers_is_one_of_the_machines_at_most(monkeypatch, registers, most):
    asked = []
    honest = compilers.compiled_object

    def compiled(parsed, name, limit):
        asked.append(limit)
        return honest(parsed, name, limit)

    monkeypatch.setattr(compilers, "compiled_object", compiled)
    cubin = OwnCompiler().cubin(PTX, JitOptions(registers))
    assert asked == [most] and cubin.startswith(b"\x7fELF")


def test_texts_are_linked_as_one_with_the_lowest_limit(monkeypatch):
    made, asked = OwnCompiler(), []
    monkeypatch.setattr(
        OwnCompiler, "cubin", lambda _self, text, options: asked.append((text, options)) or b"x"
    )
    for limits, lowest in (((30, 20), 20), ((0, 40), 40), ((0, 0), 0)):
        texts = [
            (text, JitOptions(limit)) for text, limit in zip((PTX, OTHER), limits, strict=True)
        ]
        assert made.link(texts, []) == b"x"
        text, options = asked.pop()
        assert text == join([PTX, OTHER]) and options == JitOptions(lowest)


def test_what_the_own_compiler_cannot_do_has_a_result_of_cuda():
    made = OwnCompiler()
    result, message = result_of(lambda: made.cubin("nonsense", JitOptions()))
    assert result == "CUDA_ERROR_INVALID_PTX" and message
    assert result_of(lambda: made.link([(PTX, JitOptions())], [b"cubin"])) == (
        "CUDA_ERROR_INVALID_IMAGE",
        "PTX is linked with cubins by NVIDIA's assembler only: --ptxas",
    )
    result, message = result_of(lambda: made.link([], [b"no object"]))
    assert result == "CUDA_ERROR_INVALID_IMAGE" and message.startswith("input 1")
    twice = [(PTX, JitOptions()), (PTX, JitOptions())]
    assert result_of(lambda: made.link(twice, []))[0] == "CUDA_ERROR_INVALID_PTX"


def test_linked_texts_have_the_kernels_of_all(tmp_path):
    image = OwnCompiler().link([(PTX, JitOptions()), (OTHER, JitOptions())], [])
    path = tmp_path / "linked.cubin"
    path.write_bytes(image)
    assert sorted(read_program(str(path)).kernels) == ["k", "other"]


# NVIDIA's assembler, replaced by a fake program


@pytest.fixture
def assembler(tmp_path):
    """A fake assembler that prints a version, or fails."""
    program = tmp_path / "ptxas"
    program.write_text("#!/bin/sh\necho release 11.8\n")
    program.chmod(0o700)
    return Ptxas(program)


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        (JitOptions(), ("-O3",)),
        (JitOptions(0, 3), ("-O3",)),
        (JitOptions(0, 2), ("-O2",)),
        (JitOptions(0, 0), ("-O0",)),
        (JitOptions(24, 1), ("-O1", "--maxrregcount=24")),
    ],
)
def test_the_assembler_gets_level_and_registers_as_flags(assembler, options, flags):
    assert Ptxas._flags(options) == flags
    expected = b"ptxas\0" + "\0".join(flags).encode() + b"\0release 11.8\n"
    assert assembler._identity(options) == expected


def test_the_assembler_links_one_text_as_it_compiles_it_and_several_as_objects(
    assembler, monkeypatch
):
    calls, linked = [], []

    def assembled(text, *flags, program):
        assert isinstance(program, Path) and program.name == "ptxas"
        calls.append((text, flags))
        return text.encode()

    monkeypatch.setattr(compilers, "cubin_of_ptx", assembled)
    monkeypatch.setattr(compilers, "_linked", lambda cubins: linked.append(list(cubins)) or b"all")
    assert assembler.link([("one", JitOptions())], []) == b"one"
    assert calls == [("one", ("-O3",))] and not linked
    calls.clear()
    assert assembler.link([("one", JitOptions()), ("two", JitOptions(8, 0))], [b"c"]) == b"all"
    assert calls == [("one", ("-O3", "-c")), ("two", ("-O0", "--maxrregcount=8", "-c"))]
    assert linked == [[b"one", b"two", b"c"]]
    assert assembler.link([("one", JitOptions())], [b"c"]) == b"all"
    assert linked[1] == [b"one", b"c"]
    assert assembler.link([], [b"c"]) == b"all"

    def fails(*_arguments, **_options):
        raise compilers.CompilerError("ptxas: line 3")

    monkeypatch.setattr(compilers, "cubin_of_ptx", fails)
    assert result_of(lambda: assembler.cubin("bad", JitOptions())) == (
        "CUDA_ERROR_INVALID_PTX",
        "ptxas: line 3",
    )
