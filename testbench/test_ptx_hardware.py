"""PTX kernels, compiled here, on the hardware in lockstep with the reference machine.

A selection; with ``WARPSTACK_LONG=1`` in the environment all of them, which takes some minutes.
"""

import os
from functools import cache

import pytest

from rtl.params import PRESETS
from sim.engine import ENGINES
from sim.hardware import Hardware
from testbench.compiler_kernels import complaints, kernel_launch
from testbench.engine_designs import needs_cxxrtl
from testbench.programs.manifest import RUNS

SELECTION = ("k03_nested_if", "k06_switch_brx", "k08_fib_recursion", "k11_calltargets", "k14_transpose_shared",
             "k26_divrem64", "k39_generic_addr", "k44_bar_variants", "k47_trap_brkpt", "k52_irreducible")
LIMIT = 2_000_000

pytestmark = needs_cxxrtl


@cache
def hardware() -> Hardware:
    return Hardware(PRESETS["default"], ENGINES["cxxrtl"], check=True)


@pytest.mark.parametrize("name", RUNS if os.environ.get("WARPSTACK_LONG") == "1" else SELECTION)
def test_compiled_ptx_runs_on_the_hardware(name):
    run, machine = RUNS[name], hardware()
    launch = kernel_launch(run)
    result = machine.run(launch, LIMIT)
    lockstep = machine.lockstep
    assert lockstep is not None
    assert lockstep.difference is None
    assert result.status == ("error" if run.traps else "ok"), (result.reason, result.diagnosis)
    assert lockstep.compared >= result.instructions > 0
    assert complaints(run, launch, machine.memory) == []
    if not run.traps:
        assert not lockstep.pending()
        assert not lockstep.compare_memory(machine.memory)
