"""Coverage-guided damage of files: ``python -m testbench.faults.guided sass --seconds 60``.

Atheris changes files of this project at random and keeps those that reach new code of their
readers. Exit code 1: a file was neither read nor refused in one line; it is kept. 2: the check is
not possible; one line on stderr has the reason.
"""

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sim.support.activity import activity
from sim.support.command import CommandError, Parser, make_folder, print_text

__all__ = ["main", "outcome"]

_SAMPLES, _LONGEST = 60, 1 << 14
"""Number of initial files, and size of the longest one in bytes."""
_SLOW = 60
"""Time limit in seconds for reading a file."""
_TOLD = 2_000
"""Number of characters of libFuzzer's last output that are shown if it has no known message."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns the exit code."""
    # Not at the top: the process that reads begins with this module, and instruments what it
    # imports afterwards.
    from testbench.faults.files import READERS

    parser = Parser(
        "testbench.faults.guided",
        "Changes files, guided by what of their reader they reach.",
        "sass --seconds 60",
    )
    parser.add_argument("kind", choices=READERS, help="of the files")
    parser.add_argument("--seconds", type=int, default=60, metavar="N", help="how long; default 60")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of what is random; default 1"
    )
    parser.add_argument(
        "--corpus",
        type=Path,
        metavar="FOLDER",
        help="begin with the files there, too, and keep there what reaches other places",
    )
    parser.add_argument(
        "--found",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="for what is found; default here",
    )
    return parser.run(arguments, _fuzz)


def _fuzz(chosen: Any) -> int:
    if find_spec("atheris") is None:
        raise CommandError("the extra 'guided' is not installed: pip install -e '.[guided]'")
    for folder in (chosen.corpus, chosen.found):
        if folder is not None:
            make_folder(folder)
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "log")
        with activity(f"reading changed {chosen.kind} files"):
            process = get_context("spawn").Process(
                target=_read_changed, args=(chosen, Path(scratch), log)
            )
            process.start()
            process.join()
        return outcome(
            chosen.kind, process.exitcode == 0, log.read_text(encoding="utf-8", errors="replace")
        )


def outcome(kind: str, ended_well: bool, said: str) -> int:
    """Prints the relevant part of libFuzzer's output; returns the exit code."""
    figures = dict(re.findall(r"^stat::(\w+): +(\d+)$", said, re.MULTILINE))
    wrong = re.search(
        r"=== Uncaught Python exception: ===\n(.*?)\n==.*Test unit written to (\S+)",
        said,
        re.DOTALL,
    )
    if ended_well and figures:
        print_text(
            f"{int(figures['number_of_executed_units']):,} {kind} files, of which "
            f"{int(figures['new_units_added']):,} reach other places: all are read, or refused in one line\n"
        )
        return 0
    print_text(
        f"{wrong[1].strip()}\n{wrong[2]}: this file does it\n" if wrong else f"{said[-_TOLD:]}\n"
    )
    return 1


def _read_changed(chosen: Any, scratch: Path, log: Path) -> None:
    """Reads changed files until the time limit or the first error; libFuzzer then ends the process."""
    with log.open("wb") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(
        include=["sim.toolchain", "sim.launch"], enable_loader_override=False
    ):
        from testbench.faults import files

    corpus = scratch / "corpus"
    corpus.mkdir()
    for number, content in enumerate(files.samples(chosen.kind)):
        if number < _SAMPLES and len(content) <= _LONGEST:
            Path(corpus, str(number)).write_bytes(content)

    def read(content: bytes) -> None:
        files.read_or_refuse(chosen.kind, content)

    atheris.Setup(
        [
            sys.argv[0],
            *([str(chosen.corpus)] if chosen.corpus else []),
            str(corpus),
            f"-seed={chosen.seed}",
            f"-max_total_time={chosen.seconds}",
            f"-max_len={_LONGEST}",
            f"-timeout={_SLOW}",
            f"-artifact_prefix={chosen.found}/",
            "-verbosity=0",
            "-print_final_stats=1",
        ],
        read,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
