"""Runs numba's own tests on this machine: ``python -m testbench.cuda.numba_tests``. It takes half
an hour.

The tests are those of numba 0.60.0, or of another suite that is named, in the environment of
another Python. With ``--write``, tests that did not pass are listed in a page, by name and reason.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from tqdm import tqdm

from rtl.params import PRESETS
from sim.cuda.device import Device
from sim.cuda.server import Server
from sim.launch_options import number_from_one
from sim.runner import ModelRunner
from sim.support.command import CommandError, Parser, check_file, write_file
from testbench.cuda.suite import (
    Outcome,
    Suite,
    packages_of,
    run_tests,
    section,
    test_names,
    with_section,
)

SUITES = {
    "numba": Suite("numba 0.60.0", "numba", "0.60.0", "numba/cuda/tests", "numba.cuda.tests"),
    "numba-cuda": Suite(
        "numba-cuda 0.30.4",
        "numba-cuda",
        "0.30.4",
        "numba_cuda/numba/cuda/tests",
        "numba.cuda.tests",
    ),
    "pycuda": Suite("PyCUDA 2026.1", "pycuda", "2026.1", "test", checkout=True),
    "tinygrad": Suite(
        "tinygrad, test_ops",
        "tinygrad",
        "0.14.0",
        "test/backend",
        "test.backend",
        checkout=True,
        pattern="test_ops.py",
        variables={"DEV": "CUDA:PTX", "FORWARD_ONLY": "1"},
    ),
}
_MEMORY_MIB = 4096
_LIMIT = 1_000_000_000


@dataclass(frozen=True)
class NumbaTestOptions:
    """The options of the command line."""

    suite: str
    python: str
    checkout: str | None
    preset: str
    module: list[str]
    test: list[str]
    every: int
    seconds: int
    list: bool
    json: str | None
    write: str | None


def _parser() -> Parser:
    parser = Parser(
        "testbench.cuda.numba_tests",
        "Runs numba's own tests on the warp model.",
        "--python ENVIRONMENT/bin/python --module cudapy.test_array --json results.json",
    )
    parser.add_argument(
        "--suite", choices=tuple(SUITES), default="numba", help="whose tests (default: numba)"
    )
    parser.add_argument(
        "--python",
        metavar="FILE",
        default=sys.executable,
        help="the Python that has numba (default: the one that runs this)",
    )
    parser.add_argument(
        "--checkout",
        metavar="FOLDER",
        help="a copy of the repository of PyCUDA or tinygrad, which has their tests",
    )
    parser.add_argument(
        "--preset",
        choices=tuple(PRESETS),
        default="programs",
        help="the machine's size (default: programs)",
    )
    parser.add_argument(
        "--module",
        metavar="NAME",
        action="append",
        default=[],
        help="run modules with that in their name only; may be given several times",
    )
    parser.add_argument(
        "--test",
        metavar="NAME",
        action="append",
        default=[],
        help="run tests with that in their name only; may be given several times",
    )
    parser.add_argument(
        "--every",
        metavar="N",
        type=number_from_one,
        default=1,
        help="run every Nth test of a module (default: 1)",
    )
    parser.add_argument(
        "--seconds",
        metavar="N",
        type=number_from_one,
        default=120,
        help="give a test up after N seconds (default: 120)",
    )
    parser.add_argument(
        "--list", action="store_true", help="print the names of the modules, and run nothing"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write what each test came to, after each of them"
    )
    parser.add_argument(
        "--write", metavar="PAGE", help="write the table of what does not pass into a page"
    )
    return parser


def _root(options: NumbaTestOptions, suite: Suite) -> Path:
    """Returns the folder of the tests."""
    packages = packages_of(options.python, suite)
    if not suite.checkout:
        return packages
    if options.checkout is None:
        raise CommandError(
            f"--checkout is missing: {suite.distribution} is installed without its tests"
        )
    return Path(options.checkout).absolute()


def _modules(options: NumbaTestOptions, root: Path, suite: Suite) -> list[str]:
    chosen = [
        name
        for name in test_names(root, suite)
        if not options.module or any(part in name for part in options.module)
    ]
    if not chosen:
        raise CommandError(
            f"{' '.join(options.module) or root}: no such tests of {suite.title}; see --list"
        )
    return chosen


def _run(
    options: NumbaTestOptions, root: Path, suite: Suite, modules: Sequence[str]
) -> list[Outcome]:
    """Runs all tests of the modules, with a new server for each module, so that modules can't
    affect each other.
    """
    outcomes: list[Outcome] = []
    bar = tqdm(modules, unit=" modules", disable=None)
    for module in bar:
        bar.set_description_str(module.removeprefix(f"{suite.package}."))
        device = Device(ModelRunner(PRESETS[options.preset]), _MEMORY_MIB << 20, _LIMIT)
        folder = root if suite.checkout else None
        with closing(device.memory), closing(Server(device)) as server:
            for outcome in run_tests(
                server,
                options.python,
                suite,
                module,
                options.seconds,
                options.every,
                folder,
                options.test,
            ):
                if outcome.outcome in ("failed", "too slow"):
                    tqdm.write(f"{outcome.test}: {outcome.outcome}: {outcome.reason}")
                outcomes.append(outcome)
                if options.json:
                    content = json.dumps([asdict(one) for one in outcomes], indent=1)
                    write_file(options.json, content.encode() + b"\n")
    return outcomes


def _note(options: NumbaTestOptions) -> str:
    every = "" if options.every == 1 else f" every {options.every}. test of each module;"
    return (
        f"`python -m testbench.cuda.numba_tests --suite {options.suite}`, engine `model`, preset "
        f"`{options.preset}`;{every} a test is given up after {options.seconds} s."
    )


def _work(options: NumbaTestOptions) -> int:
    suite = SUITES[options.suite]
    root = _root(options, suite)
    modules = _modules(options, root, suite)
    if options.list:
        print("\n".join(modules))
        return 0
    if options.write and (options.module or options.test):
        raise CommandError("--write wants all modules and tests, not some of them")
    for path in (options.json, options.write):
        if path:
            check_file(path)
    outcomes = _run(options, root, suite, modules)
    counts = Counter(one.outcome for one in outcomes)
    print(", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())))
    if options.write:
        page = Path(options.write)
        before = page.read_text() if page.exists() else "# Test suites of CUDA libraries\n"
        write_file(
            page,
            with_section(before, suite.title, section(suite, outcomes, _note(options))).encode(),
        )
    return int(bool(counts["failed"] + counts["too slow"]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns the exit code."""
    return _parser().run(arguments, lambda options: _work(NumbaTestOptions(**vars(options))))


if __name__ == "__main__":
    sys.exit(main())
