"""An induction whose step checks one assertion at a time, and covers one by one.

Many small queries are faster than a single large one. Memories are converted to registers, and the
hierarchy is flattened, with which Z3 is faster. Functions raise RuntimeError if a tool fails.
"""

import re
import sysconfig
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from subprocess import PIPE

from sim.support.children import run_child

__all__ = ["unreached", "untrue"]

_MODEL = "theorem.smt2"
_SCRIPT = (
    "read_rtlil theorem.il; prep -top top -flatten; memory_map; async2sync; chformal -assume -early; opt_clean; "
    "formalff -setundef -clk2ff -ff2anyinit; chformal -lower; dffunmap; setundef -anyseq; opt -keepdc -fast; "
    f"opt_clean; write_smt2 -wires -stbv {_MODEL}"
)
_ASSERTION = re.compile(r"^; yosys-smt2-assert (\d+) .*?([^/ ]+\.py:\d+)", re.MULTILINE)
_COVER = re.compile(r"^; yosys-smt2-cover (\d+) .*?([^/ ]+\.py:\d+)", re.MULTILINE)


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    done = run_child(command, cwd=folder, env=environment, stdout=PIPE, stderr=PIPE)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {(done.stdout + done.stderr).strip()[-200:]}")
    return done.stdout


def _model(folder: Path, environment: Mapping[str, str]) -> str:
    """Returns the SMT text of ``theorem.il`` in ``folder``."""
    _run([environment["YOSYS"], "-q", "-p", _SCRIPT], folder, environment)
    return (folder / _MODEL).read_text(encoding="utf-8")


def _states(count: int, initial: bool) -> Iterator[str]:
    """Yields a number of consecutive states of the hardware; the first one is the reset state if
    ``initial``, else any state of a later cycle.
    """
    for number in range(count):
        yield f"(declare-fun s{number} () |top_s|) (assert (|top_u| s{number}))"
        yield (
            f"(assert (|top_is| s{number}))"
            if initial and number == 0
            else f"(assert (not (|top_is| s{number})))"
        )
    if initial:
        yield "(assert (|top_i| s0))"
    for number in range(count - 1):
        yield f"(assert (|top_t| s{number} s{number + 1}))"


def _shown(
    folder: Path, environment: Mapping[str, str], model: str, states: Iterator[str], wrong: str
) -> bool:
    """Whether no such sequence of states is wrong."""
    path = folder / "question.smt2"
    path.write_text(
        "\n".join((model, *states, f"(assert {wrong})", "(check-sat)")), encoding="utf-8"
    )
    answer = _run(
        [str(Path(sysconfig.get_path("scripts"), "z3")), path.name], folder, environment
    ).split()
    path.unlink()
    if answer not in (["sat"], ["unsat"]):
        raise RuntimeError(f"z3 answers neither sat nor unsat: {' '.join(answer)[:100]}")
    return answer == ["unsat"]


def untrue(folder: Path, cycles: int, environment: Mapping[str, str], *, split: bool) -> str | None:
    """Returns the place of an assertion of ``theorem.il`` in ``folder`` that an induction over
    ``cycles`` does not prove; "" if the place is unknown, None if all are proved.

    With ``split`` the step checks one assertion at a time.
    """
    model = _model(folder, environment)
    shown = partial(_shown, folder, environment, model)

    def allowed() -> Iterator[str]:
        """Yields states in which no assertion is wrong, and one more."""
        yield from _states(cycles + 1, initial=False)
        yield from (f"(assert (|top_a| s{number}))" for number in range(cycles))

    begins = " ".join(f"(not (|top_a| s{number}))" for number in range(cycles))
    if not shown(_states(cycles, initial=True), f"(or {begins})"):
        return ""
    if not split:
        return None if shown(allowed(), f"(not (|top_a| s{cycles}))") else ""
    return next(
        (
            place
            for number, place in _ASSERTION.findall(model)
            if not shown(allowed(), f"(not (|top_a {number}| s{cycles}))")
        ),
        None,
    )


def unreached(folder: Path, cycles: int, environment: Mapping[str, str]) -> str | None:
    """Returns the place of a cover of ``theorem.il`` in ``folder`` that cannot be reached within
    ``cycles`` from the reset; None if all can.
    """
    model = _model(folder, environment)

    def happens(number: str) -> str:
        return f"(or {' '.join(f'(|top_c {number}| s{cycle})' for cycle in range(cycles))})"

    return next(
        (
            place
            for number, place in _COVER.findall(model)
            if _shown(folder, environment, model, _states(cycles, initial=True), happens(number))
        ),
        None,
    )
