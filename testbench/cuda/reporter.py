"""Runs tests of a package in the package's own environment, and reports each result on a pipe.

``python reporter.py DESCRIPTOR TESTS FIRST EVERY [NAME...]`` is a separate program. TESTS is a
module of test cases, or a file for pytest, which must be installed. It writes a line of JSON for
each event: first the list of all tests, then the start and the end of each, by number. It runs each
EVERY-th test from number FIRST on, which an earlier process has not reached; if there are NAMEs,
only tests with one of them in their name.
"""

import importlib
import json
import os
import sys
import traceback
import unittest
from collections.abc import Iterator
from types import TracebackType
from typing import Any, TextIO

_Error = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


def _reason(lines: list[str]) -> str:
    """Returns the first line of an error's message and the line that names CUDA's result."""
    said = [line.strip() for line in lines if line.strip()]
    first = " ".join(said[: 2 if said and said[0].endswith(":") else 1])
    more = [line.strip() for line in lines if "CUDA_ERROR" in line]
    return first if not more or more[0] in first else f"{first} {more[0]}"


class _Pipe:
    """Writes events, and decides which tests are run."""

    def __init__(self, file: TextIO, first: int, every: int, names: list[str]) -> None:
        self._file = file
        self._first = first
        self._every = every
        self._names = names

    def say(self, **event: Any) -> None:
        """Writes a line to the pipe."""
        print(json.dumps(event), file=self._file, flush=True)

    def chosen(self, number: int, test: str) -> bool:
        """Returns whether this test is run."""
        named = not self._names or any(name in test for name in self._names)
        return named and number >= self._first and number % self._every == 0


def _cases(suite: Any) -> Iterator[unittest.TestCase]:
    """Yields all cases of a suite, in order."""
    if isinstance(suite, unittest.TestCase):
        yield suite
        return
    for one in suite:
        yield from _cases(one)


class _Results(unittest.TestResult):
    """Writes a test's result; its first failure counts."""

    def __init__(self, pipe: _Pipe, cases: list[unittest.TestCase]) -> None:
        super().__init__()
        self._pipe = pipe
        self._numbers = {id(case): number for number, case in enumerate(cases)}
        self._outcome: tuple[str, str] | None = None

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 (the name is unittest's)
        self._outcome = None
        self._pipe.say(begin=self._numbers[id(test)])

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        outcome, reason = self._outcome or ("passed", "")
        self._pipe.say(end=self._numbers[id(test)], outcome=outcome, reason=reason)

    def _is(self, test: unittest.TestCase, outcome: str, reason: str = "") -> None:
        if type(test).__name__ == "_ErrorHolder":  # a class or a module that can't be set up
            self._pipe.say(group=test.id(), outcome=outcome, reason=reason)
        elif self._outcome is None or self._outcome[0] == "skipped":
            self._outcome = (outcome, reason)

    def _failed(self, test: unittest.TestCase, error: _Error) -> None:
        self._is(
            test,
            "failed",
            _reason("".join(traceback.format_exception_only(*error[:2])).strip().splitlines()),
        )

    def addError(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        self._failed(test, err)

    def addFailure(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        self._failed(test, err)

    def addSubTest(  # noqa: N802
        self,
        test: unittest.TestCase,
        subtest: unittest.TestCase,
        err: _Error | None,
    ) -> None:
        if err is not None:
            self._failed(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self._is(test, "skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        self._is(test, "expected failure")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self._is(test, "failed", "passed, which is not expected")


class _Plugin:
    """Writes the results of pytest in the same way."""

    def __init__(self, pipe: _Pipe) -> None:
        self._pipe = pipe
        self._numbers: dict[str, int] = {}
        self._outcome = ("passed", "")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        self._numbers = {item.nodeid: number for number, item in enumerate(items)}
        self._pipe.say(tests=[item.nodeid for item in items])
        items[:] = [
            item for number, item in enumerate(items) if self._pipe.chosen(number, item.nodeid)
        ]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._outcome = ("passed", "")
        self._pipe.say(begin=self._numbers[nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.skipped and hasattr(report, "wasxfail"):
            self._outcome = ("expected failure", "")
        elif report.skipped:
            self._outcome = ("skipped", str(report.longrepr[2]))
        elif report.failed and self._outcome[0] != "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            self._outcome = (
                "failed",
                _reason((crash.message if crash else str(report.longrepr)).splitlines()),
            )

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._pipe.say(end=self._numbers[nodeid], outcome=self._outcome[0], reason=self._outcome[1])


def _run(pipe: _Pipe, tests: str) -> None:
    if tests.endswith(".py"):
        import pytest

        pytest.main(["-q", "-p", "no:cacheprovider", tests], plugins=[_Plugin(pipe)])
        return
    if tests.startswith("numba.cuda"):
        testing = importlib.import_module("numba.cuda.testing")
        if hasattr(
            testing, "ensure_supported_ccs_initialized"
        ):  # as numba does; numba-cuda has none
            testing.ensure_supported_ccs_initialized()
    cases = list(_cases(unittest.defaultTestLoader.loadTestsFromName(tests)))
    pipe.say(tests=[case.id() for case in cases])
    chosen = unittest.TestSuite(
        case for number, case in enumerate(cases) if pipe.chosen(number, case.id())
    )
    chosen.run(_Results(pipe, cases))


def main() -> None:
    """Runs the program."""
    descriptor, tests, first, every = (
        int(sys.argv[1]),
        sys.argv[2],
        int(sys.argv[3]),
        int(sys.argv[4]),
    )
    os.set_inheritable(descriptor, False)
    sys.path[0] = os.getcwd()
    with os.fdopen(descriptor, "w") as file:
        pipe = _Pipe(file, first, every, sys.argv[5:])
        try:
            _run(pipe, tests)
            pipe.say(ended=True)
        except (
            BaseException
        ) as error:  # the package can't be imported, or its module raises an error
            pipe.say(
                broken=f"{type(error).__name__}: {error}", skipped=type(error).__name__ == "Skipped"
            )
    os._exit(0)  # the package's cleanup at exit is not tested


if __name__ == "__main__":
    main()
