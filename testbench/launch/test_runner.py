"""The runner of launches: the outcome of a run."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from sim.launch import Scalar, prepare
from sim.launch.programs import read_program
from sim.machine.base import HardwareResult
from sim.model.warp.model import WarpModel
from sim.report.error_status import registers_of
from sim.runner import outcome_of
from testbench.programs import RECURSION


def test_a_difference_makes_an_error_of_the_outcome_and_leaves_the_result_as_it_is():
    launch = prepare(read_program(str(RECURSION)), [Scalar(0, 8)])
    machine: Any = SimpleNamespace(lockstep=None, memory=launch.memory)
    result = HardwareResult(
        "ok", 100, registers=dict(registers_of(WarpModel(launch, warps=1, stack_tokens=8)))
    )
    before = replace(result)
    outcome = outcome_of(launch, machine, result, "difference    memory at the end: 0x100")
    assert (outcome.status, outcome.difference) == (
        "error",
        "difference    memory at the end: 0x100",
    )
    assert "status        error" in outcome.report
    assert result == before
