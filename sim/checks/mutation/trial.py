"""Tries one mutant: writes it to a copy of the project, and runs its tests there."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from itertools import count
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

from sim.checks.mutation.covering import recorded, recording
from sim.checks.mutation.mutants import Mutant
from sim.checks.mutation.units import Unit
from sim.support.children import end_group

__all__ = ["Baseline", "MutantState", "Trial", "TrialPlan", "baseline", "trial"]

_HERE = Path(__file__).resolve().parents[3]
"""The folder that contains this package's project."""
_JUDGE = (sys.executable, "-m", "sim.checks.mutation.judge")
_CAN_FORK = hasattr(os, "fork")
_LEFT_OUT = shutil.ignore_patterns(".*", "build", "*.vcd", "*.fst", "*.sqlite", "*.egg-info")
_MORE_CPU, _LEAST_CPU = 2, 8.0
"""Limit of a test's CPU time: the factor on its time without a mutant, and the seconds to add."""
_MORE_TIME, _LEAST_TIME = 10, 300.0
"""Limit of the elapsed time of all tests of a stage, likewise."""
_COMPILES = 0.5
"""CPU seconds above which a test may have compiled a model."""
_PRESETS = ("tiny", "small", "default")
"""Machines whose netlists are compared."""


class MutantState(Enum):
    """The result of a mutant."""

    KILLED = "killed"
    HANGS = "killed: hangs"
    SURVIVED = "survived"
    EQUIVALENT = "same netlist"
    STILLBORN = "stillborn"


@dataclass(frozen=True)
class TrialPlan:
    """The plan of a unit's tests.

    Attributes:
        order: Names of tests, those first that kill fastest.
        seconds: Seconds without a mutant, by the name of a test (CPU time), a stage or a theorem.
        netlists: Digests of the netlists without a mutant.
        only: For host code, the tests that run the mutant; None for all.
    """

    order: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    netlists: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None

    def limited_to(self, longest: float) -> "TrialPlan":
        """Returns the plan with only the tests that take at most ``longest`` seconds without a
        mutant.
        """
        if longest == math.inf:
            return self
        tests = self.order if self.only is None else self.only
        return replace(
            self, only=tuple(test for test in tests if self.seconds.get(test, 0) <= longest)
        )


@dataclass(frozen=True)
class Trial:
    """The result of a mutant.

    Attributes:
        by: The test or theorem that detected it, or the error that it causes.
        spent: Seconds of CPU by test.
    """

    mutant: Mutant
    state: MutantState
    by: str
    seconds: float
    spent: dict[str, float]


@dataclass(frozen=True)
class Baseline:
    """The results of a unit's tests without a mutant.

    Attributes:
        tests: Seconds of CPU by test.
        stages: Seconds by stage or theorem.
        netlists: Digests of the netlists.
        lines: For host code, which tests run which lines, in the format of ``coverage``.
    """

    unit: str
    tests: dict[str, float]
    stages: dict[str, float]
    failed: tuple[str, ...]
    netlists: tuple[str, ...]
    lines: bytes = b""


_times = count(1)
_locks: list[Any] = []


@cache
def _scratch() -> TemporaryDirectory[str]:
    """Returns a temporary folder of this process, which is removed with it."""
    return TemporaryDirectory(prefix="warpstack-mutate-", ignore_cleanup_errors=True)


@cache
def _copy(root: Path, folder: Path | None = None) -> Path:
    """Returns a copy of the project for this process: one in the folder whose process has ended,
    with its compiled models, else a new one.
    """
    places = folder if folder is not None and folder.is_dir() else Path(_scratch().name)
    for number in count():
        place = places / str(number)
        place.mkdir(exist_ok=True)
        if _is_claimed(place):
            if not (copy := place / "project").exists():
                shutil.copytree(root, copy, ignore=_LEFT_OUT)
            return copy
    raise AssertionError


def _is_claimed(place: Path) -> bool:
    """Claims a folder for this process until its end; False if another process has it."""
    if fcntl is None:
        return not (place / "project").exists()
    lock = (place / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return False
    _locks.append(lock)
    return True


@contextmanager
def _mutated(root: Path, mutant: Mutant, folder: Path | None) -> Iterator[Path]:
    """A context with the copy that contains a mutant."""
    copy = _copy(root, folder)
    if _CAN_FORK:
        _judge(copy)  # The judge imports the original
    path = copy / mutant.file
    source, state = path.read_bytes(), path.stat()
    path.write_text(mutant.fault.applied(source.decode()), encoding="utf-8")
    # Python takes a compiled file with this modification time, to the second, and size; no two
    # mutants may share both.
    seconds = int(state.st_mtime) + next(_times)
    os.utime(path, (seconds, seconds))
    try:
        yield copy
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


class _Judge:
    """The judge of a copy, which has imported libraries once for all requests."""

    def __init__(self, copy: Path) -> None:
        self._process = subprocess.Popen(
            [*_JUDGE, "serve"],
            cwd=copy,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": _path(copy)},
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def ask(
        self, arguments: list[str], environment: dict[str, str], limit: float | None
    ) -> int | None:
        """Has a separate process answer a request; returns its exit code, None after ``limit``
        seconds.
        """
        asks, answers, code = self._process.stdin, self._process.stdout, None
        assert asks is not None and answers is not None
        asks.write(f"{json.dumps({'arguments': arguments, 'environment': environment})}\n".encode())
        pid = int(answers.readline())
        try:
            if select([answers], [], [], limit)[0]:
                code = int(answers.readline())
            return code
        finally:
            if code != 0:  # Its child processes end with it
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            if code is None:
                answers.readline()


@cache
def _judge(copy: Path) -> _Judge:
    return _Judge(copy)


def _path(copy: Path) -> str:
    """Returns the module path with the copy first, then this package."""
    return os.pathsep.join((str(copy), str(_HERE)))


def _run(
    command: list[str], copy: Path, environment: dict[str, str], limit: float | None
) -> int | None:
    """Runs a program in a copy; returns its exit code, None after ``limit`` seconds."""
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        code = None
        try:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(limit)
        finally:
            if code != 0:  # Its child processes end with it
                end_group(process, patience=0)
    return code


def _ask(
    what: str,
    plan: dict[str, Any],
    copy: Path,
    limit: float | None,
    *,
    models: Path | None = None,
    more: dict[str, str] | None = None,
) -> tuple[list[dict[str, Any]], int | None]:
    """Sends a request to the judge; returns its answer, and its exit code, None after ``limit``
    seconds.

    Parameters:
        what: The check.
        plan: The check's parameters.
        copy: The copy of the project.
        limit: Limit in seconds, None for none.
        models: Folder of the hardware's compiled models; None: they are not kept.
        more: Further variables of its environment.
    """
    with TemporaryDirectory(dir=copy.parent) as work:
        plan_file, out = Path(work, "plan"), Path(work, "out")
        plan_file.write_text(json.dumps(plan))
        out.touch()
        arguments = [what, str(plan_file), str(out)]
        environment = {
            **os.environ,
            "WARPSTACK_CACHE": str(models or Path(work, "models")),
            "PYTHONPATH": _path(copy),
            **(more or {}),
        }
        if more is None and _CAN_FORK:
            code = _judge(copy).ask(arguments, environment, limit)
        else:
            code = _run([*_JUDGE, *arguments], copy, environment, limit)
        return [
            json.loads(line)
            for line in out.read_text(encoding="utf-8").splitlines()
            if line.endswith("}")
        ], code


def _digests(unit: Unit, copy: Path, wanted: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Returns the digests of the netlists of a unit, up to the first that cannot be made or differs
    from the expected one.
    """
    reports, _ = _ask(
        "netlist", {"tops": unit.netlists, "presets": _PRESETS, "wanted": wanted}, copy, _LEAST_TIME
    )
    return tuple(line["digest"] for line in reports)


def _elaborates(unit: Unit, copy: Path) -> bool:
    """Whether a mutant elaborates."""
    _, code = _ask(
        "netlist", {"tops": unit.netlists[:1], "presets": _PRESETS, "wanted": ()}, copy, _LEAST_TIME
    )
    return code == 0


def _models(unit: Unit, copy: Path) -> Path | None:
    """Returns the folder of the compiled models of a unit's tests."""
    return copy.parent / "models" if unit.keeps_models else None


def _kept(models: Path | None) -> int:
    """Returns the number of files of compiled models."""
    return sum(1 for _ in models.iterdir()) if models is not None and models.is_dir() else 0


def _plan(files: tuple[str, ...], **others: Any) -> dict[str, Any]:
    """Returns the judge's plan for tests; by default, all of them run to their end."""
    usual = {"order": [], "only": None, "limits": {}, "stop": False, "without": []}
    return {"tests": files, **usual, **others}


def baseline(root: Path, unit: Unit, folder: Path | None = None) -> Baseline:
    """Runs the tests and theorems of a unit of a project without a mutant.

    ``folder`` keeps the copies of the project for trials, which use the models compiled here.
    """
    tests, stages, failed = {}, {}, []
    copy = _copy(root, folder)
    lines = Path(_scratch().name, f"lines of {unit.name}")
    lines.mkdir(exist_ok=True)
    more = recording(lines, [copy / file for file in unit.files(root)]) if unit.is_host else None
    models = _models(unit, copy)
    for stage, files in unit.stages.items():
        plan = _plan(files, without=unit.without)
        kept, began = _kept(models), time.monotonic()
        reports, _ = _ask("tests", plan, copy, None, models=models, more=more)
        stages[stage] = time.monotonic() - began
        ended = {line["test"]: line for line in reports if "seconds" in line}
        if _kept(models) != kept:
            # Slow tests run again with the compiled models, which trials also have.
            slow = [name for name, line in ended.items() if line["seconds"] > _COMPILES]
            plan = _plan(files, without=unit.without, only=slow)
            reports, _ = _ask("tests", plan, copy, None, models=models, more=more)
            ended |= {line["test"]: line for line in reports if "seconds" in line}
        tests |= {name: line["seconds"] for name, line in ended.items()}
        failed += [name for name, line in ended.items() if line["failed"]]
        if not ended:
            failed.append(" ".join(files))
    for name, file in unit.theorems.items():
        began = time.monotonic()
        reports, _ = _ask("theorem", {"file": file, "folder": str(copy.parent / name)}, copy, None)
        stages[name] = time.monotonic() - began
        if not reports or not reports[0]["holds"]:
            failed.append(f"theorem {name}")
    netlists = () if unit.is_host else _digests(unit, copy)
    if len(netlists) < len(unit.netlists) * len(_PRESETS):
        failed.append("a netlist")
    return Baseline(
        unit.name, tests, stages, tuple(failed), netlists, recorded(lines) if unit.is_host else b""
    )


def _is_among(test: str, given: tuple[str, ...]) -> bool:
    """Whether pytest runs a test for these arguments."""
    return any(test == one or test.startswith((f"{one}/", f"{one}::", f"{one}[")) for one in given)


class _Verdict(NamedTuple):
    """The state of a mutant, and the test or theorem that determined it."""

    state: MutantState
    by: str


@dataclass
class _MutantRun:
    """Runs the tests and theorems of a unit on a copy of the project with a mutant.

    Attributes:
        spent: Seconds of CPU by test.
    """

    unit: Unit
    plan: TrialPlan
    copy: Path
    spent: dict[str, float] = field(default_factory=dict)

    def verdict(self) -> _Verdict:
        """Returns the verdict of the first test or theorem that detects the mutant."""
        for stage, files in self.unit.stages.items():
            is_own = stage == next(iter(self.unit.stages))
            if (found := self._run_stage(stage, files, is_own)) is not None:
                return found
        for name, file in self.unit.theorems.items():
            if not self._holds(name, file):
                return _Verdict(MutantState.KILLED, f"theorem {name}")
        return _Verdict(MutantState.SURVIVED, "no test runs it" if self.plan.only == () else "")

    def _run_stage(self, stage: str, files: tuple[str, ...], is_own: bool) -> _Verdict | None:
        """Runs the tests of some files until one fails; None if the mutant survives. ``is_own``:
        they are the unit's own tests.
        """
        unit, plan = self.unit, self.plan
        takes = plan.seconds[stage]
        if plan.only is not None:
            chosen = [name for name in plan.only if _is_among(name, files)]
            files = tuple(sorted({name.partition("::")[0] for name in chosen}))
            takes = sum(plan.seconds.get(name, 0) for name in chosen)
            if not files:
                return None
        round_plan = _plan(
            files,
            order=plan.order,
            only=plan.only,
            limits={
                name: _MORE_CPU * seconds + _LEAST_CPU for name, seconds in plan.seconds.items()
            },
            stop=True,
            without=unit.without,
        )
        reports, code = _ask(
            "tests",
            round_plan,
            self.copy,
            _MORE_TIME * takes + _LEAST_TIME,
            models=_models(unit, self.copy),
        )
        ended = {line["test"]: line for line in reports if "seconds" in line}
        self.spent |= {name: line["seconds"] for name, line in ended.items()}
        for name, line in ended.items():
            if line["failed"]:
                return self._failed(name, line["error"], is_own)
        last = reports[-1] if reports else {}
        if code is None or (last and "seconds" not in last):
            return _Verdict(
                MutantState.HANGS if code in (None, -signal.SIGPROF) else MutantState.KILLED,
                last.get("test", stage),
            )
        if not ended:
            return _Verdict(MutantState.STILLBORN, "nothing can be imported")
        if (
            is_own
            and not unit.is_host
            and _digests(unit, self.copy, plan.netlists) == plan.netlists
        ):
            return _Verdict(MutantState.EQUIVALENT, "")
        return None

    def _failed(self, name: str, error: str, is_own: bool) -> _Verdict:
        """Returns the verdict for a test, or a file of tests, that has failed with an exception of
        this name.
        """
        if self.unit.is_host:
            is_stillborn = "::" not in name
        else:
            # Other errors may come from hardware that cannot be built.
            is_stillborn = (
                is_own
                and error not in ("AssertionError", "Failed")
                and not _elaborates(self.unit, self.copy)
            )
        if is_stillborn:
            return _Verdict(MutantState.STILLBORN, error)
        return _Verdict(MutantState.KILLED, name)

    def _holds(self, name: str, file: str) -> bool:
        """Whether a theorem holds with the mutant."""
        with TemporaryDirectory(dir=self.copy.parent) as work:
            reports, code = _ask(
                "theorem",
                {"file": file, "folder": work},
                self.copy,
                _MORE_TIME * self.plan.seconds[name] + _LEAST_TIME,
            )
        return code is not None and bool(reports) and reports[0]["holds"]


def trial(
    root: Path, unit: Unit, mutant: Mutant, plan: TrialPlan, folder: Path | None = None
) -> Trial:
    """Writes a mutant to a copy of the project in a folder, and runs the tests of its unit until
    one fails.

    If none of the unit's own tests detects a mutant, its netlist is compared with the original's.
    """
    began = time.monotonic()
    with _mutated(root, mutant, folder) as copy:
        run = _MutantRun(unit, plan, copy)
        verdict = run.verdict()
        return Trial(mutant, verdict.state, verdict.by, time.monotonic() - began, run.spent)
