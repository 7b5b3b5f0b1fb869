"""Third-party test suites on this machine: one process for each module of tests, a time limit for
each test.

The server is in this process, the tests in a separate environment, where
:mod:`testbench.cuda.reporter` reports the result of each test on a pipe. A test that takes too long
is terminated with its process; the next process continues with the following test.
"""

import json
import os
import re
import select
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sim.cuda.server import Server
from sim.cuda.setup import environment
from sim.support.command import CommandError

__all__ = ["Outcome", "Suite", "packages_of", "run_tests", "section", "test_names", "with_section"]

_PROGRAM = Path(__file__).with_name("reporter.py")
_START_SECONDS = 120
"""Time limit in seconds for the start of a process up to its first test."""
_OUTCOMES = ("passed", "failed", "too slow", "skipped", "expected failure")


@dataclass(frozen=True)
class Suite:
    """Tests of a package.

    Attributes:
        title: Its name in the page.
        distribution: Distribution that must be installed, in ``version``.
        folder: Folder of the tests: in the folder of the installed packages, or if ``checkout`` is
            true, in a copy of the project's repository.
        package: Package from which the tests are imported; None for files for pytest.
        pattern: Names of their files.
        variables: Variables of their environment.
    """

    title: str
    distribution: str
    version: str
    folder: str
    package: str | None = None
    checkout: bool = False
    pattern: str = "test_*.py"
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The result of one test: passed, failed, too slow, skipped, or an expected failure."""

    test: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0


def packages_of(path: str, suite: Suite) -> Path:
    """Returns the folder with the packages of a Python that has the suite's distribution. Raises
    CommandError if it has not.
    """
    code = (
        f"import importlib.metadata as m; d = m.distribution({suite.distribution!r}); "
        "print(d.version); print(d.locate_file(''))"
    )
    try:
        result = subprocess.run(
            [path, "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CommandError(
            f"{path}: no Python with {suite.distribution}: pip install "
            f"'{suite.distribution}=={suite.version}'"
        ) from error
    version, folder = result.stdout.splitlines()
    if version != suite.version:
        raise CommandError(
            f"{path} has {suite.distribution} {version}, the suite is that of {suite.version}"
        )
    return Path(folder)


def test_names(root: Path, suite: Suite) -> list[str]:
    """Returns the modules of tests by import name, or their files."""
    folder = root / suite.folder
    files = sorted(folder.rglob(suite.pattern))
    if suite.package is None:
        return [str(path.relative_to(root)) for path in files]
    return [
        ".".join((suite.package, *path.relative_to(folder).with_suffix("").parts)) for path in files
    ]


class _Process:
    """A process that runs the tests of a module or a file, beginning with one of them."""

    def __init__(
        self,
        python: str,
        variables: Mapping[str, str],
        folder: Path | None,
        tests: str,
        first: int,
        every: int,
        names: Sequence[str],
    ) -> None:
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        command = [python, str(_PROGRAM), str(writer), tests, str(first), str(every), *names]
        nothing = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command,
            env=variables,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            cwd=folder,
            pass_fds=[writer],
            start_new_session=True,
        )
        os.close(writer)
        self._reader = reader
        self._rest = b""

    def event(self, seconds: float) -> dict | None:
        """Returns the next event; None if there is none within ``seconds``. Raises EOFError if the
        process has ended.
        """
        end = time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._reader], [], [], left)[0]:
                return None
            part = os.read(self._reader, 1 << 16)
            if not part:
                raise EOFError
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def end(self) -> int:
        """Terminates the process and its children; returns its exit code."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        os.close(self._reader)
        return self._process.wait()


def run_tests(
    server: Server,
    python: str,
    suite: Suite,
    module: str,
    seconds: float,
    every: int = 1,
    folder: Path | None = None,
    names: Sequence[str] = (),
) -> Iterator[Outcome]:
    """Runs every ``every``-th test of a module or a file in a folder, and yields each result as
    soon as it is known.

    If there are ``names``, only tests with one of these in their name are run.
    """
    variables = {**os.environ, **environment(server.name, [python]), **suite.variables}
    tests: list[str] = []
    groups: dict[str, Mapping[str, str]] = {}
    known: set[int] = set()
    first, ended, skipped = 0, False, False
    while not ended:
        process = _Process(python, variables, folder, module, first, every, names)
        running, begin, dead = -1, time.monotonic(), ""
        try:
            while (
                event := process.event(seconds if running >= 0 else max(_START_SECONDS, seconds))
            ) is not None:
                if "tests" in event:
                    tests = event["tests"]
                elif "begin" in event:
                    running, begin = event["begin"], time.monotonic()
                elif "end" in event:
                    known.add(running)
                    yield Outcome(
                        tests[running], event["outcome"], event["reason"], time.monotonic() - begin
                    )
                    first, running = running + 1, -1
                elif "group" in event:
                    groups[re.sub(r".*\((.*)\)", r"\1", event["group"])] = event
                elif "broken" in event:
                    dead, skipped = event["broken"], event["skipped"]
                    break
                else:
                    ended = True
                    break
            else:
                dead = f"more than {seconds:.0f} s"
        except EOFError:
            dead = "the process ended"
        finally:
            process.end()
        if not tests and not ended:
            yield (
                Outcome(module, "skipped", dead)
                if skipped
                else Outcome(module, "failed", f"no tests: {dead}")
            )
            return
        if dead:
            slow = dead.startswith("more than")
            at = running if running >= 0 else first
            if at >= len(tests):
                break
            known.add(at)
            yield Outcome(
                tests[at], "too slow" if slow else "failed", dead, time.monotonic() - begin
            )
            first = at + 1
    for number in range(0, len(tests), every):
        if names and not any(name in tests[number] for name in names):
            continue
        if number not in known:  # its class or module could not be set up, or was skipped
            found = next(
                (event for name, event in groups.items() if tests[number].startswith(name)), None
            )
            yield Outcome(
                tests[number],
                found["outcome"] if found else "failed",
                found["reason"] if found else "did not run",
            )


def section(suite: Suite, outcomes: Sequence[Outcome], note: str) -> str:
    """Returns the part of the page for a suite: numbers, then tests that did not pass, by reason."""
    counts = Counter(one.outcome for one in outcomes)
    rest = counts["skipped"] + counts["expected failure"]
    lines = [
        f"## {suite.title}",
        "",
        note,
        "",
        "| tests | number |",
        "|---|--:|",
        f"| run | {len(outcomes):,} |",
        *(f"| {name} | {counts[name]:,} |" for name in _OUTCOMES),
        f"| passed, of those that are neither skipped nor expected to fail | {counts['passed']:,} of "
        f"{len(outcomes) - rest:,} |",
        "",
    ]
    bad = sorted(
        (one for one in outcomes if one.outcome in ("failed", "too slow")), key=lambda one: one.test
    )
    if bad:
        lines += ["| does not pass | reason |", "|---|---|"]
        lines += [f"| {_short(one.test, suite)} | {_cell(one.reason)} |" for one in bad]
        lines.append("")
    skipped = Counter(
        _cell(one.reason) or "no reason given" for one in outcomes if one.outcome == "skipped"
    )
    if skipped:
        lines += ["| skipped because | tests |", "|---|--:|"]
        lines += [f"| {reason} | {count} |" for reason, count in skipped.most_common()]
        lines.append("")
    return "\n".join(lines)


def _short(test: str, suite: Suite) -> str:
    return f"`{test.removeprefix(suite.package or suite.folder).lstrip('./')}`"


_LONGEST_REASON = 160


def _cell(text: str) -> str:
    """Returns a reason as a cell of a table: one line, without text that differs from run to run."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0x...", " ".join(text.split()))
    text = re.sub(r"/\S*/site-packages/", "", text)
    text = text.replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 1]}…"


def with_section(page: str, title: str, made: str) -> str:
    """Returns a page in which the part of that title was replaced, or appended at its end."""
    parts = re.split(r"(?m)^(?=## )", page)
    place = next(
        (number for number, part in enumerate(parts) if part.startswith(f"## {title}\n")), None
    )
    if place is None:
        parts.append(made)
    else:
        parts[place] = made
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"
