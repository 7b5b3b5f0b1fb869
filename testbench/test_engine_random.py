"""Random designs: both engines show every value of theirs alike, in every cycle.

``WARPSTACK_RANDOM_DESIGNS`` says how many.
"""

import os
from random import Random

import pytest
from amaranth.sim import Simulator

from sim.engine import ENGINES
from testbench.engine_designs import needs_cxxrtl
from testbench.engine_random import RandomDesign, random_value

DESIGNS = int(os.environ.get("WARPSTACK_RANDOM_DESIGNS", "6"))
CYCLES = 150
PERIOD = 1e-6


def run(engine, seed):
    """All values of a design on an engine, a dictionary a step."""
    dut, log = RandomDesign(seed), []
    simulator = Simulator(dut, engine=engine)

    async def testbench(ctx):
        chance = Random(seed)
        for _ in range(CYCLES):
            for signal in chance.sample(dut.inputs, 4):
                ctx.set(signal, random_value(chance, signal.shape()))
            ctx.set(dut.other_reset, chance.random() < 0.05)
            log.append({signal.name: ctx.get(signal) for signal in dut.shown})
            await ctx.tick()
            log.append({signal.name: ctx.get(signal) for signal in dut.shown})

    simulator.add_clock(PERIOD)
    for number, domain in enumerate(("other", "third")):     # edges come with those of the first clock, or between them
        simulator.add_clock(PERIOD, domain=domain, phase=PERIOD * ((seed + number) % 3) / 4)
    simulator.add_testbench(testbench)
    simulator.run()
    return log


@needs_cxxrtl
@pytest.mark.parametrize("seed", range(DESIGNS))
def test_both_engines_compute_alike(seed):
    slow, quick = (run(engine, seed) for engine in ENGINES.values())
    for step, (expected, found) in enumerate(zip(slow, quick, strict=True)):
        assert found == expected, f"step {step}"
    assert sum(len({values[name] for values in slow}) > 2 for name in slow[0]) > 10
