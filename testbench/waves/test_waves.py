"""Waveforms have the same bytes on every engine, and the tools that read them find the traced
signals.
"""

import json
import os
import re
import shutil
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pywellen
from amaranth.hdl import Fragment, Module, Signal, signed, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from vcdvcd import VCDVCD

from sim.engine import ENGINES, PysimEngine, run_cycles
from sim.support.command import CommandError
from sim.waves import (
    Mark,
    Text,
    Trace,
    Tracer,
    View,
    instruction,
    picture,
    save_file_of,
    write_save_file,
)
from sim.waves.__main__ import main as waves
from sim.waves.fst import FstFile
from sim.waves.picture import PictureError, Row, draw
from sim.waves.tracer import timescale
from sim.waves.traces import flatten
from testbench.engine.designs import needs_compiled
from testbench.words import encode

PERIOD = 1e-8


class Operation(enum.Enum, shape=2):
    IDLE = 0
    PUSH = 1
    POP = 2


class Phase(enum.IntEnum, shape=1):
    EVEN = 0
    ODD = 1


class Item(data.Struct):
    operation: Operation
    change: data.StructLayout({"by": 4, "more": data.ArrayLayout(2, 2)})


class Counter(wiring.Component):
    """A counter whose low bits select the operation."""

    step: In(4)
    items: Out(stream.Signature(Item))
    count: Out(70)

    def __init__(self):
        super().__init__()
        self.phase = Signal(Phase)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.count.eq(self.count + self.step)
        payload = self.items.payload
        m.d.comb += [
            payload.operation.as_value().eq(self.count),
            payload.change.by.eq(self.count),
            payload.change.more[0].eq(1),
            payload.change.more[1].eq(self.count[1:]),
            self.items.valid.eq(self.count[2]),
            self.phase.eq(self.count[0]),
        ]
        return m


def idle_counter():
    """Returns a counter that is inspected and not simulated."""
    dut = Counter()
    Fragment.get(dut, None)
    return dut


def traces(dut, mark):
    return {
        "in": {"step": Trace(dut.step, "dec")},
        "items": dut.items,
        "count": dut.count,
        "phase": dut.phase,
        "low": [dut.count[:2], dut.count[2:4]],
        "mark": mark,
    }


def traced(dut, testbench, shown, path, *, engine=PysimEngine, period=PERIOD, root="top"):
    """Simulates a design and writes a waveform of any format, which must appear at the end of the
    run.
    """
    simulator = Simulator(dut, engine=engine)
    simulator.add_clock(period)
    simulator.add_testbench(testbench)
    tracer = Tracer(simulator, shown, path, period=period, root=root)
    assert not path.exists()
    try:
        simulator.run()
    finally:
        tracer.close()
    return path


def record(path, *, engine=PysimEngine, fast=False):
    dut, mark = Counter(), Signal(3)

    async def testbench(ctx):
        for cycle in range(0, 20, 5):
            ctx.set(dut.step, cycle // 5 + 1)
            ctx.set(mark, cycle % 7)
            await (run_cycles(ctx, 5) if fast else ctx.tick().repeat(5))

    return traced(dut, testbench, traces(dut, mark), path, engine=engine, root="demo")


def variables(path):
    """Returns the variables that pywellen reads, by full name."""
    return {variable.full_name: variable for variable in pywellen.Waveform(str(path)).all_vars()}  # pyright: ignore


@needs_compiled
@pytest.mark.parametrize("fast", [False, True])
def test_both_engines_write_the_same_bytes(tmp_path, fast):
    files = [
        record(tmp_path / f"{name}.vcd", engine=engine, fast=fast)
        for name, engine in ENGINES.items()
    ]
    again = record(tmp_path / "again.vcd")
    assert files[0].read_bytes() == files[1].read_bytes() == again.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "again.vcd",
        "compiled.vcd",
        "pysim.vcd",
    ]


def test_a_waveform_is_as_small_as_it_can_be(tmp_path):
    class Lamp(data.Struct):
        on: unsigned(1)
        mode: Operation

    class Blink(wiring.Component):
        lamp: Out(Lamp)

        def elaborate(self, platform):
            m = Module()
            m.d.sync += [self.lamp.on.eq(~self.lamp.on), self.lamp.mode.eq(Operation.POP)]
            return m

    async def testbench(ctx):
        await ctx.tick().repeat(2)

    dut = Blink()
    path = traced(dut, testbench, {"lamp": dut.lamp}, tmp_path / "a.vcd", period=2e-9, root="blink")
    assert (
        path.read_text()
        == """\
$timescale 1 ns $end
$scope module blink $end
$var wire 1 ! clk $end
$scope module lamp $end
$var wire 1 " on $end
$var string 1 # mode $end
$var wire 2 $ mode_bits $end
$upscope $end
$upscope $end
$enddefinitions $end
#0
$dumpvars
1!
0"
sIDLE #
b0 $
$end
#1
0!
#2
1!
1"
b10 $
sPOP #
#3
0!
#4
1!
0"
#5
0!
#6
"""
    )


def test_vcdvcd_reads_the_numbers(tmp_path):
    wave = VCDVCD(str(record(tmp_path / "a.vcd")))
    # Steps of 1, 2, 3 and 4, five cycles each; cycle n shows what its edge finds.
    counts = [0, 1, 2, 3, 4, 5, 7, 9, 11, 13, 15, 18, 21, 24, 27, 30, 34, 38, 42, 46, 50]
    assert [int(wave["demo.count"][10 * cycle + 5], 2) for cycle in range(21)] == counts
    assert [
        int(wave["demo.items.payload.operation_bits"][10 * cycle], 2) for cycle in range(21)
    ] == [count % 4 for count in counts]
    assert [int(wave["demo.clk"][time]) for time in (0, 5, 10, 15)] == [1, 0, 1, 0]


def test_a_pipe_without_a_reader_is_an_error():
    assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN


def test_pywellen_reads_the_text(tmp_path):
    signals = variables(record(tmp_path / "a.vcd"))
    assert signals["demo.items.payload.operation"].tv[:6] == [
        (0, "IDLE"),
        (10, "PUSH"),
        (20, "POP"),
        (30, "0x3"),
        (40, "IDLE"),
        (50, "PUSH"),
    ]
    assert signals["demo.phase"].tv[:3] == [(0, "EVEN"), (10, "ODD"), (20, "EVEN")]
    assert signals["demo.items.payload.change.more.1"].tv[:3] == [(0, 0), (20, 1), (40, 2)]
    assert signals["demo.low.1"].tv[:3] == [(0, 0), (40, 1), (70, 2)]
    assert list(signals["demo.mark"].tv) == [(0, 0), (50, 5), (100, 3), (150, 1)]


def test_a_failing_run_still_leaves_its_waveform(tmp_path):
    dut = Counter()

    async def testbench(ctx):
        ctx.set(dut.step, 1)
        await ctx.tick().repeat(3)
        raise AssertionError("wrong")

    with pytest.raises(AssertionError, match=r"^wrong$"):
        traced(dut, testbench, {"count": dut.count}, tmp_path / "a.vcd")
    assert list(variables(tmp_path / "a.vcd")["top.count"].tv) == [
        (0, 0),
        (10, 1),
        (20, 2),
        (30, 3),
    ]


@pytest.mark.parametrize(
    ("period", "scale"),
    [
        (1e-8, ("1 ns", 10)),
        (2e-8, ("10 ns", 2)),
        (4e-8, ("10 ns", 4)),
        (1e-6, ("100 ns", 10)),
        (1e-9, ("100 ps", 10)),
        (2.5e-9, ("10 ps", 250)),
        (1e-3, ("100 us", 10)),
        (2e-15, ("1 fs", 2)),
        (2, ("1 s", 2)),
    ],
)
def test_timescales_fit_the_clock(period, scale):
    assert timescale(period) == scale


def test_an_odd_clock_period_has_no_timescale():
    with pytest.raises(ValueError, match=r"^a clock period of 1e-15 s is not a multiple of 2 fs$"):
        timescale(1e-15)


def test_what_cannot_be_traced_is_named():
    dut = idle_counter()
    with pytest.raises(
        TypeError, match=r"^trace a\.b is an expression: give it a signal of its own$"
    ):
        flatten({"a": {"b": dut.count + 1}})
    with pytest.raises(TypeError, match=r"^trace a is 'text', which has no waveform$"):
        flatten({"a": "text"})
    for name in ("", "a.b", "a b"):
        with pytest.raises(ValueError, match=r"^a trace cannot be called '"):
            flatten({name: dut.count})


def test_a_component_is_traced_with_all_its_ports():
    assert [".".join(leaf.path) for leaf in flatten({"dut": idle_counter()})] == [
        "dut.step",
        "dut.items.payload.operation",
        "dut.items.payload.change.by",
        "dut.items.payload.change.more.0",
        "dut.items.payload.change.more.1",
        "dut.items.valid",
        "dut.items.ready",
        "dut.count",
    ]


SAVE_FILE = """\
[dumpfile] "/waveforms/waves/a.vcd"
[savefile] "/waveforms/kept/a.gtkw"
[size] 1600 900
[timestart] 0
*-5.058894 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1
[signals_width] 260
[sst_expanded] 0
[treeopen] demo.
@22
+{clk} demo.clk
@800200
-in
@24
+{step} demo.in.step[3:0]
@1000200
-in
@800200
-items
-payload
@820
+{operation} demo.items.payload.operation
@800200
-change
@22
+{by} demo.items.payload.change.by[3:0]
@800200
-more
@22
+{0} demo.items.payload.change.more.0[1:0]
+{1} demo.items.payload.change.more.1[1:0]
@1000200
-more
-change
-payload
@22
+{valid} demo.items.valid
+{ready} demo.items.ready
@1000200
-items
@22
+{count} demo.count[69:0]
@820
+{phase} demo.phase
@800200
-low
@22
+{0} demo.low.0[1:0]
+{1} demo.low.1[1:0]
@1000200
-low
@22
+{mark} demo.mark[2:0]
"""


def test_the_save_file_shows_the_traces_in_groups(tmp_path):
    path = tmp_path / "kept" / "a.gtkw"
    path.parent.mkdir()
    write_save_file(
        path,
        tmp_path / "waves" / "a.vcd",
        traces(idle_counter(), Signal(3, name="mark")),
        period=PERIOD,
        root="demo",
    )
    assert path.read_text() == SAVE_FILE


@pytest.mark.parametrize(
    ("before", "is_kept"),
    [
        ("[*] GTKWave Analyzer v3.3.116 (w)1999-2023 BSI\n", True),
        ('[dumpfile] "/home/me/a.vcd"\n', True),
        ('[dumpfile] "/waveforms/a.vcd"\n[savefile] "/waveforms/a.gtkw"\n', False),
    ],
)
def test_only_a_save_file_that_was_written_here_is_replaced(tmp_path, before, is_kept):
    """One that GTKWave has saved has somebody's view."""
    path = tmp_path / "a.gtkw"
    path.write_text(before)
    shown = traces(idle_counter(), Signal(3))
    write_save_file(path, tmp_path / "a.vcd", shown, period=PERIOD, root="demo")
    assert (path.read_text() == before) == is_kept


def story(dut, mark):
    """Describes a view: the operation as text while there is an item, an event that happens, and
    one that does not.
    """

    def named(valid, operation):
        return (
            f"next {Operation(operation).name}"
            if valid and operation < 3
            else None
            if valid
            else "-"
        )

    tree = {
        **traces(dut, mark),
        "text": Text(named, [dut.items.valid, dut.items.payload.operation]),
    }
    return View(
        tree,
        ["text", "items"],
        [
            Mark("never", [dut.count[69]]),
            Mark("six", [dut.count, mark], lambda count, number: count == 6 and number),
            Mark("odd", [dut.phase]),
        ],
        120,
    )


def record_story(path):
    dut, mark = Counter(), Signal(3)

    async def testbench(ctx):
        ctx.set(dut.step, 1)
        ctx.set(mark, 1)
        await ctx.tick().repeat(12)

    simulator = Simulator(dut, engine=PysimEngine)
    simulator.add_clock(PERIOD)
    simulator.add_testbench(testbench)
    tracer = Tracer(simulator, story(dut, mark), path, period=PERIOD, root="demo")
    simulator.run()
    tracer.close()
    return tracer, dut, mark


def test_text_is_worked_out_of_several_signals(tmp_path):
    record_story(tmp_path / "a.vcd")
    shown = variables(tmp_path / "a.vcd")["demo.text"]
    # The counter is the cycle: 4 to 7 and 12 have an item, whose operation is the two low bits; 3
    # has no name.
    assert list(shown.tv) == [
        (0, "-"),
        (40, "next IDLE"),
        (50, "next PUSH"),
        (60, "next POP"),
        (80, "-"),
        (120, "next IDLE"),
    ]


def test_text_in_a_scope_is_worked_out_of_the_upper_bits_of_a_signal(tmp_path):
    dut = Counter()

    async def testbench(ctx):
        ctx.set(dut.step, 1)
        await ctx.tick().repeat(12)

    shown = {"scope": {"inner": {"text": Text(lambda upper: f"upper {upper}", [dut.count[2:4]])}}}
    path = traced(dut, testbench, shown, tmp_path / "a.vcd")
    assert list(variables(path)["top.scope.inner.text"].tv) == [
        (0, "upper 0"),
        (40, "upper 1"),
        (80, "upper 2"),
        (120, "upper 3"),
    ]


def test_an_instruction_is_spelled_with_its_address_if_that_is_traced():
    valid, word, pc = Signal(), Signal(64), Signal(32)
    branch = encode("BRA", "i", target=0x20)
    with_address, alone = instruction(valid, word, pc), instruction(valid, word)
    assert with_address.signals == (valid, word, pc) and alone.signals == (valid, word)
    assert with_address.decode(1, branch, 0x48) == "0048 BRA 0x70"
    assert alone.decode(1, branch) == "BRA 0x28"
    assert with_address.decode(0, branch, 0x48) is None and alone.decode(0, branch) is None


def test_the_clock_runs_to_the_last_cycle_when_nothing_else_does(tmp_path):
    dut = Counter()

    async def testbench(ctx):
        ctx.set(dut.step, 1)
        await ctx.tick()
        ctx.set(dut.step, 0)
        await ctx.tick().repeat(9)

    path = traced(dut, testbench, {"count": dut.count}, tmp_path / "a.vcd")
    assert [time for time, _ in variables(path)["top.count"].tv] == [0, 10]
    assert picture.Waveform(path).cycles == 11


def test_a_view_begins_at_its_first_event_and_closes_what_is_beside_the_story(tmp_path):
    tracer, dut, mark = record_story(tmp_path / "a.vcd")
    assert tracer.marked_cycles == {"six": 6, "odd": 1}
    write_save_file(
        tmp_path / "a.gtkw",
        tmp_path / "a.vcd",
        story(dut, mark),
        period=PERIOD,
        root="demo",
        marked_cycles=tracer.marked_cycles,
    )
    lines = (tmp_path / "a.gtkw").read_text().splitlines()
    assert lines[3] == "[timestart] 20"
    assert lines[4].split()[1:4] == ["60", "60", "10"]
    assert lines[5:7] == ["[markername] Asix", "[markername] Bodd"]
    shown = [line.lstrip("-") for line in lines if line.startswith(("-", "+"))]
    assert shown[:3] == ["+{clk} demo.clk", "+{text} demo.text", "items"]
    open_, closed = "@800200", "@c00200"
    flags = [before for before, line in pairwise(lines) if line in ("-items", "-in", "-low")]
    assert flags == [open_, "@1000200", closed, "@1401200", closed, "@1401200"]


needs_fst = pytest.mark.skipif(
    shutil.which("vcd2fst") is None, reason="vcd2fst of GTKWave is not installed"
)


@needs_fst
def test_an_fst_says_what_the_vcd_says(tmp_path):
    record_story(tmp_path / "a.vcd")
    tracer, dut, mark = record_story(tmp_path / "a.fst")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.fst", "a.vcd"]
    vcd, fst = variables(tmp_path / "a.vcd"), variables(tmp_path / "a.fst")
    assert vcd.keys() == fst.keys()
    for name, variable in vcd.items():
        assert list(fst[name].tv) == list(variable.tv)
    save = save_file_of(tmp_path / "a.fst")
    assert save is not None and save == tmp_path / "a.fst.gtkw"
    write_save_file(
        save,
        tmp_path / "a.fst",
        story(dut, mark),
        period=PERIOD,
        root="demo",
        marked_cycles=tracer.marked_cycles,
    )
    assert '[dumpfile] "/waveforms/a.fst"' in save.read_text()


def test_an_fst_without_its_tool_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        CommandError, match="needs vcd2fst, which comes with GTKWave and is not installed"
    ):
        FstFile(tmp_path / "a.fst")
    assert list(tmp_path.iterdir()) == []


def test_an_fst_whose_tool_fails_leaves_nothing(tmp_path, monkeypatch):
    tool = tmp_path / "vcd2fst"
    tool.write_text("#!/bin/sh\ncat > /dev/null\necho full >&2\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    file = FstFile(tmp_path / "a.fst")
    file.write(b"#0\n")
    with pytest.raises(CommandError, match=r"a\.fst: vcd2fst: full"):
        file.close()
    assert list(tmp_path.iterdir()) == [tool]


def test_an_fst_appears_when_it_is_closed_and_is_what_the_tool_made(tmp_path, monkeypatch):
    tool, path = tmp_path / "vcd2fst", tmp_path / "a.fst"
    tool.write_text('#!/bin/sh\ntr a-z A-Z > "$2"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    file = FstFile(path)
    for part in (b"some ", b"text"):
        file.write(part)
    assert not path.exists()
    file.close()
    assert path.read_bytes() == b"SOME TEXT"
    assert sorted(tmp_path.iterdir()) == [path, tool]
    file = FstFile(path)
    file.write(b"other")
    file.discard()
    assert path.read_bytes() == b"SOME TEXT"
    assert sorted(tmp_path.iterdir()) == [path, tool]


def test_an_fst_that_is_no_file_is_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "a.fst")
    tool = tmp_path / "vcd2fst"
    tool.write_text("")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match=r"a\.fst: an FST is written to a file$"):
        FstFile(tmp_path / "a.fst")


def viewer(folder, name, script="exit 0"):
    """Creates a program that records its arguments."""
    program = folder / name
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/{name}.called\n{script}\n')
    program.chmod(0o755)


def test_a_waveform_that_is_none_is_refused_by_the_command_that_was_called(capsys):
    with pytest.raises(SystemExit) as ended:
        waves(["flaw"])
    error = capsys.readouterr().err
    assert ended.value.code == 2 and error.count("\n") == 1
    assert error.startswith(
        "python -m sim.waves: flaw is neither a .vcd or .fst file nor a testbench; there are "
    )


def test_the_command_opens_a_waveform_by_its_save_file(tmp_path, monkeypatch, capsys):
    waveform = tmp_path / "a.vcd"
    record(waveform)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(SystemExit) as ended:
        waves([str(waveform), "--viewer", "surfer"])
    assert ended.value.code == 2
    assert "surfer is not installed" in capsys.readouterr().err
    viewer(tmp_path, "surfer")
    assert waves([str(waveform), "--viewer", "surfer"]) == 0
    assert (tmp_path / "surfer.called").read_text() == f"{waveform}\n"
    viewer(tmp_path, "gtkwave")
    assert waves([str(waveform), "--open"]) == 0
    assert (tmp_path / "gtkwave.called").read_text() == f"{waveform}\n"
    waveform.with_suffix(".gtkw").write_text("")
    assert waves([str(waveform), "--open"]) == 0
    assert (tmp_path / "gtkwave.called").read_text() == f"{waveform.with_suffix('.gtkw')}\n"
    with pytest.raises(SystemExit):
        waves([str(tmp_path / "none.vcd"), "--open"])
    assert "none.vcd: No such file or directory" in capsys.readouterr().err


def test_a_viewer_that_fails_is_an_error_with_the_place_of_the_waveform(
    tmp_path, monkeypatch, capsys
):
    record(tmp_path / "a.vcd")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.chdir(tmp_path)
    no_display = 'echo "Could not initialize GTK!  Is DISPLAY env var/xhost set?" >&2; exit 0'
    for display, script, reason in (
        (None, no_display, "gtkwave cannot open a window: DISPLAY is not set"),
        (":77", no_display, "gtkwave cannot open a window: there is no display :77"),
        (":77", 'echo "first\nno memory" >&2; exit 3', "gtkwave no memory"),
        (":77", "exit 3", "gtkwave has ended with exit code 3"),
        (":77", "kill -9 $$", "gtkwave was ended by SIGKILL"),
    ):
        viewer(tmp_path, "gtkwave", script)
        if display is None:
            monkeypatch.delenv("DISPLAY", raising=False)
        else:
            monkeypatch.setenv("DISPLAY", display)
        with pytest.raises(SystemExit) as ended:
            waves(["a.vcd", "--open"])
        assert ended.value.code == 2
        error = f"python -m sim.waves: {reason}; the waveform is a.vcd\n"
        assert capsys.readouterr().err == error
    (tmp_path / "gtkwave").write_text("#!/nowhere\n")
    with pytest.raises(SystemExit):
        waves(["a.vcd", "--open"])
    assert "gtkwave: No such file" in capsys.readouterr().err
    viewer(tmp_path, "gtkwave", "echo a warning >&2")
    assert waves(["a.vcd", "--open"]) == 0
    assert capsys.readouterr().err == "a warning\n"


def test_a_save_file_is_refused_with_the_name_of_its_waveform(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        waves(["a.gtkw", "--open"])
    assert "a.gtkw is a save file; give the waveform, a.vcd\n" in capsys.readouterr().err
    Path("a.fst").write_bytes(b"")
    with pytest.raises(SystemExit):
        waves(["a.gtkw"])
    assert "give the waveform, a.fst\n" in capsys.readouterr().err


def test_a_picture_shows_bits_numbers_and_text(tmp_path, monkeypatch):
    path, sources = record(tmp_path / "a.vcd"), []
    render = picture.wavedrom.render
    monkeypatch.setattr(
        picture.wavedrom, "render", lambda source: sources.append(source) or render(source)
    )
    rows = [
        Row.parse(text)
        for text in (
            "items.valid",
            "items.payload.operation@items.valid=op",
            "count:dec",
            "mark",
            "low.0",
            "low.1:bin",
            "phase",
        )
    ]
    svg = draw(path, rows, 2, 8, "Counting")
    assert [json.loads(source) for source in sources] == [
        {
            "signal": [
                {"name": "clk", "wave": "p......."},
                {"name": "valid", "wave": "0.1..0.1"},
                {"name": "op", "wave": "x.345x.4", "data": ["IDLE", "PUSH", "0x3", "PUSH"]},
                {
                    "name": "count",
                    "wave": "========",
                    "data": ["2", "3", "4", "5", "7", "9", "11", "13"],
                },
                {"name": "mark", "wave": "=..=....", "data": ["0", "5"]},
                [
                    "low",
                    {
                        "name": "0",
                        "wave": "========",
                        "data": ["2", "3", "0", "1", "3", "1", "3", "1"],
                    },
                    {"name": "1", "wave": "=.=..=.=", "data": ["00", "01", "10", "11"]},
                ],
                {"name": "phase", "wave": "6767....", "data": ["EVEN", "ODD", "EVEN", "ODD"]},
            ],
            "head": {"tick": 2, "text": "Counting"},
            "config": {"hscale": 1},
        }
    ]
    assert svg.startswith("<svg ")
    assert svg == draw(path, rows, 2, 8, "Counting")
    for text in ("Counting", "PUSH", "IDLE", "valid", "op", "11"):
        assert f">{text}<" in svg


def test_a_picture_shows_a_number_with_its_sign(tmp_path, monkeypatch):
    path, sources = record(tmp_path / "a.vcd"), []
    render = picture.wavedrom.render
    monkeypatch.setattr(
        picture.wavedrom, "render", lambda source: sources.append(source) or render(source)
    )
    draw(path, [Row.parse("low.0:signed")], 2, 8)
    row = json.loads(sources[0])["signal"][-1]
    assert row["data"] == ["-2", "-1", "0", "1", "-1", "1", "-1", "1"]


def test_the_picture_command_writes_an_svg(tmp_path, capsys):
    path, target = record(tmp_path / "a.vcd"), tmp_path / "a.svg"
    assert picture.main([str(path), "-o", str(target), "--cycles", "4", "count", "phase"]) == 0
    assert target.read_text() == draw(path, [Row("count"), Row("phase")], 0, 4)
    assert picture.main([str(path), "-o", str(tmp_path / "b.svg"), "cuont"]) == 2
    assert capsys.readouterr().err == (
        f"python -m sim.waves.picture: {path}: no signal cuont; there is count\n"
    )
    with pytest.raises(SystemExit, match="2"):
        picture.main([str(path), "-o", str(tmp_path / "b.svg"), "count:oct"])
    assert capsys.readouterr().err == (
        "python -m sim.waves.picture: argument SIGNAL[@WHEN][:FORMAT][=LABEL]: "
        "no format oct; there are hex, dec, signed, bin\n"
    )
    assert not (tmp_path / "b.svg").exists()


def test_pictures_that_cannot_be_drawn_say_why(tmp_path):
    path = record(tmp_path / "a.vcd")
    with pytest.raises(PictureError, match=r"a\.vcd: has cycles 0 to 20, not 15 to 24$"):
        draw(path, [Row("count")], 15, 10)
    with pytest.raises(PictureError, match=r"none\.vcd: No such file or directory$"):
        draw(tmp_path / "none.vcd", [Row("count")], 0, 1)
    (tmp_path / "bad.vcd").write_text("no waveform")
    with pytest.raises(PictureError, match=r"bad\.vcd: not a waveform: "):
        draw(Path(tmp_path / "bad.vcd"), [Row("count")], 0, 1)
    for first, cycles, wanted in (
        (-1, 2, "-1 to 0"),
        (0, 22, "0 to 21"),
        (20, 2, "20 to 21"),
        (21, 0, "21"),
    ):
        with pytest.raises(PictureError, match=f"has cycles 0 to 20, not {wanted}$"):
            draw(path, [Row("count")], first, cycles)
    with pytest.raises(PictureError, match=r"^--cycles 0: at least 1$"):
        draw(path, [Row("count")], 0, 0)
    assert draw(path, [Row("count")], 20, 1) and draw(path, [Row("count")], 0, 21)


def clock_only(path, edges):
    """Writes a waveform of a clock with this number of rising edges, 10 ns apart."""
    times = "".join(f"#{10 * edge}\n1!\n#{10 * edge + 5}\n0!\n" for edge in range(edges))
    path.write_text(
        "$timescale 1ns $end\n$scope module top $end\n$var wire 1 ! clk $end\n$upscope $end\n"
        f"$enddefinitions $end\n{times}"
    )
    return path


def test_a_waveform_has_as_many_cycles_as_its_clock_has_rising_edges(tmp_path):
    for edges in (2, 5):
        wave = picture.Waveform(clock_only(tmp_path / "a.vcd", edges))
        assert (wave.cycles, wave.names) == (edges, ("clk",))
    with pytest.raises(PictureError, match=r"a\.vcd: clk has no whole cycle$"):
        picture.Waveform(clock_only(tmp_path / "a.vcd", 1))


@pytest.mark.parametrize(
    ("value", "number", "width", "label"),
    [
        (9, "hex", 8, "9"),
        (10, "hex", 8, "0xa"),
        (10, "dec", 8, "10"),
        (5, "bin", 4, "0101"),
        (127, "signed", 8, "127"),
        (128, "signed", 8, "-128"),
        (255, "signed", 8, "-1"),
        ("IDLE", "dec", 2, "IDLE"),
    ],
)
def test_a_bubble_shows_a_number_in_its_format(value, number, width, label):
    assert picture._label(value, number, width) == label


def test_a_picture_is_as_wide_as_its_widest_label_needs_up_to_a_limit(tmp_path, monkeypatch):
    """A cycle has 40 pixels, a character 6.6 and the edges 12."""
    dut, scales = Counter(), []

    async def testbench(ctx):
        ctx.set(dut.step, 1)
        await ctx.tick().repeat(4)

    shown = {
        f"a{length}": Text(lambda low, length=length: "ab"[low] * length, [dut.count[:1]])
        for length in (4, 5, 10, 11, 40)
    }
    shown["slow"] = Text(lambda upper: "cd"[upper] * 10, [dut.count[1:2]])
    path = traced(dut, testbench, shown, tmp_path / "a.vcd")
    render = picture.wavedrom.render
    monkeypatch.setattr(
        picture.wavedrom,
        "render",
        lambda source: scales.append(json.loads(source)["config"]["hscale"]) or render(source),
    )
    for name in ("a4", "a5", "a10", "a11", "a40", "slow"):
        draw(path, [Row(name)], 0, 4)
    assert scales == [1, 2, 2, 3, 4, 1]


def test_rows_of_a_scope_are_a_group_if_they_are_several(tmp_path, monkeypatch):
    sources = []
    render = picture.wavedrom.render
    monkeypatch.setattr(
        picture.wavedrom, "render", lambda source: sources.append(source) or render(source)
    )
    names = ("count", "phase", "low.0", "items.valid", "items.ready", "low.1")
    draw(record(tmp_path / "a.vcd"), [Row(name) for name in names], 0, 2)
    shown = json.loads(sources[0])
    assert [row[0] if isinstance(row, list) else row["name"] for row in shown["signal"]] == [
        "clk",
        "count",
        "phase",
        "0",
        "items",
        "1",
    ]
    assert [row["name"] for row in shown["signal"][4][1:]] == ["valid", "ready"]
    assert shown["head"] == {"tick": 0}


def test_a_signal_shows_what_it_is_before_the_first_cycle(tmp_path):
    dut = Signal(8, init=0xA5)
    phase = Signal(Phase, init=Phase.ODD)
    module = Module()
    module.d.sync += dut.eq(dut + 1)
    lamp, marked = Signal(init=1), Signal(init=1)
    module.d.sync += [phase.eq(phase), lamp.eq(0)]

    async def testbench(ctx):
        await ctx.tick()

    simulator = Simulator(module, engine=PysimEngine)
    simulator.add_clock(PERIOD)
    simulator.add_testbench(testbench)
    view = View(
        {"value": dut, "upper": [dut[4:]], "phase": phase, "lamp": lamp},
        marks=[Mark("first", [marked]), Mark("odd", [phase, dut], lambda odd, value: odd)],
    )
    tracer = Tracer(simulator, view, tmp_path / "a.vcd", period=PERIOD)
    simulator.run()
    tracer.close()
    shown = variables(tmp_path / "a.vcd")
    assert list(shown["top.value"].tv) == [(0, 0xA5), (10, 0xA6)]
    assert list(shown["top.upper.0"].tv) == [(0, 0xA)]
    assert list(shown["top.phase"].tv) == [(0, "ODD")]
    assert list(shown["top.lamp"].tv) == [(0, 1), (10, 0)]
    assert tracer.marked_cycles["odd"] == 0


def test_a_picture_may_show_one_cycle(tmp_path):
    texts = re.findall(r">(\w+)<", draw(record(tmp_path / "a.vcd"), [Row("count")], 7, 1))
    assert sorted(texts) == ["9", "clk", "count"]


def test_values_of_signed_fields_have_names_and_formats_by_their_bits():
    class Step(enum.Enum, shape=signed(3)):
        BACK = -1
        HERE = 0
        FAR_BACK = -4

    fields = Signal(data.StructLayout({"offset": signed(5), "none": 0, "count": 5}))
    leaves: Any = flatten(
        {"a": fields, "b": Trace(fields, "dec"), "offset": fields.offset, "step": Signal(Step)}
    )
    assert [(".".join(leaf.path), leaf.start, leaf.width, leaf.format) for leaf in leaves] == [
        ("a.offset", 0, 5, "signed"),
        ("a.count", 5, 5, "hex"),
        ("b.offset", 0, 5, "dec"),
        ("b.count", 5, 5, "dec"),
        ("offset", 0, 5, "signed"),
        ("step", 0, 3, "signed"),
    ]
    assert leaves[-1].names == {7: "BACK", 0: "HERE", 4: "FAR_BACK"}
    assert leaves[0].names is None


def test_a_signal_that_is_not_there_is_answered_by_three_that_are_near(tmp_path):
    dut = Counter()

    async def testbench(ctx):
        await ctx.tick()

    shown = dict.fromkeys(("counter", "count_a", "count_b", "count_c", "zzz"), dut.count)
    wave = picture.Waveform(traced(dut, testbench, shown, tmp_path / "a.vcd"))
    with pytest.raises(PictureError, match=r"no signal count; there is (count\w+(, |$)){3}$"):
        wave.variable("count")
    with pytest.raises(PictureError, match=r"no signal 0123$"):
        wave.variable("0123")


def test_a_picture_needs_a_file_to_be_written_to(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        picture.main([str(record(tmp_path / "a.vcd")), "count"])
    assert capsys.readouterr().err.endswith("required: -o/--output\n")


def test_a_text_is_worked_out_only_when_a_signal_of_it_has_changed(tmp_path):
    dut, asked = Counter(), []

    async def testbench(ctx):
        ctx.set(dut.step, 1)
        await ctx.tick().repeat(9)

    shown = {
        "slow": Text(lambda upper: asked.append(upper) or str(upper), [dut.count[2:4]]),
        "fast": dut.count,
    }
    traced(dut, testbench, shown, tmp_path / "a.vcd")
    assert asked == [0, 1, 2]
