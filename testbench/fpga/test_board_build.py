"""Bitstreams of boards: PLLs, pins and clocks, calls of the tools and messages; Verilog for other
tools.
"""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from amaranth.build.run import LocalBuildProducts
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rtl.fpga.block_memory import BlockMemory
from rtl.fpga.boards import BOARDS, board_top
from rtl.fpga.flat import Flat
from rtl.fpga.pll import find_pll
from sim.fpga import bitstream
from sim.fpga import command as fpga
from sim.fpga.bitstream import PadsAlone, constraints
from sim.fpga.ecp5 import missing_tool
from sim.fpga.verilog import verilog_of

CONSTRAINTS = Path(__file__).parents[2] / "constraints"
MISSING = missing_tool()
needs_tools = pytest.mark.skipif(MISSING is not None, reason=f"sim.fpga: {MISSING}")


# Clocks


@pytest.mark.parametrize(
    ("source", "wanted"), [(25e6, 50e6), (25e6, 45e6), (25e6, 62.5e6), (48e6, 48e6), (100e6, 50e6)]
)
def test_a_frequency_that_a_pll_makes_exactly(source, wanted):
    assert find_pll(source, wanted).frequency == wanted


@settings(max_examples=60)
@given(st.floats(8e6, 400e6), st.floats(3.125e6, 400e6))
def test_a_pll_stays_within_its_ranges(source, wanted):
    assume(source >= 10e6)  # phases are compared at 10 MHz at least
    found = find_pll(source, wanted)
    assert found.oscillator == pytest.approx(source * found.return_divider / found.input_divider)
    assert found.oscillator == pytest.approx(found.frequency * found.clock_divider)
    assert 399.999e6 <= found.oscillator <= 800.001e6
    assert 9.999e6 <= source / found.input_divider <= 400.001e6
    assert 3.124e6 <= found.frequency <= 400.001e6
    assert all(
        1 <= divider <= most
        for divider, most in (
            (found.input_divider, 128),
            (found.return_divider, 128),
            (found.clock_divider, 128),
        )
    )


@pytest.mark.parametrize(
    ("source", "wanted", "message"),
    [
        (25e6, 500e6, "makes 500 MHz of 25 MHz: it takes 8 to 400 MHz and makes 3.125 to 400 MHz"),
        (4e6, 50e6, "makes 50 MHz of 4 MHz: it takes 8 to 400 MHz"),
        (8e6, 50e6, "no PLL of an ECP5 makes 50 MHz of 8 MHz"),
    ],
)
def test_a_frequency_that_no_pll_makes(source, wanted, message):
    with pytest.raises(ValueError, match=message):
        find_pll(source, wanted)


# Pins


@pytest.mark.parametrize("board", BOARDS)
def test_the_constraints_are_what_the_platform_says(board):
    assert (CONSTRAINTS / f"{board}.lpf").read_text() == constraints(BOARDS[board])


@pytest.mark.parametrize("board", BOARDS)
def test_every_pin_and_clock_of_a_board_is_explained(board):
    page = (CONSTRAINTS / f"{board}.md").read_text()
    text = (CONSTRAINTS / f"{board}.lpf").read_text()
    sites = {line.split('"')[3] for line in text.splitlines() if line.startswith("LOCATE")}
    named = {
        word.strip("`")
        for line in page.splitlines()
        if line.startswith("|")
        for word in line.replace("|", " ").replace(",", " ").split()
    }
    assert sites <= named
    assert f"{BOARDS[board].clock / 1e6:g} MHz" in page


@pytest.mark.parametrize(
    ("board", "options", "found"),
    [
        ("ulx3s-85f", {}, {"sdram", "hdmi"}),
        ("ulx3s-85f", {"memory": 1 << 16}, {"hdmi"}),
        ("ulx3s-85f", {"video": False}, {"sdram"}),
        ("ulx3s-85f", {"memory": 1 << 16, "video": False}, set()),
        ("ulx3s-25f", {}, {"sdram"}),
        ("ulx3s-25f", {"memory": 1 << 16}, set()),
        ("ulx3s-25f", {"video": True}, {"sdram", "hdmi"}),
        ("ecpix5-85f", {}, set()),
    ],
)
def test_memory_and_video_of_a_board_can_be_chosen(board, options, found):
    top = board_top(BOARDS[board], make=PadsAlone, **options)
    files = top.platform.prepare(top, "top", debug_verilog=False).files
    assert {name for name in ("sdram", "hdmi") if f"{name}_0__" in files["top.lpf"]} == found


# Command

FAKE = """\
import json, pathlib, sys
arguments = sys.argv[1:]
if "-V" in arguments or "--version" in arguments:
    print("tool 1.2")
elif "top.ys" in arguments:
    with pathlib.Path("calls").open("a") as calls:
        calls.write("synthesis\\n")
    cells, nets = {}, {}
    for bit, (name, hidden, kind, net, inputs) in enumerate((
            ("$abc$1", 1, "LUT4", "machine.sm.core.fetch$12.tags.q", []),
            ("$abc$2", 1, "LUT4", None, []),           # read by the register alone
            ("$dff$1", 1, "TRELLIS_FF", "machine.link.content", [1]),
            ("machine.sm.core.fetch.rows.0.0", 0, "DP16KD", None, []),
            ("$alu$1", 1, "CCU2C", "machine.sm.core.stack.a.b", []),
            ("clock.pll", 0, "EHXPLLL", "clock.pll_clock", []))):
        cells[name] = {"hide_name": hidden, "type": kind, "port_directions": {"I": "input", "O": "output"},
                       "connections": {"I": inputs, "O": [bit]}}
        if net is not None:
            nets[net] = {"hide_name": 0, "bits": [bit]}
    pathlib.Path("top.json").write_text(json.dumps({"modules": {"top": {"cells": cells, "netnames": nets}}}))
elif "--textcfg" in arguments:
    seed = int(arguments[arguments.index("--seed") + 1])
    pathlib.Path("top.config").write_text(f"seed {seed}")
    clock = "$glbnet$clock.pll_clock"
    steps = [{"type": "clk-to-q", "delay": 1, "from": {"cell": "$dff$0", "port": "Q"}},
             {"type": "routing", "delay": 1, "net": "machine.a", "from": {"cell": "$dff$0"},
               "to": {"cell": "$dff$1", "port": "DI"}}]
    asked = {"slower": 37.5, "faster": 75}.get(pathlib.Path.cwd().name)
    wanted = asked if asked else 45 if "--25k" in arguments else 40
    pathlib.Path("report.json").write_text(json.dumps({
        "fmax": {"clk25_0__io": {"achieved": 20 if seed == 4 else 300, "constraint": 25},
                  clock: {"achieved": 27.0 + 10 * min(seed, 4), "constraint": wanted}},
        "utilization": {"TRELLIS_COMB": {"used": 7, "available": 99}, "DCUA": {"used": 0, "available": 2}},
        "critical_paths": [{"from": f"posedge {clock}", "to": f"posedge {clock}", "path": steps}]}))
elif "--bit" in arguments:
    pathlib.Path("top.bit").write_text(pathlib.Path("top.config").read_text())
else:
    sys.exit("what?")
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Fake tools that return at once, in their working folder; boards without a machine."""
    (tmp_path / "fake.py").write_text(FAKE)
    for variable in ("YOSYS", "NEXTPNR_ECP5", "ECPPACK"):
        monkeypatch.setenv(variable, f"{sys.executable} {tmp_path / 'fake.py'}")
    monkeypatch.setattr(fpga, "board_top", partial(board_top, make=PadsAlone))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_bitstream_is_that_of_the_first_seed_that_is_fast_enough(tools, capsys):
    assert (
        fpga.main(["ulx3s-85f", "--preset", "small", "--seeds", "1,2,3", "--json", "out.json"]) == 0
    )
    output, errors = capsys.readouterr()
    assert [line.partition("s  ")[2] for line in errors.splitlines()] == [
        "ulx3s-85f: elaboration",
        "ulx3s-85f: synthesis",
        "ulx3s-85f: 2 LUT4, 1 FF",
        "ulx3s-85f: placement and routing, seed 1",
        "ulx3s-85f: 37.0 MHz",
        "ulx3s-85f: placement and routing, seed 2",
        "ulx3s-85f: 47.0 MHz",
        "ulx3s-85f: bitstream",
    ]
    assert output.startswith("ulx3s-85f, preset small, on LFE5U-85F, BG381, speed grade 6\n")
    assert "  40.0 MHz is met\n" in output
    result = json.loads((tools / "out.json").read_text())
    assert (result["clock_mhz"], result["fmax_mhz"], result["met"]) == (40, 47, True)
    assert result["clocks"] == {
        "clk25_0__io": {"fmax_mhz": 300, "wanted_mhz": 25},
        "clock.pll_clock": {"fmax_mhz": 47, "wanted_mhz": 40},
    }
    nothing = dict.fromkeys(bitstream.COLUMNS, 0)
    assert result["units"] == {
        "machine.link": nothing | {"lut4": 1, "ff": 1},
        "machine.sm.core.fetch": nothing | {"lut4": 1, "dp16kd": 1},
        "machine.sm.core.stack": nothing | {"ccu2c": 1},
    }
    assert (result["lut4"], result["used"], result["available"]) == (
        2,
        {"TRELLIS_COMB": 7},
        {"TRELLIS_COMB": 99},
    )
    assert result["tools"] == dict.fromkeys(("yosys", "nextpnr-ecp5", "ecppack"), "tool 1.2")
    assert [seed["seed"] for seed in result["seeds"]] == [1, 2]
    assert "from machine.a to machine.link.content: " in output
    folder = tools / "build" / "fpga" / "ulx3s-85f-small"
    assert (folder / "top.bit").read_text() == "seed 2"
    assert "chformal -remove" in (folder / "top.ys").read_text()
    assert (
        (folder / "top.lpf")
        .read_text()
        .startswith((CONSTRAINTS / "ulx3s-85f.lpf").read_text()[:200])
    )

    assert output.splitlines()[-1] == (
        "program it    python -m sim.fpga ulx3s-85f --load build/fpga/ulx3s-85f-small/top.bit"
    )


def test_seeds_are_tried_until_one_is_fast_enough(tools, capsys):
    assert fpga.main(["ulx3s-25f"]) == 0
    output, errors = capsys.readouterr()
    assert [line.partition("25f: ")[2] for line in errors.splitlines()][3:] == [
        "placement and routing, seed 1",
        "37.0 MHz",
        "placement and routing, seed 2",
        "47.0 MHz",
        "bitstream",
    ]
    assert "  45.0 MHz is met\n" in output


def test_a_clock_that_no_seed_has_reached_is_reported_with_advice(tools, capsys):
    assert (
        fpga.main(
            ["ulx3s-25f", "--seeds", "1,0", "--build", "work", "--memory", "1024", "--no-video"]
        )
        == 1
    )
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "not met       37.0 MHz with seed 1, 27.0 MHz with seed 0; 45 MHz are wanted",
        "next          python -m sim.fpga ulx3s-25f --memory=1024 --build=work --no-video --clock=35000000, or "
        "python -m sim.fpga ulx3s-25f --memory=1024 --build=work --no-video --seeds=2,3,4,5,6,7, which takes the "
        "netlist as it is",
    ]
    assert (tools / "work" / "top.bit").read_text() == "seed 1"
    # The second command is the proposed one.
    assert (
        fpga.main(
            ["ulx3s-25f", "--memory=1024", "--build=work", "--no-video", "--seeds=2,3,4,5,6,7"]
        )
        == 0
    )
    assert (tools / "work" / "calls").read_text() == "synthesis\n"
    assert (tools / "work" / "top.bit").read_text() == "seed 2"


def test_all_default_seeds_are_tried_and_no_more(tools, capsys):
    assert fpga.main(["ulx3s-25f", "--clock", "75000000", "--build", "faster"]) == 1
    errors = capsys.readouterr().err
    assert [line[-1] for line in errors.splitlines() if "seed" in line] == list("123456")


def test_a_bitstream_that_is_too_slow_is_not_loaded_which_is_said(tools, capsys, monkeypatch):
    monkeypatch.setattr(fpga, "check_loader", lambda: None)
    monkeypatch.setattr(fpga, "load", lambda *_: pytest.fail("loaded"))
    assert fpga.main(["ulx3s-25f", "--seeds", "1,0", "--build", "work", "--load"]) == 1
    output = capsys.readouterr().out
    assert "  45.0 MHz IS NOT MET\n" in output
    assert "not loaded    the board is not programmed, as its clock is not met\n" in output
    assert output.splitlines()[-1].startswith(
        "next          python -m sim.fpga ulx3s-25f --build=work --load --clock=35000000, or "
    )
    assert fpga.main(["ulx3s-25f", "--seeds", "2", "--clock", "37500000", "--build", "slower"]) == 0
    assert "preset least" in capsys.readouterr().out


def test_every_clock_has_to_be_fast_enough(tools, capsys):
    assert fpga.main(["ulx3s-25f", "--seeds", "4"]) == 1
    output, errors = capsys.readouterr()
    assert "  clk25_0__io: 20.0 of 25 MHz\n" in output
    assert "  45.0 MHz IS NOT MET\n" in output
    assert "ulx3s-25f: 67.0 MHz, clk25_0__io 20.0 of 25 MHz\n" in errors
    assert output.splitlines()[-1] == (
        "next          python -m sim.fpga ulx3s-25f --seeds=5,6,7,8,9,10, which takes the netlist as it is"
    )


def test_a_seed_that_meets_all_clocks_is_better_than_a_faster_one_that_does_not(tools, capsys):
    assert fpga.main(["ulx3s-25f", "--seeds", "4,3,2"]) == 0
    assert (tools / "build" / "fpga" / "ulx3s-25f-least" / "top.bit").read_text() == "seed 3"
    assert "ulx3s-25f: 57.0 MHz\n" in capsys.readouterr().err


@pytest.fixture
def loader(tools, monkeypatch):
    """A fake loader that records its arguments and the file to load."""
    program = tools / "openFPGALoader"
    program.write_text(f'#!/bin/sh\necho "$1 $2 $3" > {tools}/called; cp "$4" {tools}/loaded\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    return tools


def test_a_board_is_programmed_as_its_platform_does_it(loader, capsys):
    assert fpga.main(["ulx3s-85f", "--seeds", "2", "--load"]) == 0
    assert (loader / "called").read_text() == "-b ulx3s -m\n"
    assert (loader / "loaded").read_text() == "seed 2"
    assert capsys.readouterr().out.splitlines()[-1].endswith(" --engine board --port /dev/ttyUSB0")


@pytest.mark.parametrize(
    "order", [["ulx3s-25f", "--load", "kept.bit"], ["--load", "kept.bit", "ulx3s-25f"]]
)
def test_a_bitstream_that_was_kept_is_loaded_and_nothing_is_built(loader, monkeypatch, order):
    monkeypatch.setenv("YOSYS", "/nonexistent")
    (loader / "kept.bit").write_bytes(b"\xff\0Part: LFE5U-25F-6CABGA381\0\xff\xff")
    assert fpga.main(order) == 0
    assert (loader / "loaded").read_bytes() == (loader / "kept.bit").read_bytes()
    assert not (loader / "build").exists()


def test_the_option_to_load_may_stand_before_the_board(loader):
    assert fpga.main(["--load", "ulx3s-25f", "--seeds", "2"]) == 0
    assert (loader / "loaded").read_text() == "seed 2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--load", "no.bit"], "no.bit: No such file or directory"),
        (
            ["--load", "other.bit"],
            "other.bit: for LFE5U-85F-6CABGA381, and the board has LFE5U-25F",
        ),
        (
            ["--load", "other.bit", "--seeds", "1"],
            "--seeds does not go with --load FILE.bit, which builds nothing",
        ),
        (
            ["--load", "other.bit", "--no-video"],
            "--no-video does not go with --load FILE.bit, which builds nothing",
        ),
        (
            ["--load", "other.bit", "--memory", "0"],
            "--memory does not go with --load FILE.bit, which builds nothing",
        ),
    ],
)
def test_what_cannot_be_loaded_gets_one_line(loader, capsys, arguments, message):
    (loader / "other.bit").write_bytes(b"\xff\0Part: LFE5U-85F-6CABGA381\0\xff\xff")
    assert failure(capsys, "ulx3s-25f", *arguments) == f"python -m sim.fpga: {message}\n"
    assert not (loader / "loaded").exists()


def test_a_loader_that_fails_is_named(loader, capsys):
    (loader / "openFPGALoader").write_text("#!/bin/sh\nexit 1\n")
    (loader / "kept.bit").write_text("bits")
    assert failure(capsys, "ulx3s-25f", "--load", "kept.bit").startswith(
        "python -m sim.fpga: the board could not be programmed: "
    )


@pytest.mark.parametrize("variable", ["YOSYS", "NEXTPNR_ECP5", "ECPPACK"])
def test_a_tool_that_is_not_there_is_named_before_any_work(tools, capsys, monkeypatch, variable):
    monkeypatch.setenv(variable, "/nonexistent")
    assert (
        failure(capsys, "ulx3s-25f")
        == f"python -m sim.fpga: {variable}=/nonexistent: there is no such program\n"
    )
    assert not (tools / "build").exists()


def test_a_tool_that_does_not_work_is_found_before_synthesis(tools, capsys, monkeypatch):
    monkeypatch.setenv("ECPPACK", "sh -c 'exit 1'")
    assert failure(capsys, "ulx3s-25f").splitlines()[1:] == [
        "python -m sim.fpga: ecppack failed (exit code 1) without a word"
    ]


def failure(capsys, *arguments):
    with pytest.raises(SystemExit, match="2"):
        fpga.main(arguments)
    return capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["kept.bit"]])
def test_without_a_loader_nothing_is_begun(tools, capsys, monkeypatch, more):
    how = (
        "; it programs boards: apt install openfpgaloader, brew install openfpgaloader, or see "
        "https://trabucayre.github.io/openFPGALoader\n"
    )
    monkeypatch.setenv("OPENFPGALOADER", "no-such-loader")
    assert failure(capsys, "ulx3s-85f", "--load", *more) == (
        f"python -m sim.fpga: OPENFPGALOADER=no-such-loader: there is no such program{how}"
    )
    monkeypatch.delenv("OPENFPGALOADER")
    monkeypatch.setattr(bitstream.shutil, "which", lambda _name: None)
    monkeypatch.setattr(fpga, "missing_boards", lambda tools: None)
    assert failure(capsys, "ulx3s-85f", "--load", *more) == (
        f"python -m sim.fpga: openFPGALoader is not installed{how}"
    )
    assert not (tools / "build").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["de10"], "no board de10; there are ulx3s-85f, ulx3s-25f, ecpix5-85f"),
        (
            ["ulx3s-85f", "--unit", "crs"],
            "one of BOARD, --unit and --verilog is required, not board and unit",
        ),
        (["--unit", "crs", "--load"], "--load is for boards"),
        (["ulx3s-85f", "--small"], "--small is for units"),
        (["ulx3s-85f", "--warps", "16"], "--warps is for units: a board takes a --preset"),
        (
            ["ulx3s-85f", "--seeds", "none"],
            "--seeds none is for units: a bitstream is placed with a seed",
        ),
        (
            ["ulx3s-85f", "--seeds", "no"],
            "argument --seeds: 'no' is neither a list of numbers such as 1,2,3 nor none",
        ),
        (
            ["ulx3s-85f", "--clock", "900000000"],
            "no PLL of an ECP5 makes 900 MHz of 25 MHz: it takes 8 to 400 MHz and "
            "makes 3.125 to 400 MHz",
        ),
        (
            ["ulx3s-85f", "--memory", "1000"],
            "a block memory has a power of two of bytes, at least 128, not 1000",
        ),
        (
            ["ulx3s-85f", "--memory", "flash"],
            "argument --memory: 'flash' is neither sdram nor a number of bytes",
        ),
        (["ecpix5-85f", "--memory", "sdram"], "the board has no SDRAM that the machine can use"),
        (["ecpix5-85f", "--video"], "the board has no HDMI that the machine can use"),
        (["--unit", "crs", "--no-video"], "--video is for boards"),
    ],
)
def test_bad_arguments_get_one_line(tools, capsys, arguments, message):
    assert failure(capsys, *arguments) == f"python -m sim.fpga: {message}\n"


def test_the_constraints_alone(tools):
    assert fpga.main(["ecpix5-85f", "--lpf", "out.lpf"]) == 0
    assert (tools / "out.lpf").read_text() == (CONSTRAINTS / "ecpix5-85f.lpf").read_text()
    assert not (tools / "build").exists()


@pytest.mark.parametrize(
    ("board", "options", "resources"),
    [
        ("ulx3s-85f", [], {"sdram", "hdmi"}),
        ("ulx3s-85f", ["--no-video"], {"sdram"}),
        ("ulx3s-85f", ["--memory", "65536"], {"hdmi"}),
        ("ulx3s-25f", ["--video"], {"sdram", "hdmi"}),
    ],
)
def test_the_constraints_have_the_pads_of_the_memory_and_the_video_that_are_asked_for(
    tools, board, options, resources
):
    assert fpga.main([board, "--lpf", "out.lpf", *options]) == 0
    text = (tools / "out.lpf").read_text()
    assert {name for name in ("sdram", "hdmi") if f'"{name}_0__' in text} == resources


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--video"], "the board has no HDMI that the machine can use"),
        (["--memory", "sdram"], "the board has no SDRAM that the machine can use"),
        *(
            (
                [f"--{name}", *value],
                f"--{name} does not go with --lpf, which writes pins and clocks alone",
            )
            for name, value in (
                ("preset", ["tiny"]),
                ("seeds", ["1"]),
                ("clock", ["25000000"]),
                ("load", []),
                ("json", ["out.json"]),
                ("build", ["work"]),
            )
        ),
    ],
)
def test_an_option_that_the_constraints_do_not_depend_on_is_refused(
    tools, capsys, options, message
):
    before = sorted(tools.iterdir())
    line = failure(capsys, "ecpix5-85f", "--lpf", "out.lpf", *options)
    assert line == f"python -m sim.fpga: {message}\n"
    assert sorted(tools.iterdir()) == before


@needs_tools
@pytest.mark.parametrize(
    ("board", "plls", "pins", "both_edges"), [("ulx3s-25f", 1, 50, 1), ("ulx3s-85f", 2, 54, 5)]
)
def test_the_real_tools_make_a_bitstream_of_all_but_the_machine(
    tmp_path, board, plls, pins, both_edges
):
    """On the second board with SDRAM and video."""
    said = []
    top = board_top(BOARDS[board], make=PadsAlone)
    result, products = bitstream.build(board, "none", top, tmp_path, [1], said.append)
    assert result.met
    assert result.used["EHXPLLL"][0] == plls
    assert result.used["TRELLIS_IO"][0] == pins
    netlist = json.loads((tmp_path / "top.json").read_text())["modules"]["top"]["cells"].values()
    assert [cell["type"] for cell in netlist].count("ODDRX1F") == both_edges
    assert {round(wanted, 2) for _, wanted in result.clocks[1].values()} == (
        {40, 25, 125} if plls == 2 else {45}
    )
    assert isinstance(products, LocalBuildProducts)
    assert (tmp_path / "top.bit").stat().st_size > 1000
    assert said[0] == "elaboration"


# Verilog


@needs_tools
def test_verilog_has_readable_ports_and_other_tools_read_it(tmp_path):
    text = verilog_of(Flat(BlockMemory(3, 1024)), tmp_path, lambda _what: None)
    (tmp_path / "out.v").write_text(text)
    head = next(line for line in text.splitlines() if line.startswith("module top("))
    ports = set(head.removeprefix("module top(").removesuffix(");").split(", "))
    assert ports == {
        "clk",
        "rst",
        *(
            f"port_{way}_{name}"
            for way, names in {
                "request": ("valid", "ready", "write", "tag", "address", "beat", "data", "mask"),
                "response": ("valid", "ready", "write", "tag", "error", "beat", "data"),
            }.items()
            for name in names
        ),
    }
    for tool, *options in (
        ("verilator", "--lint-only", "--top-module", "top"),
        ("iverilog", "-g2012", "-t", "null", "-s", "top"),
    ):
        if shutil.which(tool):
            done = subprocess.run(
                [tool, *options, "out.v"], cwd=tmp_path, capture_output=True, text=True
            )
            assert (done.returncode, done.stderr) == (0, ""), tool
