"""Kernels of CUDA C++, compiled by NVIDIA's compilers, on the hardware in lockstep with the warp
model.

All are run optimised, and every fourth one also without optimisation or for a debugger,
alternately; ``run_tb sm --all`` runs all at every level.
"""

from functools import cache

import pytest

from sim.checks.testbench import run
from sim.engine import CompiledEngine
from testbench.engine.designs import needs_compiled
from testbench.kernels.manifest import DEBUG, LEVELS
from testbench.programs.cuda.runs import CUDA_RUNS
from testbench.sm import tb_sm
from testbench.sm.driver import SmDriver

OTHERS = (LEVELS[0], None, None, None, DEBUG, None, None, None)
CASES = [
    (name, level)
    for number, name in enumerate(CUDA_RUNS)
    for level in (LEVELS[1], OTHERS[number % len(OTHERS)])
    if level is not None
]

pytestmark = needs_compiled


@cache
def driver() -> SmDriver:
    return tb_sm.machine_for(CompiledEngine)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_hardware_leaves_what_a_host_does(case):
    report = run(
        "sm", lambda bench: tb_sm.check_cuda_kernels(bench, driver(), [case]), CompiledEngine
    )
    assert report.passed, report.failure
