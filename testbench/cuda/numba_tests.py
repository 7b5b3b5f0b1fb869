"""Runs numba's own tests on this machine: ``python -m testbench.cuda.numba_tests``. It takes half an hour.

The tests are those of numba 0.60.0 or of numba-cuda 0.30.4, in the environment of another Python. With ``--write``,
what did not pass is written into a page, by name and reason.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from tqdm import tqdm

from rtl.params import PRESETS
from sim.command import CommandError, Parser, check_file, write_file
from sim.cuda.device import Device
from sim.cuda.server import Server
from sim.launch_options import number_from_one
from sim.runner import ModelRunner
from testbench.cuda.suite import Outcome, Suite, module_names, packages_of, run_module, section, with_section

SUITES = {
    "numba": Suite("numba 0.60.0", "numba", "0.60.0", "numba.cuda.tests", "numba/cuda/tests"),
    "numba-cuda": Suite("numba-cuda 0.30.4", "numba-cuda", "0.30.4", "numba.cuda.tests",
                        "numba_cuda/numba/cuda/tests"),
}
_MEMORY_MIB = 4096
_LIMIT = 1_000_000_000


@dataclass(frozen=True)
class Options:
    """The command line."""

    suite: str
    python: str
    preset: str
    module: list[str]
    every: int
    seconds: int
    list: bool
    json: str | None
    write: str | None


def _parser() -> Parser:
    parser = Parser("testbench.cuda.numba_tests", "Runs numba's own tests on the warp model.",
                    "--python ENVIRONMENT/bin/python --module cudapy.test_array --json results.json")
    parser.add_argument("--suite", choices=tuple(SUITES), default="numba", help="whose tests (default: numba)")
    parser.add_argument("--python", metavar="FILE", default=sys.executable,
                        help="the Python that has numba (default: the one that runs this)")
    parser.add_argument("--preset", choices=tuple(PRESETS), default="programs",
                        help="the machine's size (default: programs)")
    parser.add_argument("--module", metavar="NAME", action="append", default=[],
                        help="run modules with that in their name only; may be given several times")
    parser.add_argument("--every", metavar="N", type=number_from_one, default=1,
                        help="run every Nth test of a module (default: 1)")
    parser.add_argument("--seconds", metavar="N", type=number_from_one, default=120,
                        help="give a test up after N seconds (default: 120)")
    parser.add_argument("--list", action="store_true", help="print the names of the modules, and run nothing")
    parser.add_argument("--json", metavar="FILE", help="write what each test came to")
    parser.add_argument("--write", metavar="PAGE", help="write the table of what does not pass into a page")
    return parser


def _modules(options: Options, suite: Suite) -> list[str]:
    names = module_names(packages_of(options.python, suite), suite)
    chosen = [name for name in names if not options.module or any(part in name for part in options.module)]
    if not chosen:
        raise CommandError(f"--module {' '.join(options.module)}: no such module of {suite.title}; see --list")
    return chosen


def _run(options: Options, suite: Suite, modules: Sequence[str]) -> Iterator[Outcome]:
    """All tests of the modules; a server for each, so that what one leaves does not reach the next."""
    bar = tqdm(modules, unit=" modules", disable=None)
    for module in bar:
        bar.set_description_str(module.removeprefix(suite.package + "."))
        device = Device(ModelRunner(PRESETS[options.preset]), _MEMORY_MIB << 20, _LIMIT)
        with closing(device.memory), closing(Server(device)) as server:
            for outcome in run_module(server, options.python, suite, module, options.seconds, options.every):
                if outcome.outcome in ("failed", "too slow"):
                    tqdm.write(f"{outcome.test}: {outcome.outcome}: {outcome.reason}")
                yield outcome


def _note(options: Options, suite: Suite) -> str:
    every = "" if options.every == 1 else f" every {options.every}. test of each module;"
    return (f"`python -m testbench.cuda.numba_tests --suite {options.suite}`, engine `model`, preset "
            f"`{options.preset}`;{every} a test is given up after {options.seconds} s.")


def _work(options: Options) -> int:
    suite = SUITES[options.suite]
    modules = _modules(options, suite)
    if options.list:
        print("\n".join(modules))
        return 0
    if options.write and options.module:
        raise CommandError("--write wants all modules, not some of them")
    for path in (options.json, options.write):
        if path:
            check_file(path)
    outcomes = list(_run(options, suite, modules))
    counts = Counter(one.outcome for one in outcomes)
    print(", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())))
    if options.json:
        write_file(options.json, json.dumps([asdict(one) for one in outcomes], indent=1).encode() + b"\n")
    if options.write:
        page = Path(options.write)
        before = page.read_text() if page.exists() else "# Other people's tests\n"
        write_file(page, with_section(before, suite.title, section(suite, outcomes, _note(options, suite))).encode())
    return int(bool(counts["failed"] + counts["too slow"]))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, lambda options: _work(Options(**vars(options))))


if __name__ == "__main__":
    sys.exit(main())
