"""What each run of a kernel must leave in global memory: a witness beside the models.

The functions behind this were written by reading the kernels' PTX. They know nothing of machine code, and no model
knows them.
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
"""By kernel: from the inputs to what is expected of the buffers that change. The others must not."""
_UNCHANGED = ("globals",)


def expected(run: Run, level: str) -> dict[str, Outcome]:
    """What a run must leave in each of its buffers."""
    inputs = Inputs(run, level)
    untouched: dict[str, Outcome] = {
        name: Exact(content.copy()) for name, content in inputs.buffers.items()
    }
    return untouched if run.traps else untouched | dict(EXPECTATIONS[run.kernel](inputs))


def complaints(run: Run, level: str, finished: Launch) -> list[str]:
    """What is wrong with the memory of a launch of this run that has ended: a line each, empty when all is right.

    Buffers are compared with what the kernel's PTX says, or with their first content when it ends in a trap, where
    all threads reach it before they store. The module's variables must not have changed: no kernel here stores to one.
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
