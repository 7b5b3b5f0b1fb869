"""Programs that are stopped at random instructions have the results of an undisturbed run, whatever
the trap handler does to the stacks.
"""

from random import Random

import pytest

from rtl.isa.registers import SM_REGISTERS
from sim.launch import Launch
from sim.model.warp.host import ModelHost
from sim.model.warp.model import WarpModel
from testbench.kernels.expected import complaints
from testbench.kernels.manifest import RUNS, build
from testbench.sm.random_programs import random_program
from testbench.trap.programs import CLOBBER, RETURN, with_handler
from testbench.words import memory_left

HANDLERS = {"return": RETURN, "clobber": CLOBBER}
KERNELS = (
    "k05_triple_loop",
    "k06_switch_brx",
    "k08_fib_recursion",
    "k11_calltargets",
    "k13_early_exit",
    "k15_shared_reduce",
    "k31_scan_shared",
    "k52_irreducible",
    "k53_divergent_ret_func",
)


def disturbed(launch: Launch, source: Random, longest: int) -> int:
    """Runs a launch and stops it at random, at most ``longest`` instructions apart. Returns how
    many warps were stopped.
    """
    machine = WarpModel(launch, order=source.randrange(1 << 16))
    host, stopped = ModelHost(machine), 0
    while machine.live:
        machine.run(source.randrange(1, longest))
        if machine.live:
            host.stop()
            while machine.step() is not None:
                pass
            assert SM_REGISTERS["DBGR_STATUS0"].get("LOCKED_DOWN", host.read("DBGR_STATUS0"))
            assert machine.error_status is None
            stopped += len(machine.live)
            host.resume()
    assert machine.run().status == "ok"
    return stopped


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
@pytest.mark.parametrize("seed", range(8))
def test_a_random_program_leaves_the_same_memory_when_the_host_stops_it(seed, handler):
    source = Random(seed)
    program = random_program(source, 12, block=32)
    alone, stopped = program.launch(), with_handler(program.launch(), *handler)
    assert WarpModel(alone).run().status == "ok"
    assert disturbed(stopped, source, 40) > 0
    assert memory_left(stopped) == memory_left(alone)


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_that_are_disturbed_by_traps_leave_the_same(name, handler):
    launch = with_handler(build(RUNS[name], "O3"), *handler)
    assert disturbed(launch, Random(name), 40) > 0
    assert complaints(RUNS[name], "O3", launch) == []
