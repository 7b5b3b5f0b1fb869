"""What a waveform of the whole machine tells of a warp is what the warp did."""

import re
from pathlib import Path

import pytest
import pywellen

from rtl.params import PRESETS
from sim.launch import prepare, with_trap_handler
from sim.launch.arguments import parse_arguments
from sim.launch.programs import read_program
from sim.machine.hardware import Hardware
from testbench.programs import PROGRAMS
from testbench.simulation import ENGINE

TOUR = PROGRAMS / "tour"


def recorded(folder: Path, program: str, threads: int, handler: str | None = None):
    """The texts that each trace has had, one after the other, by name; the save file; when it happened."""
    launch = prepare(read_program(str(TOUR / program)), parse_arguments([f"buf:OUT=u32[{threads}]"]),
                     block=(threads, 1, 1))
    if handler is not None:
        launch = with_trap_handler(launch, read_program(str(TOUR / handler)))
    path = folder / "a.vcd"
    assert Hardware(PRESETS["tiny"], ENGINE, vcd=path).run(launch, 100_000).status == "ok"
    wave = pywellen.Waveform(str(path))  # pyright: ignore
    texts = {variable.full_name.removeprefix("sm."): list(variable.tv) for variable in wave.all_vars()}
    return {name: [value for _, value in changes] for name, changes in texts.items()}, path.with_suffix(".gtkw"), texts


@pytest.fixture(scope="module")
def divergence(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("divergence"), "divergence.sass", 8)


def test_a_warp_tells_its_instructions(divergence):
    shown = divergence[0]["warp0.instruction"]
    assert [text.split(None, 1)[1].split(" ")[0 if "@" not in text else 1] for text in shown if text] == [
        "S2R", "ISETP.LT.U32.AND", "SSY", "BRA", "IADD", "SYNC", "IADD32I", "SYNC", "ISCADD", "IADD.X", "STG.E", "EXIT"]
    assert re.fullmatch(r"0028 @P0 BRA 0x\w+", next(text for text in shown if "BRA" in text))


def test_a_warp_tells_its_threads_and_tokens(divergence):
    texts = divergence[0]
    assert texts["warp0.token"] == ["", "push SYNC", "push DIVERGE", "pop DIVERGE", "pop SYNC"]
    assert texts["warp0.active"] == ["", "000000ff", "0000000f", "000000f0", "000000ff", "ended"]
    assert texts["warp1.token"] == texts["warp1.active"] == [""]


def test_the_view_begins_where_the_warp_parts(divergence):
    _, save, changes = divergence
    time = next(time for time, value in changes["machine.diverged"] if value)
    lines = save.read_text().splitlines()
    assert next(line for line in lines if line.startswith("*")).split()[1] == str(time)
    assert "[markername] Adivergence" in lines
    assert f"[timestart] {time - 40}" in lines


def test_a_trap_is_told_of_each_warp_and_of_the_machine(tmp_path):
    texts, save, _ = recorded(tmp_path, "trap.sass", 64, "trap_handler.sass")
    assert texts["machine.trap"] == ["RUNNING", "TRAPPING", "RUNNING"]
    for warp in range(2):
        assert texts[f"warp{warp}.trap"] == ["outside", "in the handler", "outside"]
        shown = texts[f"warp{warp}.instruction"]
        assert shown.index("enters the trap") < shown.index("leaves the trap")
        assert "push TRAP" in texts[f"warp{warp}.token"]
    assert "[markername] Atrap" in save.read_text()
