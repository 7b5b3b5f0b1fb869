"""Screenshots of waveforms in GTKWave, for the manual.

Needs GTKWave and Xvfb, and the waveforms with their save files in ``waveforms``; a name may be a
save file.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from sim.checks import run_tb
from sim.support.command import CommandError, Parser

_SCRIPT = """\
after 1500
update
gtkwave::/File/Grab_To_File {name}
exit
"""
_COLORS = 32
_WINDOW = 960, 830
"""Width and height of the window in pixels: its text is readable if a page shows the picture
unscaled.
"""
_ABOVE, _BESIDE = 99, 46
"""Pixels above the waves (a title, which has folder names of this machine, and buttons) and left of
the signals' names.
"""
_PATIENCE = 120


@contextmanager
def screen() -> Iterator[str]:
    """Starts a virtual display and yields its name."""
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1600x1200x24", "-nolisten", "tcp"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    try:
        with os.fdopen(read) as numbers:
            number = numbers.readline().strip()
        assert number, "Xvfb has not started"
        yield f":{number}"
    finally:
        server.terminate()
        server.wait()


def ask(command: Sequence[str | Path], script: str, folder: Path, display: str) -> str:
    """Runs GTKWave with this command and script in a folder, and returns its output."""
    with tempfile.NamedTemporaryFile("w", suffix=".tcl") as file:
        file.write(script)
        file.flush()
        done = subprocess.run(
            [*command, "--script", file.name],
            cwd=folder,
            env={**os.environ, "DISPLAY": display},
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    return done.stdout + done.stderr


def _save_file(name: str) -> Path:
    """Returns the save file of a testbench, or the one of this name."""
    return Path(name) if name.endswith(".gtkw") else run_tb.ROOT / "waveforms" / f"{name}.gtkw"


def draw(folder: Path, names: Sequence[str]) -> None:
    """Draws the waveforms of testbenches, or of save files, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with screen() as display:
        for name in names:
            save = _save_file(name)
            picture = folder / f"{save.stem}.png"
            picture.unlink(missing_ok=True)  # an earlier picture would be taken for the new one
            size = "[size] {} {}".format(*_WINDOW)
            with tempfile.NamedTemporaryFile("w", suffix=".gtkw") as narrow:
                narrow.write(re.sub(r"^\[size\] .*$", size, save.read_text(), flags=re.MULTILINE))
                narrow.flush()
                command = ["gtkwave", f"{save.stem}.vcd", narrow.name]
                ask(command, _SCRIPT.format(name=picture), save.resolve().parent, display)
            if not picture.exists():
                raise CommandError(f"GTKWave has drawn nothing for {save}")
            shown = Image.open(picture).convert("RGB")
            shown = shown.crop((_BESIDE, _ABOVE, min(shown.width, _WINDOW[0]), shown.height))
            shown.quantize(_COLORS).save(picture, optimize=True)


def main(arguments: Sequence[str]) -> int:
    """Runs the command and returns the exit code."""
    parser = Parser("testbench.waves.screens", str(__doc__).splitlines()[0], "docs/waves crs trap")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="where the pictures go")
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        help="testbenches or save files; default all testbenches",
    )
    return parser.run(arguments, _draw)


def _draw(chosen: Any) -> int:
    names = chosen.names or list(run_tb.testbenches())
    for name in names:
        if not name.endswith(".gtkw") and name not in run_tb.testbenches():
            raise CommandError(f"no testbench {name}; there are {', '.join(run_tb.testbenches())}")
        if not (waveform := _save_file(name).with_suffix(".vcd")).exists():
            raise CommandError(f"there is no {waveform}; python -m sim.waves records one")
    for tool in ("gtkwave", "Xvfb"):
        if shutil.which(tool) is None:
            raise CommandError(f"{tool} is not installed")
    draw(chosen.folder.resolve(), names)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
