"""Checks the machine under external faults: ``python -m testbench.faults.check --all``.

For any answers of memory, with any delay, and for any launch descriptor: a program ends or is held
with the correct error, leaves no wrong result, and the machine accepts the next one. Exit code 1: a
check has failed.
"""

import sys
from collections.abc import Sequence
from typing import Any

from rtl.params import PRESETS
from sim.checks.testbench import Bench, run
from sim.engine import CompiledEngine
from sim.support.command import Parser, print_text
from testbench.faults.descriptors import check_descriptors, wrong_values
from testbench.faults.memory_errors import MemoryErrors

__all__ = ["check", "main"]

_ERRORS, _LATE_RUNS, _DESCRIPTORS = 24, 2, 12
"""Numbers of checks of each kind in the short form."""
_ALL_LATE_RUNS = 40


def check(bench: Bench) -> None:
    """Runs some of the checks, or all if the bench is thorough."""
    params = PRESETS["tiny"]
    machine = MemoryErrors(params, bench.engine)
    numbers = list(range(machine.requests))
    if not bench.thorough:
        numbers = bench.random.sample(numbers, _ERRORS)
    for number in bench.progress(numbers, "memory errors"):
        machine.check_error(bench, number, handler=number % 3 != 0)
    for _ in range(_LATE_RUNS if not bench.thorough else _ALL_LATE_RUNS):
        machine.check_late(bench, bench.random.sample(range(machine.requests), 2))
    bench.report.cycles += machine.cycles
    wrongs = list(wrong_values(bench.random))
    check_descriptors(
        bench,
        params,
        bench.engine,
        wrongs if bench.thorough else bench.random.sample(wrongs, _DESCRIPTORS),
    )


def main(arguments: Sequence[str]) -> int:
    """Runs the command and returns the exit code."""
    parser = Parser(
        "testbench.faults.check", "Checks the machine under faults from outside.", "--all"
    )
    parser.add_argument(
        "--all", action="store_true", help="every request to memory, every field of descriptors"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of what is random; default 0"
    )
    return parser.run(arguments, _check)


def _check(chosen: Any) -> int:
    report = run("faults", check, CompiledEngine, seed=chosen.seed, thorough=chosen.all)
    print_text(report.text())
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
