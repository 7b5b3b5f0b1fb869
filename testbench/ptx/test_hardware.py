"""All PTX kernels, compiled here, each with its first run, on the hardware in lockstep with the
warp model.
"""

from functools import cache

import pytest

from rtl.params import PRESETS
from sim.engine import ENGINES
from sim.machine.hardware import Hardware
from testbench.compiler.kernels import complaints, kernel_launch
from testbench.ended import in_lockstep
from testbench.engine.designs import needs_compiled
from testbench.kernels.manifest import RUNS

LIMIT = 300_000

pytestmark = needs_compiled


@cache
def hardware() -> Hardware:
    return Hardware(PRESETS["default"], ENGINES["compiled"], check=True)


@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if not run.label])
def test_compiled_ptx_runs_on_the_hardware(name):
    run, machine = RUNS[name], hardware()
    launch = kernel_launch(run)
    if run.traps:  # issued instructions may be incomplete at its end
        assert machine.run(launch, LIMIT).status == "error"
        assert (
            machine.lockstep is not None
            and machine.lockstep.difference is None
            and machine.lockstep.compared > 0
        )
    else:
        in_lockstep(machine, launch, LIMIT)
    assert complaints(run, launch, machine.memory) == []
