"""Both engines show the same values of random designs in every cycle.

``WARPSTACK_RANDOM_DESIGNS`` is the number of designs.
"""

import os
from random import Random

import pytest
from amaranth.sim import Simulator

from sim.engine import ENGINES, observe, run_cycles
from testbench.engine.designs import needs_compiled
from testbench.engine.random_designs import RandomDesign, random_value

DESIGNS = int(os.environ.get("WARPSTACK_RANDOM_DESIGNS", "6"))
CYCLES = 150
PERIOD = 1e-6


def run(engine, seed):
    """Returns all values of a design with three clocks on an engine, one dictionary for each step."""
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
    for number, domain in enumerate(
        ("other", "third")
    ):  # edges at the same time as those of the first clock, or between them
        simulator.add_clock(PERIOD, domain=domain, phase=PERIOD * ((seed + number) % 3) / 4)
    simulator.add_testbench(testbench)
    simulator.run()
    return log


@needs_compiled
@pytest.mark.parametrize("seed", range(DESIGNS))
def test_both_engines_compute_alike(seed):
    slow, quick = (run(engine, seed) for engine in ENGINES.values())
    for step, (expected, found) in enumerate(zip(slow, quick, strict=True)):
        assert found == expected, f"step {step}"
    assert sum(len({values[name] for values in slow}) > 2 for name in slow[0]) > 10


def run_long(engine, seed):
    """Returns all changes of a design with one clock on an engine, and values at some cycles."""
    dut, log, changes = RandomDesign(seed, one_clock=True), [], []
    simulator = Simulator(dut, engine=engine)

    async def testbench(ctx):
        chance = Random(seed)
        for _ in range(CYCLES // 5):
            for signal in chance.sample(dut.inputs, 4):
                ctx.set(signal, random_value(chance, signal.shape()))
            await run_cycles(ctx, chance.randrange(1, 12))
            log.append([ctx.get(signal) for signal in chance.sample(dut.shown, 3)])

    simulator.add_clock(PERIOD)
    simulator.add_testbench(testbench)
    observer = observe(simulator, [signal for signal in dut.shown if len(signal)], changes.extend)
    simulator.run()
    observer.finish()
    return log, changes


@needs_compiled
@pytest.mark.parametrize("seed", range(DESIGNS))
def test_both_engines_compute_alike_while_the_clock_runs(seed):
    slow, quick = (run_long(engine, seed) for engine in ENGINES.values())
    assert quick == slow
    later = {number for cycle, number, _ in slow[1] if cycle > CYCLES // 2}
    assert len(later) > 3
