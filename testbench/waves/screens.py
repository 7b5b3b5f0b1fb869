"""What GTKWave shows of waveforms, as pictures for the manual: ``python -m testbench.waves.screens docs/waves crs``.

Needs GTKWave and Xvfb, and the waveforms with their save files in ``waveforms``; a name may be a save file.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from sim import run_tb

_SCRIPT = """\
after 1500
update
gtkwave::/File/Grab_To_File {name}
exit
"""
_COLORS = 32
_TITLE, _WIDTH = 51, 1600
"""Pixels of the window's title, which names folders of this machine, and its width."""
_PATIENCE = 120


@contextmanager
def screen() -> Iterator[str]:
    """A display that nobody sees; its name."""
    read, write = os.pipe()
    server = subprocess.Popen(["Xvfb", "-displayfd", str(write), "-screen", "0", "1600x1200x24", "-nolisten", "tcp"],
                              pass_fds=[write], stderr=subprocess.DEVNULL)
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
    """What GTKWave prints that executes a script, called so in a folder."""
    with tempfile.NamedTemporaryFile("w", suffix=".tcl") as file:
        file.write(script)
        file.flush()
        done = subprocess.run([*command, "--script", file.name], cwd=folder, env={**os.environ, "DISPLAY": display},
                              capture_output=True, text=True, timeout=_PATIENCE, check=False)
    return done.stdout + done.stderr


def main(folder: str, *names: str) -> None:
    """Draws the waveforms of testbenches, of all of them if none is named, or of save files."""
    target = Path(folder).resolve()
    target.mkdir(parents=True, exist_ok=True)
    with screen() as display:
        for name in names or run_tb.testbenches():
            save = Path(name) if name.endswith(".gtkw") else run_tb.ROOT / "waveforms" / f"{name}.gtkw"
            picture = target / f"{save.stem}.png"
            ask(["gtkwave", save.name], _SCRIPT.format(name=picture), save.resolve().parent, display)
            shown = Image.open(picture).convert("RGB")
            shown = shown.crop((0, _TITLE, min(shown.width, _WIDTH), shown.height))
            shown.quantize(_COLORS).save(picture, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
