"""The command that measures: its figures where they are known, its file, its answers to bad arguments."""

import json
import shutil
import subprocess

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from rtl.params import WARP_THREADS
from sim.bench import main
from sim.benchmarks.classes import CLASSES
from sim.benchmarks.instructions import instructions_per_cycle
from sim.benchmarks.machine import MACHINES, BenchmarkError, BenchmarkMachine, Loop, launch_loop, stall_cycles
from sim.benchmarks.ptx import PtxRow
from sim.benchmarks.table import table
from sim.benchmarks.throughput import throughput_loop
from sim.engine import CompiledEngine, PysimEngine, engine_of, run_cycles
from sim.engine.tape import build_replay
from sim.hardware import HardwareResult
from sim.model.warp import Machine
from testbench.engine_designs import needs_compiled

_CLASSES = {"arithmetic: IADD to IADD": (1, 8, 6), "LDG to LDG": (1, 30, 2), "SSY, SYNC": (2, 6, 6)}
"""Instructions, least cycles on 4 lanes, and the stall counts that the assembler gives."""


def test_quick_measurement(tmp_path, capsys):
    path = tmp_path / "figures.json"
    assert main(["--quick", "--preset", "tiny", "--json", str(path)]) == 0
    figures = json.loads(path.read_text())
    assert figures["params"]["lanes"] == 4
    given, found = figures["throughput"]
    body = throughput_loop(given=True).module().code.content
    for row in (given, found):
        assert row["warps"] == 2
        assert 0.9 < row["busy"] <= 1
        assert row["instructions"] == 2 * (len(throughput_loop(given=True).body.splitlines()) + 3)
    assert body != throughput_loop(given=False).module().code.content
    assert {row["name"] for row in figures["classes"]} == set(_CLASSES)
    for row in figures["classes"]:
        instructions, least, stall = _CLASSES[row["name"]]
        assert (row["instructions"], row["stall"]) == (instructions, stall)
        assert row["cycles"] >= least
    (speed,) = figures["speed"]
    assert speed["cycles_per_second"] == pytest.approx(speed["cycles"] / speed["processor_seconds"])
    if shutil.which("valgrind") and speed["engine"] == "compiled":
        assert 1_000 < speed["instructions"] < 100_000
    else:
        assert speed["instructions"] is None
    text = capsys.readouterr().out
    assert all(name in text for name in (*_CLASSES, "lanes busy", "cycles/second", "instructions/cycle"))


@pytest.mark.parametrize("arguments, told", [
    (["--preset", "huge"], "no preset huge; there are tiny, small, default, full, wide"),
    (["--engine", "verilator"], "no engine verilator"),
    (["sizes"], "no benchmark sizes; there are throughput, classes, speed"),
    (["--ptx", "speed"], "--ptx measures the compiler alone, not speed"),
    (["--json", "nowhere/figures.json"], "nowhere/figures.json: No such file or directory"),
    (["--wrong"], "--wrong"),
])
def test_bad_arguments(arguments, told, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    output = capsys.readouterr()
    assert ended.value.code == 2
    assert told in output.err
    assert (output.out, output.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("each", CLASSES, ids=lambda each: each.name)
def test_classes_run_to_their_end(each):
    turns, repetitions = 3, 3
    result = Machine(launch_loop(each.loop(repetitions).module(), turns, each.warps), warps=8).run(10_000)
    assert result.status == "ok"
    assert result.instructions >= each.warps * turns * repetitions


def test_stall_counts_of_a_program():
    once, tail = "[S15] NOP\n[S0] NOP\n[S2] NOP\n", ("[S6]", "[S13]", "[S13]")
    short, long = (Loop("stalls", once * count, tail=tail).module() for count in (2, 4))
    assert stall_cycles(long) - stall_cycles(short) == 2 * (15 + 1 + 2)


class Adders(wiring.Component):
    """So many registers of 64 bits that change in every cycle."""

    step: In(1)
    total: Out(64)

    def __init__(self, count):
        super().__init__()
        self._count = count

    def elaborate(self, platform):
        m = Module()
        before = Signal(64)
        m.d.sync += before.eq(before + self.step)
        for _ in range(self._count):
            after = Signal(64)
            m.d.sync += after.eq((after << 1) ^ before)
            before = after
        m.d.comb += self.total.eq(before)
        return m


def taped(count, cycles):
    """The library of a design, and the tape of a run."""
    dut = Adders(count)
    simulator = Simulator(dut, engine=CompiledEngine)

    async def testbench(ctx):
        ctx.set(dut.step, 1)
        await run_cycles(ctx, cycles)

    simulator.add_clock(1e-8)
    simulator.add_testbench(testbench)
    model = engine_of(simulator).model
    tape = model.record()
    simulator.run()
    model.stop(tape)
    assert tape.cycles == cycles
    return model.path, tape


@needs_compiled
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind")
def test_instructions_of_a_cycle_grow_with_the_design():
    few, many = (instructions_per_cycle(*taped(count, 5_000)) for count in (10, 30))
    assert few is not None and many is not None
    assert 20 * 4 < many - few < 20 * 80
    assert instructions_per_cycle(*taped(10, 5_000)) == few
    assert instructions_per_cycle(*taped(10, 2_000)) == pytest.approx(few, rel=0.01)
    assert instructions_per_cycle(*taped(10, 1_999)) is None


@needs_compiled
def test_a_tape_does_the_same_once_more(tmp_path):
    library, tape = taped(3, 700)
    program, path = tmp_path / "replay", tmp_path / "tape"
    build_replay(program)
    tape.write(path)
    for limit, cycles, code in ((600, 600, 0), (700, 700, 0), (800, 700, 1)):
        done = subprocess.run([program, library, path, str(limit)], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (code, f"{cycles}\n")
    path.write_bytes(b"x" * 16)
    done = subprocess.run([program, library, path, "1"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, f"{path} is damaged\n")


def test_table_columns():
    assert table("Title", ("what", "cycles"), [("a", "5"), ("long one", "1,000")]).splitlines() == [
        "Title", "", "what      cycles", "--------  ------", "a              5", "long one   1,000"]


def test_a_run_that_fails_is_told(monkeypatch):
    class Failing:
        cycles, requests = 7, 0

        def __init__(self, *_):
            pass

        def run(self, *_):
            return HardwareResult("timeout", 7, "not over")

    monkeypatch.setattr("sim.benchmarks.machine.Hardware", Failing)
    machine = BenchmarkMachine(MACHINES["tiny"], PysimEngine)
    with pytest.raises(BenchmarkError, match="loop: timeout not over"):
        machine.run(launch_loop(Loop("any", "NOP").module(), 1, 1))


def test_compiled_code_beside_nvidias(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sim.bench.ptx_table", lambda: [PtxRow("kernel", compiled=30, unoptimised=60, optimised=20)])
    path = tmp_path / "figures.json"
    assert main(["--ptx", "--json", str(path)]) == 0
    assert json.loads(path.read_text()) == {"ptx": [{"kernel": "kernel", "compiled": 30, "unoptimised": 60,
                                                     "optimised": 20, "to_unoptimised": 0.5, "to_optimised": 1.5}]}
    assert [line.split() for line in capsys.readouterr().out.splitlines()[-3:]] == [
        ["kernel", "30", "60", "20", "0.50", "1.50"], ["total", "30", "60", "20", "0.50", "1.50"],
        ["median", "0.50", "1.50"]]


def test_wide_machine_is_as_wide_as_a_warp():
    assert MACHINES["wide"].lanes == MACHINES["full"].lanes == WARP_THREADS
