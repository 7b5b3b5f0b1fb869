"""What GTKWave shows of waveforms, and a browser of pages, as pictures for the manual.

Waveforms need GTKWave and Xvfb, and their save files; pages need Chromium. A name is a testbench, whose waveform is in
``waveforms``, or a save file, or the page of a timeline or of a profile. Each picture keeps what it was drawn from
(:mod:`testbench.waves.sources`), and a test compares that with what is recorded now.
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

from PIL import Image, ImageChops

from sim.checks import run_tb
from sim.support.command import CommandError, Parser
from testbench.waves.sources import page_source, save_picture, wave_source

_SCRIPT = """\
after 1500
update
puts "shown_to [gtkwave::getWindowEndTime]"
gtkwave::/File/Grab_To_File {name}
exit
"""
_COLORS_OF_WAVES, _COLORS_OF_PAGES = 32, 128
_WINDOW = 960, 830
"""Width and height of the window in pixels: its text is readable if a page shows the picture
unscaled.
"""
_ABOVE, _BESIDE = 99, 46
"""Pixels above the waves (a title, which has folder names of this machine, and buttons) and left of
the signals' names.
"""
_PATIENCE = 120
_PAGE = 1236, 604
"""Width and height of a picture of a page, in pixels."""
_MARGIN = 8
"""Pixels below the last line of a page."""
_BROWSER = "chromium"


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
    with screen() as display, tempfile.TemporaryDirectory() as scratch:
        for name in names:
            save = _save_file(name)
            picture = Path(scratch, f"{save.stem}.png")
            size = "[size] {} {}".format(*_WINDOW)
            with tempfile.NamedTemporaryFile("w", suffix=".gtkw") as narrow:
                narrow.write(re.sub(r"^\[size\] .*$", size, save.read_text(), flags=re.MULTILINE))
                narrow.flush()
                command = ["gtkwave", f"{save.stem}.vcd", narrow.name]
                script = _SCRIPT.format(name=picture)
                printed = ask(command, script, save.resolve().parent, display)
            until = re.search(r"^shown_to (\d+)$", printed, re.MULTILINE)
            if not picture.exists() or until is None:
                raise CommandError(f"GTKWave has drawn nothing for {save}")
            shown = Image.open(picture)
            shown = shown.crop((_BESIDE, _ABOVE, min(shown.width, _WINDOW[0]), shown.height))
            waveform = save.with_suffix(".vcd")
            source = wave_source(waveform, save, int(until[1]))
            save_picture(shown, folder / picture.name, source, _COLORS_OF_WAVES)


def draw_page(folder: Path, page: Path) -> None:
    """Draws the beginning of a page into a folder, without the empty space below it."""
    picture = folder / f"{page.stem}.png"
    with tempfile.TemporaryDirectory() as scratch:
        drawn = Path(scratch, picture.name)
        subprocess.run(
            [
                _BROWSER,
                *("--headless", "--no-sandbox", "--hide-scrollbars"),
                "--window-size={},{}".format(*_PAGE),
                f"--screenshot={drawn}",
                page.resolve().as_uri(),
            ],
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
        if not drawn.exists():
            raise CommandError(f"{_BROWSER} has drawn nothing for {page}")
        shown = Image.open(drawn).convert("RGB")
    filled = ImageChops.difference(shown, Image.new("RGB", shown.size, "white")).getbbox()
    lowest = shown.height if filled is None else min(filled[3] + _MARGIN, shown.height)
    shown = shown.crop((0, 0, shown.width, lowest))
    save_picture(shown, picture, page_source(page), _COLORS_OF_PAGES)


def main(arguments: Sequence[str]) -> int:
    """Runs the command and returns the exit code."""
    parser = Parser("testbench.waves.screens", str(__doc__).splitlines()[0], "docs/waves crs trap")
    parser.add_argument(
        "folder", metavar="FOLDER", type=Path, help="where the pictures go, as NAME.png"
    )
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        help="testbenches, save files or .html pages; default the testbenches whose pictures are in "
        "the folder, or all",
    )
    return parser.run(arguments, _draw)


def _draw(chosen: Any) -> int:
    known = list(run_tb.testbenches())
    drawn_before = [name for name in known if (chosen.folder / f"{name}.png").exists()]
    names = chosen.names or drawn_before or known
    pages = [Path(name) for name in names if name.endswith(".html")]
    waves = [name for name in names if not name.endswith(".html")]
    for name in waves:
        if not name.endswith(".gtkw") and name not in run_tb.testbenches():
            raise CommandError(f"no testbench {name}; there are {', '.join(run_tb.testbenches())}")
        if not (waveform := _save_file(name).with_suffix(".vcd")).exists():
            raise CommandError(f"there is no {waveform}; python -m sim.waves records one")
    needed = [*(["gtkwave", "Xvfb"] if waves else []), *([_BROWSER] if pages else [])]
    for tool in needed:
        if shutil.which(tool) is None:
            raise CommandError(f"{tool} is not installed")
    folder = chosen.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for page in pages:
        draw_page(folder, page)
    if waves:
        draw(folder, waves)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
