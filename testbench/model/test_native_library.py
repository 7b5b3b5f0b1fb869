"""Libraries of compiled instructions: which are cached for which text, and the messages without a
compiler.
"""

import ctypes
import platform

import pytest

from sim.engine import cache
from sim.engine.errors import EngineError
from sim.model.warp import native
from sim.model.warp.native import library
from sim.model.warp.native.library import CompiledFunctions

_MADE_WITH = library._made_with
needs_compiler = pytest.mark.skipif(not native.is_available(), reason="there is no C++ compiler")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache folder for libraries, built with what the test sets."""
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path))
    _MADE_WITH.cache_clear()
    yield tmp_path
    _MADE_WITH.cache_clear()


def function(name: str, value: int) -> str:
    return f'extern "C" int {name}() {{ return {value}; }}\n'


def called(address: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)()


@needs_compiler
def test_a_function_is_compiled_once_and_found_by_its_text():
    texts = {"one": function("one", 11), "two": function("two", 22)}
    first = CompiledFunctions()
    assert first.load(texts) == ["one", "two"]
    assert "one" not in first
    first.compile(texts)
    assert first.builds == 1
    assert [called(first[name]) for name in texts] == [11, 22]
    assert first.load(texts) == []
    # Another run finds each of them without compiling.
    other = CompiledFunctions()
    assert other.load({"two": texts["two"]}) == []
    assert "two" in other
    assert "one" not in other
    assert called(other["two"]) == 22
    assert other.builds == 0
    assert other.load({"two": texts["two"], "three": function("three", 33)}) == ["three"]
    # The key is the text, not the name.
    assert CompiledFunctions().load({"one": function("one", 12)}) == ["one"]


@needs_compiler
@pytest.mark.parametrize("what", ["compiler", "machine", "processor", "definitions"])
def test_a_library_is_of_one_compiler_processor_and_machine_language(what, monkeypatch):
    before = library._digest("text")
    match what:
        case "compiler":
            monkeypatch.setattr(library, "compiler_identity", lambda: "another")
        case "machine":
            monkeypatch.setattr(platform, "machine", lambda: "another")
        case "processor":
            monkeypatch.setattr(library, "_processor", lambda: "another")
        case "definitions":
            monkeypatch.setattr(library, "PT", 6)
    assert library._digest("text") == before  # it is computed once
    library._made_with.cache_clear()
    assert library._digest("text") != before


@needs_compiler
def test_an_error_of_the_compiler_is_reported():
    with pytest.raises(
        EngineError, match=r"^the warp model: \S+ failed: .*error.*nothing"
    ) as caught:
        CompiledFunctions().compile({"bad": 'extern "C" int bad() { return nothing; }\n'})
    assert "\n" not in str(caught.value)


def test_without_a_compiler_there_is_no_library(monkeypatch):
    monkeypatch.setattr(library, "compiler", lambda: None)
    monkeypatch.setattr(library, "_made_with", lambda: "nothing")
    assert not library.has_compiler()
    with pytest.raises(EngineError, match=r"^the warp model: there is no C\+\+ compiler$"):
        CompiledFunctions().compile({"one": function("one", 1)})


@needs_compiler
def test_a_library_that_is_gone_is_made_again(folder):
    texts = {"one": function("one", 11)}
    CompiledFunctions().compile(texts)
    for path in cache.model_folder().glob("warp-*.so"):
        path.unlink()
    functions = CompiledFunctions()
    assert functions.load(texts) == ["one"]
    functions.compile(texts)
    assert called(functions["one"]) == 11


def test_facts_of_the_machine_language_are_definitions_of_c():
    lines = library._definitions().splitlines()
    assert len(lines) == len(set(lines))
    for line in (
        "#define ISA_PT 0x7",
        "#define ISA_BARRIERS 0x10",
        "#define ISA_GROUP_BYTES 0x20",
        "#define ISA_INSTRUCTION_BYTES 0x8",
        "#define ISA_WINDOW_BYTES 0x1000000",
        "#define ISA_PACKED_COUNT_MASK 0xfff0000",
    ):
        assert line in lines, line
