"""Records the waveform of a testbench, and opens it: ``python -m sim.waves crs --open``."""

import os
import shutil
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from sim.checks import run_tb
from sim.checks.report import near
from sim.support.command import CommandError, Parser
from sim.waves.fst import FST
from sim.waves.save_file import save_file_of

__all__ = ["main"]

_FOLDER = Path(__file__).resolve().parents[2] / "waveforms"
_VIEWERS = ("gtkwave", "surfer")
_SAVE = ".gtkw"
_NO_DISPLAY = "Could not initialize GTK"
"""What GTKWave prints when it cannot open a window."""


def _viewer(wanted: str | None) -> str:
    """Returns the installed viewer."""
    names = _VIEWERS if wanted is None else (wanted,)
    if (found := next((name for name in names if shutil.which(name)), None)) is None:
        raise CommandError(
            f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} not installed; GTKWave is the "
            "package gtkwave of Debian and Ubuntu, Surfer is at surfer-project.org"
        )
    return found


def _end(code: int) -> str:
    """How a program has ended that has not printed why."""
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"has ended with exit code {code}"


def _show(viewer: str, shown: Path, waveform: Path) -> None:
    """Opens a file in a viewer, until that is closed; CommandError with the reason when it fails. GTKWave's exit code
    is 0 even if it has no display; it then prints its usage.
    """
    try:
        done = subprocess.run(
            [shutil.which(viewer) or viewer, str(shown)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise CommandError(
            f"{viewer}: {error.strerror}; the waveform is {near(waveform)}"
        ) from error
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if any(line.startswith(_NO_DISPLAY) for line in said):
        display = os.environ.get("DISPLAY")
        reason = "cannot open a window: " + (
            f"there is no display {display}" if display else "DISPLAY is not set"
        )
    elif done.returncode:
        reason = said[-1] if said else _end(done.returncode)
    else:
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
        return
    raise CommandError(f"{viewer} {reason}; the waveform is {near(waveform)}")


def _file(options: Namespace) -> Path | None:
    """Returns the waveform, recorded if it is a testbench's; None if that failed."""
    waveform = Path(options.waveform)
    if waveform.suffix in (".vcd", FST):
        if not waveform.is_file():
            raise CommandError(f"{waveform}: No such file or directory")
        return waveform
    if waveform.suffix == _SAVE:
        recorded = [waveform.with_suffix(suffix) for suffix in (".vcd", FST)]
        found = next((path for path in recorded if path.is_file()), recorded[0])
        raise CommandError(f"{waveform} is a save file; give the waveform, {found}")
    if options.waveform not in (known := run_tb.testbenches()):
        raise CommandError(
            f"{options.waveform} is neither a .vcd or .fst file nor a testbench; there are {', '.join(known)}"
        )
    if run_tb.main([options.waveform, "--record", *["--fst"] * options.fst]):
        return None
    return _FOLDER / f"{options.waveform}{FST if options.fst else '.vcd'}"


def _work(options: Namespace) -> int:
    viewer = _viewer(options.viewer) if options.open or options.viewer else None
    if (waveform := _file(options)) is None:
        return 2
    if viewer is None:
        return 0
    save = save_file_of(waveform)
    shown = save if viewer == "gtkwave" and save is not None and save.is_file() else waveform
    _show(viewer, shown, waveform)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Parser(
        "sim.waves",
        "Records the waveform of a testbench, without its checks, or uses an existing one.",
        "trap --open",
    )
    parser.add_argument(
        "waveform", metavar="UNIT|FILE", help="a testbench, or an existing .vcd or .fst file"
    )
    parser.add_argument(
        "--open",
        action="store_true",
        help="open the waveform in GTKWave, or in Surfer if GTKWave is not installed",
    )
    parser.add_argument("--viewer", choices=_VIEWERS, help="open the waveform in this program")
    parser.add_argument("--fst", action="store_true", help="record it as FST, which is smaller")
    return parser.run(arguments, _work)
