"""Kernels that a debugger stops and steps at random leave the same memory as without it."""

import random
from dataclasses import replace

import pytest

from rtl.isa.control_code import instruction_address
from sim.debugger.breakpoints import Breakpoints
from sim.debugger.machine import DebuggedMachine, MachineState
from sim.firmware import install_trap_handler
from testbench.engine.designs import needs_compiled
from testbench.kernels.expected import complaints
from testbench.kernels.manifest import RUNS, build

pytestmark = needs_compiled

_LIMIT = 1_000_000
_ACTIONS = 30
_KERNELS = (
    "k06_switch_brx",
    "k08_fib_recursion",
    "k10_calltable_global",
    "k14_transpose_shared",
    "k15_shared_reduce",
    "k17_shfl_reduce",
    "k18_atomics_global",
    "k31_scan_shared",
    "k53_divergent_ret_func",
)


async def _meddle(machine: DebuggedMachine, source: random.Random, size: int) -> None:
    """Executes random user commands on a grid for a while."""
    breakpoints = machine.breakpoints
    for _ in range(_ACTIONS):
        if machine.state is MachineState.OVER:
            return
        action = source.random()
        if action < 0.25:
            await machine.lift()
            for number in list(breakpoints.addresses):
                breakpoints.remove(number)
            for _ in range(source.randrange(3)):
                breakpoints.add(instruction_address(source.randrange(0, size, 8)))
            await machine.plant()
        elif action < 0.55 and machine.warps:
            await machine.step(
                set(source.sample(sorted(machine.warps), source.randint(1, len(machine.warps))))
            )
        else:
            await machine.go(source.choice([500, 3000, 20_000]))
            await machine.stop()


@pytest.mark.parametrize("name", _KERNELS)
@pytest.mark.parametrize("level", ["O0", "O3"])
def test_a_kernel_is_not_disturbed(hardware, name, level):
    launch = build(RUNS[name], level)
    area, source = install_trap_handler(launch), random.Random(f"{name} {level}")

    async def drive(host):
        machine = DebuggedMachine(
            host, area, Breakpoints(launch.program_base), lambda cycles: False
        )
        await machine.hold()
        machine.breakpoints.add(instruction_address(launch.entry))
        await machine.plant()
        await machine.go()
        assert [why.breakpoint for why in machine.reasons().values()][:1] == [1]
        await _meddle(machine, source, launch.program_size)
        if machine.state is not MachineState.OVER:
            await machine.stop()
            await machine.detach()
        assert machine.state is MachineState.OVER

    assert hardware.run(area.launch, _LIMIT, driver=drive).status == "ok"
    assert complaints(RUNS[name], level, replace(launch, memory=hardware.memory)) == []
