"""The clock of a simulation: single cycles and batches of cycles, observers and their batches,
testbenches that end.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import ClockDomain, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from sim.engine import ENGINES, base, clock, make_simulator
from sim.engine import compiled as compiled_module
from sim.engine.clock import Ran, engine_of, observe, observe_all, run_cycles, stop
from sim.engine.pysim import PysimEngine
from testbench.engine.designs import needs_compiled
from testbench.simulation import simulate


@pytest.fixture(params=["pysim", pytest.param("compiled", marks=needs_compiled)])
def engine(request):
    return ENGINES[request.param]


class Counter(wiring.Component):
    """A counter, and a bit that is 1 while it is 5."""

    count: Out(8)
    five: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.count.eq(self.count + 1)
        m.d.comb += self.five.eq(self.count == 5)
        return m


class Leaping(PysimEngine):
    """An engine that reports how far it can leap; it does not simulate the cycles that it leaps
    over.
    """

    asked: list[Any] = []
    leaps: list[Any] = []

    def leap(self, process, domain, count, until):
        self.asked.append((count, until is not None))
        return self.leaps.pop(0) if self.leaps else (0, False)


def test_an_engine_is_asked_to_leap_up_to_1000_cycles_and_ticks_where_it_does_not(monkeypatch):
    monkeypatch.setattr(Leaping, "asked", [])
    monkeypatch.setattr(Leaping, "leaps", [(1000, False), (0, False), (500, False), (998, False)])
    noted = []
    monkeypatch.setattr(clock, "raise_noted", lambda: noted.append(1))
    dut, found = Counter(), []

    async def testbench(ctx):
        found.append(await run_cycles(ctx, 2500))
        found.append(ctx.get(dut.count))

    simulate(dut, testbench, engine=Leaping)
    assert Leaping.asked == [(1000, False), (1000, False), (1000, False), (999, False), (1, False)]
    assert found == [Ran(2500, False), 2] and len(noted) == 5


def test_a_leap_that_hits_ends_the_run(monkeypatch):
    monkeypatch.setattr(Leaping, "asked", [])
    monkeypatch.setattr(Leaping, "leaps", [(7, True)])
    dut, found = Counter(), []

    async def testbench(ctx):
        found.append(await run_cycles(ctx, 100, until=dut.five))

    simulate(dut, testbench, engine=Leaping)
    assert found == [Ran(7, True)] and Leaping.asked == [(100, True)]


def test_the_run_ends_with_the_edge_that_finds_the_bit_at_1(engine):
    dut, found = Counter(), []

    async def testbench(ctx):
        for count in (3, 100, 100, 0):
            ran = await run_cycles(ctx, count, until=dut.five)
            found.append((ran, ctx.get(dut.count)))

    simulate(dut, testbench, engine=engine)
    assert found == [
        (Ran(3, False), 3),
        (Ran(3, True), 6),
        (Ran(100, False), 106),
        (Ran(0, False), 106),
    ]


def test_any_simulator_of_amaranths_runs_cycles():
    dut, found = Counter(), []

    async def testbench(ctx):
        found.append((await run_cycles(ctx, 4), ctx.get(dut.count)))

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
    assert found == [(Ran(4, False), 4)]


def test_testbenches_are_ended_where_they_are(engine):
    dut, ended = Counter(), []

    async def waits(ctx):
        try:
            await ctx.tick().repeat(1000)
        finally:
            ended.append("waits")

    async def other(ctx):
        try:
            async for _ in ctx.tick():
                pass
        finally:
            ended.append("other")

    simulator = make_simulator(dut, engine)
    simulator.add_clock(1e-6)
    simulator.add_testbench(waits)
    simulator.add_testbench(other)
    simulator.run_until(5e-6)
    assert ended == []
    stop(simulator)
    assert "other" in ended
    assert all(one.coroutine is None for one in engine_of(simulator)._testbenches)
    stop(simulator)


# Observers


@pytest.mark.parametrize("batch", [1, 3])
def test_changes_come_in_batches_and_the_rest_at_the_end(monkeypatch, batch):
    monkeypatch.setattr(base, "BATCH", batch)
    dut, batches = Counter(), []
    simulator = make_simulator(dut, PysimEngine)
    simulator.add_clock(1e-6)
    observer = observe(simulator, [dut.count, dut.five], lambda one: batches.append(list(one)))

    async def testbench(ctx):
        await run_cycles(ctx, 6)

    simulator.add_testbench(testbench)
    simulator.run()
    assert observer.finish() == 6
    changes = [
        (0, 0, 0), (0, 1, 0), (1, 0, 1), (2, 0, 2), (3, 0, 3), (4, 0, 4), (5, 0, 5), (5, 1, 1),
        (6, 0, 6), (6, 1, 0),
    ]  # fmt: skip
    assert [change for one in batches for change in one] == changes
    sizes = {1: [2, 1, 1, 1, 1, 2, 2], 3: [3, 3, 4]}[batch]
    assert [len(one) for one in batches] == sizes


@needs_compiled
def test_the_compiled_engine_hands_over_changes_when_there_are_many(monkeypatch):
    monkeypatch.setattr(compiled_module, "_BATCH", 30)
    dut, batches = Counter(), []
    simulator = make_simulator(dut, ENGINES["compiled"])
    simulator.add_clock(1e-6)
    observer = observe(simulator, [dut.count], lambda one: batches.append(list(one)))

    async def testbench(ctx):
        for _ in range(6):
            await run_cycles(ctx, 4)

    simulator.add_testbench(testbench)
    simulator.run()
    assert observer.finish() == 24
    assert [change for one in batches for change in one] == [
        (cycle, 0, cycle) for cycle in range(25)
    ]
    assert len(batches) == 3  # 30 words are 10 changes: after 12 and 24 cycles, and at the end


def test_an_observer_takes_unsigned_values_of_all_signals_in_the_first_cycle(engine):
    own = Signal(4, init=3)
    dut, found = Counter(), []
    simulator = make_simulator(dut, engine)
    simulator.add_clock(1e-6)
    observer = observe_all(
        simulator, [([], found.append), ([own, dut.five, dut.count], found.extend)]
    )

    async def testbench(ctx):
        await ctx.tick()
        ctx.set(own, 15)
        await ctx.tick()
        ctx.set(own, 4)
        ctx.set(own, 15)
        await ctx.tick()

    simulator.add_testbench(testbench)
    simulator.run()
    assert observer.finish() == 3
    assert [change for change in found if isinstance(change, tuple)] == [
        (0, 0, 3), (0, 1, 0), (0, 2, 0), (1, 0, 15), (1, 2, 1), (2, 2, 2), (3, 2, 3),
    ]  # fmt: skip


def test_an_engine_needs_nothing_and_leaps_nowhere_unless_it_says_so():
    assert PysimEngine.missing() is None
    made: Any = SimpleNamespace()
    assert PysimEngine.leap(made, None, None, 5, None) == (0, False)


@needs_compiled
def test_the_compiled_engine_has_one_observer():
    dut = Counter()
    simulator = make_simulator(dut, ENGINES["compiled"])
    simulator.add_clock(1e-6)
    observe(simulator, [dut.count], print)
    with pytest.raises(Exception, match=r"^engine compiled has one observer at a time$"):
        observe(simulator, [dut.five], print)


class Half(wiring.Component):
    """A counter of rising or falling edges."""

    count: Out(8)

    def __init__(self, edge):
        super().__init__()
        self._edge = edge

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain(clk_edge=self._edge)
        m.d.sync += self.count.eq(self.count + 1)
        return m


@needs_compiled
@pytest.mark.parametrize(
    ("edge", "beside", "leaps"),
    [("pos", None, True), ("neg", None, False), ("pos", "delay", True), ("pos", "tick", False),
     ("pos", "changed", False), ("pos", "ended", True)],
)  # fmt: skip
def test_the_model_runs_the_clock_alone_where_nothing_else_waits_for_it(edge, beside, leaps):
    dut, found = Half(edge), []

    async def delays(ctx):
        await ctx.delay(1e-3)

    async def ticks(ctx):
        async for _ in ctx.tick():
            pass

    async def changes(ctx):
        async for _ in ctx.changed(dut.count):
            pass

    async def ends(_ctx):
        pass

    async def testbench(ctx):
        await ctx.tick()
        before = ctx._engine._delta_cycles
        assert await run_cycles(ctx, 50) == Ran(50, False)
        found.append((ctx.get(dut.count), ctx._engine._delta_cycles - before))

    others = {"delay": [delays], "tick": [ticks], "changed": [changes], "ended": [ends]}
    simulate(dut, testbench, background=others.get(beside or "", []), engine=ENGINES["compiled"])
    ((count, deltas),) = found
    assert count == 51 and (deltas == 0) == leaps


@needs_compiled
def test_a_leap_ends_before_the_moment_at_which_another_testbench_is_woken():
    """The clock's edges are at 0.5, 1.5, 2.5 and so on. A testbench that waits for the time of an
    edge is woken before or after it, as on the other engine.
    """
    for delay in (3.4e-6, 3.5e-6, 3.6e-6, 4e-6, 0.2e-6):
        logs = []
        for engine in ENGINES.values():
            dut, log = Counter(), []

            async def alarm(ctx, dut=dut, log=log, delay=delay):
                await ctx.delay(delay)
                log.append(("alarm", ctx.get(dut.count)))

            async def testbench(ctx, dut=dut, log=log):
                log.append((await run_cycles(ctx, 10), ctx.get(dut.count)))

            simulator = make_simulator(dut, engine)
            simulator.add_clock(1e-6)
            simulator.add_testbench(testbench)
            simulator.add_testbench(alarm, background=True)
            simulator.run()
            logs.append((log, engine_of(simulator).now))
        assert logs[0] == logs[1]
        assert logs[0][0][-1] == (Ran(10, False), 10)
