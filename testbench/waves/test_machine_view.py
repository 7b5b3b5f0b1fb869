"""A waveform of the whole machine shows the events of a warp."""

import re
from pathlib import Path

import pytest
import pywellen

from rtl.params import PRESETS
from sim.launch import prepare, with_trap_handler
from sim.launch.arguments import parse_arguments
from sim.launch.programs import read_program
from sim.machine.hardware import Hardware
from sim.waves.picture import Waveform
from sim.waves.sequence import main, messages
from testbench.programs import PROGRAMS
from testbench.simulation import ENGINE

TOUR = PROGRAMS / "tour"


def recorded(folder: Path, program: str, threads: int, handler: str | None = None):
    """Records a run; returns the texts of each trace in order, by name; the save file; the times of
    the markers.
    """
    launch = prepare(
        read_program(str(TOUR / program)),
        parse_arguments([f"buf:OUT=u32[{threads}]"]),
        block=(threads, 1, 1),
    )
    if handler is not None:
        launch = with_trap_handler(launch, read_program(str(TOUR / handler)))
    path = folder / "a.vcd"
    assert Hardware(PRESETS["tiny"], ENGINE, vcd=path).run(launch, 100_000).status == "ok"
    wave = pywellen.Waveform(str(path))  # pyright: ignore
    texts = {
        variable.full_name.removeprefix("sm."): list(variable.tv) for variable in wave.all_vars()
    }
    return (
        {name: [value for _, value in changes] for name, changes in texts.items()},
        path.with_suffix(".gtkw"),
        texts,
    )


@pytest.fixture(scope="module")
def divergence(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("divergence"), "divergence.sass", 8)


def test_a_view_shows_a_warps_instructions(divergence):
    shown = divergence[0]["warp0.instruction"]
    assert [
        text.split(None, 1)[1].split(" ")[0 if "@" not in text else 1] for text in shown if text
    ] == [
        "S2R",
        "ISETP.LT.U32.AND",
        "SSY",
        "BRA",
        "IADD",
        "SYNC",
        "IADD32I",
        "SYNC",
        "ISCADD",
        "IADD.X",
        "STG.E",
        "EXIT",
    ]
    assert re.fullmatch(r"0028 @P0 BRA 0x\w+", next(text for text in shown if "BRA" in text))


def test_a_view_shows_a_warps_threads_and_tokens(divergence):
    texts = divergence[0]
    assert texts["warp0.token"] == ["", "+SYNC", "+DIVERGE", "-DIVERGE", "-SYNC"]
    assert texts["warp0.active"] == ["", "000000ff", "0000000f", "000000f0", "000000ff", "ended"]
    assert texts["warp1.token"] == texts["warp1.active"] == [""]


def test_the_view_begins_where_the_warp_parts(divergence):
    _, save, changes = divergence
    time = next(time for time, value in changes["machine.diverged"] if value)
    lines = save.read_text().splitlines()
    assert next(line for line in lines if line.startswith("*")).split()[1] == str(time)
    assert "[markername] Adivergence" in lines
    assert f"[timestart] {time - 40}" in lines


@pytest.fixture(scope="module")
def trap(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("trap"), "trap.sass", 64, "trap_handler.sass")


def test_a_trap_is_reported_for_each_warp_and_the_machine(trap):
    texts, save, _ = trap
    assert texts["machine.trap"] == ["RUNNING", "TRAPPING", "RUNNING"]
    assert texts["machine.error"] == [""]
    for warp in range(2):
        assert texts[f"warp{warp}.trap"] == ["outside", "in the handler", "outside"]
        shown = texts[f"warp{warp}.instruction"]
        assert shown.index("enters the trap") < shown.index("leaves the trap")
        assert "+TRAP" in texts[f"warp{warp}.token"]
    assert "[markername] Atrap" in save.read_text()


def test_a_sequence_diagram_shows_which_warps_enter_and_leave_the_trap(trap, tmp_path, capsys):
    """One warp traps, both enter, each with its frame; the machine runs again before they leave."""
    wave = Waveform(trap[1].with_suffix(".vcd"))
    shown_messages = messages(wave, 0, wave.cycles)
    for warp in ("warp 0", "warp 1"):
        said = [
            (message.sender, message.receiver, message.text)
            for message in shown_messages
            if warp in (message.sender, message.receiver)
        ]
        course = [
            ("trap unit", warp, "enters the trap"),
            (warp, warp, "is in the handler"),
            (warp, "stack", "push TRAP"),
            ("trap unit", warp, "leaves the trap"),
            ("stack", warp, "pop TRAP"),
            (warp, warp, "is outside of the trap"),
            (warp, warp, "has ended"),
        ]
        assert [one for one in said if one in course] == course
    assert [message.text for message in shown_messages if not message.receiver] == [
        "the host starts a grid",
        "the machine is TRAPPING",
        "the machine is RUNNING",
    ]
    assert sum(message.text.endswith(" BPT.TRAP 0x1") for message in shown_messages) == 1
    assert main([str(trap[1].with_suffix(".vcd")), "-o", str(tmp_path / "trap.svg")]) == 0
    drawn = (tmp_path / "trap.svg").read_text()
    assert drawn.startswith("<svg ") and drawn.count(">leaves the trap</text>") == 2
    assert (
        main(
            [str(trap[1].with_suffix(".vcd")), "-o", str(tmp_path / "no.svg"), "--first", "9999999"]
        )
        == 2
    )
    assert "has cycles 0 to" in capsys.readouterr().err and not (tmp_path / "no.svg").exists()


def test_a_sequence_diagram_requires_the_whole_machine(tmp_path, capsys):
    (tmp_path / "a.vcd").write_text(
        "$timescale 1ns $end\n$scope module top $end\n$var wire 1 ! clk $end\n"
        "$upscope $end\n$enddefinitions $end\n#0\n1!\n#5\n0!\n#10\n1!\n#15\n0!\n"
    )
    assert main([str(tmp_path / "a.vcd"), "-o", str(tmp_path / "a.svg")]) == 2
    assert "no waveform of the whole machine" in capsys.readouterr().err
