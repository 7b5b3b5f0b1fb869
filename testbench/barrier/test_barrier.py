"""The barrier unit: the short form of its testbench, and directed cases that it does not cover."""

from functools import partial

import pytest

from rtl.barrier import BarrierUnit
from rtl.isa.barriers import BARRIERS
from rtl.isa.kinds import BarrierMode, BarrierReduction
from rtl.layouts import dispatched
from rtl.machines import units_of
from rtl.params import PRESETS
from testbench import simulation
from testbench.barrier import tb_barrier
from testbench.barrier.driver import BarrierDriver
from testbench.barrier.warps import Use
from testbench.driver import offer
from testbench.handmade import ALL, encode

SYNC, ARRIVE = (
    encode("BAR", "ii", mode=mode.value, barrier=0, Pc=7)
    for mode in (BarrierMode.SYNC, BarrierMode.ARV)
)


passes = partial(simulation.passes, "barrier")


def test_agrees_with_the_model():
    report = passes(tb_barrier.check_random, seed=1)
    assert report.checks["warps let go"] > 1000
    assert report.checks["arrivals withdrawn"] > 100


def test_a_waiting_warp_continues_soon_after_the_last_arrival():
    """All warps resume within eight cycles of the last arrival."""
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
        if (
            driver.released
            and more is False
            and driver.ctas
            and not driver.ending(next(iter(driver.ctas.values())))
        ):
            driver.end(ctx, next(warp for warp in driver.warps if warp))

    def body(bench):
        driver = BarrierDriver(bench, source, PRESETS["tiny"], report_mask=tb_barrier.ALL_REPORTED)
        driver.run(60)
        bench.expect("warps let go", driver.released, 2)

    passes(body)
    assert cycles["resumed"] - cycles["last"] <= 8 + 1


class Pair:
    """A CTA of two warps. The first one waits until the second one arrives or the first one is
    withdrawn.
    """

    def __init__(self, head_start):
        self.dut, self.head_start = BarrierUnit(PRESETS["tiny"]), head_start
        self.resumed = self.waiting = 0
        self.withdrawn = []

    async def cycles(self, ctx, count):
        """Runs ``count`` cycles: records the unit's outputs, and ends the withdrawal request when
        it is answered or the warp released.
        """
        dut = self.dut
        for _ in range(count):
            _, _, resume, waiting, withdrawn, warp = await ctx.tick().sample(
                dut.resume, dut.waiting, dut.withdrawn.valid, dut.withdrawn.payload
            )
            self.resumed, self.waiting = self.resumed | resume, waiting
            if withdrawn:
                self.withdrawn.append(warp)
            if withdrawn or not waiting & 1:
                ctx.set(dut.withdraw.valid, 0)
            ctx.set(dut.dispatch.valid, 0)
            ctx.set(dut.launch.valid, 0)

    async def arrive(self, ctx, warp):
        ctx.set(
            self.dut.dispatch.payload,
            dispatched(PRESETS["tiny"]).const(
                {
                    "warp": warp,
                    "word": SYNC,
                    "active": ALL,
                    "guard": ALL,
                    "write_barrier": 7,
                    "read_barrier": 7,
                }
            ),
        )
        ctx.set(self.dut.dispatch.valid, 1)
        await self.cycles(ctx, 1)

    async def drive(self, ctx):
        dut = self.dut
        ctx.set(dut.barriers, BARRIERS)
        ctx.set(dut.report_mask, tb_barrier.ALL_REPORTED)
        for warp in range(2):
            for port, value in (
                (dut.launch.payload.warp, warp),
                (dut.launch.payload.number, warp),
                (dut.launch.payload.cta_warps, 2),
                (dut.launch.valid, 1),
            ):
                ctx.set(port, value)
            await self.cycles(ctx, 1)
        await self.arrive(ctx, 0)
        await self.cycles(ctx, 20)
        assert (self.waiting, self.resumed) == (1, 0)
        await self.arrive(ctx, 1)
        if self.head_start:
            await self.cycles(ctx, self.head_start)
        if self.waiting & 1:
            ctx.set(dut.withdraw.valid, 1)
        await self.cycles(ctx, 30)
        if self.withdrawn:
            assert (self.waiting, self.resumed, self.withdrawn) == (2, 0, [0])
            await self.arrive(ctx, 0)  # the withdrawn warp arrives again
            await self.cycles(ctx, 30)
        assert (self.waiting, self.resumed) == (0, 3)


def test_a_withdrawal_races_with_the_last_arrival():
    """Either the first warp is withdrawn and the second one waits, or both resume and none is
    withdrawn.
    """
    outcomes = []
    for head_start in range(14):
        pair = Pair(head_start)
        passes(lambda bench, pair=pair: bench.simulate(pair.dut, [pair.drive]))
        outcomes.append(len(pair.withdrawn))
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {0, 1}


def test_the_end_of_a_warp_completes_two_barriers():
    """Two warps wait at a barrier each, at which the other has arrived. When the third one ends,
    both resume, and the one that reduced reads its result.
    """

    def arrival(mode, number, **fields):
        return Use(
            encode("BAR", "ii", mode=mode.value, barrier=number, **{"Pc": 7} | fields), predicate=3
        )

    result = Use(encode("B2R", "result", Rd=9, Pd=0))
    steps = {
        20: (1, arrival(BarrierMode.ARV, 0)),
        40: (0, arrival(BarrierMode.ARV, 1)),
        60: (0, arrival(BarrierMode.RED, 0, Pc=1, reduction=BarrierReduction.POPC.value)),
        80: (1, arrival(BarrierMode.SYNC, 1)),
        140: (0, result),
        160: (1, result),
    }
    ends = {100: 2, 180: 0, 200: 1}

    def source(driver, ctx, room, more):
        if driver.cycle <= 3:
            driver.begin(ctx, driver.cycle - 1, 0, 3, driver.cycle - 1)
        if driver.cycle in steps:
            slot, use = steps[driver.cycle]
            assert driver.warps[slot] not in driver.held
            driver.dispatch(ctx, driver.warps[slot], use)
        if driver.cycle in ends:
            driver.end(ctx, driver.warps[ends[driver.cycle]])

    def body(bench):
        driver = BarrierDriver(bench, source, PRESETS["small"], report_mask=tb_barrier.ALL_REPORTED)
        driver.run(220)
        bench.expect("instructions", driver.done, 6)

    passes(body)


async def withdraw_while_others_end(ctx, dut, head_start, apart, scale):
    """Ends warps of a CTA of three while the waiting one is being withdrawn.

    Warp 0 waits, warp 1 has arrived without waiting. Warps 1 and 2 end ``apart`` cycles after each
    other, so that the barrier expects no more warps than have arrived. Finally warp 0 ends.

    Returns:
        The warps that resumed, and the warps that were withdrawn.
    """
    words = {10 * scale: (0, SYNC), 20 * scale: (1, ARRIVE)}
    start = 40 * scale
    ends = {start + head_start: 1, start + head_start + apart: 2, 90 * scale - 1: 0}
    resumed, withdrawn = [], []
    for cycle in range(100 * scale):
        launched = cycle if cycle < 3 else None
        offer(
            ctx,
            dut.launch,
            None if launched is None else {"warp": launched, "number": launched, "cta_warps": 3},
        )
        warp, word = words.get(cycle, (0, 0))
        offer(
            ctx,
            dut.dispatch,
            {
                "warp": warp,
                "word": word,
                "active": ALL,
                "guard": ALL,
                "write_barrier": 7,
                "read_barrier": 7,
            }
            if cycle in words
            else None,
        )
        offer(ctx, dut.terminated, ends.get(cycle))
        offer(ctx, dut.withdraw, 0 if cycle >= start and not (withdrawn or resumed) else None)
        _, _, resume, is_withdrawn, taken_back = await ctx.tick().sample(
            dut.resume, dut.withdrawn.valid, dut.withdrawn.payload
        )
        resumed += [0] if resume & 1 else []
        withdrawn += [taken_back] if is_withdrawn else []
    assert ctx.get(dut.waiting) == 0
    return resumed, withdrawn


@pytest.mark.parametrize("preset", ["default", "least"])
def test_a_barrier_does_not_release_a_warp_that_is_being_withdrawn(preset):
    """The waiting warp is either withdrawn or released, never both, at any distance of the ends."""
    dut, outcomes, serial = (
        units_of(PRESETS[preset]).barrier(PRESETS[preset]),
        set(),
        PRESETS[preset].serial,
    )

    async def drive(ctx):
        ctx.set(dut.barriers, BARRIERS)
        ctx.set(dut.report_mask, tb_barrier.ALL_REPORTED)
        for head_start in range(-6, 8, 1 + serial):
            for apart in (1,) if serial else (1, 2):
                resumed, withdrawn = await withdraw_while_others_end(
                    ctx, dut, head_start, apart, 5 if serial else 1
                )
                assert resumed + withdrawn == [0], (head_start, apart)
                outcomes.add(len(withdrawn))

    passes(lambda bench: bench.simulate(dut, [drive]))
    assert outcomes == {0, 1}
