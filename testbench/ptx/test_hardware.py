"""All PTX kernels, compiled here, each with the first of its runs, on the hardware in lockstep with the reference
machine.
"""

from functools import cache

import pytest

from rtl.params import PRESETS
from sim.engine import ENGINES
from sim.kernels.manifest import RUNS
from sim.machine.hardware import Hardware
from testbench.compiler.kernels import complaints, kernel_launch
from testbench.engine.designs import needs_compiled

LIMIT = 300_000

pytestmark = needs_compiled


@cache
def hardware() -> Hardware:
    return Hardware(PRESETS["default"], ENGINES["compiled"], check=True)


@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if not run.label])
def test_compiled_ptx_runs_on_the_hardware(name):
    run, machine = RUNS[name], hardware()
    launch = kernel_launch(run)
    result = machine.run(launch, LIMIT)
    lockstep = machine.lockstep
    assert lockstep is not None
    assert lockstep.difference is None
    assert result.status == ("error" if run.traps else "ok"), (result.reason, result.diagnosis)
    assert complaints(run, launch, machine.memory) == []
    assert lockstep.compared > 0
    if not run.traps:       # a trap leaves instructions behind that have issued and are not over
        assert lockstep.compared == result.instructions
        assert not lockstep.pending()
        assert not lockstep.compare_memory(machine.memory)
