"""Compilation and linking of a model: commands and flags, the record of a layout, the cache's
folder and its limits.
"""

import hashlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import (
    ClockDomain,
    Instance,
    IOBufferInstance,
    IOPort,
    MemoryData,
    Module,
    Shape,
    Signal,
    signed,
)
from amaranth.hdl import Fragment as Hardware

from sim.engine import build, cache, tape
from sim.engine.errors import EngineError, FineLoopError
from sim.engine.identity import Identity
from sim.engine.layout import DesignSignal, SignalDriver, StateLayout
from sim.engine.locations import MemoryLocation, SignalLocation, WordBits
from sim.engine.messages import FormattedValue, Message
from sim.engine.netlist import check_supported, driven_signals, undriven_signals, with_ports
from sim.engine.restore import RestoredDesign
from testbench.engine.designs import Zoo

DEFAULT = ["-O1", "-std=c++17", "-fPIC"]


# Compilers


def compiler_of(folder, text, name="cxx"):
    """Writes a fake compiler that records its arguments, one line for each call."""
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "$@" >> {folder}/log\n{text}\n')
    path.chmod(0o700)
    return str(path)


COPIES = 'while [ "$1" != -o ]; do shift; done\necho "made" > "$2"'
"""Shell commands that create the file after -o."""


@pytest.fixture
def flags(monkeypatch):
    monkeypatch.delenv("CXXFLAGS", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    return monkeypatch


def test_flags_are_those_of_the_environment_or_for_a_shared_object(flags):
    flags.setenv("CXX", "g++-13 -m64")
    assert build._command() == ["g++-13", "-m64", *DEFAULT]
    flags.setenv("CXXFLAGS", "-O0 -g")
    assert build._command() == ["g++-13", "-m64", "-O0", "-g"]
    assert build._linker(build._command()) == ["g++-13", "-m64", "-O0", "-g", "-shared"]


@pytest.mark.parametrize(
    ("command", "is_zig"),
    [("zig c++", True), ("/opt/zig c++", True), ("python -m ziglang c++", True), ("g++", False)],
)
def test_zig_does_not_check_for_undefined_behaviour_and_brings_no_library(flags, command, is_zig):
    flags.setenv("CXX", command)
    words = command.split()
    assert build._command() == [*words, *["-fno-sanitize=undefined"] * is_zig, *DEFAULT]
    flags.setattr(build.sys, "platform", "linux")
    assert build.link_options(words) == ["-nostdlib"] * is_zig
    flags.setattr(build.sys, "platform", "darwin")
    assert build.link_options(words) == []


def test_without_a_compiler_nothing_is_compiled(flags):
    flags.setattr(build.shutil, "which", lambda _name: None)
    flags.setattr(build, "find_spec", lambda _name: None)
    assert build.compiler() is None
    with pytest.raises(EngineError, match=r"^engine compiled: there is no C\+\+ compiler: install"):
        build._command()


def test_the_identity_of_a_compiler_is_its_flags_and_its_file(flags, tmp_path):
    first = compiler_of(tmp_path, "")
    flags.setenv("CXX", first)
    found = build.compiler_identity()
    parts = found.split("\0")
    assert parts[:-1] == [first, *DEFAULT]
    state = Path(first).stat()
    assert f"{state.st_size}, {state.st_mtime_ns}" in parts[-1] and first in parts[-1]
    os.utime(first, (5, 5))
    assert build.compiler_identity() != found
    flags.setenv("CXX", "no-such-compiler")
    assert build.compiler_identity().split("\0")[-1] == "None"


def test_a_model_is_compiled_unit_by_unit_and_linked_and_kept(flags, tmp_path):
    flags.setenv("CXX", compiler_of(tmp_path, COPIES))
    folder = tmp_path / "models"
    made = build.shared_object(["int a;", "int b;"], folder)
    calls = (tmp_path / "log").read_text().splitlines()
    assert len(calls) == 3
    for call in calls[:2]:
        assert call.startswith(f"{' '.join(DEFAULT)} -c -I{Path(build.__file__).parent} -o ")
        assert call.endswith(".cc") and ".o " in call
    assert calls[2].startswith(f"{' '.join(DEFAULT)} -shared -o ")
    assert [Path(word).name for word in calls[2].split()[-2:]] == ["unit0.o", "unit1.o"]
    assert made.parent == folder and len(made.stem) == 24 and made.suffix == ".so"
    assert cache.load(made) == b"made\n"
    assert build.shared_object(["int a;", "int b;"], folder) == made
    assert len((tmp_path / "log").read_text().splitlines()) == 3
    assert build.shared_object(["int a;", "int c;"], folder) != made
    assert build.shared_object(["int a;int b;"], folder) != made


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo 'x.cc: warning' >&2; echo 'x.cc:3: error: bad' >&2; echo 'more' >&2; exit 1",
         "failed on the model: x.cc:3: error: bad"),
        ("echo first >&2; echo second >&2; echo last >&2; exit 1", "failed on the model: last"),
        ("exit 1", "failed on the model: "),
        (f"case $* in *-shared*) printf 'ld: none\\nld: one\\nld: no room\\n' >&2; exit 1;; esac\n{COPIES}",
         "can't link the model: ld: no room"),
    ],
)  # fmt: skip
def test_an_error_of_the_compiler_is_one_line(flags, tmp_path, text, said):
    command = compiler_of(tmp_path, text)
    flags.setenv("CXX", command)
    with pytest.raises(EngineError) as failed:
        build.shared_object(["int a;"], tmp_path / "models")
    assert str(failed.value) == f"engine compiled: {command} {said}"


def test_the_program_that_plays_tapes_is_compiled(flags, tmp_path):
    flags.setenv("CXX", compiler_of(tmp_path, COPIES))
    tape.build_replay(tmp_path / "replay")
    assert (tmp_path / "replay").read_text() == "made\n"
    (call,) = (tmp_path / "log").read_text().splitlines()
    source = Path(tape.__file__).with_name("replay.cc")
    assert call == f"-O1 -std=c++17 -o {tmp_path / 'replay'} {source} -ldl"
    flags.setenv("CXX", compiler_of(tmp_path, "echo none >&2; echo one >&2; echo two >&2; exit 1"))
    with pytest.raises(EngineError, match=r"cxx failed on replay\.cc: two$"):
        tape.build_replay(tmp_path / "replay")


# The cache


def test_a_file_is_content_and_seal_and_another_seal_is_damage(tmp_path):
    path = tmp_path / "deep" / "folder" / "x.so"
    cache.store(path, b"content")
    assert path.read_bytes() == b"content" + hashlib.sha256(b"content").digest()
    assert [one.name for one in path.parent.iterdir()] == ["x.so"]
    os.utime(path, (5, 5))
    assert cache.load(path) == b"content" and path.stat().st_mtime > 5
    assert cache.is_sealed(path) and not cache.is_sealed(tmp_path / "none")
    path.write_bytes(b"Content" + path.read_bytes()[7:])
    os.utime(path, (5, 5))
    assert cache.load(path) is None and path.stat().st_mtime == 5
    assert not cache.is_sealed(path)
    cache.store(path, b"")
    assert cache.load(path) == b""


def test_the_folder_is_the_one_that_is_named_or_in_the_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WARPSTACK_CACHE", raising=False)
    assert cache.cache_folder() == tmp_path / ".cache" / "warpstack"
    monkeypatch.setenv("WARPSTACK_CACHE", "")
    assert cache.cache_folder() == tmp_path / ".cache" / "warpstack"
    monkeypatch.setenv("WARPSTACK_CACHE", "~/own")
    assert cache.cache_folder() == tmp_path / "own"


def test_the_limit_is_in_mib(monkeypatch):
    monkeypatch.delenv("WARPSTACK_CACHE_MIB", raising=False)
    assert cache._limit() == 1024 << 20
    monkeypatch.setenv("WARPSTACK_CACHE_MIB", "")
    assert cache._limit() == 1 << 30
    monkeypatch.setenv("WARPSTACK_CACHE_MIB", "3")
    assert cache._limit() == 3 << 20
    for wrong in ("-1", "1.5", "x"):
        monkeypatch.setenv("WARPSTACK_CACHE_MIB", wrong)
        with pytest.raises(EngineError, match="must be a number of MiB"):
            cache.prepare()


def test_models_go_to_a_folder_of_this_run_where_the_cache_is_off(monkeypatch, tmp_path):
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path / "models"))
    monkeypatch.setattr(cache, "scratch", lambda: tmp_path / "scratch")
    assert cache.is_on() and cache.model_folder() == tmp_path / "models"
    cache.switch(False)
    try:
        assert not cache.is_on() and cache.model_folder() == tmp_path / "scratch"

        def full():
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(cache, "scratch", full)
        with pytest.raises(EngineError) as failed:
            cache.model_folder()
        assert str(failed.value) == "engine compiled: no temporary folder: No space left on device"
    finally:
        cache.switch(True)


def test_without_any_folder_the_reasons_of_both_are_told(monkeypatch, tmp_path):
    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "scratch", full)
    monkeypatch.setattr(cache, "why_unwritable", lambda _folder: "Read-only file system")
    monkeypatch.setenv("WARPSTACK_CACHE", "/x")
    with pytest.raises(EngineError) as failed:
        cache.prepare()
    assert str(failed.value) == (
        "engine compiled: no place for models: /x: Read-only file system; nor a temporary folder: "
        "No space left on device"
    )


def test_what_can_be_kept_nowhere_is_an_error(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path / "a"))
    monkeypatch.setattr(cache, "scratch", lambda: tmp_path)

    def full(_path, _content):
        raise OSError(28, "No space left on device")

    honest = cache.store
    monkeypatch.setattr(cache, "store", full)
    with pytest.raises(EngineError) as failed:
        cache.keep(tmp_path / "a" / "x.so", b"1")
    place = tmp_path / "models" / "x.so"
    assert str(failed.value) == f"engine compiled: {place}: No space left on device"
    monkeypatch.setattr(cache, "store", honest)
    assert cache.keep(tmp_path / "a" / "x.so", b"1") == tmp_path / "a" / "x.so"
    assert "models are kept for this run alone" in capsys.readouterr().err
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path / "a"))


# The record of a layout


def test_a_layout_is_restored_from_its_record(tmp_path):
    a, b, never = Signal(4, name="a"), Signal(signed(3), name="b"), Signal(name="never")
    hidden = Signal(Shape(5, True), name="hidden", init=-3)
    clock, reset, other = Signal(name="clk"), Signal(name="rst"), Signal(name="other_clk")
    rows, absent = MemoryData(shape=8, depth=4, init=[]), MemoryData(shape=4, depth=2, init=[])
    domains: dict[str, Any] = {}
    for name, edge, is_async, of, resets in (
        ("sync", "pos", False, clock, reset),
        ("other", "neg", True, other, None),
    ):
        domains[name] = ClockDomain(
            name, clk_edge=edge, async_reset=is_async and resets is not None,
            reset_less=resets is None, local=True,
        )  # fmt: skip
        domains[name].clk = of
        if resets is not None:
            domains[name].rst = resets
    layout = StateLayout(
        Path("folder/model.so"),
        True,
        [Message("print", "a:1", False, ("x", FormattedValue(3, True, 1, "d")))],
        domains,
        memories=[(rows, MemoryLocation(2, 10, 3))],
        inputs=[a, hidden, clock, reset, other],
    )
    place = SignalLocation((WordBits(1, 2, 3, 0),), 8, True)
    for signal, role, where in (
        (a, SignalDriver.INPUT, place),
        (b, SignalDriver.COMBINATIONAL, SignalLocation((), 5, False)),
        (never, SignalDriver.REGISTER, None),
        (hidden, SignalDriver.INPUT, place),
        (clock, SignalDriver.CLOCK, place),
        (reset, SignalDriver.RESET, None),
        (other, SignalDriver.CLOCK, None),
    ):
        layout.signals[signal] = DesignSignal(role, where)
    identity = Identity("d", [b, a, Signal(name="unknown"), never], [absent, rows], [])
    found = StateLayout.restore(layout.record(identity), identity, tmp_path)
    assert (found.library, found.settles) == (tmp_path / "model.so", True)
    assert found.messages == layout.messages
    assert found.memories == [(rows, MemoryLocation(2, 10, 3))]
    assert found.memory(rows) == MemoryLocation(2, 10, 3) and found.memory(absent) is None
    for signal in (a, b, never):
        assert found.signals[signal] == layout.signals[signal]
    assert [signal.name for signal in found.inputs] == ["a", "hidden", "clk", "rst", "other_clk"]
    assert found.inputs[0] is a
    again = found.inputs[1]
    assert (again.shape(), again.init) == (Shape(5, True), -3)
    assert [found.signals[signal].role for signal in found.inputs] == [
        SignalDriver.INPUT, SignalDriver.INPUT, SignalDriver.CLOCK, SignalDriver.RESET, SignalDriver.CLOCK,
    ]  # fmt: skip
    assert [found.signals[signal].place for signal in found.inputs] == [
        place, place, place, None, None,
    ]  # fmt: skip
    assert found.domains["sync"].clk is found.inputs[2]
    assert found.domains["sync"].rst is found.inputs[3]
    one, two = found.domains["sync"], found.domains["other"]
    assert (one.clk_edge, one.async_reset, one.rst is None) == ("pos", False, False)
    assert (two.clk_edge, two.rst is None, two.clk.name) == ("neg", True, "other_clk")
    assert found.record(identity) == layout.record(identity)


def test_a_restored_design_has_the_domains_of_the_whole():
    domain = SimpleNamespace()
    made = RestoredDesign({"sync": domain})
    assert made.fragment is made and made.lookup_domain("sync", None) is domain
    with pytest.raises(KeyError):
        made.lookup_domain("other", None)
    with pytest.raises(EngineError, match="the domains of the whole design only"):
        made.lookup_domain("sync", object())


def test_an_error_of_bits_names_its_cells():
    assert FineLoopError({3, 4}).cells == {3, 4}


# Netlists


def names(signals):
    return sorted(signal.name for signal in signals)


def test_what_a_design_drives_by_domain_and_what_it_leaves_to_others():
    design = Hardware.get(Zoo(), None).prepare()
    assert names(driven_signals(design, "sync")).count("count") == 1
    assert "wide_sum" in names(driven_signals(design, "sync"))
    assert "seen" not in names(driven_signals(design, "sync"))
    assert {"seen", "stored", "chain"} <= set(names(driven_signals(design, "comb")))
    assert set(names(driven_signals(design))) == set(
        names(driven_signals(design, "sync")) + names(driven_signals(design, "comb"))
    )
    undriven = {name for name in names(undriven_signals(design)) if not name.startswith("$")}
    assert undriven >= {"clk", "color", "limit", "row", "rst", "step", "wide"}
    assert not undriven & set(names(driven_signals(design)))
    ported = with_ports(design)
    inputs = {name for name, _, direction in ported.ports if direction.name == "Input"}
    outputs = [name for name, _, direction in ported.ports if direction.name == "Output"]
    assert {"clk", "rst", "wide"} <= inputs and len(outputs) == 2


@pytest.mark.parametrize("which", ["instance", "buffer"])
def test_what_has_no_description_is_refused_by_its_name(which):
    m = Module()
    if which == "instance":
        m.submodules += Instance("PLL", o_O=Signal())
    else:
        m.submodules += IOBufferInstance(IOPort(1, name="pin"), i=Signal())
    design = Hardware.get(m, None).prepare(ports=())
    what = "PLL" if which == "instance" else "an I/O buffer"
    with pytest.raises(EngineError) as refused:
        check_supported(design, set(), driven_signals(design))
    assert str(refused.value) == (
        f"no engine simulates {what}, which has no description in Amaranth"
    )
