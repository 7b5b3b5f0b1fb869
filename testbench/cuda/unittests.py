"""Runs test cases of a package in the package's own environment, and says on a pipe what each came to.

``python unittests.py DESCRIPTOR MODULE FIRST EVERY``: a program of its own, which needs nothing but the standard
library. It writes a line of JSON for each event: all tests at first, then the begin and the end of each, by number. It
runs each EVERY-th test from number FIRST on, which an earlier process has not come to.
"""

import json
import os
import sys
import traceback
import unittest
from collections.abc import Iterator
from types import TracebackType
from typing import Any, TextIO

_Error = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


def _cases(suite: Any) -> Iterator[unittest.TestCase]:
    """All cases of a suite, in order."""
    if isinstance(suite, unittest.TestCase):
        yield suite
        return
    for one in suite:
        yield from _cases(one)


class _Results(unittest.TestResult):
    """Writes what a test comes to; the first thing that is wrong with it counts."""

    def __init__(self, file: TextIO, cases: list[unittest.TestCase]) -> None:
        super().__init__()
        self._file = file
        self._numbers = {id(case): number for number, case in enumerate(cases)}
        self._outcome: tuple[str, str] | None = None

    def say(self, **event: Any) -> None:
        """A line on the pipe."""
        print(json.dumps(event), file=self._file, flush=True)

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 (the name is unittest's)
        self._outcome = None
        self.say(begin=self._numbers[id(test)])

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        outcome, reason = self._outcome or ("passed", "")
        self.say(end=self._numbers[id(test)], outcome=outcome, reason=reason)

    def _is(self, test: unittest.TestCase, outcome: str, reason: str = "") -> None:
        if not isinstance(test, unittest.TestCase) or type(test).__name__ == "_ErrorHolder":
            self.say(group=test.id(), outcome=outcome, reason=reason)
        elif self._outcome is None or self._outcome[0] == "skipped":
            self._outcome = (outcome, reason)

    @staticmethod
    def _line(error: _Error) -> str:
        """The last line of what went wrong that says something."""
        lines = "".join(traceback.format_exception_only(error[0], error[1])).strip().splitlines()
        first = lines[0] if lines else ""
        more = [line.strip() for line in lines if "CUDA_ERROR" in line or "warpstack" in line]
        return first if not more or more[0] == first else f"{first} {more[0]}"

    def addError(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        self._is(test, "failed", self._line(err))

    def addFailure(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        self._is(test, "failed", self._line(err))

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase,  # noqa: N802
                   err: _Error | None) -> None:
        if err is not None:
            self._is(test, "failed", self._line(err))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self._is(test, "skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        self._is(test, "expected failure")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self._is(test, "failed", "passed, which is not expected")


def main() -> None:
    """The program."""
    descriptor, module, (first, every) = int(sys.argv[1]), sys.argv[2], map(int, sys.argv[3:5])
    os.set_inheritable(descriptor, False)
    with os.fdopen(descriptor, "w") as file:
        if module.startswith("numba.cuda"):
            from numba.cuda.testing import ensure_supported_ccs_initialized  # type: ignore[import-not-found]
            ensure_supported_ccs_initialized()      # as the package's own collection does
        cases = list(_cases(unittest.defaultTestLoader.loadTestsFromName(module)))
        results = _Results(file, cases)
        results.say(tests=[case.id() for case in cases])
        unittest.TestSuite(case for number, case in enumerate(cases) if number >= first and not number % every).run(
            results)
        results.say(ended=True)
    os._exit(0)     # what a package does at its end is not tested


if __name__ == "__main__":
    main()
