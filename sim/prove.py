"""Proves theorems about the hardware: ``python -m sim.prove error_status``. They are files ``prove_<name>.py`` in
``testbench/formal``.

Of each theorem three things are asked: whether it holds; whether what it speaks of can happen at all; and whether each
of its deliberate faults of the hardware makes it false.

Exit code 0: all is as it should be. 1: it is not. 2: there is no such theorem, or the tools are missing; one line on
stderr says why.
"""

import ast
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from tqdm import tqdm

from sim.command import Parser, make_folder, print_text
from sim.formal.prover import ProofError, ask, missing_prover
from sim.formal.theorem import Theorem, load

__all__ = ["main", "theorems"]

FOLDER = Path(__file__).resolve().parent.parent / "testbench" / "formal"
_PREFIX = "prove_"


@dataclass(frozen=True)
class Options:
    """The command line."""

    name: str | None
    list: bool
    short: bool
    depth: int | None
    keep: Path | None
    workers: int


def theorems(folder: Path = FOLDER) -> dict[str, Path]:
    """Name -> the file of the theorem."""
    return {path.stem.removeprefix(_PREFIX): path for path in sorted(folder.glob(f"{_PREFIX}*.py"))}


def _title(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def _parser() -> Parser:
    parser = Parser("sim.prove", "Proves theorems about the hardware.",
                    "rtt")
    parser.add_argument("name", nargs="?", help="which; without it all; --list shows them")
    parser.add_argument("--list", action="store_true", help="show the theorems")
    parser.add_argument("--short", action="store_true", help="leave out those that take more than a minute")
    parser.add_argument("--depth", type=int, metavar="N", help="of the induction, in cycles, instead of the theorem's")
    parser.add_argument("--keep", type=Path, metavar="FOLDER",
                        help="keep the files of the tools, waveforms of what is wrong among them")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N",
                        help="theorems at once; all cores without it")
    return parser


def _prove(bar: Any, lock: Lock, folder: Path, depth: int | None, name: str, path: Path, theorem: Theorem) -> bool:
    """Proves one theorem and prints what was found."""
    right = True
    for answer in ask(path, theorem, folder / name, depth):
        right &= answer.right
        with lock:
            bar.clear()
            print_text(f"{name:16} {answer.seconds:6.1f} s  {'yes' if answer.right else 'NO '}  {answer.question}"
                       f"{answer.where and f', {answer.where}'}\n")
            bar.update()
    return right


def _prove_all(options: Options, folder: Path, paths: dict[str, Path]) -> bool:
    """Proves theorems, some at once, those that take long first."""
    chosen = [(name, path, load(path)) for name, path in paths.items()]
    chosen = [each for each in chosen if not (options.short and each[2].long)]
    chosen.sort(key=lambda each: not each[2].long)
    questions = sum(2 + len(theorem.faults) for _, _, theorem in chosen)
    with (tqdm(total=questions, desc="questions", disable=None, leave=False) as bar,
          ThreadPoolExecutor(options.workers) as pool):
        prove = partial(_prove, bar, Lock(), folder, options.depth)
        done = [pool.submit(prove, *each) for each in chosen]
        try:
            wrong = [each for each in done if not each.result()]
        finally:
            pool.shutdown(cancel_futures=True)
    return not wrong


def _work(options: Options) -> int:
    known = theorems()
    if options.list:
        width = max(map(len, known), default=0)
        print_text("".join(f"{name:{width}}  {_title(path)}\n" for name, path in known.items()))
        return 0
    if options.name is not None and options.name not in known:
        raise ProofError(f"no theorem {options.name}: there are {', '.join(known)}")
    for name in ("depth", "workers"):
        if (value := getattr(options, name)) is not None and value < 1:
            raise ProofError(f"--{name} has to be 1 at least, not {value}")
    if (missing := missing_prover()) is not None:
        raise ProofError(missing)
    if options.keep is not None:
        make_folder(options.keep)
    with (TemporaryDirectory() if options.keep is None else nullcontext(options.keep)) as folder:
        paths = known if options.name is None else {options.name: known[options.name]}
        return 0 if _prove_all(options, Path(folder), paths) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, lambda options: _work(Options(**vars(options))))


if __name__ == "__main__":
    sys.exit(main())
