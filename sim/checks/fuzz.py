"""Plays random programs on the hardware, in lockstep with the warp model: ``python -m sim.fuzz
--minutes 10 --seed 1``.

A campaign is a seed and a machine. Its results are kept in a file, and it continues where it ended.
For a case that fails, the smallest program that still fails is written as assembly text. The cases
are those of ``testbench/fuzz``.

Exit code 0: no failure was found. 1: a failure was found. 2: it could not run; one line on stderr
has the reason.
"""

import math
import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rtl.params import PRESETS
from sim.engine import ENGINES, chosen_engine
from sim.support.command import (
    CommandError,
    Parser,
    add_cache_option,
    check_file,
    make_folder,
    print_text,
    write_file,
)
from sim.support.entry import missing_of
from sim.support.interrupt import telling

__all__ = ["FuzzError", "main"]


class FuzzError(CommandError):
    """A campaign that cannot be run. The message is one line with the reason."""


@dataclass(frozen=True)
class FuzzOptions:
    """The options of the command line. ``None``: not given."""

    minutes: float
    seed: int
    preset: str
    engine: str
    cached: bool
    workers: int
    scheduler: str | None
    store: Path | None
    html: Path | None
    folder: Path
    cases: int | None
    case: int | None


def _parser() -> Parser:
    parser = Parser(
        "sim.fuzz",
        "Runs random programs on the hardware, in lockstep with the warp model.",
        "--minutes 10 --seed 1",
    )
    parser.add_argument(
        "--minutes", type=float, default=1, metavar="N", help="stop after N minutes (default: 1)"
    )
    parser.add_argument("--cases", type=int, metavar="N", help="stop after N cases")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the campaign's programs (default: 0)",
    )
    parser.add_argument(
        "--preset", choices=PRESETS, default="small", help="the machine (default: small)"
    )
    parser.add_argument(
        "--engine",
        default="auto",
        metavar=f"auto|{'|'.join(ENGINES)}",
        help="what simulates the hardware (default: auto)",
    )
    add_cache_option(parser)
    parser.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of processes (default: one for each core)",
    )
    parser.add_argument(
        "--scheduler",
        metavar="tcp://HOST:PORT",
        help="scheduler of a Dask cluster, whose workers run the cases",
    )
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help="database of the results (default: fuzz-SEED-PRESET.sqlite)",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write the coverage as a page of HTML"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="folder for the programs that fail; files there stay as they are (default: the current one)",
    )
    parser.add_argument("--case", type=int, metavar="N", help="run case N alone, and store nothing")
    return parser


def _check(options: FuzzOptions) -> None:
    """Raises FuzzError for options that cannot be combined."""
    for name, least in (("workers", 1), ("cases", 1), ("case", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise FuzzError(f"--{name} must be at least {least}, not {value}")
    if not (options.minutes > 0 and math.isfinite(options.minutes)):
        raise FuzzError(f"--minutes must be more than 0, not {options.minutes:g}")
    if options.scheduler is not None and (missing := missing_of("cluster")) is not None:
        raise FuzzError(missing)
    if options.html is not None:
        check_file(options.html)
    make_folder(options.folder)


def _one(options: FuzzOptions, number: int, engine: str) -> int:
    """Plays the case of this number; returns the exit code."""
    from testbench.fuzz.cases import case_of
    from testbench.fuzz.player import Player

    params = PRESETS[options.preset]
    case = case_of(options.seed, number, floats=params.floats, doubles=params.doubles)
    outcome = Player(options.preset, ENGINES[engine]).play(case)
    print_text(
        f"case          {case.number}, {case.kind.value}\nstatus        {outcome.status}\n"
        f"instructions  {outcome.instructions:,}\ncycles        {outcome.cycles:,}\n"
    )
    if outcome.failure is not None:
        print_text(f"failure       {outcome.failure}\n")
    return 0 if outcome.failure is None else 1


def _play(options: FuzzOptions, engine: str, store: Any, path: Path) -> list[tuple[int, str]]:
    """Plays the campaign, whose store is in the file ``path``; returns the cases that failed in
    this call.
    """
    from testbench.fuzz.campaign import Campaign, play, save

    failed: list[tuple[int, str]] = []
    campaign = Campaign(options.seed, options.preset, engine)
    played = 0
    with (
        tqdm(unit=" cases", disable=None, leave=False) as bar,
        telling(lambda: f"after {played} cases, kept in {path}"),
    ):

        def on_outcome(outcome: Any) -> None:
            nonlocal played
            played += 1
            bar.update()
            if outcome.failure is not None:
                failed.append((outcome.number, outcome.failure))

        play(
            campaign,
            store,
            60 * options.minutes,
            workers=options.workers,
            scheduler=options.scheduler,
            cases=options.cases,
            on_outcome=on_outcome,
        )
    for number, failure in failed:
        path = save(campaign, number, options.folder)
        print_text(f"case {number}: {failure}\n  smallest program: {path}\n")
    return failed


def _report(store: Any, html: Path | None, title: str) -> None:
    """Prints the results of the campaign, and writes the HTML page."""
    from testbench.fuzz import coverage

    facts = []
    sums = store.sums
    sums["all"] = tuple(map(sum, zip(*sums.values(), strict=True)))
    for kind, (cases, instructions, cycles, seconds) in sums.items():
        facts.append(
            (
                kind.lower(),
                f"{cases:,} cases, {instructions:,} instructions in lockstep, {cycles:,} cycles, "
                f"{instructions / seconds:,.0f} instructions/s of processor time",
            )
        )
    facts.append(("failed", ", ".join(f"case {number}" for number, _ in store.failures) or "none"))
    print_text(
        "".join(f"{name:12}  {value}\n" for name, value in facts) + coverage.table(store.coverage)
    )
    if html is not None:
        write_file(html, coverage.page(store.coverage, title, facts).encode())
        print_text(f"page          {html}\n")


def _work(options: FuzzOptions) -> int:
    _check(options)
    engine = chosen_engine(options).name
    if options.case is not None:
        return _one(options, options.case, engine)
    path = options.store or Path(f"fuzz-{options.seed}-{options.preset}.sqlite")
    from testbench.fuzz.store import Store

    with closing(Store(path, options.seed, options.preset)) as store:
        _play(options, engine, store, path)
        _report(
            store, options.html, f"Random programs, seed {options.seed}, preset {options.preset}"
        )
        return 1 if store.failures else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, lambda options: _work(FuzzOptions(**vars(options))))
