"""The save files and pictures in the repository are reproduced; GTKWave opens each testbench's
waveform with its save file at the marked cycle.
"""

import os
import re
import shlex
import shutil
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import pytest
from PIL import Image

from sim.checks import run_tb
from sim.checks.report import Report
from sim.checks.testbench import run
from sim.engine import CompiledEngine
from sim.support.command import CommandError
from testbench.simulation import ENGINE
from testbench.waves import screens
from testbench.waves.pictures import pictures_of
from testbench.waves.save_files import without_times
from testbench.waves.screens import ask, draw, screen
from testbench.waves.sources import check_screen

MISSING = [tool for tool in ("gtkwave", "Xvfb") if shutil.which(tool) is None]
needs_gtkwave = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
WHOLE = {"sm", "trap", "esr"}
"""Testbenches of the whole machine, which take minutes without a compiled model; test_tb_trap tests
their save files.
"""
_ASK = """\
puts "dump [gtkwave::getDumpFileName]"
foreach name [gtkwave::getDisplayedSignals] { puts "shown $name" }
puts "shown_from [gtkwave::getWindowStartTime]"
puts "shown_to [gtkwave::getWindowEndTime]"
puts "marker [gtkwave::getNamedMarker A]"
exit
"""


@pytest.fixture(scope="module")
def display():
    with screen() as name:
        yield name


def show(command: list[str], folder: Path, display: str) -> tuple[Path, list[str], dict[str, int]]:
    """Runs GTKWave with this command in a folder; returns the waveform that it has opened, the
    names of its traces, and the times of the window's edges and of the first marker.
    """
    printed = ask(command, _ASK, folder, display)
    fields = [line.split(" ", 1) for line in printed.splitlines()]
    dumps = [Path(line[1]) for line in fields if line[0] == "dump"]
    assert len(dumps) == 1, printed
    times = {
        line[0]: int(line[1]) for line in fields if line[0] in ("shown_from", "shown_to", "marker")
    }
    return folder / dumps[0], [line[1].rstrip() for line in fields if line[0] == "shown"], times


def traces_of(save: Path) -> list[str]:
    """Returns the traces that a save file lists."""
    return [
        line.partition("} ")[2] for line in save.read_text().splitlines() if line.startswith("+{")
    ]


def recorded(unit: str, waveform: Path) -> Report:
    """Runs a testbench with its waveform and returns its report.

    The save file that it writes, and the manual's pictures of the waveform, must equal those in the
    repository.
    """
    waveform.parent.mkdir(parents=True, exist_ok=True)
    report = run(
        unit,
        import_module(run_tb.module_name(run_tb.testbenches()[unit])).record,
        ENGINE,
        vcd=waveform,
    )
    assert report.passed, report.failure
    save = waveform.with_suffix(".gtkw")
    kept = (run_tb.ROOT / "waveforms" / save.name).read_text()
    assert without_times(save.read_text()) == without_times(kept)
    for picture in pictures_of(unit):
        drawn = waveform.with_suffix(".svg")
        picture.draw(waveform, drawn)
        assert drawn.read_text() == (run_tb.ROOT / picture.path).read_text(), (
            f"draw {picture.path} again"
        )
    screen_picture = run_tb.ROOT / "docs" / "waves" / f"{unit}.png"
    if unit != "reset":  # its view has no picture
        check_screen(screen_picture, waveform)
    return report


@pytest.mark.skipif(not MISSING, reason="GTKWave is asked")
@pytest.mark.parametrize("unit", sorted(run_tb.testbenches()))
def test_the_kept_save_file_is_the_one_that_is_written(unit, tmp_path):
    if unit in WHOLE and ENGINE is not CompiledEngine:
        pytest.skip(str(CompiledEngine.missing()))
    recorded(unit, tmp_path / f"{unit}.vcd")


@needs_gtkwave
@pytest.mark.parametrize("unit", run_tb.testbenches())
def test_gtkwave_shows_every_trace(unit, display, tmp_path, monkeypatch):
    project = tmp_path / "a project"
    waveform = project / "waveforms" / f"{unit}.vcd"
    report = recorded(unit, waveform)
    monkeypatch.chdir(project)
    command = report.text().partition("shown by: ")[2].strip()
    assert command == f"gtkwave waveforms/{unit}.gtkw"
    expected = traces_of(waveform.with_suffix(".gtkw"))
    assert len(expected) > 5
    opened, shown, times = show(shlex.split(command), project, display)
    assert opened.samefile(waveform)
    assert shown == expected
    if unit == "reset":  # its view begins with the reset, without a marker
        assert (times["shown_from"], times["marker"]) == (0, -1)
    else:
        assert times["shown_from"] <= times["marker"] < times["shown_to"]


@needs_gtkwave
@pytest.mark.parametrize("start", [".", "waveforms", "waveforms/elsewhere"])
def test_the_waveform_is_found_from_any_folder(start, display, tmp_path):
    waveforms, folder = tmp_path / "waveforms", tmp_path / start
    for needed in (waveforms, folder):
        needed.mkdir(parents=True, exist_ok=True)
    save, waveform = waveforms / "crs.gtkw", waveforms / "crs.vcd"
    shutil.copy(run_tb.ROOT / "waveforms" / save.name, save)
    waveform.write_text(
        "$timescale 1 ns $end\n$scope module crs $end\n$var wire 1 ! clk $end\n$upscope $end\n"
        "$enddefinitions $end\n#0\n1!\n#10\n0!\n"
    )
    opened, shown, _ = show(["gtkwave", os.path.relpath(save, folder)], folder, display)
    assert opened.samefile(waveform)
    assert shown == ["crs.clk"]  # the other signals do not exist: it shows those that it finds


def test_a_picture_that_cannot_be_drawn_again_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(screens, "screen", lambda: nullcontext(":0"))
    monkeypatch.setattr(screens, "ask", lambda *_: "")
    (tmp_path / "crs.png").write_bytes(b"kept")
    with pytest.raises(CommandError, match="GTKWave has drawn nothing"):
        draw(tmp_path, ["crs"])
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"kept"]

    def drawn(_command: list[str], script: str, *_: object) -> str:
        Image.new("RGB", (800, 400)).save(re.findall(r"\S+/crs\.png", script)[0])
        return "shown_to 500\n"

    monkeypatch.setattr(screens, "ask", drawn)
    monkeypatch.setattr(screens, "wave_source", lambda *_: "a waveform")
    draw(tmp_path, ["crs"])
    assert [path.read_bytes()[:4] for path in tmp_path.iterdir()] == [b"\x89PNG"]
