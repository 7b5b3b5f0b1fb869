"""GTKWave's save file for a waveform: which traces it shows, in which groups and formats."""

import math
import os
from io import StringIO
from pathlib import Path

from vcd.gtkw import GTKWSave

from sim.command import is_whole, write_file
from sim.waves.tracer import CLOCK, timescale
from sim.waves.traces import Leaf, Traces, flatten

__all__ = ["save_file_of", "write_save_file"]

CYCLE_PIXELS = 60
"""How wide a clock cycle is shown at first."""
UNIT_PIXELS = 200
"""How wide GTKWave shows a unit of time at zoom 0; every step of the zoom doubles it."""
NAMES_WIDTH = 220
"""Pixels for the names."""
FOLDER = "/waveforms"
"""Where a save file says that it and its waveform lie, wherever they do. GTKWave takes a name by itself as one in the
folder that it was started in; of two names it takes the way from one to the other.
"""


def save_file_of(vcd: Path) -> Path | None:
    """Where the save file of a waveform goes: beside it. None for a device or a pipe, and for a name that both have."""
    save = vcd.with_suffix(".gtkw")
    return save if is_whole(vcd) and save != vcd else None


def write_save_file(path: Path, vcd: Path, traces: Traces, *, period: float, root: str = "top") -> None:
    """Writes the save file ``path`` for the waveform ``vcd``, which GTKWave finds from it, however it was started.

    The arguments are those of the :class:`Tracer` that makes the waveform. Depends on nothing else: the same traces
    give the same file.
    """
    leaves = flatten(traces)
    _, units = timescale(period)
    text = StringIO()
    save = GTKWSave(text)
    common = os.path.commonpath([os.path.abspath(named.parent) for named in (vcd, path)])
    for record, named in ((save.dumpfile, vcd), (save.savefile, path)):
        record(f"{FOLDER}/{Path(os.path.relpath(named, common)).as_posix()}", abspath=False)
    save.timestart(0)
    save.zoom_markers(math.log2(CYCLE_PIXELS / (units * UNIT_PIXELS)))
    save.signals_width(NAMES_WIDTH)
    save.treeopen(f"{root}.")
    save.trace(f"{root}.{CLOCK}", alias=CLOCK)
    _group(save, root, leaves, 0)
    write_file(path, text.getvalue().encode(), folders=True)


def _group(save: GTKWSave, root: str, leaves: list[Leaf], depth: int) -> None:
    """The traces of leaves that share their first ``depth`` scopes; groups in groups."""
    at = 0
    while at < len(leaves):
        leaf = leaves[at]
        if len(leaf.path) == depth + 1:
            _trace(save, root, leaf)
            at += 1
            continue
        scope = leaf.path[depth]
        end = at
        while end < len(leaves) and len(leaves[end].path) > depth + 1 and leaves[end].path[depth] == scope:
            end += 1
        with save.group(scope):
            _group(save, root, leaves[at:end], depth + 1)
        at = end


def _trace(save: GTKWSave, root: str, leaf: Leaf) -> None:
    """One trace: text for an enumeration, else a number in its format."""
    name, alias = ".".join((root, *leaf.path)), leaf.path[-1]
    if leaf.names is not None:
        save.trace(name, alias=alias, datafmt="ascii")
    else:
        save.trace(name if leaf.width == 1 else f"{name}[{leaf.width - 1}:0]", alias=alias, datafmt=leaf.format)
