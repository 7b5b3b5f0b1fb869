"""Compiled models are found in the cache for equal designs, and for no others."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from amaranth.hdl import Assert, Format, Fragment, Module, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import SmParams
from sim.engine import CompiledEngine, EngineError, cache, choose, identity
from sim.engine.identity import identify
from sim.support.scratch import why_unwritable
from testbench.engine.designs import needs_compiled
from testbench.simulation import simulate

ROOT = Path(__file__).resolve().parents[2]
pytestmark = needs_compiled


class Everything(Component):
    """A design with ports, internal state, a memory, an input below the top, and an assertion; it
    counts its elaborations.
    """

    times = 0

    def __init__(self, params=None, step=1):
        super().__init__({"add": In(8), "sum": Out(data.StructLayout({"low": 4, "high": 4}))})
        self.params, self.step = params, step
        self.count = Signal(range(100), init=5)
        self.rows = memory.Memory(shape=8, depth=4, init=[1, 2, 3, 4])

    def elaborate(self, platform):
        Everything.times += 1
        m = Module()
        m.submodules.rows = self.rows
        read, write, hidden = (
            self.rows.read_port(domain="comb"),
            self.rows.write_port(),
            Signal(8, init=3),
        )
        m.d.comb += [
            read.addr.eq(self.count),
            write.addr.eq(self.count),
            write.data.eq(self.add),
            write.en.eq(self.add != 0),
            self.sum.as_value().eq(self.add + read.data + hidden),
        ]
        m.d.sync += [
            self.count.eq(self.count + self.step),
            Assert(self.count != 9, Format("nine: {}", self.count)),
        ]
        return m


def run(dut, cycles=3):
    """Returns the values that a testbench reads from Everything, equal before and after a reset,
    and how often it was elaborated.
    """
    seen, before = [], Everything.times

    async def testbench(ctx):
        ctx.set(dut.add, 7)
        for _ in range(cycles):
            seen.append((ctx.get(dut.count), ctx.get(dut.sum.high), ctx.get(dut.sum.low)))
            await ctx.tick()
        seen.append([ctx.get(dut.rows.data[row]) for row in range(4)])

    simulator = simulate(dut, testbench, clocks={"sync": 1e-6}, engine=CompiledEngine)
    first, seen[:] = list(seen), []
    simulator.reset()
    simulator.run()
    assert seen == first
    return seen, Everything.times - before


def known(dut):
    """Returns whether a design has an identity."""
    found = identify(dut) is not None
    Fragment.get(dut, None)  # Amaranth warns of components that are never elaborated
    return found


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path / "models"))
    return tmp_path / "models"


def test_a_known_design_is_not_elaborated_and_behaves_the_same(folder):
    seen, elaborated = run(Everything())
    assert (elaborated, sorted(path.suffix for path in folder.iterdir())) == (1, [".json", ".so"])
    assert seen == [(5, 0, 12), (6, 0, 13), (7, 0, 14), [1, 7, 7, 7]]
    assert run(Everything()) == (seen, 0)
    for _ in range(2):
        with pytest.raises(AssertionError, match="nine: 9"):
            run(Everything(), cycles=6)


@pytest.mark.parametrize(
    "other", [{"step": 3}, {"params": SmParams()}, {"params": SmParams(warps=4)}]
)
def test_other_parameters_are_another_design(folder, other):
    run(Everything())
    assert run(Everything(**other))[1] == 1
    assert run(Everything(**other))[1] == 0


def test_other_flags_of_the_compiler_are_another_model(folder, monkeypatch):
    run(Everything())
    monkeypatch.setenv("CXXFLAGS", "-O0 -std=c++17 -fPIC")
    assert run(Everything())[1] == 1


@pytest.mark.parametrize("suffix", [".json", ".so"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: bytes([content[0] ^ 1]) + content[1:],
    ],
)
def test_damaged_files_are_made_again(folder, suffix, damage):
    expected, _ = run(Everything())
    (path,) = folder.glob(f"*{suffix}")
    whole = path.read_bytes()
    path.unlink()  # the library that is loaded is unchanged
    path.write_bytes(damage(whole))
    assert run(Everything()) == (expected, 1)
    assert run(Everything()) == (expected, 0)
    assert len(list(folder.iterdir())) == 2


def test_a_library_that_is_gone_is_made_again(folder):
    expected, _ = run(Everything())
    for path in folder.glob("*.so"):
        path.unlink()
    assert run(Everything()) == (expected, 1)


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """A folder for temporary files of this test."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(cache, "scratch", lambda: place)
    return place


def test_a_temporary_folder_takes_the_place_of_one_that_cannot_be_written(
    elsewhere, monkeypatch, tmp_path, capsys
):
    """It is reported once, before anything is elaborated or compiled, and this process finds its
    models again.
    """
    (tmp_path / "file").touch()
    wrong = tmp_path / "file" / "models"
    monkeypatch.setenv("WARPSTACK_CACHE", str(wrong))
    before = []
    monkeypatch.setattr(
        "sim.engine.restore.activity",
        lambda what: before.append(capsys.readouterr().err) or nullcontext(),
    )
    _, elaborated = run(Everything())
    assert elaborated == 1 and before[0] == (
        f"warning: {wrong} cannot be written (Not a directory): models are kept for this run alone; WARPSTACK_CACHE "
        "names another folder\n"
    )
    assert run(Everything())[1] == 0
    assert capsys.readouterr().err == ""
    assert len(list((elsewhere / "models").iterdir())) == 2


def test_without_a_home_models_are_kept_for_a_run(elsewhere, monkeypatch, capsys):
    monkeypatch.delenv("WARPSTACK_CACHE", raising=False)

    def homeless(_path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    assert cache.cache_folder() == elsewhere / "models"
    assert "there is no home folder" in capsys.readouterr().err
    monkeypatch.delenv("WARPSTACK_CACHE")


def test_a_full_disk_when_a_model_is_done_is_reported(folder, elsewhere, monkeypatch, capsys):
    honest = cache.store

    def full(path, content):
        if folder in path.parents:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        honest(path, content)

    monkeypatch.setattr(cache, "store", full)
    assert run(Everything())[1] == 1
    assert (
        f"warning: {folder} cannot be written (No space left on device)" in capsys.readouterr().err
    )
    monkeypatch.setattr(cache, "store", lambda *_: full(folder / "x", b""))
    with pytest.raises(EngineError, match="No space left on device"):
        run(Everything(step=2))


def test_a_folder_that_can_only_be_read_is_read(folder, monkeypatch, capsys):
    expected, _ = run(Everything())

    def read_only(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", read_only)
    monkeypatch.setattr(cache, "store", read_only)
    assert run(Everything()) == (expected, 0)
    assert capsys.readouterr().err == ""


def test_a_folder_without_room_cannot_be_written(tmp_path, monkeypatch):
    assert why_unwritable(tmp_path / "new") is None and list((tmp_path / "new").iterdir()) == []

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    assert why_unwritable(tmp_path / "new") == "No space left on device"
    assert list((tmp_path / "new").iterdir()) == []


class Holder(Everything):
    """A design with an object that can't be identified."""

    def __init__(self, what):
        super().__init__()
        self.what = what


def test_a_design_not_determined_by_its_source_has_no_identity(folder):
    step = 2

    class Local(Everything):
        pass

    assert known(Everything())
    assert known(Holder([SmParams(), {"a": (1, None)}, run, Callable]))
    for unknown in (lambda: step, Local, {1: object}.get, {object()}):
        assert not known(Holder(unknown))
    assert run(Local())[1] == run(Local())[1] == 1


def test_a_source_that_changed_after_the_start_rules_out_reuse(monkeypatch):
    assert known(Everything())
    monkeypatch.setattr(
        "sim.engine.identity._process_start", lambda: Path(__file__).stat().st_mtime - 1
    )
    assert not known(Everything())


def test_without_a_cache_nothing_is_read_or_kept(folder):
    run(Everything())
    kept = {path: path.read_bytes() for path in folder.iterdir()}
    try:
        choose("compiled", cached=False)
        assert [run(Everything())[1] for _ in range(2)] == [1, 1]
        assert run(Everything(step=3))[1] == 1
        assert {path: path.read_bytes() for path in folder.iterdir()} == kept
    finally:
        choose("compiled")
    assert run(Everything())[1] == 0


def test_the_folder_has_a_limit_and_the_files_used_last_stay(folder, monkeypatch):
    folder.mkdir()
    for number in range(4):
        cache.store(folder / f"{number}.so", bytes(600_000))
        os.utime(folder / f"{number}.so", (number, number))
    monkeypatch.setenv("WARPSTACK_CACHE_MIB", "1")
    assert cache.load(folder / "0.so") == bytes(600_000)
    (folder / "notes.txt").write_text("somebody's own")
    cache.trim()
    assert sorted(path.name for path in folder.iterdir()) == ["0.so", "notes.txt"]
    monkeypatch.setenv("WARPSTACK_CACHE_MIB", "1 GiB")
    with pytest.raises(
        EngineError, match=r"^WARPSTACK_CACHE_MIB must be a number of MiB, not '1 GiB'$"
    ):
        cache.trim()


# Other processes

PROBE = """
from amaranth.hdl import Module
from amaranth.lib.wiring import Out
from rtl.component import Component

STEP = 1


class Probe(Component):
    def __init__(self):
        super().__init__({"count": Out(8)})

    def elaborate(self, platform):
        print("elaborated")
        m = Module()
        m.d.sync += self.count.eq(self.count + STEP)
        return m
"""
MAIN = """
from rtl.probe import Probe
from sim.engine import CompiledEngine, make_simulator

probe = Probe()


async def testbench(ctx):
    await ctx.tick().repeat(3)
    print(ctx.get(probe.count))


simulator = make_simulator(probe, CompiledEngine)
simulator.add_clock(1e-6)
simulator.add_testbench(testbench)
simulator.run()
"""


@pytest.fixture
def copy(tmp_path):
    """A copy of the sources with another design."""
    place = tmp_path / "copy"
    ignored = shutil.ignore_patterns("__pycache__")
    for package in ("rtl", "sim"):
        shutil.copytree(ROOT / package, place / package, ignore=ignored)
    (place / "rtl" / "probe.py").write_text(PROBE)
    (place / "main.py").write_text(MAIN)
    return place


def start(copy):
    return subprocess.Popen(
        [sys.executable, "main.py"],
        cwd=copy,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(copy)},
    )


def said(copy):
    process = start(copy)
    output, _ = process.communicate()
    assert process.returncode == 0
    return output.split()


def test_changed_sources_are_another_design(folder, copy):
    assert said(copy) == ["elaborated", "3"]
    assert said(copy) == ["3"]
    probe = copy / "rtl" / "probe.py"
    probe.write_text(PROBE.replace("STEP = 1", "STEP = 2"))
    assert said(copy) == ["elaborated", "6"]
    assert said(copy) == ["6"]
    runtime = copy / "sim" / "engine" / "runtime.cc"
    runtime.write_text(runtime.read_text() + "// changed\n")
    assert said(copy) == ["elaborated", "6"]
    params = copy / "rtl" / "params.py"  # a file that the design does not import matters, too
    params.write_text(params.read_text() + "# changed\n")
    assert said(copy) == ["elaborated", "6"]


def test_processes_that_build_the_same_at_once_do_no_harm(folder, copy):
    processes = [start(copy) for _ in range(3)]
    for process in processes:
        output, _ = process.communicate()
        assert (process.returncode, output.split()[-1]) == (0, "3")
    assert said(copy) == ["3"]
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".so"]


@pytest.mark.parametrize(
    ("module", "depends"),
    [
        ("pack.small", {"pack/__init__.py", "pack/small.py", "pack/other.py"}),
        ("pack.user", {"pack/__init__.py", "pack/user.py", "pack/large.py"}),
        ("pack", {"pack/__init__.py", "pack/large.py"}),
    ],
)
def test_a_design_depends_on_what_its_modules_import(module, depends, tmp_path, monkeypatch):
    """In a package around a module only the package's own file matters, unless a name is imported
    from it.
    """
    texts = {
        "__init__": "from pack.large import name",
        "small": "from .other import one",
        "other": "one = 1",
        "user": "from pack import name",
        "large": "name = 2",
    }
    (tmp_path / "pack").mkdir()
    for name, text in texts.items():
        (tmp_path / "pack" / f"{name}.py").write_text(text)
    monkeypatch.setattr(identity, "ROOT", tmp_path)
    monkeypatch.setattr(identity, "ALWAYS", ())
    for function in (identity._digest, identity._files_of, identity._imports):
        monkeypatch.setattr(identity, function.__name__, function.__wrapped__)
    assert {name for name, _, _ in identity._sources({module})} == depends


def test_the_machine_does_not_depend_on_the_toolchain():
    names = {name for name, _, _ in identity._sources({"sim.machine.harness"})}
    assert "sim/machine/memory_latch.py" in names
    assert not [name for name in names if name.startswith("sim/toolchain")]
