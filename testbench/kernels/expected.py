"""The global memory that each run of a kernel must leave, independent of the models.

The expectations were written from the kernels' PTX alone, without machine code, and no model uses
them.
"""

from collections.abc import Callable, Mapping

from sim.launch import Launch

from . import (
    expected_calls,
    expected_control,
    expected_numbers,
    expected_shared,
    expected_wide_numbers,
    expected_work,
)
from .manifest import RUNS, Run, build
from .outcome import Exact, Inputs, Outcome

__all__ = ["EXPECTATIONS", "complaints", "expected"]

EXPECTATIONS: dict[str, Callable[[Inputs], Mapping[str, Outcome]]] = {
    **expected_control.KERNELS,
    **expected_calls.KERNELS,
    **expected_shared.KERNELS,
    **expected_numbers.KERNELS,
    **expected_wide_numbers.KERNELS,
    **expected_work.KERNELS,
}
"""Kernel -> function from its inputs to the expected outcome of each buffer that changes. Others
must not change.
"""
_UNCHANGED = ("globals",)


def expected(run: Run, level: str) -> dict[str, Outcome]:
    """Returns the expected outcome of each of a run's buffers."""
    inputs = Inputs(run, level)
    untouched: dict[str, Outcome] = {
        name: Exact(content.copy()) for name, content in inputs.buffers.items()
    }
    return untouched if run.traps else untouched | dict(EXPECTATIONS[run.kernel](inputs))


def complaints(run: Run, level: str, finished: Launch) -> list[str]:
    """Checks the memory of a finished launch of a run: one line for each error, an empty list if
    there is none.

    Buffers are compared with what the kernel's PTX defines, or with their initial content if the
    run ends in a trap, which all threads reach before they store. The module's variables must not
    have changed: none of these kernels stores to one.
    """
    found = []
    for name, outcome in expected(run, level).items():
        content = finished.memory.read(*finished.buffers[name])
        found += [f"{run.name} {level}: {name}: {line}" for line in outcome.complaints(content)]
    fresh = build(run, level)
    for region in _UNCHANGED:
        base, size = fresh.memory.regions[region]
        if finished.memory.read(base, size) != fresh.memory.read(base, size):
            found.append(f"{run.name} {level}: {region} changed")
    return found


if missing := {run.kernel for run in RUNS.values()} ^ set(EXPECTATIONS):
    raise LookupError(
        f"kernels with a run or an expectation and not both: {', '.join(sorted(missing))}"
    )
