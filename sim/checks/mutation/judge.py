"""Checks the hardware in this folder, mutant or not; each check is a separate process:

``python -m sim.checks.mutation.judge {tests,netlist,theorem} PLAN OUT``, where PLAN is a JSON file,
and OUT receives a line of JSON for each answer at once.

=======  =====================================================  ========================================================
check    PLAN                                                   lines of OUT
=======  =====================================================  ========================================================
tests    ``tests``, the arguments of pytest; ``order``, the     ``test`` when one begins; again with its ``seconds`` of
         names of those to run first; ``only``, all that are    CPU, including its child processes, and, if it
         run, if not all; ``limits``, seconds of CPU by name;   ``failed``, the ``error``
         whether to ``stop`` at the first failure; tests that
         are left out, ``without``
netlist  ``tops``, names of units; ``presets``; ``wanted``,     a ``digest`` for each, up to the first that differs
         the expected digests, if any
theorem  ``file``, ``folder``                                   whether it ``holds``, and the place if not
=======  =====================================================  ========================================================

A test that exceeds its limit ends the process by SIGPROF.

With the argument ``serve`` it first imports the libraries and the project, then forks for each line
of its standard input: JSON with the ``arguments`` above, and the ``environment`` of the new
process, which has its own session. Modules that a mutant changes are imported again there. On
standard output it writes an empty line when it is ready, then for each process its id, and its exit
code when it has ended.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from sim.checks.mutation.covering import cover
from sim.checks.mutation.preloading import Preloaded

__all__ = ["Plugin", "main"]

_NO_LIMIT = 0.0
_LIBRARIES = ("amaranth.sim", "hypothesis", "lark", "numpy", "pytest", "vcdvcd")
_PACKAGES = ("rtl", "sim")
"""The packages that most tests import, which takes longest."""


def _cpu() -> float:
    """Returns the seconds of CPU of this process, and of its child processes that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Plugin:
    """A pytest plugin for the order of tests, their time limits, and their reports."""

    def __init__(self, plan: dict[str, Any], tell: Callable[..., None]) -> None:
        self._places = {name: place for place, name in enumerate(plan["order"])}
        self._only = plan["only"] if plan["only"] is None else set(plan["only"])
        self._limits, self._tell, self._error = plan["limits"], tell, ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Orders the tests: those that kill fastest first, but those of a file together, since they
        share fixtures.
        """
        if self._only is not None:
            items[:] = [item for item in items if item.nodeid in self._only]
        places = {item.nodeid: self._places.get(item.nodeid, len(self._places)) for item in items}
        files: dict[str, int] = {}
        for item in items:
            file = item.nodeid.partition("::")[0]
            files[file] = min(files.get(file, places[item.nodeid]), places[item.nodeid])
        items.sort(
            key=lambda item: (files[item.nodeid.partition("::")[0]], item.path, places[item.nodeid])
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        """Runs a test with its time limit, after its fixtures are made."""
        self._error = ""
        self._tell(test=item.nodeid)
        cover(item.nodeid)
        signal.setitimer(signal.ITIMER_PROF, self._limits.get(item.nodeid, _NO_LIMIT))
        began = _cpu()
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, _NO_LIMIT)
            cover("")
            seconds = _cpu() - began
            self._tell(
                test=item.nodeid, seconds=seconds, failed=bool(self._error), error=self._error
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[object]:
        """Makes fixtures that the tests of a file share in the first of them; their lines are
        recorded for all of them.
        """
        shared = fixturedef.scope != "function"
        item = request._pyfuncitem
        if shared:
            cover(item.nodeid.partition("::")[0])
        try:
            return (yield)
        finally:
            if shared:
                cover(item.nodeid)

    def pytest_exception_interact(self, call: Any, report: Any) -> None:
        """Reports a test that has failed, or a file of tests that cannot be read."""
        self._error = call.excinfo.type.__name__
        if not hasattr(report, "when"):
            self._tell(test=report.nodeid, seconds=0, failed=True, error=self._error)


def _tests(plan: dict[str, Any], tell: Callable[..., None]) -> None:
    options = [
        "-q",
        "-o",
        "addopts=",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        *(["-x"] if plan["stop"] else []),
        *(f"--deselect={test}" for test in plan["without"]),
    ]
    pytest.main([*options, *plan["tests"]], plugins=[Plugin(plan, tell)])


def _netlist(plan: dict[str, Any], tell: Callable[..., None]) -> None:
    from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

    from rtl.fpga.units import UNITS
    from rtl.params import PRESETS

    pairs = [(top, preset) for top in plan["tops"] for preset in plan["presets"]]
    for (top, preset), wanted in zip_longest(pairs, plan["wanted"]):
        digest = sha256(
            rtlil.convert(UNITS[top](PRESETS[preset]), emit_src=False).encode()
        ).hexdigest()
        tell(digest=digest)
        if wanted not in (None, digest):
            return


def _theorem(plan: dict[str, Any], tell: Callable[..., None]) -> None:
    from sim.checks.formal.prover import ask
    from sim.checks.formal.theorem import load

    path = Path(plan["file"])
    answer = next(ask(path, load(path), Path(plan["folder"])))
    tell(holds=answer.right, where=answer.explanation)


def _serve() -> list[str] | None:
    """Returns in each forked process with its arguments, and in the server with None at the end."""
    preloaded = Preloaded(_LIBRARIES, _PACKAGES)
    os.write(1, b"\n")
    for line in sys.stdin:
        request = json.loads(line)
        if pid := os.fork():
            os.write(1, f"{pid}\n".encode())
            os.write(1, f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())
            continue
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        os.environ.clear()
        os.environ.update(request["environment"])
        preloaded.forget_changed()
        return request["arguments"]
    return None


def main(arguments: list[str]) -> None:
    """Answers the requests."""
    if arguments == ["serve"]:
        request = _serve()
        if request is None:
            return
        arguments = request
    what, plan, out = arguments
    with Path(out).open("a", encoding="utf-8") as lines:

        def tell(**facts: Any) -> None:
            lines.write(f"{json.dumps(facts)}\n")
            lines.flush()

        {"tests": _tests, "netlist": _netlist, "theorem": _theorem}[what](
            json.loads(Path(plan).read_text()), tell
        )


if __name__ == "__main__":
    main(sys.argv[1:])
