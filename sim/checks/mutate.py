"""Mutation testing: changes the sources in one small place at a time, and runs the tests: ``python
-m sim.mutate crs``.

A mutant is killed by a test that fails or does not end. Those that survive are listed, so that a
missing test can be added, or a reason why they are equivalent. Results are kept in a file, and the
next call continues where it ended.

Exit code 0: of each unit's mutants at least --least per cent were killed. 1: fewer were. 2: it
could not run; one line on stderr has the reason.
"""

import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tqdm import tqdm

from sim.checks.formal.prover import missing_prover
from sim.checks.mutation.covering import covering_tests, importing_tests
from sim.checks.mutation.mutants import OPERATORS, Mutant
from sim.checks.mutation.store import Store, digest_of
from sim.checks.mutation.trial import TrialPlan, baseline, trial
from sim.checks.mutation.units import Unit, reasons_of, units_of
from sim.checks.workers import results_of
from sim.support.command import CommandError, Parser, print_text
from sim.support.entry import missing_of
from sim.support.interrupt import telling

__all__ = ["MutateError", "main"]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "testbench" / "mutation"
_KILLED = ("KILLED", "HANGS")
_COLUMNS = {
    "KILLED": "killed",
    "HANGS": "hangs",
    "SURVIVED": "survived",
    "EQUIVALENT": "same netlist",
    "KNOWN": "same by reason",
    "STILLBORN": "stillborn",
    "OPEN": "open",
}
"""Headings of the table by state."""


class MutateError(CommandError):
    """Mutants that cannot be tried. The message is one line with the reason."""


@dataclass(frozen=True)
class MutateOptions:
    """The options of the command line. ``None``: not given."""

    units: list[str]
    sample: int | None
    seed: int
    workers: int
    scheduler: str | None
    minutes: float
    store: Path
    again: bool
    own: bool
    longest: float
    theorems: str
    least: float
    list: bool


@dataclass(frozen=True)
class _Case:
    """A mutant of a unit. ``source`` is the digest of its file."""

    unit: Unit
    mutant: Mutant
    source: str


def _parser() -> Parser:
    parser = Parser(
        "sim.mutate",
        "Mutation testing: changes the sources in one small place at a time, and runs their tests.",
        "crs barrier --sample 60 --seed 1",
    )
    parser.add_argument(
        "units",
        nargs="*",
        metavar="UNIT",
        help="units whose sources are changed (default: all that have a list of tests)",
    )
    parser.add_argument("--list", action="store_true", help="show the mutants, and run nothing")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="run N mutants of each unit (default: all)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed that selects the mutants of the sample (default: 0)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        metavar="N",
        help="stop after N minutes (default: never)",
    )
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
        help="scheduler of a Dask cluster, whose workers run the mutants",
    )
    parser.add_argument(
        "--store",
        type=Path,
        default=Path("mutants.sqlite"),
        metavar="FILE",
        help="database of the results (default: mutants.sqlite)",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="run the tests on survivors of earlier runs again",
    )
    parser.add_argument(
        "--own", action="store_true", help="run only the tests of the unit itself, and no theorems"
    )
    parser.add_argument(
        "--longest",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="run only tests that take at most so much CPU time, for host code (default: all)",
    )
    parser.add_argument(
        "--theorems",
        choices=("none", "short", "all"),
        default="short",
        help="theorems that are proved on survivors of the tests (default: short, those that take at most a minute)",
    )
    parser.add_argument(
        "--least",
        type=float,
        default=95,
        metavar="PERCENT",
        help="percentage of a unit's mutants that must be killed for exit code 0 (default: 95)",
    )
    return parser


def _check(options: MutateOptions) -> None:
    """Raises MutateError for options that cannot be combined."""
    for name in ("workers", "sample"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise MutateError(f"--{name} must be at least 1, not {value}")
    if not options.minutes > 0:
        raise MutateError(f"--minutes must be more than 0, not {options.minutes:g}")
    if not options.longest > 0:
        raise MutateError(f"--longest must be more than 0, not {options.longest:g}")
    if not 0 <= options.least <= 100:
        raise MutateError(f"--least must be from 0 to 100, not {options.least:g}")
    for extra in ["test"] * (not options.list) + ["cluster"] * (options.scheduler is not None):
        if (missing := missing_of(extra)) is not None:
            raise MutateError(missing)


def _units(options: MutateOptions) -> list[Unit]:
    known = units_of(ROOT, FOLDER, own=options.own)
    for name in options.units:
        if name not in known:
            raise MutateError(f"no unit {name}: there are {', '.join(known)}")
    hardware = any(not known[name].is_host for name in options.units or known)
    if hardware and options.theorems != "none" and not (options.own or options.list):
        if (missing := missing_prover()) is not None:
            raise MutateError(f"{missing}, or --theorems none")
        known = units_of(ROOT, FOLDER, theorems=options.theorems)
    return [known[name] for name in dict.fromkeys(options.units or known)]


def _cases(units: Sequence[Unit], sample: int | None, seed: int) -> list[_Case]:
    """Returns the mutants, unit by unit: those of a sample in its order, or all in the order of the
    files.
    """
    cases = []
    for unit in units:
        mutants = unit.mutants(ROOT)
        if sample is not None:
            mutants = sorted(mutants, key=lambda mutant: mutant.rank(seed))[:sample]
        digests = {file: digest_of([ROOT / file]) for file in unit.files(ROOT)}
        cases += [_Case(unit, mutant, digests[mutant.file]) for mutant in mutants]
    return cases


def _list(cases: Sequence[_Case]) -> None:
    print_text("".join(f"{case.mutant.operator:9} {case.mutant}\n" for case in cases))


def _measure(
    options: MutateOptions, store: Store, units: Sequence[Unit], folder: Path
) -> dict[str, str]:
    """Runs the tests of units without mutants, unless that was done with the current sources;
    returns the digest of the sources by unit.
    """
    sources = {unit.name: digest_of(unit.project_files(ROOT)) for unit in units}
    missing = [unit for unit in units if store.netlists(unit, sources[unit.name]) is None]
    with (
        tqdm(
            total=len(missing),
            desc="tests without mutants",
            unit=" units",
            disable=None,
            leave=False,
        ) as bar,
        closing(
            results_of(
                baseline,
                ((ROOT, unit, folder) for unit in missing),
                lambda: True,
                workers=options.workers,
                scheduler=options.scheduler,
            )
        ) as results,
    ):
        for found in results:
            if found.failed:
                raise MutateError(
                    f"{found.unit}: without a mutant there fails {', '.join(found.failed)}"
                )
            store.add_baseline(found, sources[found.unit])
            bar.update()
    return sources


def _try(options: MutateOptions, store: Store, cases: Sequence[_Case], folder: Path) -> None:
    """Tries mutants, in copies of the project in a folder."""
    units = list({case.unit.name: case.unit for case in cases}.values())
    sources = _measure(options, store, units, folder)
    of_key, tried = {case.mutant.key: case for case in cases}, 0
    end = time.monotonic() + 60 * options.minutes

    def tasks() -> Iterator[tuple[Path, Unit, Mutant, TrialPlan, Path]]:
        for case in cases:
            # The plan uses what is known of the tests by then.
            plan = store.plan(case.unit, sources[case.unit.name])
            if case.unit.is_host:
                source = (ROOT / case.mutant.file).read_text(encoding="utf-8")
                only = covering_tests(
                    case.mutant,
                    source,
                    store.lines(case.unit, sources[case.unit.name]),
                    plan.order,
                    importing_tests(case.mutant.file, plan.order, ROOT),
                )
                plan = replace(plan, only=only).limited_to(options.longest)
            yield ROOT, case.unit, case.mutant, plan, folder

    with (
        tqdm(total=len(cases), unit=" mutants", disable=None, leave=False) as bar,
        telling(lambda: f"after {tried} mutants, kept in {options.store}"),
        closing(
            results_of(
                trial,
                tasks(),
                lambda: time.monotonic() < end,
                workers=options.workers,
                scheduler=options.scheduler,
                ahead=1,
            )
        ) as results,
    ):
        for found in results:
            tried += 1
            case = of_key[found.mutant.key]
            store.add(case.unit, case.source, found)
            bar.update()


def _state(store: Store, case: _Case, reasons: dict[tuple[str, str, str], str]) -> str:
    """Returns the state of a case, a key of _COLUMNS."""
    if case.mutant.key in reasons:
        return "KNOWN"
    found = store.of(case.mutant, case.source)
    return "OPEN" if found is None else found.state.name


def _rate(counts: Counter[str]) -> float:
    """Returns the percentage of killed mutants among those that were killed or survived."""
    killed = sum(counts[state] for state in _KILLED)
    return 100 * killed / total if (total := killed + counts["SURVIVED"]) else 100.0


def _report(
    store: Store, cases: Sequence[_Case], reasons: dict[tuple[str, str, str], str]
) -> dict[str, float]:
    """Prints the results; returns the percentage of killed mutants by unit."""
    states = [_state(store, case, reasons) for case in cases]
    counts: dict[tuple[str, str], Counter[str]] = {}
    for case, state in zip(cases, states, strict=True):
        for row in ((case.unit.name, ""), (case.unit.name, case.mutant.operator)):
            counts.setdefault(row, Counter())[state] += 1
    order = ["", *OPERATORS]
    head = f"{'unit':9} {'change':8} {'mutants':>7} {'  '.join(_COLUMNS.values())}    rate"
    lines = [head]
    for unit, operator in sorted(counts, key=lambda row: (row[0], order.index(row[1]))):
        row = counts[unit, operator]
        numbers = "  ".join(f"{row[state]:>{len(heading)}}" for state, heading in _COLUMNS.items())
        named = f"{'' if operator else unit:9} {operator or 'all':8}"
        lines.append(f"{named} {row.total():7} {numbers}  {_rate(row):5.1f} %")
    lines += [
        f"survived: {case.mutant}"
        for case, state in zip(cases, states, strict=True)
        if state == "SURVIVED"
    ]
    print_text("".join(f"{line.rstrip()}\n" for line in lines))
    return {unit: _rate(row) for (unit, operator), row in counts.items() if not operator}


def _work(options: MutateOptions) -> int:
    _check(options)
    units = _units(options)
    cases = _cases(units, options.sample, options.seed)
    if options.list:
        _list(cases)
        return 0
    reasons = reasons_of(FOLDER)
    with closing(Store(options.store)) as store:
        wanted = ("OPEN", "SURVIVED") if options.again else ("OPEN",)
        open_cases = [case for case in cases if _state(store, case, reasons) in wanted]
        if open_cases:
            with TemporaryDirectory(
                prefix="warpstack-mutate-", ignore_cleanup_errors=True
            ) as folder:
                _try(options, store, open_cases, Path(folder))
        rates = _report(store, cases, reasons)
        return int(any(rate < options.least for rate in rates.values()))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, lambda options: _work(MutateOptions(**vars(options))))
