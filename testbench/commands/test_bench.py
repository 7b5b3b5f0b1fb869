"""The benchmark command: figures with known values, its file, its messages about invalid arguments."""

import json
import re
import shutil
import subprocess
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from rtl.params import PRESETS, WARP_THREADS
from sim.checks.bench import main
from sim.checks.benchmarks import cuda, plot, roofline, streaming
from sim.checks.benchmarks.classes import CLASSES
from sim.checks.benchmarks.compile_time import CompileRow
from sim.checks.benchmarks.floats import PROGRAMS, FloatRow
from sim.checks.benchmarks.instructions import instructions_per_cycle
from sim.checks.benchmarks.kernels import KernelRow, total_of
from sim.checks.benchmarks.machine import (
    MACHINES,
    BenchmarkError,
    BenchmarkMachine,
    LoopKernel,
    launch_loop,
    stall_cycles,
)
from sim.checks.benchmarks.ptx import PtxRow
from sim.checks.benchmarks.roofline import RooflineRow
from sim.checks.benchmarks.table import table
from sim.checks.benchmarks.throughput import throughput_loop
from sim.checks.benchmarks.verilator import missing_verilator
from sim.checks.benchmarks.work import Work, work_of
from sim.engine import CompiledEngine, EngineError, PysimEngine, engine_of, run_cycles
from sim.engine.tape import build_replay, replayed_seconds
from sim.launch import Buffer, prepare
from sim.machine.hardware import HardwareResult
from sim.model.warp.model import WarpModel
from sim.runner import ModelRunner
from sim.support.command import CommandError
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from testbench.engine.designs import needs_compiled
from testbench.kernels.manifest import RUNS
from testbench.refusal import refused

_CLASSES = {"arithmetic: IADD to IADD": (1, 8, 6), "LDG to LDG": (1, 30, 2), "SSY, SYNC": (2, 6, 6)}
"""Number of instructions, smallest number of cycles on 4 lanes, and the assembler's stall counts."""
_KERNEL_FIELDS = [each.name for each in fields(KernelRow)]


def test_a_quick_measurement_has_plausible_rates(tmp_path, capsys):
    path = tmp_path / "figures.json"
    assert main(["--quick", "--preset", "tiny", "--json", str(path)]) == 0
    figures = json.loads(path.read_text())
    assert figures["params"]["lanes"] == 4
    given, found = figures["throughput"]
    body = throughput_loop(fixed_stall=True).module().code.content
    for row in (given, found):
        assert row["warps"] == 2
        assert 0.9 < row["busy"] <= 1
        assert row["instructions"] == 2 * (
            len(throughput_loop(fixed_stall=True).body.splitlines()) + 3
        )
    assert body != throughput_loop(fixed_stall=False).module().code.content
    assert {row["name"] for row in figures["classes"]} == set(_CLASSES)
    for row in figures["classes"]:
        instructions, least, stall = _CLASSES[row["name"]]
        assert (row["instructions"], row["stall"]) == (instructions, stall)
        assert row["cycles"] >= least
        assert row["cycles_per_instruction"] == row["cycles"] / instructions
    assert {row["name"] for row in figures["roofline"]} == set(roofline.QUICK)
    for row in figures["roofline"]:
        assert (
            row["bound"]
            == max(row["beats"], row["work"]["lines"], row["work"]["instructions"])
            < row["cycles"]
        )
        assert row["beats"] == row["work"]["lane_instructions"] * 8
        assert row["ratio"] == row["bound"] / row["cycles"]
    (speed,) = figures["speed"]
    assert speed["cycles_per_second"] == pytest.approx(speed["cycles"] / speed["processor_seconds"])
    if shutil.which("valgrind") and speed["engine"] == "compiled":
        assert 1_000 < speed["instructions"] < 100_000
    else:
        assert speed["instructions"] is None
    text = capsys.readouterr().out
    assert all(
        name in text
        for name in (
            *_CLASSES,
            *roofline.QUICK,
            "lanes busy",
            "cycles/second",
            "instructions/cycle",
        )
    )


def test_each_kernel_has_figures_of_its_own(tmp_path, capsys):
    path = tmp_path / "figures.json"
    arguments = ["kernels", "--quick", "--preset", "tiny"]
    assert main([*arguments, "--json", str(path)]) == 0
    figures = json.loads(path.read_text())
    rows = figures["kernels"]
    for row in rows:
        assert row["warps"] == 1
        assert row["cycles"] == sum(row["waits"].values()) < row["grid_cycles"]
        assert row["cycles_per_instruction"] == row["cycles"] / row["instructions"]
    total = total_of([KernelRow(**{key: row[key] for key in _KERNEL_FIELDS}) for row in rows])
    assert total.shares["FETCH"] == pytest.approx(
        sum(row["waits"]["FETCH"] for row in rows) / sum(row["cycles"] for row in rows)
    )
    assert f"{total.per_instruction:.2f}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ["--preset", "huge"],
            "no preset huge; there are tiny, small, default, compact, integer, programs, full, wide",
        ),
        (["--engine", "verilator"], "no engine verilator"),
        (
            ["sizes"],
            "no benchmark sizes; there are throughput, classes, roofline, floats, speed, cuda",
        ),
        (["--python", "python3"], "--python goes with the benchmark cuda"),
        (["kernels", "--verilator"], "--verilator goes with the benchmark speed"),
        (["--ptx", "--verilator"], "--verilator goes with the benchmark speed"),
        (
            ["speed", "--verilator", "--engine", "pysim"],
            "--verilator compares the engine compiled, not pysim",
        ),
        (["cuda", "--python", "no-such-python"], "--python: no-such-python: no such program"),
        (["speed", "--svg", "roofline.svg"], "--svg draws the roofline, which is not measured"),
        (["--ptx", "--svg", "roofline.svg"], "--svg draws the roofline, which is not measured"),
        (["--ptx", "speed"], "--ptx measures the compiler alone, not speed"),
        (["--compile-time", "speed"], "--compile-time measures the compiler alone, not speed"),
        (
            ["--compile-time", "--ptx"],
            "--ptx and --compile-time measure different things: expected one of them",
        ),
        (
            ["--json", "nowhere/figures.json"],
            "nowhere/figures.json: No such file or directory: there is no folder nowhere",
        ),
        (["--wrong"], "--wrong"),
    ],
)
def test_a_bad_argument_gets_one_line(arguments, message, capsys):
    assert message in refused(capsys, main, arguments)


@needs_compiled
def test_what_cuda_programs_wait_for(monkeypatch):
    """They run on the warp model, once each: the command measures figures, this test does not."""
    monkeypatch.setattr(cuda, "_LAUNCHES", {"model": 1})
    rows = list(cuda.measure("model", ModelRunner(PRESETS["tiny"]), None))
    copies = ["128 MiB to the device", "128 MiB from the device"]
    assert [row.what for row in rows] == ["launch of an empty kernel", *copies]
    assert all(row.seconds > 0 and row.aim is not None for row in rows)


@needs_compiled
def test_launches_of_cuda_programs_leave_little_behind():
    """Only the server's table of launches grows."""
    launches = 300
    server, program, device = cuda.growth_rows(PRESETS["tiny"], launches)
    assert server.memory < 8192 * launches
    assert program.memory < 256 << 10
    assert (server.files, program.files, device.memory) == (0, 0, 0)


def test_a_failing_program_of_the_benchmark_is_reported(monkeypatch, tmp_path):
    fails = tmp_path / "fails.py"
    fails.write_text("raise SystemExit('no such call')")
    monkeypatch.setattr(cuda, "_CLIENT", fails)
    with pytest.raises(CommandError, match=r"^fails\.py: no such call$"):
        list(cuda.measure("model", ModelRunner(PRESETS["tiny"]), None))


@pytest.mark.parametrize("each", CLASSES, ids=lambda each: each.name)
def test_classes_run_to_their_end(each):
    turns, repetitions = 3, 3
    result = WarpModel(
        launch_loop(each.loop(repetitions).module(), turns, each.warps), warps=8
    ).run(10_000)
    assert result.status == "ok"
    assert result.instructions >= each.warps * turns * repetitions


@pytest.mark.parametrize("make", PROGRAMS)
def test_programs_with_floats_leave_what_they_should(make):
    program = make()
    launch = program.launch()
    with pytest.raises(BenchmarkError, match=rf"{program.name}: out\[0, 0\] is 0.0, not "):
        program.check(launch, launch.memory)
    assert WarpModel(launch, warps=8).run(100_000).status == "ok"
    program.check(launch, launch.memory)


def test_lanes_are_busy_with_instructions_and_with_accesses():
    row = FloatRow(
        "k", 8, 4, cycles=1000, instructions=200, lane_instructions=150, accesses=75, idle=700
    )
    assert (row.computing, row.busy) == (0.6, 0.9)


def test_stall_counts_of_a_program():
    once, tail = "[S15] NOP\n[S0] NOP\n[S2] NOP\n", ("[S6]", "[S13]", "[S13]")
    short, long = (LoopKernel("stalls", once * count, tail=tail).module() for count in (2, 4))
    assert stall_cycles(long) - stall_cycles(short) == 2 * (15 + 1 + 2)


class Adders(wiring.Component):
    """A number of 64-bit registers that change in every cycle."""

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
    """Returns the library of a design, and the recorded calls of a run."""
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
    assert 0 <= replayed_seconds(program, library, path, 700) < 60
    with pytest.raises(EngineError, match=r"^tape: it has fewer cycles$"):
        replayed_seconds(program, library, path, 800)
    path.write_bytes(b"x" * 16)
    done = subprocess.run([program, library, path, "1"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, f"{path} is damaged\n")


def test_a_table_aligns_its_columns():
    assert table("Title", ("what", "cycles"), [("a", "5"), ("long one", "1,000")]).splitlines() == [
        "Title",
        "",
        "what      cycles",
        "--------  ------",
        "a              5",
        "long one   1,000",
    ]


def test_a_failing_run_is_reported(monkeypatch):
    class Failing:
        cycles, requests = 7, 0

        def __init__(self, *_, **_options):
            pass

        def run(self, *_):
            return HardwareResult("timeout", 7, "not over")

    monkeypatch.setattr("sim.checks.benchmarks.machine.Hardware", Failing)
    machine = BenchmarkMachine(MACHINES["tiny"], PysimEngine)
    with pytest.raises(BenchmarkError, match="loop: timeout not over"):
        machine.run(launch_loop(LoopKernel("any", "NOP").module(), 1, 1))


def test_compiled_code_beside_nvidias(tmp_path, capsys, monkeypatch):
    row = PtxRow("kernel", compiled=30, unoptimised=60, optimised=20)
    monkeypatch.setattr("sim.checks.bench.ptx_table", lambda: [row])
    path = tmp_path / "figures.json"
    assert main(["--ptx", "--json", str(path)]) == 0
    assert json.loads(path.read_text()) == {
        "ptx": [
            {
                "kernel": "kernel",
                "compiled": 30,
                "unoptimised": 60,
                "optimised": 20,
                "to_unoptimised": 0.5,
                "to_optimised": 1.5,
            }
        ]
    }
    assert [line.split() for line in capsys.readouterr().out.splitlines()[-3:]] == [
        ["kernel", "30", "60", "20", "0.50", "1.50"],
        ["total", "30", "60", "20", "0.50", "1.50"],
        ["median", "0.50", "1.50"],
    ]


def test_times_of_the_compiler_and_what_a_byte_takes(tmp_path, capsys, monkeypatch):
    row = CompileRow("loops", 20_000, front_end=0.5, compiler=1.0, assembler=0.5, growth=1.25)
    monkeypatch.setattr("sim.checks.bench.compile_table", lambda quick: [row])
    path = tmp_path / "figures.json"
    assert main(["--compile-time", "--json", str(path)]) == 0
    (figures,) = json.loads(path.read_text())["compile_time"]
    assert (figures["seconds"], figures["rate"], figures["growth"]) == (2.0, 10.0, 1.25)
    assert capsys.readouterr().out.splitlines()[-1].split() == [
        "loops",
        "20",
        "0.50",
        "1.00",
        "0.50",
        "2.00",
        "10",
        "1.25",
    ]


@pytest.mark.parametrize("make", streaming.STREAMING)
def test_streaming_programs_leave_what_numpy_says(make):
    program = make()
    ended, disturbed = streaming.launch(program), streaming.launch(program)
    work = work_of(ended, warps=8)
    assert streaming.complaints(program, ended) == []
    base, _ = ended.buffers[next(iter(program.arguments))]
    ended.memory.write_number(base, 4, ~ended.memory.read_number(base, 4))
    assert [re.sub("0x[0-9a-f]+", "", line) for line in streaming.complaints(program, ended)] == [
        f"{program.name}: {next(iter(program.arguments))}[0] is , not "
    ]
    assert streaming.complaints(program, disturbed) != []
    words = sum(len(given) for given in program.arguments.values() if not isinstance(given, int))
    assert work.lines >= words // 16
    assert work.bound(8) == work.beats(8) == 4 * work.lane_instructions
    assert work.bound(32) == max(work.lane_instructions, work.lines, work.instructions)


_LINES = """.kernel lines
.shared 64
.param buffer 8
    MOV R2, c[0x0][buffer]
    MOV R3, c[0x0][buffer+4]
    S2R R0, SR_LANEID
    SHL R1, R0, {shift:#x}
    IADD R2.CC, R2, R1
    IADD.X R3, R3, RZ
    ISETP.LT.AND P0, PT, R0, 0x4, PT
    {instruction}
    EXIT
"""


@pytest.mark.parametrize(
    "instruction, shift, lines",
    [
        ("LDG.E R4, [R2]", 2, 2),
        ("LDG.E.64 R4, [R2]", 3, 4),
        ("LDG.E R4, [R2]", 6, 32),
        ("@P0 STG.E [R2], R4", 6, 4),
        ("@!PT STG.E [R2], R4", 6, 0),
        ("RED.E.ADD [R2], R4", 2, 4),
        ("ATOM.E.ADD R4, [R2], R4", 6, 64),
        ("LD.E R4, [R2]", 2, 2),
        ("LDL R4, [RZ]", 0, 2),
        ("STL.64 [RZ], R4", 0, 4),
        ("LDS R4, [RZ]", 0, 0),
        ("NOP", 0, 0),
    ],
)
def test_work_counts_the_lines_that_an_instruction_touches(instruction, shift, lines):
    module = load(assemble(_LINES.format(instruction=instruction, shift=shift), "lines"))
    work = work_of(prepare(module, [Buffer("buffer", bytes(4096))]), warps=1)
    assert (work.instructions, work.lines) == (9, lines)
    assert work.lane_instructions == 7
    assert work.operations == 7 * WARP_THREADS


def row(name, cycles, lines, *, streams=False):
    return RooflineRow(
        name,
        streams,
        8,
        cycles,
        Work(instructions=10, lane_instructions=8, operations=256, lines=lines),
        accesses=4,
    )


def test_figures_of_the_roofline():
    assert [
        (each.bound, each.limit, each.intensity, each.rate)
        for each in (row("lanes", 64, 4), row("memory", 128, 40), row("none", 64, 0))
    ] == [(32, "lanes", 1.0, 4.0), (40, "memory", 0.1, 2.0), (32, "lanes", None, 4.0)]
    assert replace(row("issue", 64, 4), lanes=32).limit == "issue"
    assert (row("lanes", 64, 4).busy, row("lanes", 64, 4).ratio_when_busy) == (0.75, 2 / 3)


def test_a_program_with_other_results_is_reported():
    class Wrong:
        params, memory = MACHINES["tiny"], None

        def run(self, launch):
            self.memory = launch.memory
            return HardwareResult("ok", 100)

    machine: Any = Wrong()
    with pytest.raises(BenchmarkError, match=r"vector_addition: c\[0\] is 0x0, not 0x"):
        roofline.roofline_table(machine, ["vector_addition"])


def test_every_kernel_has_a_row(monkeypatch):
    monkeypatch.setattr(roofline, "_row", lambda machine, program: program.name)
    machine: Any = SimpleNamespace(params=MACHINES["full"])
    names = roofline.roofline_table(machine)
    assert set(names) == {
        run.kernel for run in RUNS.values() if not run.traps and not run.label
    } | {make().name for make in streaming.STREAMING}
    assert roofline.programs_without_room(MACHINES["full"]) == []
    machine.params = MACHINES["tiny"]
    assert set(roofline.roofline_table(machine)) == set(names) - set(
        roofline.programs_without_room(MACHINES["tiny"])
    )
    assert roofline.programs_without_room(MACHINES["tiny"]) == [
        "k16_votes",
        "k30_matmul_tiled",
        "k43_mandel_fixed",
    ]


def test_the_roofline_is_drawn_the_same_twice():
    pytest.importorskip("matplotlib", reason="there is no matplotlib")
    rows = [row("a_program", 64, 4, streams=True), row("k01", 100, 40), row("k02", 100, 0)]
    picture = plot.roofline_svg(rows, "default")
    assert picture == plot.roofline_svg(rows, "default")
    assert "<svg" in picture
    assert all(
        f">{text}<" in picture
        for text in (
            "a program",
            "8 lanes: 8 operations a cycle",
            "memory: 64 bytes a cycle",
            "Roofline of the machine default",
        )
    )
    with pytest.raises(BenchmarkError, match="no program to draw"):
        plot.roofline_svg(rows[2:], "default")


def test_without_a_plotter_nothing_is_measured(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sim.checks.benchmarks.plot.find_spec", lambda _name: None)
    line = refused(capsys, main, ["roofline", "--svg", str(tmp_path / "roofline.svg")])
    assert line == "python -m sim.bench: --svg needs matplotlib: pip install -e '.[plot]'"


@needs_compiled
def test_without_verilator_nothing_is_measured(monkeypatch, capsys):
    monkeypatch.setattr("sim.checks.benchmarks.verilator.shutil.which", lambda _name: None)
    line = refused(capsys, main, ["speed", "--verilator"])
    assert line == "python -m sim.bench: --verilator: verilator is not installed"


@needs_compiled
@pytest.mark.skipif(missing_verilator() is not None, reason=missing_verilator() or "")
def test_both_models_of_the_machine_do_the_same_run(tmp_path):
    path = tmp_path / "figures.json"
    assert main(["speed", "--verilator", "--quick", "--preset", "tiny", "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text())["verilator"]
    assert abs(row["compiled_cycles"] - row["verilator_cycles"]) < 100
    assert min(row["compiled_per_second"], row["verilator_per_second"]) > 0


def test_wide_machine_is_as_wide_as_a_warp():
    assert MACHINES["wide"].lanes == MACHINES["full"].lanes == WARP_THREADS
