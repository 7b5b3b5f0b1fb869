"""Host instructions per simulated cycle, counted by valgrind's callgrind."""

import re
import shutil
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory

from sim.checks.benchmarks.machine import BenchmarkError
from sim.engine.tape import Tape, build_replay
from sim.support.children import run_child

__all__ = ["can_count", "instructions_per_cycle"]

_FIRST, _LAST = 1_000, 4_000
"""The cycles between which instructions are counted; a shorter run ends earlier."""
_LEAST = 1_000
"""Least number of cycles for a count."""


def can_count() -> bool:
    """Whether valgrind is installed."""
    return shutil.which("valgrind") is not None


def _total(replay: Path, library: Path, tape: Path, cycles: int) -> int:
    """Returns the number of instructions of a run of this many cycles."""
    counts = tape.with_suffix(".callgrind")
    done = run_child(
        [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={counts}",
            replay,
            library,
            tape,
            str(cycles),
        ],
        stdout=PIPE,
        stderr=PIPE,
    )
    if done.returncode:
        raise BenchmarkError(f"valgrind: {(done.stderr.splitlines() or ['no reason given'])[-1]}")
    found = re.search(r"^summary: (\d+)", counts.read_text(errors="replace"), re.MULTILINE)
    if found is None:
        raise BenchmarkError("valgrind: callgrind has written no summary")
    return int(found[1])


def instructions_per_cycle(library: Path, tape: Tape) -> float | None:
    """Returns the instructions per cycle of a recorded run, without start-up; None if the run is
    too short.

    The run is replayed up to two different cycles; the difference is the cost of the cycles between
    them.
    """
    last = min(_LAST, tape.cycles)
    if last - _FIRST < _LEAST:
        return None
    with TemporaryDirectory() as folder:
        replay, path = Path(folder, "replay"), Path(folder, "run.tape")
        build_replay(replay)
        tape.write(path)
        short, long = (_total(replay, library, path, cycles) for cycles in (_FIRST, last))
    return (long - short) / (last - _FIRST)
