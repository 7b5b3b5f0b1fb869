"""Synthesis of a unit for an FPGA: calls of the tools, parsing of their output, messages; a unit as
Verilog.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Assert, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.fpga.flat import Flat, plain_ports
from rtl.fpga.harness import TimingHarness
from rtl.fpga.units import UNITS
from rtl.layouts import Event
from rtl.params import PRESETS
from sim.engine import PysimEngine, make_simulator
from sim.fpga import command as fpga
from sim.fpga import ecp5
from sim.fpga.ecp5 import CriticalPath, Timing
from sim.fpga.verilog import verilog_of
from sim.report.ports import port_comments, ports_of
from sim.support.interrupt import Interrupted, handled

MISSING = ecp5.missing_tool()


class Total(wiring.Component):
    """Adds up its inputs."""

    items: In(stream.Signature(4))
    total: Out(6)
    mode: In(wiring.Signature({"hold": Out(1), "odd": In(1)}))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.items.ready.eq(~self.mode.hold), self.mode.odd.eq(self.total[0])]
        with m.If(self.items.valid & self.items.ready):
            m.d.sync += self.total.eq(self.total + self.items.payload)
        m.d.sync += Assert(self.total < 64, "within its width")
        return m


@pytest.fixture(autouse=True)
def units(monkeypatch):
    """Defines a single unit."""
    monkeypatch.setattr(fpga, "UNITS", {"total": lambda _params: Total()})


def failure(capsys, *arguments):
    with pytest.raises(SystemExit, match="2"):
        fpga.main(arguments)
    return capsys.readouterr().err


def test_the_harness_reaches_every_port():
    unit = Total()
    harness = TimingHarness(unit)
    seen = set()

    async def testbench(ctx):
        for bit in "1101" * 10:
            ctx.set(harness.scan_in, int(bit))
            for level in (1, 0):
                ctx.set(harness.clk, level)
            seen.add(
                (
                    "in",
                    ctx.get(unit.items.payload),
                    ctx.get(unit.items.valid),
                    ctx.get(unit.mode.hold),
                )
            )
            seen.add(("out", ctx.get(harness.scan_out)))

    simulator = make_simulator(harness, PysimEngine)
    simulator.add_testbench(testbench)
    simulator.run()
    assert {what[0] for what in seen} == {"in", "out"}
    assert {("out", 0), ("out", 1)} < seen
    assert {what[3] for what in seen if what[0] == "in"} == {0, 1}
    assert len({what[1] for what in seen if what[0] == "in"}) > 3


def test_the_harness_has_three_pins_and_no_reset():
    text = rtlil.convert(TimingHarness(Total()))
    top = next(module for module in text.split("\nmodule ") if module.startswith("\\top\n"))
    assert [
        line.split()[-1] for line in top.splitlines() if " input " in line or " output " in line
    ] == ["\\clk", "\\scan_in", "\\scan_out"]
    assert "rst" not in text


STEPS = [
    {
        "type": "clk-to-q",
        "delay": 0.5,
        "from": {"cell": "unit.q_TRELLIS_FF_Q", "port": "Q"},
        "to": {"cell": "unit.q_TRELLIS_FF_Q", "port": "Q"},
    },
    {
        "type": "routing",
        "delay": 1.0,
        "net": "unit.q[5]",
        "from": {"cell": "unit.q_TRELLIS_FF_Q", "port": "Q"},
        "to": {"cell": "unit.x_LUT4_Z", "port": "D"},
    },
    {
        "type": "logic",
        "delay": 0.25,
        "from": {"cell": "unit.x_LUT4_Z", "port": "D"},
        "to": {"cell": "unit.x_LUT4_Z", "port": "F"},
    },
    {
        "type": "routing",
        "delay": 0.75,
        "net": "unit.x_LUT4_Z_D[2]",
        "from": {"cell": "unit.x_LUT4_Z", "port": "F"},
        "to": {"cell": "unit.level_TRELLIS_FF_Q_2", "port": "LSR"},
    },
    {
        "type": "setup",
        "delay": 0.25,
        "from": {"cell": "unit.level_TRELLIS_FF_Q_2", "port": "LSR"},
        "to": {"cell": "unit.level_TRELLIS_FF_Q_2", "port": "LSR"},
    },
]
PATH = CriticalPath("q[5]", "level (reset)", 1, 1.0, 1.75)
FAKE = f"""\
import json, pathlib, sys
arguments = sys.argv[1:]
if "-V" in arguments or "--version" in arguments:
    print("tool 1.2")
elif "broken" in arguments:
    print("Info: trying"); print("ERROR: no room for 7 cells"); sys.exit(1)
elif "-s" in arguments:
    pathlib.Path("script").write_text(pathlib.Path(arguments[1]).read_text())
    cells = {{str(number): {{"type": kind}} for number, kind in enumerate(
        ["LUT4"] * 7 + ["CCU2C"] * 2 + ["TRELLIS_FF"] * 6 + ["TRELLIS_DPR16X4"] + ["$scopeinfo"])}}
    pathlib.Path("unit.json").write_text(json.dumps({{"modules": {{"top.unit": {{"cells": cells}}}}}}))
    pathlib.Path("timing.json").write_text("{{}}")
    with pathlib.Path("calls").open("a") as calls:
        calls.write("synthesis\\n")
else:
    report = arguments[arguments.index("--report") + 1]
    seed = int(arguments[arguments.index("--seed") + 1]) if "--seed" in arguments else 0
    used = {{"TRELLIS_COMB": 15, "TRELLIS_FF": 6, "DP16KD": 0}}
    clock = "posedge clk"
    pathlib.Path(report).write_text(json.dumps({{
        "fmax": {{"clk": {{"achieved": 100.0 + seed * seed, "constraint": 200}}}},
        "utilization": {{kind: {{"used": count, "available": 99}} for kind, count in used.items()}},
        "critical_paths": [{{"from": "<async>", "to": clock, "path": []}},
                           {{"from": clock, "to": clock, "path": {STEPS!r}}}]}}))
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Fake tools that return at once, and the folder in which they work."""
    (tmp_path / "fake.py").write_text(FAKE)
    for variable in ("YOSYS", "NEXTPNR_ECP5"):
        monkeypatch.setenv(variable, f"{sys.executable} {tmp_path / 'fake.py'}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_measurement_has_size_rate_and_path(tools, capsys):
    assert (
        fpga.main(["--unit", "total", "--preset", "tiny", "--seeds", "2,1,4", "--json", "out.json"])
        == 0
    )
    output, errors = capsys.readouterr()
    assert (
        output
        == """\
total, preset tiny, alone on LFE5U-85F, CABGA381, speed grade 6

  LUT4                  7  after synthesis
  CCU2C                 2  after synthesis: carry cells, two LUTs each
  LUT4 with carry      11  LUT4 + 2 CCU2C
  TRELLIS_COMB         15  after packing: LUTs of logic, carry, memories and constants
  TRELLIS_FF            6
  DP16KD                0  block memories of 16 Kbit
  TRELLIS_DPR16X4       1  memories of 16 x 4 bits in LUTs
  MULT18X18D            0  multipliers

between registers
  seed 2     104.0 MHz  from q[5] to level (reset): 1 levels of logic, 2.75 ns (logic 1.00, routing 1.75)
  seed 1     101.0 MHz  from q[5] to level (reset): 1 levels of logic, 2.75 ns (logic 1.00, routing 1.75)
  seed 4     116.0 MHz  from q[5] to level (reset): 1 levels of logic, 2.75 ns (logic 1.00, routing 1.75)
  median     104.0 MHz
"""
    )
    assert [line.partition("s  ")[2] for line in errors.splitlines()] == [
        "total: synthesis",
        "total: 7 LUT4, 6 FF",
        "total: placement and routing, seed 2",
        "total: 104.0 MHz",
        "total: placement and routing, seed 1",
        "total: 101.0 MHz",
        "total: placement and routing, seed 4",
        "total: 116.0 MHz",
    ]
    result = json.loads((tools / "out.json").read_text())
    assert (result["unit"], result["lut4_with_carry"], result["fmax_mhz"]) == ("total", 11, 104.0)
    assert result["tools"] == {"yosys": "tool 1.2", "nextpnr-ecp5": "tool 1.2"}
    assert result["seeds"][0] == {
        "seed": 2,
        "fmax": 104.0,
        "path": {
            "start": "q[5]",
            "end": "level (reset)",
            "levels": 1,
            "logic": 1.0,
            "routing": 1.75,
        },
    }
    script = (tools / "build" / "fpga" / "total-tiny" / "script").read_text().splitlines()
    assert {
        "chformal -remove",
        "delete t:$print",
        "synth_ecp5 -top top -run begin:map_luts",
        "synth_ecp5 -top top -run map_luts:",
    } < set(script)


def test_a_unit_that_is_only_synthesized_has_a_size_alone(tools, capsys):
    assert fpga.main(["--unit", "total", "--seeds", "none", "--json", "out.json"]) == 0
    output, errors = capsys.readouterr()
    assert output.endswith("  MULT18X18D            0  multipliers\n")
    assert errors.endswith("total: 7 LUT4, 6 FF\n")
    result = json.loads((tools / "out.json").read_text())
    assert (result["fmax_mhz"], result["seeds"]) == (None, [])


def test_a_small_one_has_single_tables_alone(tools, capsys):
    assert fpga.main(["--unit", "total", "--small", "--seeds", "1", "--json", "out.json"]) == 0
    assert capsys.readouterr().out.startswith("total, preset default, small, alone on ")
    assert json.loads((tools / "out.json").read_text())["small"]
    script = (tools / "build" / "fpga" / "total-default" / "script").read_text()
    assert script.count("synth_ecp5 -nowidelut -top top") == 2


def test_another_number_of_warps_and_lanes(tools, capsys, monkeypatch):
    made = []
    monkeypatch.setattr(fpga, "UNITS", {"total": lambda params: made.append(params) or Total()})
    assert fpga.main(["--unit", "total", "--warps", "64", "--lanes", "32", "--seeds", "1"]) == 0
    assert capsys.readouterr().out.startswith(
        "total, preset default, 64 warps, 32 lanes, alone on "
    )
    assert [(params.warps, params.lanes) for params in made] == [(64, 32)]
    assert (tools / "build" / "fpga" / "total-default-64-warps-32-lanes" / "script").is_file()
    assert "warps must be a power of two from 1 to 64, not 3" in failure(
        capsys, "--unit", "total", "--warps", "3"
    )


def test_the_parts_of_a_critical_path_have_the_names_of_the_design():
    steps = [dict(step) for step in STEPS]
    steps[1] |= {"net": "input.items__valid"}
    steps[-1] |= {"to": {"cell": "unit.storage.0.1$DPRAM_COMB3", "port": "WRE"}}
    assert ecp5.critical_path(steps) == CriticalPath(
        "input.items__valid", "storage (write enable)", 1, 1.0, 1.75
    )


def test_another_seed_takes_the_netlist_that_is_there(tools, capsys):
    calls = tools / "build" / "fpga" / "total-tiny" / "calls"
    arguments = ["--unit", "total", "--preset", "tiny", "--seeds"]
    assert fpga.main([*arguments, "1"]) == 0
    capsys.readouterr()
    assert fpga.main([*arguments, "5"]) == 0
    output, errors = capsys.readouterr()
    assert "total: the netlist of an earlier run, which is of the same design\n" in errors
    assert "  seed 5     125.0 MHz  " in output
    assert calls.read_text() == "synthesis\n"
    # A file that was changed, or one of another script, is not used.
    calls.with_name("timing.json").write_text("[]")
    assert fpga.main([*arguments, "1"]) == 0
    assert fpga.main([*arguments, "1", "--small"]) == 0
    assert calls.read_text() == "synthesis\n" * 3


def test_a_folder_of_other_files_is_not_built_in(tools, capsys):
    (tools / "work").mkdir()
    (tools / "work" / "top.bit").write_text("somebody's own")
    for arguments in (["--unit", "total"], ["--verilog", "out.v"]):
        assert failure(capsys, *arguments, "--build", "work") == (
            "python -m sim.fpga: work: this command did not make this folder, and it is not empty; "
            "name a new or an empty one\n"
        )
    assert [path.name for path in (tools / "work").iterdir()] == ["top.bit"]


def test_two_commands_do_not_work_in_one_folder(tools, capsys):
    (tools / "work").mkdir()
    with (tools / "work" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert failure(capsys, "--unit", "total", "--build", "work") == (
            "python -m sim.fpga: work: another sim.fpga works there; --build names another folder\n"
        )
    assert fpga.main(["--unit", "total", "--build", "work", "--seeds", "1"]) == 0


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("YOSYS", "/nonexistent", "YOSYS=/nonexistent: there is no such program"),
        (
            "NEXTPNR_ECP5",
            "/nonexistent -x",
            "NEXTPNR_ECP5=/nonexistent -x: there is no such program",
        ),
        ("YOSYS", "'yosys", "YOSYS='yosys: No closing quotation"),
        ("YOSYS", "/tmp", "YOSYS=/tmp: there is no such program"),
    ],
)
def test_a_tool_that_is_not_there_is_named_before_any_work(
    tools, capsys, monkeypatch, variable, value, message
):
    monkeypatch.setenv(variable, value)
    assert failure(capsys, "--unit", "total") == f"python -m sim.fpga: {message}\n"
    assert not (tools / "build").exists()


def test_a_tool_without_an_error_line_is_quoted_with_its_last_lines(tools, capsys, monkeypatch):
    (tools / "failing").write_text("#!/bin/sh\nseq 1 9\nexit 3\n")
    (tools / "failing").chmod(0o755)
    monkeypatch.setenv("YOSYS", "./failing")
    log = tools / "work" / "version.log"
    assert failure(capsys, "--unit", "total", "--build", "work") == (
        f"python -m sim.fpga: yosys failed (exit code 3), see {log}; its last lines:\n  5\n  6\n  7\n  8\n  9\n"
    )
    monkeypatch.setenv("YOSYS", "sh -c 'kill -9 $$'")
    assert failure(capsys, "--unit", "total", "--build", "work") == (
        "python -m sim.fpga: yosys failed (ended by SIGKILL, as the system does when memory runs out) without a word\n"
    )
    (tools / "failing").write_bytes(b"\x7fELF")
    monkeypatch.setenv("YOSYS", "./failing")
    assert failure(capsys, "--unit", "total", "--build", "work") == (
        f"python -m sim.fpga: yosys cannot be run: {tools / 'failing'}: Exec format error\n"
    )


def test_a_tool_that_writes_nothing_is_named(tools, capsys, monkeypatch):
    monkeypatch.setenv("YOSYS", "true")
    assert failure(capsys, "--unit", "total", "--build", "work").splitlines()[1:] == [
        f"python -m sim.fpga: yosys has not written {tools / 'work' / 'unit.json'}, see {tools / 'work' / 'yosys.log'}"
    ]


@pytest.fixture
def signal_handlers():
    """Restores the signal handlers that a test replaces."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_an_interrupted_tool_ends_with_what_it_has_started_and_leaves_nothing(
    tmp_path, monkeypatch, signal_handlers
):
    """The tool starts a program of its own, as Yosys does with ABC. The request may arrive before
    the start of the tool has returned.
    """
    monkeypatch.setenv("YOSYS", "sh -c 'echo half > result; sleep 60 & echo $! > child; wait'")

    def interrupt():
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(Interrupted), handled():
        ecp5.run_tool("yosys", [], tmp_path, "log", ["result"])
    thread.join()
    assert not (tmp_path / "result").exists()
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    until = time.monotonic() + 10
    while child.exists() and child.read_text().split()[2] != "Z" and time.monotonic() < until:
        time.sleep(0.01)
    assert not child.exists() or child.read_text().split()[2] == "Z"


@pytest.mark.parametrize(
    ("number", "line"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
def test_an_interrupted_command_says_so_in_one_line_and_leaves_no_result(tmp_path, number, line):
    """Ctrl-C is pressed while Yosys runs."""
    environment = os.environ | {"YOSYS": "sh -c 'echo $$ > ../child; sleep 60; wait'"}
    command = [
        sys.executable,
        "-m",
        "sim.fpga",
        "--unit",
        "error_status",
        "--preset",
        "tiny",
        "--verilog",
        "out.v",
        "--build",
        "work",
    ]
    path = os.pathsep.join(
        filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")))
    )
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
    )
    child = tmp_path / "child"
    while not (child.exists() and child.read_text()) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate()
    assert (process.returncode, errors.splitlines()[-1]) == (
        128 + number,
        f"python -m sim.fpga: {line}",
    )
    assert len(errors.splitlines()) == 3  # elaboration, Verilog
    assert not (tmp_path / "out.v").exists()
    assert not Path("/proc", child.read_text().strip()).exists()


def test_a_failing_tool_is_quoted_with_its_log(tools, monkeypatch, capsys):
    monkeypatch.setenv("NEXTPNR_ECP5", f"{sys.executable} {tools / 'fake.py'} broken")
    errors = failure(capsys, "--unit", "total", "--build", "work")
    assert errors.splitlines()[1:] == [
        f"python -m sim.fpga: nextpnr-ecp5 failed, see {tools / 'work' / 'pack.log'}: ERROR: no room for 7 cells"
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of BOARD, --unit and --verilog is required"),
        (["--unit", "gpu"], "no unit gpu; there are total"),
        (
            ["--unit", "total", "--preset", "huge"],
            f"no preset huge; there are {', '.join(PRESETS)}",
        ),
        (
            ["--unit", "total", "--seeds", "1,b"],
            "argument --seeds: '1,b' is neither a list of numbers such as 1,2,3 nor none",
        ),
        (["--unit", "total", "--name", "x"], "--name is for --verilog"),
        (["--verilog", "out.v", "--name", "9x"], "'9x' is no name of a Verilog module"),
        (["--verilog", "out.v", "--name", "module"], "'module' is no name of a Verilog module"),
        (
            ["--verilog", "out.v", "--json", "out.json"],
            "--json does not go with --verilog, which measures nothing",
        ),
        (["--verilog", "out.v", "--lanes", "4"], "--lanes is for units"),
        (["ulx3s-85f", "--warps", "0"], "--warps is for units: a board takes a --preset"),
        (["--verilog", "out.v", "--clock", "0"], "--clock is for boards"),
        (["--unit", "total", "--no-video"], "--video is for boards"),
    ],
)
def test_bad_arguments_get_one_line(capsys, arguments, message):
    assert failure(capsys, *arguments) == f"python -m sim.fpga: {message}\n"


def test_missing_tools_are_named_with_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("YOSYS", raising=False)
    monkeypatch.setattr(ecp5, "find_spec", lambda _name: None)
    assert failure(capsys, "--unit", "total") == (
        "python -m sim.fpga: the extra 'fpga' is not installed: pip install -e '.[fpga]'\n"
    )
    assert not list(tmp_path.iterdir())


# Verilog

VERILOG_BENCH = """\
module bench;
  reg clk = 0, rst = 1;
  reg [3:0] payload = 5;
  wire [5:0] total;
  wire ready, odd;
  sums sums(.clk(clk), .rst(rst), .items(payload), .items_valid(1'b1), .items_ready(ready), .total(total),
            .mode_hold(1'b0), .mode_odd(odd));
  always #5 clk = !clk;
  initial begin
    #20 rst = 0;
    #30 $display("%0d %0d %b", total, odd, ready);
    $finish;
  end
endmodule
"""


@pytest.mark.skipif(
    ecp5.missing_tool("yosys") is not None, reason=f"sim.fpga: {ecp5.missing_tool('yosys')}"
)
def test_a_unit_becomes_verilog_under_a_name_of_its_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEXTPNR_ECP5", "/nonexistent")  # is not needed
    assert (
        fpga.main(["--unit", "total", "--preset", "tiny", "--verilog", "sums.v", "--name", "sums"])
        == 0
    )
    output = capsys.readouterr().out
    assert output == "verilog       sums.v: module sums\n"
    text = (tmp_path / "sums.v").read_text()
    modules = [
        line.split()[1].partition("(")[0]
        for line in text.splitlines()
        if line.startswith("module ")
    ]
    assert modules == ["sums", "\\sums.inner"]
    assert "//   in  items, 4\n" in text
    assert "//   out total, 6\n" in text
    # Three rising edges after the reset: 3 * 5
    if shutil.which("iverilog"):
        (tmp_path / "bench.v").write_text(VERILOG_BENCH)
        for command in (
            ["iverilog", "-g2012", "-o", "bench", "bench.v", "sums.v"],
            ["vvp", "-n", "bench"],
        ):
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[0] == "15 1 1"


class Waiting(wiring.Component):
    """Outputs that depend on registers alone, which keep their initial values until ``go``."""

    go: In(1)
    chosen: Out(4)
    joined: Out(4)

    def elaborate(self, platform):
        m = Module()
        first, second, joined = (
            Signal(init=1),
            Signal(4, init=9),
            Signal(data.StructLayout({"low": 2, "high": 2})),
        )
        with m.If(self.go):
            m.d.sync += [first.eq(0), second.eq(second + 1)]
        m.d.comb += [joined.eq(second), self.joined.eq(joined)]
        with m.If(first):
            m.d.comb += [self.chosen.eq(second), joined.low.eq(second[2:])]
        return m


@pytest.mark.skipif(
    ecp5.missing_tool("yosys") is not None, reason=f"sim.fpga: {ecp5.missing_tool('yosys')}"
)
@pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")
@pytest.mark.parametrize("standard", ["2005", "2012"])
def test_what_depends_on_registers_alone_is_known_from_the_beginning(tmp_path, standard):
    """They are known before any register changes; Yosys' own Verilog leaves them unknown."""
    (tmp_path / "top.v").write_text(verilog_of(Waiting(), tmp_path / "yosys", lambda _what: None))
    (tmp_path / "bench.v").write_text("""\
module bench;
  reg clk = 0;
  wire [3:0] chosen, joined;
  top top(.clk(clk), .rst(1'b0), .go(1'b0), .chosen(chosen), .joined(joined));
  initial #1 $display("%b %b", chosen, joined);
endmodule
""")
    for command in (
        ["iverilog", f"-g{standard}", "-o", "bench", "bench.v", "top.v"],
        ["vvp", "-n", "bench"],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1001 1010\n"


def test_verilog_is_there_as_a_whole_or_not_at_all(tools, monkeypatch, capsys):
    (tools / "out.v").write_text("before")
    monkeypatch.setenv("YOSYS", f"{sys.executable} {tools / 'fake.py'} broken")
    assert "yosys failed" in failure(capsys, "--unit", "total", "--verilog", "out.v")
    assert (tools / "out.v").read_text() == "before"
    assert failure(capsys, "--unit", "total", "--verilog", "out.v/out.v") == (
        "python -m sim.fpga: out.v/out.v: Not a directory\n"
    )


@pytest.mark.parametrize("preset", ["least", "tiny"])
def test_every_port_of_every_unit_has_a_plain_name_and_a_line_of_text(preset):
    for name in UNITS:
        component = ports_of(name, preset)
        ports = list(plain_ports(component))
        lines = [line.split() for line in port_comments(component)]
        described = {
            line[1].rstrip(",") for line in lines if line[0] in ("in", "out") and len(line) > 1
        }
        assert {port.name for port in ports} <= described, name
        # They contain each bit of the component once.
        bits = sum(len(Value.cast(value)) for _, _, value in component.signature.flatten(component))
        assert sum(port.shape.width for port in ports) == bits, name


def test_a_field_that_has_the_name_of_a_port_beside_it_has_a_longer_one():
    class Announcer(wiring.Component):
        event: Out(Event(data.StructLayout({"valid": 2, "number": 3})))

        def elaborate(self, platform):
            return Module()

    flat = Flat(Announcer())
    assert {name: len(getattr(flat, name)) for name in flat.signature.members} == {
        "event_valid": 1,
        "event_payload_valid": 2,
        "event_number": 3,
    }
    rtlil.convert(flat)


@pytest.mark.skipif(MISSING is not None, reason=f"sim.fpga: {MISSING}")
def test_the_real_tools_measure_a_small_unit(tmp_path):
    result = fpga.measure("total", "default", [1], Path(tmp_path))
    # A sum of six bits: three carry cells of two bits each, at most one more at an end of the
    # chain, and an enable.
    assert result.size["ff"] == 6
    assert result.size["dp16kd"] == result.size["dpr16x4"] == 0
    assert 3 <= result.size["lut4_with_carry"] <= 20
    assert result.size["lut4_with_carry"] == result.size["lut4"] + 2 * result.size["ccu2c"]
    assert result.median is not None and result.median > 100
    (timing,) = result.timings
    assert isinstance(timing, Timing)
    assert timing.path.logic + timing.path.routing == pytest.approx(1000 / timing.fmax, rel=0.01)
