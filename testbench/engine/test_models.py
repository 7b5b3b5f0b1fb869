"""Designs become compiled models, or are refused with a message of one line."""

import inspect
import os
import re
import runpy
import shutil
import sys

import pytest
from amaranth.hdl import Assert, ClockDomain, ClockSignal, Fragment, Instance, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from sim.engine import ENGINES, CompiledEngine, EngineError, choose
from sim.engine.cache import cache_folder
from sim.engine.emit import emit
from sim.engine.netlist import to_netlist, with_ports
from testbench.engine.designs import Ripple, Zoo, needs_compiled


class OwnClock(wiring.Component):
    half: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.domains.slow = ClockDomain(reset_less=True)
        m.d.sync += ClockSignal("slow").eq(~ClockSignal("slow"))
        m.d.slow += self.half.eq(self.half + 1)
        return m


class BlackBox(wiring.Component):
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.pll = Instance("EHXPLLL", o_CLKOP=self.o)
        return m


@needs_compiled
def test_what_cannot_be_compiled_is_refused_in_one_line(monkeypatch, tmp_path):
    with pytest.raises(
        EngineError,
        match=r"^engine compiled: the design makes the clock of domain slow itself; "
        r"use the engine pysim$",
    ):
        Simulator(OwnClock(), engine=CompiledEngine)
    with pytest.raises(
        EngineError, match=r"^no engine simulates EHXPLLL, which has no description in Amaranth$"
    ):
        Simulator(BlackBox(), engine=CompiledEngine)
    with pytest.raises(
        EngineError, match=r"^engine compiled does not write Amaranth's waveforms: use sim\.waves"
    ):
        Simulator(Zoo(), engine=CompiledEngine).write_vcd("x.vcd")
    monkeypatch.setenv("CXX", f"{sys.executable} -c error_in_compiler")
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path))
    with pytest.raises(
        EngineError,
        match=r"failed on the model: NameError: name 'error_in_compiler' is not defined$",
    ):
        Simulator(Zoo(), engine=CompiledEngine)
    assert not list(tmp_path.iterdir())


def test_missing_tools_are_named_with_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr("sim.engine.build.find_spec", lambda _name: None)
    monkeypatch.delenv("CXX", raising=False)
    missing = "there is no C++ compiler: install g++ or clang++, or pip install -e '.[fast]'"
    with pytest.raises(EngineError, match=f"^engine compiled: {re.escape(missing)}$"):
        choose("compiled")
    assert choose("auto") == (
        ENGINES["pysim"],
        f"engine pysim; compiled would be faster, but {missing}",
    )
    assert choose("pysim") == (ENGINES["pysim"], None)
    with pytest.raises(
        EngineError, match=r"^no engine verilator; there are auto, pysim, compiled$"
    ):
        choose("verilator")


@needs_compiled
def test_the_compiled_engine_has_two_names():
    assert choose("cxxrtl") == choose("compiled") == (CompiledEngine, None)
    assert list(ENGINES) == ["pysim", "compiled"]


def test_compilers_are_looked_for_in_order(monkeypatch):
    from sim.engine.build import compiler

    monkeypatch.delenv("CXX", raising=False)
    for there, command in (
        ({"g++", "clang++", "zig"}, ["g++"]),
        ({"clang++", "zig"}, ["clang++"]),
        ({"zig"}, ["zig", "c++"]),
    ):
        monkeypatch.setattr(
            shutil, "which", lambda name, there=there: name if name in there else None
        )
        assert compiler() == command
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr("sim.engine.build.find_spec", lambda name: name)
    assert compiler() == [sys.executable, "-m", "ziglang", "c++"]
    monkeypatch.setenv("CXX", "ccache g++-13")
    assert compiler() == ["ccache", "g++-13"]


@needs_compiled
def test_models_are_compiled_once(monkeypatch, tmp_path):
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path / "models"))
    assert cache_folder() == tmp_path / "models"
    Simulator(Ripple(), engine=CompiledEngine)
    made = list(cache_folder().iterdir())
    assert [path.suffix for path in made] == [".so"]
    os.utime(made[0], (1, 1))
    monkeypatch.setattr("subprocess.run", lambda *_a, **_k: pytest.fail("compiled again"))
    Simulator(Ripple(), engine=CompiledEngine)
    assert made[0].stat().st_mtime > 1  # files in use are removed last


class Edges(wiring.Component):
    """A register with a falling edge, an asynchronous reset, or an assertion without a clock."""

    count: Out(8)

    def __init__(self, what):
        super().__init__()
        self._what = what

    def elaborate(self, platform):
        m = Module()
        m.domains.own = ClockDomain(
            clk_edge="neg" if self._what == "falling" else "pos", async_reset=self._what == "reset"
        )
        m.d.own += self.count.eq(self.count + 1)
        if self._what == "check":
            m.d.comb += Assert(self.count != 99, "")
        return m


@pytest.mark.parametrize(
    ("what", "settles"), [("", False), ("falling", True), ("reset", True), ("check", True)]
)
def test_a_model_settles_where_more_than_rising_edges_matters(what, settles):
    assert (
        emit(to_netlist(with_ports(Fragment.get(Edges(what), None).prepare()))).settles == settles
    )


def test_moving_lines_does_not_make_another_model(tmp_path):
    source = inspect.getsource(sys.modules[Zoo.__module__])
    units = []
    for name, moved in (("here", source), ("there", "\n" * 50 + source)):
        path = tmp_path / f"{name}.py"
        path.write_text(moved)
        zoo = runpy.run_path(str(path))["Zoo"]
        units.append(emit(to_netlist(with_ports(Fragment.get(zoo(), None).prepare()))).units)
    assert units[0] == units[1]
