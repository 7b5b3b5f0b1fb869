"""A testbench behaves in the same way on both engines."""

import random
from pathlib import Path

import pytest
from amaranth.hdl import Cat, ClockDomain, DriverConflict, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from amaranth.sim import BrokenTrigger, Simulator

from sim.engine import ENGINES, CompiledEngine, Ran, engine_of, observe, run_cycles
from testbench.engine.designs import Color, Ripple, Zoo, needs_compiled
from testbench.simulation import simulate

PERIOD = 1e-8


@pytest.fixture(params=["pysim", pytest.param("compiled", marks=needs_compiled)])
def engine(request):
    return ENGINES[request.param]


def stimulate(dut, log, cycles=60):
    """A testbench that drives all inputs at random and records all values that it reads."""

    async def testbench(ctx):
        chance = random.Random(1)
        log.append(("start", ctx.get(dut.limit), ctx.get(dut.seen)))
        for cycle in range(cycles):
            ctx.set(dut.step, chance.randrange(4))
            ctx.set(dut.color, chance.choice([Color.RED, Color.BLUE]))
            ctx.set(dut.wide, chance.getrandbits(100))
            ctx.set(dut.row, chance.randrange(8))
            if chance.random() < 0.2:
                ctx.set(dut.table.data[chance.randrange(6)], chance.getrandbits(8))
            log.append(
                (
                    cycle,
                    ctx.get(dut.seen),
                    ctx.get(dut.chain),
                    ctx.get(Cat(dut.chain, dut.row)),
                    ctx.get(dut.pieces),
                )
            )
            _, _, before, color = await ctx.tick().sample(dut.count, dut.sample)
            log.append(
                (
                    before,
                    color.color,
                    color.level,
                    [ctx.get(dut.sample.pair[i]) for i in range(2)],
                    ctx.get(dut.wide_sum),
                    ctx.get(dut.negative),
                    ctx.get(dut.stored),
                    ctx.get(dut.count),
                    ctx.get(dut.table.data[chance.randrange(6)]),
                    ctx.get(dut.over),
                    ctx.get(dut.nothing),
                    ctx.get(dut.top),
                )
            )
            if chance.random() < 0.1:
                ctx.set(dut.count, chance.randrange(60))

    return testbench


@needs_compiled
def test_both_engines_show_every_value_alike(capsys):
    logs, printed = {}, {}
    for name, engine in ENGINES.items():
        logs[name] = []
        dut = Zoo()
        simulate(dut, stimulate(dut, logs[name]), engine=engine)
        printed[name] = capsys.readouterr().out
    assert logs["pysim"] == logs["compiled"]
    assert len(logs["pysim"]) == 121
    assert printed["pysim"] == printed["compiled"]
    assert "count is 21\n" in printed["compiled"]
    assert ": odd\n" in printed["compiled"]
    assert "not with 21" not in printed["compiled"]


def test_a_failed_assertion_ends_the_run_with_its_message_and_place(engine):
    dut = Zoo()

    async def testbench(ctx):
        ctx.set(dut.limit, 30)
        ctx.set(dut.step, 7)
        for _ in range(100):
            await ctx.tick()

    with pytest.raises(
        AssertionError, match=r"^Assertion violated: count 35 is over the limit$"
    ) as caught:
        simulate(dut, testbench, engine=engine)
    assert Path(caught.traceback[-1].path).name == "designs.py"


def test_combinationally_driven_signals_cannot_be_set(engine):
    dut = Zoo()

    async def testbench(ctx):
        ctx.set(dut.negative, 3)

    with pytest.raises(DriverConflict, match="Combinationally driven signals"):
        simulate(dut, testbench, engine=engine)


def test_testbenches_run_in_the_order_they_were_added_beside_background_ones(engine):
    dut, log = Zoo(), []

    async def forever(ctx):
        async for _, _, count in ctx.tick().sample(dut.count):
            log.append(("background", count))

    async def watch(ctx):
        async for (count,) in ctx.changed(dut.count):
            log.append(("changed", count))

    async def first(ctx):
        ctx.set(dut.step, 1)
        for _ in range(3):
            await ctx.tick()
            log.append(("first", ctx.get(dut.count)))
            ctx.set(dut.step, 2)

    async def second(ctx):
        for _ in range(3):
            await ctx.tick()
            log.append(("second", ctx.get(dut.step)))

    simulate(dut, first, second, background=[forever, watch], engine=engine)
    assert log == [
        ("changed", 0),
        ("background", 0),
        ("changed", 1),
        ("first", 1),
        ("second", 2),
        ("background", 1),
        ("changed", 3),
        ("first", 3),
        ("second", 2),
        ("background", 3),
        ("changed", 5),
        ("first", 5),
        ("second", 2),
    ]


def test_a_process_can_stand_for_hardware(engine):
    dut = Zoo()

    async def doubler(ctx):
        async for _, _, count in ctx.tick().sample(dut.count):
            ctx.set(dut.step, count + 1)

    counts = []

    async def testbench(ctx):
        for _ in range(6):
            await ctx.tick()
            counts.append(ctx.get(dut.count))

    simulator = Simulator(dut, engine=engine)
    simulator.add_clock(PERIOD)
    simulator.add_process(doubler)
    simulator.add_testbench(testbench)
    simulator.run()
    assert counts == [0, 1, 2, 4, 7, 12]


def test_a_reset_simulation_runs_again_the_same(engine):
    dut, log = Zoo(), []
    simulator = simulate(dut, stimulate(dut, log, 10), engine=engine)
    first = list(log)
    log.clear()
    simulator.reset()
    simulator.run()
    assert log == first


def test_a_wait_for_a_change_sees_what_another_testbench_sets(engine):
    dut, seen = Zoo(), []

    async def watch(ctx):
        seen.append(await ctx.changed(dut.seen))

    async def testbench(ctx):
        await ctx.delay(1e-9)
        ctx.set(dut.row, 3)
        await ctx.delay(1e-9)

    simulate(dut, testbench, background=[watch], clocks={}, engine=engine)
    assert seen == [(13,)]


class Domains(wiring.Component):
    """Two clock domains: the second has an asynchronous reset, or falling edges."""

    fast: Out(8)
    slow: Out(8)

    def __init__(self, falling):
        super().__init__()
        self.falling = falling
        self.reset = Signal()

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()
        if self.falling:
            m.domains.slow = ClockDomain(clk_edge="neg")
        else:
            m.domains.slow = ClockDomain(async_reset=True)
        m.d.comb += ResetSignal("slow").eq(self.reset)
        m.d.sync += self.fast.eq(self.fast + 1)
        m.d.slow += self.slow.eq(self.slow + self.fast)
        return m


@needs_compiled
@pytest.mark.parametrize("falling", [False, True])
def test_clock_domains_edges_and_resets_agree(falling):
    logs = []
    for engine in ENGINES.values():
        dut, log = Domains(falling), []

        async def testbench(ctx, dut=dut, log=log):
            for step in range(40):
                await ctx.delay(1.3e-8)
                ctx.set(dut.reset, step % 11 == 4)
                log.append((ctx.get(dut.fast), ctx.get(dut.slow)))

        simulate(dut, testbench, clocks={"sync": PERIOD, "slow": 2.7e-8}, engine=engine)
        logs.append(log)
    assert logs[0] == logs[1]
    assert logs[0][-1][0] > 40
    assert len({slow for _, slow in logs[0]}) > 10


@needs_compiled
def test_combinational_logic_that_needs_several_rounds_agrees():
    logs = []
    for engine in ENGINES.values():
        dut, log = Ripple(), []

        async def testbench(ctx, dut=dut, log=log):
            for step in range(20):
                ctx.set(dut.a, step % 3 == 1)
                log.append(ctx.get(dut.total))
                await run_cycles(ctx, 2)
                log.append(ctx.get(dut.kept))

        simulate(dut, testbench, engine=engine)
        logs.append(log)
    assert logs[0] == logs[1]
    assert not engine_of(Simulator(Zoo(), engine=CompiledEngine)).model.settles


def test_running_cycles_is_the_same_as_taking_ticks(engine):
    dut, log = Zoo(), []

    async def testbench(ctx):
        ctx.set(dut.step, 3)
        log.append(await run_cycles(ctx, 10))
        log.append((ctx.get(dut.count), ctx.get(dut.over)))
        log.append(await run_cycles(ctx, 1000, until=dut.over))
        log.append(
            (ctx.get(dut.count), await run_cycles(ctx, 1, until=dut.over), ctx.get(dut.count))
        )
        await ctx.tick()
        log.append((ctx.get(dut.count), await run_cycles(ctx, 0), ctx.get(dut.count)))

    simulator = simulate(dut, testbench, engine=engine)
    assert log == [
        Ran(10, False),
        (30, 0),
        Ran(25, True),
        (105, Ran(1, True), 108),
        (111, Ran(0, False), 111),
    ]
    assert engine_of(simulator).now == 37 * 10_000_000


def test_running_cycles_leaves_other_testbenches_their_moments(engine):
    dut, log = Zoo(), []

    async def alarm(ctx):
        await ctx.delay(1.01e-7)
        log.append(("alarm", ctx.get(dut.count)))
        await ctx.tick().repeat(3)
        log.append(("three later", ctx.get(dut.count)))

    async def testbench(ctx):
        ctx.set(dut.step, 1)
        await ctx.tick().repeat(2)
        log.append(await run_cycles(ctx, 50))
        log.append(ctx.get(dut.count))

    simulate(dut, testbench, background=[alarm], engine=engine)
    assert log == [("alarm", 10), ("three later", 13), Ran(50, False), 52]


def test_running_cycles_waits_for_processes_woken_at_the_same_edge(engine):
    dut, log = Zoo(), []

    async def first(ctx):
        ctx.set(dut.step, 1)
        await ctx.tick()
        await run_cycles(ctx, 5)
        log.append(("first", ctx.get(dut.count)))

    async def second(ctx):
        await ctx.tick()
        log.append(("second", ctx.get(dut.count)))

    simulate(dut, first, second, engine=engine)
    assert log == [("second", 1), ("first", 6)]


def test_running_cycles_inside_of_a_loop_over_ticks_breaks_it(engine):
    dut = Zoo()

    async def testbench(ctx):
        ticks = 0
        async for _ in ctx.tick():
            await run_cycles(ctx, 3)
            ticks += 1
            assert ticks < 3

    with pytest.raises(BrokenTrigger):
        simulate(dut, testbench, engine=engine)


@needs_compiled
def test_the_clock_runs_in_the_model_while_no_other_process_waits():
    dut, ticks = Zoo(), []

    async def testbench(ctx):
        state = ctx._engine.state
        await ctx.tick()
        state.add_signal_waker(dut.step, lambda *_: True)
        before = ctx._engine._delta_cycles
        await run_cycles(ctx, 10_000)
        ticks.append(ctx._engine._delta_cycles - before)

    simulate(dut, testbench, engine=CompiledEngine)
    assert ticks == [0]


def test_an_assertion_ends_running_cycles_too(engine):
    dut = Zoo()

    async def testbench(ctx):
        ctx.set(dut.step, 1)
        await run_cycles(ctx, 1000)

    with pytest.raises(AssertionError, match=r"^Assertion violated: count 201 is over the limit$"):
        simulate(dut, testbench, engine=engine)


def test_running_cycles_until_a_wide_signal_is_refused():
    async def testbench(ctx):
        await run_cycles(ctx, 5, until=dut.count)

    dut = Zoo()
    with pytest.raises(ValueError, match=r"^until must have one bit, signal count has 8$"):
        simulate(dut, testbench, engine=ENGINES["pysim"])


class Constants(wiring.Component):
    """Constant outputs beside a counter."""

    never: Out(1)
    always: Out(1)
    count: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.never.eq(0), self.always.eq(1)]
        m.d.sync += self.count.eq(self.count + 1)
        return m


def test_running_cycles_until_a_signal_that_never_changes(engine):
    dut, log = Constants(), []

    async def testbench(ctx):
        for count, until in ((1, dut.never), (5, dut.never), (1, dut.always), (5, dut.always)):
            log.append((await run_cycles(ctx, count, until=until), ctx.get(dut.count)))

    simulate(dut, testbench, engine=engine)
    assert log == [
        (Ran(1, False), 1),
        (Ran(5, False), 6),
        (Ran(1, True), 7),
        (Ran(1, True), 8),
    ]


def test_observers_see_each_cycle_as_its_edge_does(engine):
    dut, mark, seen = Zoo(), Signal(4), []
    simulator = Simulator(dut, engine=engine)
    simulator.add_clock(PERIOD)
    observer = observe(simulator, [dut.count, mark, dut.over, dut.wide], seen.extend)

    async def testbench(ctx):
        ctx.set(dut.step, 60)
        ctx.set(dut.wide, 1 << 70)
        await ctx.tick()
        ctx.set(mark, 9)
        await run_cycles(ctx, 2)
        ctx.set(dut.wide, 3)

    simulator.add_testbench(testbench)
    simulator.run()
    assert observer.finish() == 3
    assert seen == [
        (0, 0, 0),
        (0, 1, 0),
        (0, 2, 0),
        (0, 3, 1 << 70),
        (1, 0, 60),
        (1, 1, 9),
        (2, 0, 120),
        (2, 2, 1),
        (3, 0, 180),
        (3, 3, 3),
    ]


class Loop(wiring.Component):
    a: Out(1)
    b: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.a.eq(~self.b), self.b.eq(self.a)]
        return m


def test_a_combinational_loop_is_named(engine):
    with pytest.raises(
        Exception, match=r"(?s)Combinational cycle detected.*test_engine\.py:\d+: signal b bit 0"
    ):
        Simulator(Loop(), engine=engine)


class Rings(wiring.Component):
    """Registers that exchange values: two in each of three modules, and one of each in a ring.

    On the compiled engine each module's registers are computed by a separate function.
    """

    inner: Out(48)
    outer: Out(24)

    def elaborate(self, platform):
        m = Module()
        outer = [Signal(8, name=f"outer{number}", init=number + 1) for number in range(3)]
        inner = []
        for number, before in enumerate((outer[-1], *outer[:-1])):
            m.submodules[f"part{number}"] = part = Module()
            pair = [
                Signal(8, name=f"pair{number}_{side}", init=16 * number + side) for side in range(2)
            ]
            part.d.sync += [outer[number].eq(before), pair[0].eq(pair[1]), pair[1].eq(pair[0])]
            inner += pair
        m.d.comb += [self.inner.eq(Cat(inner)), self.outer.eq(Cat(outer))]
        return m


def test_registers_take_the_values_that_others_had(engine):
    dut, log = Rings(), []

    async def testbench(ctx):
        for _ in range(7):
            log.append((ctx.get(dut.inner), ctx.get(dut.outer)))
            await ctx.tick()

    simulate(dut, testbench, engine=engine)
    pairs = [0x2120_1110_0100, 0x2021_1011_0001]
    assert log == [(pairs[turn % 2], (0x030201, 0x020103, 0x010302)[turn % 3]) for turn in range(7)]
