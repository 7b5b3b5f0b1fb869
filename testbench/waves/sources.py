"""What a picture in the manual was drawn from, kept in its PNG, so that a test finds the pictures that are out of date.

A picture of GTKWave shows the open rows of a waveform between two times; one of a browser shows a page.
"""

import hashlib
import io
import re
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from sim.support.command import write_file
from sim.waves.picture import Waveform

__all__ = [
    "check_page",
    "check_screen",
    "kept_source",
    "page_source",
    "save_picture",
    "wave_source",
]

_KEY = "Source"
"""Of the text in a PNG."""
_CLOSED_GROUP = "@c00200"
"""In a save file, before the name of a group that is closed at first. Those are last."""


def save_picture(shown: Image.Image, path: Path, source: str, colors: int) -> None:
    """Writes a picture of so many colours, with what it was drawn from."""
    information = PngInfo()
    information.add_text(_KEY, source)
    content = io.BytesIO()
    shown.convert("RGB").quantize(colors).save(content, "png", optimize=True, pnginfo=information)
    write_file(path, content.getvalue())


def kept_source(picture: Path) -> str:
    """What a picture was drawn from; empty if it does not say."""
    with Image.open(picture) as image:
        return str(image.info.get(_KEY, ""))


def wave_source(waveform: Path, save: Path, to: int) -> str:
    """The source of a picture of GTKWave: the open rows of a waveform, from the time at which its save file begins up
    to the time ``to``."""
    lines = save.read_text().splitlines()
    first = next(int(line.split()[1]) for line in lines if line.startswith("[timestart]"))
    opened = lines[: lines.index(_CLOSED_GROUP)] if _CLOSED_GROUP in lines else lines
    names = [match[1] for line in opened if (match := re.match(r"\+\{.*\} \w+\.([^\[]*)", line))]
    wave, digest = Waveform(waveform), hashlib.sha256()
    for name in names:
        changes: list[tuple[int, Any]] = list(wave.variable(name).tv)
        begin = max((at for at, _ in changes if at <= first), default=0)
        shown = [(max(at, first), str(value)) for at, value in changes if begin <= at <= to]
        digest.update(f"{name} {shown}\n".encode())
    return f"GTKWave, {first} to {to}, rows {digest.hexdigest()[:16]}"


def shown_until(source: str) -> int:
    """The time at which a picture of GTKWave ends; 0 if it is none."""
    match = re.match(r"GTKWave, \d+ to (\d+),", source)
    return int(match[1]) if match else 0


def page_source(page: Path) -> str:
    """The source of a picture of an HTML page."""
    return f"page {hashlib.sha256(page.read_bytes()).hexdigest()[:16]}"


def check_screen(picture: Path, waveform: Path) -> None:
    """Checks that a picture of GTKWave shows what this waveform and its save file do."""
    kept = kept_source(picture)
    save = waveform.with_suffix(".gtkw")
    assert kept == wave_source(waveform, save, shown_until(kept)), (
        f"{picture.name} is out of date: python -m testbench.waves.screens {picture.parent.name} "
        f"{save.name}"
    )


def check_page(picture: Path, page: Path) -> None:
    """Checks that a picture of a browser shows this page."""
    assert kept_source(picture) == page_source(page), (
        f"{picture.name} is out of date: python -m testbench.waves.screens {picture.parent.name} "
        f"{page.name}"
    )
