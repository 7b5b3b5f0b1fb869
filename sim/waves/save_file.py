"""GTKWave's save file for a waveform: its traces, groups and formats, and the start of the view."""

import math
import os
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from vcd.gtkw import GTKWSave

from sim.support.command import is_whole, write_file
from sim.waves.fst import is_fst
from sim.waves.tracer import CLOCK, timescale
from sim.waves.traces import Leaf, TextLeaf, Traces, View, flatten, view_of

__all__ = ["save_file_of", "write_save_file"]

BEFORE = 4
"""Cycles that are shown before the event at which the view begins."""
WINDOW = (1600, 900)
"""Size of the window in pixels."""
UNIT_PIXELS = 200
"""Width of a unit of time at zoom 0, in pixels; every step of the zoom doubles it."""
NAMES_WIDTH = 260
"""Width of the list of names, in pixels."""
FOLDER = "/waveforms"
"""The folder of the save file and its waveform in the save file itself, independent of the real
one.

GTKWave resolves a bare name in its working directory; from two paths it uses the relative path from
one to the other.
"""
_BEGIN = f'[dumpfile] "{FOLDER}/'
"""How a save file of this module begins. One of GTKWave's begins with a comment."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""GTKWave's markers."""


def save_file_of(waveform: Path) -> Path | None:
    """Returns the path of a waveform's save file, which is beside it.

    None for a device or a pipe, and if both would have the same name.
    """
    save = waveform.with_suffix(f"{waveform.suffix}.gtkw" if is_fst(waveform) else ".gtkw")
    return save if is_whole(waveform) and save != waveform else None


def write_save_file(
    path: Path,
    waveform: Path,
    traces: Traces | View,
    *,
    period: float,
    root: str = "top",
    marked_cycles: Mapping[str, int] | None = None,
) -> None:
    """Writes the save file ``path`` for a waveform, which GTKWave finds through it, from any
    folder.

    The arguments are those of the :class:`Tracer` that writes the waveform, and its
    ``marked_cycles``: the cycles of the events that get markers. The content depends on nothing
    else.

    A save file that this function did not write stays as it is: GTKWave has saved somebody's view there.
    """
    if path.is_file() and not path.read_bytes().startswith(_BEGIN.encode()):
        return
    view, found = view_of(traces), marked_cycles or {}
    _, units = timescale(period)
    text = StringIO()
    save = GTKWSave(text)
    common = os.path.commonpath([os.path.abspath(named.parent) for named in (waveform, path)])
    for record, named in ((save.dumpfile, waveform), (save.savefile, path)):
        record(f"{FOLDER}/{Path(os.path.relpath(named, common)).as_posix()}", abspath=False)
    save.size(*WINDOW)
    marked = [mark.name for mark in view.marks if mark.name in found]
    first = found[marked[0]] if marked else None
    save.timestart(max(first - BEFORE, 0) * units if first is not None else 0)
    places: Any = {
        letter: found[name] * units for letter, name in zip(_LETTERS, marked, strict=False)
    }
    save.zoom_markers(
        math.log2(view.cycle_pixels / (units * UNIT_PIXELS)),
        -1 if first is None else first * units,
        **places,
    )
    for letter, name in zip(_LETTERS, marked, strict=False):
        text.write(f"[markername] {letter.upper()}{name}\n")
    save.signals_width(NAMES_WIDTH)
    save.sst_expanded(False)
    save.treeopen(f"{root}.")
    save.trace(f"{root}.{CLOCK}", alias=CLOCK)
    for part, closed in zip(view.ordered(), (False, True), strict=True):
        _group(save, root, flatten(part), 0, closed)
    write_file(path, text.getvalue().encode())


def _group(
    save: GTKWSave, root: str, leaves: list[Leaf | TextLeaf], depth: int, closed: bool
) -> None:
    """Adds the traces of leaves that share their first ``depth`` scopes, in nested groups."""
    at = 0
    while at < len(leaves):
        leaf = leaves[at]
        if len(leaf.path) == depth + 1:
            _trace(save, root, leaf)
            at += 1
            continue
        scope = leaf.path[depth]
        end = at
        while end < len(leaves) and leaves[end].path[depth] == scope:
            end += 1
        with save.group(scope, closed=closed):
            _group(save, root, leaves[at:end], depth + 1, closed)
        at = end


def _trace(save: GTKWSave, root: str, leaf: Leaf | TextLeaf) -> None:
    """Adds one trace: text unchanged and for an enumeration, else a number in its format."""
    name, alias = ".".join((root, *leaf.path)), leaf.path[-1]
    if isinstance(leaf, TextLeaf) or leaf.names is not None:
        save.trace(name, alias=alias, datafmt="ascii")
    else:
        save.trace(
            name if leaf.width == 1 else f"{name}[{leaf.width - 1}:0]",
            alias=alias,
            datafmt=leaf.format,
        )
