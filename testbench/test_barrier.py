"""The barrier unit: its testbench, shorter, and what a random run does not say."""

import pytest
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

from rtl.barrier import BarrierUnit
from rtl.isa.kinds import BarrierMode
from rtl.params import PRESETS
from sim.engine import PysimEngine
from sim.testbench import run
from testbench import tb_barrier
from testbench.barrier_driver import BarrierDriver
from testbench.barrier_warps import Use
from testbench.handmade import encode

SYNC = encode("BAR", "ii", mode=BarrierMode.SYNC.value, barrier=0, Pc=7)


def passes(body, seed=0):
    report = run("barrier", body, PysimEngine, seed=seed)
    assert report.passed, report.failure
    return report


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_converts_for_every_preset(preset):
    assert rtlil.convert(BarrierUnit(preset))


def test_agrees_with_the_model():
    report = passes(tb_barrier.check_random, seed=1)
    assert report.checks["warps let go"] > 1000


def test_a_waiting_warp_goes_on_soon_after_the_last_arrives():
    """The last arrival lets everybody go within eight cycles."""
    cycles = {}

    def source(driver, ctx, room, more):
        if driver.cycle == 1:
            driver.begin(ctx, 0, 0, 2, 0)
        if driver.cycle == 2:
            driver.begin(ctx, 1, 0, 2, 1)
        if driver.cycle in (20, 40):
            driver.dispatch(ctx, driver.warps[driver.cycle // 40], Use(SYNC))
            cycles["last"] = driver.cycle
        if driver.released and "resumed" not in cycles:
            cycles["resumed"] = driver.cycle
        if driver.released and more is False and driver.ctas and not driver.ending(next(iter(driver.ctas.values()))):
            driver.end(ctx, next(warp for warp in driver.warps if warp))

    def body(bench):
        driver = BarrierDriver(bench, source, PRESETS["tiny"], report_mask=tb_barrier.ALL_REPORTED)
        driver.run(60)
        bench.expect("warps let go", driver.released, 2)

    passes(body)
    assert cycles["resumed"] - cycles["last"] <= 8 + 1
