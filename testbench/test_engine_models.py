"""How designs become compiled models, and what is refused in one line."""

import os
import shutil
import sys

import pytest
from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    Instance,
    Module,
)
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from sim.engine import ENGINES, CxxrtlEngine, EngineError, choose
from sim.engine.build import cache_folder, settles, without_locations
from testbench.engine_designs import Ripple, Zoo, needs_cxxrtl


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


@needs_cxxrtl
def test_what_cannot_be_compiled_is_refused_in_one_line(monkeypatch, tmp_path):
    with pytest.raises(EngineError, match=r"^engine cxxrtl: the design makes the clock of domain slow itself; "
                                          r"use the engine pysim$"):
        Simulator(OwnClock(), engine=CxxrtlEngine)
    with pytest.raises(EngineError, match=r"^no engine simulates EHXPLLL, which has no description in Amaranth$"):
        Simulator(BlackBox(), engine=CxxrtlEngine)
    with pytest.raises(EngineError, match=r"^engine cxxrtl does not write Amaranth's waveforms: use sim\.waves"):
        Simulator(Zoo(), engine=CxxrtlEngine).write_vcd("x.vcd")
    monkeypatch.setenv("CXX", f"{sys.executable} -c error_in_compiler")
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path))
    with pytest.raises(EngineError, match=r"failed on the model: NameError: name 'error_in_compiler' is not defined$"):
        Simulator(Zoo(), engine=CxxrtlEngine)
    assert not list(tmp_path.iterdir())


def test_missing_tools_are_named_with_what_to_install(monkeypatch):
    monkeypatch.setattr("sim.engine.build.BuiltinYosys.available", lambda: False)
    with pytest.raises(EngineError, match=r"^engine cxxrtl: the extra 'fast' is not installed: "
                                          r"pip install -e '\.\[fast\]'$"):
        choose("cxxrtl")
    assert choose("auto") == (ENGINES["pysim"], "engine pysim; cxxrtl would be faster, but the extra 'fast' is not "
                                                "installed: pip install -e '.[fast]'")
    monkeypatch.setattr("sim.engine.build.BuiltinYosys.available", lambda: True)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr("sim.engine.build.find_spec", lambda _name: None)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(EngineError, match=r"^engine cxxrtl: there is no C\+\+ compiler: install g\+\+ or clang\+\+, or "
                                          r"pip install ziglang$"):
        choose("cxxrtl")
    assert choose("pysim") == (ENGINES["pysim"], None)
    with pytest.raises(EngineError, match=r"^no engine verilator; there are auto, pysim, cxxrtl$"):
        choose("verilator")


def test_compilers_are_looked_for_in_order(monkeypatch):
    from sim.engine.build import compiler
    monkeypatch.delenv("CXX", raising=False)
    for there, command in (({"g++", "clang++", "zig"}, ["g++"]), ({"clang++", "zig"}, ["clang++"]),
                           ({"zig"}, ["zig", "c++"])):
        monkeypatch.setattr(shutil, "which", lambda name, there=there: name if name in there else None)
        assert compiler() == command
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr("sim.engine.build.find_spec", lambda name: name)
    assert compiler() == [sys.executable, "-m", "ziglang", "c++"]
    monkeypatch.setenv("CXX", "ccache g++-13")
    assert compiler() == ["ccache", "g++-13"]


@needs_cxxrtl
def test_models_are_compiled_once(monkeypatch, tmp_path):
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path / "models"))
    assert cache_folder() == tmp_path / "models"
    Simulator(Ripple(), engine=CxxrtlEngine)
    made = list(cache_folder().iterdir())
    assert [path.suffix for path in made] == [".so"]
    os.utime(made[0], (1, 1))
    monkeypatch.setattr("subprocess.run", lambda *_a, **_k: pytest.fail("compiled again"))
    Simulator(Ripple(), engine=CxxrtlEngine)
    assert made[0].stat().st_mtime > 1      # what is used stays longest


def test_a_model_settles_where_more_than_rising_edges_matters():
    calm = "bool converged = true; posedge_p_clk", "cell $dff $1\n parameter \\TRG_ENABLE 1\n"
    assert not settles(*calm)
    for cxx, rtlil in (("bool converged = false;", ""), ("negedge_p_clk", ""), ("", "cell $adff $1"),
                       ("", "parameter \\TRG_ENABLE 0")):
        assert settles(calm[0] + cxx, calm[1] + rtlil)


def test_moving_lines_does_not_make_another_model():
    text = ('attribute \\src "a.py:1"\nwire $1\nattribute \\src "a.py:2"\ncell $check $2\n'
            'attribute \\src "a.py:3"\nattribute \\x 1\ncell $dff $3\n')
    assert without_locations(text) == ('wire $1\nattribute \\src "a.py:2"\ncell $check $2\n'
                                       'attribute \\x 1\ncell $dff $3\n')
