"""Proves theorems about the hardware: ``python -m sim.prove error_status``. The theorems are files
``prove_<name>.py`` in ``testbench/formal``.

Each theorem is checked in three respects: whether it holds; whether its covers are reachable; and
whether each of its deliberate faults of the hardware makes it false.

Exit code 0: all results are as expected. 1: some are not. 2: there is no such theorem, or the tools
are missing; one line on stderr has the reason.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tqdm import tqdm

from sim.checks.formal.prover import ProofError, answer, missing_prover, questions
from sim.checks.formal.theorem import load
from sim.checks.run_tb import title_of
from sim.checks.workers import results_of
from sim.support.command import Parser, claim_folder, print_text
from sim.support.interrupt import telling

__all__ = ["main", "theorems"]

FOLDER = Path(__file__).resolve().parents[2] / "testbench" / "formal"
_MARKER = ".warpstack-proof"
"""In a folder that this command made; its next run deletes files there."""
_PREFIX = "prove_"


@dataclass(frozen=True)
class ProveOptions:
    """The options of the command line."""

    name: str | None
    list: bool
    short: bool
    depth: int | None
    keep: Path | None
    workers: int


def theorems(folder: Path = FOLDER) -> dict[str, Path]:
    """Returns the files of the theorems by name."""
    return {path.stem.removeprefix(_PREFIX): path for path in sorted(folder.glob(f"{_PREFIX}*.py"))}


def _parser() -> Parser:
    parser = Parser("sim.prove", "Proves theorems about the hardware.", "rtt")
    parser.add_argument(
        "name", nargs="?", help="the theorem (default: all); --list shows the names"
    )
    parser.add_argument("--list", action="store_true", help="show the theorems")
    parser.add_argument(
        "--short", action="store_true", help="leave out theorems that take more than a minute"
    )
    parser.add_argument(
        "--depth",
        type=int,
        metavar="N",
        help="depth of the induction in cycles (default: the theorem's)",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep the files of the tools here, in a folder for each theorem, with the waveforms of counterexamples",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of processes (default: one for each core)",
    )
    return parser


def _prove(options: ProveOptions, folder: Path, paths: Iterable[Path]) -> bool:
    """Proves theorems, long ones first, and prints the results; returns whether all are as
    expected.
    """
    loaded = sorted(((path, load(path)) for path in paths), key=lambda each: not each[1].long)
    questions_to_answer = [
        (question,)
        for path, theorem in loaded
        if not (options.short and theorem.long)
        for question in questions(path, theorem, folder / path.stem, options.depth)
    ]
    right = True
    with ExitStack() as stack:
        bar = stack.enter_context(
            tqdm(total=len(questions_to_answer), desc="questions", disable=None, leave=False)
        )
        stack.enter_context(
            telling(lambda: f"after {bar.n} of {len(questions_to_answer)} questions")
        )
        found = stack.enter_context(
            closing(
                results_of(answer, iter(questions_to_answer), lambda: True, workers=options.workers)
            )
        )
        for each in found:
            right &= each.right
            bar.clear()
            print_text(
                f"{each.question.theorem:16} {each.seconds:6.1f} s  {'yes' if each.right else 'NO '}  "
                f"{each.question.text}{each.explanation and f', {each.explanation}'}\n"
            )
            bar.update()
    return right


def _work(options: ProveOptions) -> int:
    known = theorems()
    if options.list:
        width = max(map(len, known), default=0)
        for name, path in known.items():
            if not (options.short and load(path).long):
                print_text(f"{name:{width}}  {title_of(path)}\n")
        return 0
    if options.name is not None and options.name not in known:
        raise ProofError(f"no theorem {options.name}: there are {', '.join(known)}")
    for name in ("depth", "workers"):
        if (value := getattr(options, name)) is not None and value < 1:
            raise ProofError(f"--{name} must be at least 1, not {value}")
    if (missing := missing_prover()) is not None:
        raise ProofError(missing)
    paths = known.values() if options.name is None else (known[options.name],)
    if options.keep is not None:
        for path in paths:
            claim_folder(options.keep / path.stem, _MARKER)
    with TemporaryDirectory() if options.keep is None else nullcontext(options.keep) as folder:
        return 0 if _prove(options, Path(folder), paths) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, lambda options: _work(ProveOptions(**vars(options))))
