"""The compiled engine: its process, its clock, and access to signals and memories; some tests
replace the model by a fake.
"""

from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Cat, MemoryData, Module, Signal, signed
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from sim.engine import ENGINES, CompiledEngine, EngineError, engine_of, make_simulator
from sim.engine.compiled import DesignProcess
from sim.engine.internals import PyMemoryState, PySignalState
from sim.engine.layout import DesignSignal, SignalDriver
from sim.engine.model import FAILURE, TEXT
from sim.engine.states import ClockState, DrivenState, InputState, MemoryState
from testbench.engine.designs import needs_compiled
from testbench.fakes import fake
from testbench.simulation import simulate


@pytest.fixture(params=["pysim", pytest.param("compiled", marks=needs_compiled)])
def engine(request):
    return ENGINES[request.param]


# The process of the design


def process(*, settles=False, events=0):
    """Returns a process over a fake model that records its calls."""
    called: list[Any] = []
    model: Any = fake(
        settles=settles,
        step=lambda: called.append("step") or events,
        reset=lambda: called.append("reset"),
        take_text=lambda: "said\n",
        failure=lambda: ("dir/file.py:12", "Assertion violated: bad"),
    )
    return DesignProcess(model), called


def clock(level, called):
    return fake(curr=level, field=fake(write=lambda value: called.append(("clock", value))))


def test_a_step_of_the_design_begins_with_its_clocks_and_ends_with_what_is_watched():
    design, called = process()
    design.clock_changed(clock(1, called))
    design.watched.append(fake(check=lambda: called.append("check")))
    assert called == []
    design.run()
    assert called == [("clock", 1), "step", "check"]
    design.run()
    assert called[3:] == ["step", "check"]


def test_a_reset_forgets_edges_and_runs_the_design():
    design, called = process()
    assert design.runnable
    design.clock_changed(clock(1, called))
    design.runnable = False
    design.reset()
    assert design.runnable and called == ["reset"]
    design.run()
    assert called == ["reset", "step"]


@pytest.mark.parametrize(
    ("level", "settles", "expected", "runs"),
    [
        (1, False, [], True),
        (1, True, [], True),
        (0, True, [], True),
        (0, False, [("clock", 0), "step"], False),
    ],
)
def test_a_falling_edge_is_applied_at_once_where_nothing_depends_on_it(
    level, settles, expected, runs
):
    design, called = process(settles=settles)
    design.runnable = False
    design.clock_changed(clock(level, called))
    assert called == expected and design.runnable is runs
    assert len(design.edges) == runs


@pytest.mark.parametrize(
    ("settles", "watched", "runs"), [(False, 0, False), (True, 0, True), (False, 1, True)]
)
def test_an_input_steps_the_design_where_somebody_may_see_that_before_the_next_edge(
    settles, watched, runs
):
    design, _ = process(settles=settles)
    design.watched += [fake()] * watched
    design.runnable = False
    design.input_changed()
    assert design.runnable is runs
    design.runnable = False
    design.state_changed()
    assert design.runnable


def test_what_a_step_reports_is_printed_and_raised(capsys):
    design, _ = process()
    design.report(0)
    assert capsys.readouterr().out == ""
    design.report(TEXT)
    assert capsys.readouterr().out == "said\n"
    with pytest.raises(AssertionError, match=r"^Assertion violated: bad$") as failed:
        design.report(FAILURE)
    last = failed.traceback[-1]
    assert (Path(last.path).name, last.lineno + 1) == ("file.py", 12)
    assert capsys.readouterr().out == ""
    with pytest.raises(AssertionError):
        design.report(TEXT | FAILURE)
    assert capsys.readouterr().out == "said\n"
    model: Any = fake(failure=lambda: ("", "bad"))
    with pytest.raises(AssertionError, match=r"^bad$"):
        DesignProcess(model).report(FAILURE)


# Values


class Values(wiring.Component):
    """Inputs and outputs of odd widths, signed and unsigned, and a memory."""

    a: In(12)
    b: In(signed(7))
    c: In(70)
    sum: Out(signed(14))
    kept: Out(signed(9))
    low: Out(70)
    row: Out(9)

    def __init__(self):
        super().__init__()
        self.table = memory.Memory(shape=9, depth=3, init=[1, 2, 3])

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = self.table
        port = self.table.read_port(domain="comb")
        m.d.comb += [
            self.sum.eq(self.a + self.b),
            self.low.eq(~self.c),
            port.addr.eq(self.a),
            self.row.eq(port.data),
        ]
        m.d.sync += self.kept.eq(self.b + 1)
        return m


def test_signals_and_parts_of_them_are_set_and_read(engine):
    dut, own, found = Values(), Signal(signed(5)), []

    async def testbench(ctx):
        ctx.set(dut.a, 0x1ABC)
        assert ctx.get(dut.a) == 0xABC
        ctx.set(dut.b, -3)
        assert (ctx.get(dut.b), ctx.get(dut.sum)) == (-3, 0xABC - 3)
        ctx.set(dut.b, 0x7F)
        assert (ctx.get(dut.b), ctx.get(dut.sum)) == (-1, 0xABC - 1)
        ctx.set(dut.a[4:8], 0x5)
        assert (ctx.get(dut.a), ctx.get(dut.a[4:]), ctx.get(dut.a[:5])) == (0xA5C, 0xA5, 0x1C)
        ctx.set(dut.b[6], 0)
        assert (ctx.get(dut.b), ctx.get(dut.b[1:3]), ctx.get(dut.b[2:])) == (63, 3, 15)
        ctx.set(dut.c, 1 << 69 | 5)
        ctx.set(Cat(dut.a[:2], dut.c[64:66]), 0b1001)
        assert ctx.get(dut.a) == 0xA5D and ctx.get(dut.c) == 1 << 69 | 0b10 << 64 | 5
        assert ctx.get(dut.low) == ((1 << 70) - 1) ^ ctx.get(dut.c)
        assert ctx.get(dut.low[60:70]) == ctx.get(dut.low) >> 60
        ctx.set(own, 17)
        assert (ctx.get(own), ctx.get(own[4]), ctx.get(own + 1)) == (-15, 1, -14)
        ctx.set(dut.b, -4)
        await ctx.tick()
        assert (ctx.get(dut.kept), ctx.get(dut.kept[:4])) == (-3, 13)
        ctx.set(dut.kept, -200)
        assert ctx.get(dut.kept) == -200
        ctx.set(dut.kept[:2], 3)
        assert ctx.get(dut.kept) == -197
        await ctx.tick()
        assert ctx.get(dut.kept) == -3
        ctx.set(dut.a, 2)
        ctx.set(dut.table.data[2], 0x155)
        row: Any = dut.table.data[1]
        ctx.set(row[4:], 3)
        assert [ctx.get(dut.table.data[row]) for row in range(3)] == [1, 0x32, 0x155]
        assert ctx.get(dut.row) == 0x155
        ctx.set(dut.a, 1)
        assert ctx.get(dut.row) == 0x32
        ctx.set(dut.a, 3)
        assert ctx.get(dut.row) == 0
        found.append(1)

    simulate(dut, testbench, engine=engine)
    assert found == [1]


@pytest.fixture
def compiled():
    """An engine and its design."""
    dut = Values()
    return engine_of(make_simulator(dut, ENGINES["compiled"])), dut


@needs_compiled
def test_a_signals_state_follows_from_its_role(compiled):
    made, dut = compiled
    pending = made.state.pending
    domain = made._layout.domains["sync"]
    for signal, kind in (
        (dut.a, InputState),
        (domain.rst, InputState),
        (domain.clk, ClockState),
        (dut.sum, DrivenState),
        (dut.kept, DrivenState),
        (Signal(3), PySignalState),
    ):
        assert type(made.signal_state(signal, pending)) is kind
    assert made.signal_state(dut.sum, pending).is_comb
    assert not made.signal_state(dut.kept, pending).is_comb
    assert made.field(Signal(3)) is None and made.field(dut.a).read() == 0
    layout = made._layout
    for role in (SignalDriver.REGISTER, SignalDriver.COMBINATIONAL):
        gone = Signal(3, name="gone")
        layout.signals[gone] = DesignSignal(role, None)
        with pytest.raises(EngineError) as refused:
            made.signal_state(gone, pending)
        assert str(refused.value) == "engine compiled: signal gone is not in the compiled model"
        nothing = Signal(0)
        layout.signals[nothing] = DesignSignal(role, None)
        assert type(made.signal_state(nothing, pending)) is PySignalState
    unused = Signal(3)
    layout.signals[unused] = DesignSignal(SignalDriver.INPUT, None)
    assert type(made.signal_state(unused, pending)) is PySignalState


@needs_compiled
def test_the_reset_of_a_domain_steps_the_design_and_other_inputs_do_not(compiled):
    made, dut = compiled
    layout, process = made._layout, made._rtl
    reset = layout.domains["sync"].rst
    layout.signals[reset] = DesignSignal(SignalDriver.RESET, layout.signals[reset].place)
    for signal, runs in ((dut.a, False), (reset, True)):
        state = made.signal_state(signal, made.state.pending)
        process.runnable = False
        state.update(1)
        assert state.commit() and process.runnable is runs


@needs_compiled
def test_a_memory_of_the_design_is_in_the_model_and_others_are_the_testbenchs(compiled):
    made, dut = compiled
    assert type(made.memory_state(dut.table.data, set())) is MemoryState
    other = MemoryData(shape=8, depth=2, init=[])
    assert type(made.memory_state(other, set())) is PyMemoryState
    number = made.state.get_memory(dut.table.data)
    assert made.state.get_memory(dut.table.data) == number
    assert type(made.state.slots[number]) is MemoryState
    signal = made.state.get_signal(dut.a)
    assert made.state.get_signal(dut.a) == signal != made.state.get_signal(dut.b)


@needs_compiled
def test_the_design_is_stepped_only_where_something_has_changed(compiled, monkeypatch):
    made, _ = compiled
    stepped = []
    monkeypatch.setattr(
        CompiledEngine.__mro__[1].__mro__[1], "step_design", lambda self: stepped.append(1)
    )
    made.reset()
    made.step_design()
    assert stepped == [1]  # after a reset
    for one in made._processes:
        one.runnable = False
    made.state.pending.clear()
    made.step_design()
    assert stepped == [1]
    made._active_triggers.add("any")
    made.step_design()
    assert stepped == [1, 1]
    made._active_triggers.clear()
    made._rtl.runnable = True
    made.step_design()
    assert stepped == [1, 1, 1]
    made._rtl.runnable = False
    made.state.pending.add("any")
    made.step_design()
    assert stepped == [1, 1, 1, 1]
    made.state.pending.clear()


@needs_compiled
def test_the_clock_runs_in_the_model_only_where_nothing_else_is_under_way():
    dut = Values()
    simulator = make_simulator(dut, ENGINES["compiled"])
    simulator.add_clock(1e-6)
    made: Any = engine_of(simulator)
    domain = made._layout.domains["sync"]
    made._rtl.runnable = False
    made.state.pending.clear()

    def alone(domain=domain):
        return made._alone(None, domain)

    assert alone()
    assert not alone(fake(clk_edge="neg", clk=domain.clk))
    assert not alone(fake(clk_edge="pos", clk=Signal()))
    made._rtl.runnable = True
    assert not alone()
    made._rtl.runnable = False
    for waiting in (made._active_triggers, made.state.pending):
        waiting.add("any")
        assert not alone()
        waiting.clear()
        assert alone()
    state = made.state.slots[made._clocks[0].slot]
    state.wakers.append("any")
    assert not alone()
    state.wakers.clear()
    made._rtl.watched.append(fake(wakers=[]))
    assert alone()
    made._rtl.watched.append(fake(wakers=["any"]))
    assert not alone()
    made._rtl.watched.clear()
    made._clocks.append(made._clocks[0])
    assert not alone()
    made._clocks.clear()
    assert not alone()


@needs_compiled
@pytest.mark.parametrize(
    ("level", "due", "count", "asked", "now", "edge"),
    [
        (0, None, 5, 5, 4_500_000, 5_000_000),
        (1, None, 5, 5, 5_000_000, 5_500_000),
        (0, 3_500_000, 5, 3, 2_500_000, 3_000_000),
        (0, 3_500_001, 5, 4, 3_500_000, 4_000_000),
        (0, 3_400_000, 5, 3, 2_500_000, 3_000_000),
        (1, 3_500_000, 5, 3, 3_000_000, 3_500_000),
        (0, 500_000, 5, 0, 0, 500_000),
        (0, 500_001, 5, 1, 500_000, 1_000_000),
        (0, 99_000_000, 5, 5, 4_500_000, 5_000_000),
    ],
)
def test_a_leap_ends_with_the_last_edge_before_the_next_moment_of_others(
    level, due, count, asked, now, edge
):
    """The clock's period is 1 ns, its next edge is due at 0.5 ns; times are in fs."""
    dut = Values()
    simulator = make_simulator(dut, ENGINES["compiled"])
    simulator.add_clock(1e-9)
    made: Any = engine_of(simulator)
    clock = made._clocks[0]
    clock.waker = "clock"
    wakers = made.state.timeline.wakers
    wakers.clear()
    wakers["clock"] = 500_000
    if due is not None:
        wakers["other"] = due
    state = made.state.slots[clock.slot]
    state.jump(level)
    made._rtl.runnable = False
    made.state.pending.clear()
    calls, reported, passed = [], [], []

    def run(_field, cycles, condition):
        calls.append((cycles, condition))
        return cycles, True, 2

    made.model.run = run
    made._rtl.report = reported.append
    made._observer = fake(_clock_changes="observer", passed=passed.append)
    state.wakers = ["observer"]
    found = made.leap(None, made._layout.domains["sync"], count, None)
    if not asked:
        assert found == (0, False) and not calls
        return
    assert found == (asked, True) and calls == [(asked, None)]
    assert made.state.timeline.now == now and wakers["clock"] == edge
    assert (state.curr, state.next) == (1, 1)
    assert reported == [2] and passed == [asked]
