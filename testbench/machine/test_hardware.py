"""The machine in simulation as its host drives it, with fakes of hardware and simulator: registers,
cycles, attention, runs.
"""

import threading
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from rtl.isa.errors import REPORT_MASK_RESET
from rtl.layouts import Policy
from rtl.params import PRESETS
from rtl.retire import RetirementPort
from sim.engine import CompiledEngine, PysimEngine, Ran, cache
from sim.machine import hardware as hardware_module
from sim.machine.hardware import Hardware
from sim.machine.host import REGISTERS
from sim.machine.memory_service import LATENCY, ON_TIME, Trouble
from sim.support import activity
from testbench.fakes import fake
from testbench.machine.recorded import launch_of

TINY = PRESETS["tiny"]
TEXT = ".kernel k\nNOP\nEXIT\n"


def run(work):
    """Runs a coroutine that never suspends and returns its result."""
    with pytest.raises(StopIteration) as ended:
        work.send(None)
    return ended.value.value


class Context:
    """A simulator context that holds signals by identity and records operations in order."""

    def __init__(self):
        self.values: dict[int, int] = {}
        self.done: list[Any] = []

    def get(self, signal):
        return self.values.get(id(signal), 0)

    def set(self, signal, value):
        self.values[id(signal)] = value
        self.done.append((signal.name, value))


class Service:
    """A memory service without due requests, unless ``due`` has some."""

    def __init__(self):
        self.due, self.called, self.reads, self.writes = None, [], 3, 4
        self.trouble: Any = "some"

    def wait(self, cycle):
        self.called.append(("wait", cycle))
        return self.due

    def take(self, _ctx, cycle):
        self.called.append(("take", cycle))

    def serve(self, _ctx, cycle):
        self.called.append(("serve", cycle))

    def finish(self):
        self.called.append("finish")


def named(name):
    return SimpleNamespace(name=name)


@pytest.fixture
def parts(monkeypatch):
    """Replaces the parts of a machine, so that neither hardware nor a simulator is made."""
    made = SimpleNamespace(called=[], hits=[])
    bus = fake(**{name: named(name) for name in ("address", "data", "write", "read", "value")})
    made.harness = fake(
        sm=fake(retired=RetirementPort(TINY).create(), policy=named("policy"), interrupt=named("interrupt")),
        host=bus, wake=named("wake"), levels=named("levels"), ended=named("ended"),
        locked_down=named("locked_down"), latch="latch",
    )  # fmt: skip
    made.simulator = fake(
        add_clock=lambda period: None,
        add_testbench=lambda bench: made.called.append("testbench"),
        reset=lambda: made.called.append("reset"),
        run=lambda: made.called.append("run"),
        _engine="engine",
    )
    monkeypatch.setattr(hardware_module, "Harness", lambda _params: made.harness)
    monkeypatch.setattr(hardware_module, "make_simulator", lambda _harness, _engine: made.simulator)

    async def run_cycles(_ctx, count, *, until):
        assert until is made.harness.wake
        made.called.append(("cycles", count))
        return made.hits.pop(0) if made.hits else Ran(count, False)

    monkeypatch.setattr(hardware_module, "run_cycles", run_cycles)
    return made


def machine(parts, params=TINY, **options):
    engine: Any = None
    made = Hardware(params, engine, **options)
    ctx, service = Context(), Service()
    now: Any = fake(ctx=ctx, service=service, levels=0)
    made._now = now
    return made, ctx, service


@pytest.mark.parametrize(("due", "passed"), [(None, 50), (7, 7), (70, 50), (1, 1)])
def test_cycles_pass_up_to_the_next_answer_of_memory(parts, due, passed):
    made, _, service = machine(parts)
    made.cycles, service.due = 100, due
    assert run(made.advance(50)) is False
    assert parts.called == [("cycles", passed)] and made.cycles == 100 + passed
    assert service.called == [("wait", 100), ("serve", 100 + passed)]


def test_a_request_is_taken_in_the_cycle_behind_it(parts):
    made, _, service = machine(parts)
    parts.hits = [Ran(3, True)]
    run(made.advance(50))
    assert made.cycles == 3
    assert service.called == [("wait", 0), ("take", 3), ("serve", 3)]


def test_attention_is_for_levels_that_begin(parts):
    made, ctx, _ = machine(parts)
    found = []
    for level in (0b001, 0b001, 0b011, 0b010, 0b010, 0b100, 0, 0b100):
        ctx.values[id(parts.harness.levels)] = level
        found.append(run(made.advance(1)))
    assert found == [True, False, True, False, False, True, False, True]


def test_a_register_is_written_in_one_cycle_and_noted_for_the_comparison(parts):
    made, ctx, _ = machine(parts)
    noted = []
    made.lockstep = fake(note_write=lambda *of: noted.append(of))
    made.cycles = 9
    run(made.write(REGISTERS["LAUNCH"], 5))
    assert ctx.done == [("address", REGISTERS["LAUNCH"]), ("data", 5), ("write", 1), ("write", 0)]
    assert noted == [(9, "LAUNCH", 5)] and parts.called == [("cycles", 1)] and made.cycles == 10
    run(made.write(0x999999, 5))
    made.lockstep = None
    run(made.write(REGISTERS["LAUNCH"], 5))
    assert len(noted) == 1


def test_registers_are_read_one_a_cycle(parts):
    made, ctx, _ = machine(parts)
    ctx.values[id(parts.harness.host.value)] = 7
    assert run(made.read_all([16, 20])) == [7, 7]
    assert ctx.done == [("read", 1), ("address", 16), ("address", 20), ("read", 0)]
    assert made.cycles == 2
    assert run(made.read(16)) == 7


@pytest.mark.parametrize(("preset", "cycles"), [("tiny", 64), ("least", 1024)])
def test_what_is_under_way_is_reported_in_so_many_cycles(parts, preset, cycles):
    made, _, service = machine(parts, PRESETS[preset])
    parts.hits = [Ran(10, True)]
    run(made.settle())
    assert made.cycles == cycles and service.called[-1] == "finish"
    assert parts.called == [("cycles", cycles), ("cycles", cycles - 10)]


def test_the_levels_of_the_machine_are_its_signals(parts):
    made, ctx, _ = machine(parts)
    assert (made.ended, made.locked_down, made.interrupted) == (False, False, False)
    for signal in (parts.harness.ended, parts.harness.locked_down, parts.harness.sm.interrupt):
        ctx.values[id(signal)] = 1
    assert (made.ended, made.locked_down, made.interrupted) == (True, True, True)
    assert made.requests == 7 and made.engine == "engine"


def test_trouble_with_memory_can_end(parts):
    made, _, service = machine(parts)
    assert made.trouble(3) == ON_TIME == Trouble(False, 0)
    made.trouble_over()
    assert service.trouble(3) == ON_TIME


# What is prepared


def wait_for_timers():
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()


@pytest.mark.parametrize(
    ("params", "engine", "cached", "line"),
    [
        (
            TINY,
            CompiledEngine,
            True,
            "compiling machine `tiny`, once: later runs find it in the cache",
        ),
        (
            replace(TINY, warps=4),
            CompiledEngine,
            False,
            "compiling machine of 4 warps and 4 lanes, for this run (--no-cache)",
        ),
        (TINY, PysimEngine, True, "elaborating machine `tiny`, in each run"),
    ],
)
@pytest.mark.parametrize("takes_long", [False, True])
def test_without_a_terminal_a_line_says_what_is_compiled_for_long(
    parts, monkeypatch, capsys, params, engine, cached, line, takes_long
):
    def slow(_harness, _engine):
        if takes_long:
            wait_for_timers()
        return parts.simulator

    monkeypatch.setattr(activity, "ANNOUNCED_AFTER", 0.0 if takes_long else 60.0)
    monkeypatch.setattr(hardware_module, "make_simulator", slow)
    cache.switch(cached)
    try:
        Hardware(params, engine)
    finally:
        cache.switch(True)
    assert capsys.readouterr().err == (f"{line}\n" if takes_long else "")


def test_a_worker_of_a_command_announces_nothing(parts, monkeypatch, capsys):
    monkeypatch.setattr(activity, "ANNOUNCED_AFTER", 0.0)
    monkeypatch.setattr(activity, "shown", False)
    with activity.announced("compiling"):
        wait_for_timers()
    assert capsys.readouterr().err == ""


# Runs


@pytest.fixture
def runs(parts, monkeypatch):
    """Replaces the run of a machine and records what memory service, host and observers were given."""
    seen = SimpleNamespace(services=[], observers=[], parts=parts)

    def service(*arguments):
        seen.services.append(arguments)
        return Service()

    monkeypatch.setattr(hardware_module, "MemoryService", service)
    observer = fake(
        restart=lambda: seen.observers.append("restart"),
        finish=lambda: seen.observers.append("finish"),
    )
    monkeypatch.setattr(hardware_module, "observe_all", lambda *_: observer)
    return seen


def test_each_run_begins_with_a_reset_but_the_first(runs):
    engine: Any = None
    made = Hardware(TINY, engine, watched=lambda _sm: [([], print)])
    launch = launch_of(TEXT)
    for turn in range(3):
        result = made.run(launch, 500)
        assert (result.status, result.cycles) == ("timeout", 0)
        assert made._run.limit == 500 and made._run.report_mask == REPORT_MASK_RESET
        assert made._run.driver is None and made._run.levels == 0
        assert len(runs.services) == turn + 1
    assert runs.parts.called == ["testbench", "run", "reset", "run", "reset", "run"]
    assert runs.observers == ["finish", "restart", "finish", "restart", "finish"]
    latch, memory, latency, disorder, trouble = runs.services[-1]
    assert (latch, latency, disorder) == ("latch", LATENCY, None) and memory is made.memory
    assert trouble is made.trouble and LATENCY == 20


def test_a_run_has_the_latency_disorder_and_trouble_of_the_machine(runs):
    engine: Any = None
    made = Hardware(TINY, engine, latency=7, disorder=5, policy=Policy.ROUND_ROBIN)
    made.trouble = lambda _number: Trouble(True)
    made.run(launch_of(TEXT), 5, report_mask=3)
    _, _, latency, disorder, trouble = runs.services[0]
    assert latency == 7 and trouble is made.trouble
    assert disorder.random() == Random(5).random()
    assert made._run.report_mask == 3 and made.policy is Policy.ROUND_ROBIN
    assert runs.observers == []  # no signal is observed


@pytest.mark.parametrize("in_place", [False, True])
def test_the_comparison_has_a_memory_of_its_own(runs, in_place):
    engine: Any = None
    made = Hardware(TINY, engine, check=True)
    entered = []
    made.in_place, made.on_trap_entry = in_place, lambda *_: entered.append(1)
    made.on_instruction = lambda _warp, _word: None
    launch = launch_of(TEXT)
    made.run(launch, 5, report_mask=9)
    lockstep = made.lockstep
    assert lockstep is not None and made._reader is not None
    assert lockstep.on_trap_entry is made.on_trap_entry
    assert lockstep.on_instruction is made.on_instruction
    assert (made.memory is launch.memory) is in_place
    assert (lockstep.machine.launch.memory is launch.memory) is not in_place
    assert lockstep.machine.launch.memory is not made.memory
    assert made._reader._take == lockstep.take
    assert runs.observers == ["finish"]


def test_the_host_sets_the_policy_and_serves_the_launch(runs, monkeypatch):
    engine: Any = None
    made = Hardware(TINY, engine, policy=Policy.ROUND_ROBIN)
    served = []

    async def serve(*arguments, **options):
        served.append((arguments, options))

    monkeypatch.setattr(made, "serve", serve)
    driver: Any = "driver"
    progress: Any = "progress"
    launch = launch_of(TEXT)
    result = made.run(launch, 77, progress, driver=driver, report_mask=4)
    ctx = Context()
    run(made._host(ctx))
    assert ctx.done == [("policy", Policy.ROUND_ROBIN)]
    ((arguments, options),) = served
    assert arguments == (launch, made._run.addresses, 77, result)
    assert options == {"report_mask": 4, "driver": "driver", "progress": "progress"}
    assert made._run.ctx is ctx


@pytest.mark.parametrize("save", [None, Path("w.gtkw")])
def test_a_waveform_is_closed_with_a_save_file_where_its_kind_has_one(runs, monkeypatch, save):
    called = []

    class Tracer:
        marked_cycles = "mark"

        def __init__(self, _simulator, traces, vcd, **options):
            called.append((traces, vcd, options["period"], options["root"], options["beside"]))

        def close(self):
            called.append("close")

    monkeypatch.setattr(hardware_module, "Tracer", Tracer)
    monkeypatch.setattr(hardware_module, "machine_traces", lambda _harness: "traces")
    monkeypatch.setattr(hardware_module, "save_file_of", lambda _vcd: save)
    monkeypatch.setattr(
        hardware_module, "write_save_file", lambda *of, **options: called.append((of, options))
    )
    engine: Any = None
    made = Hardware(TINY, engine, vcd=Path("w.vcd"))
    assert called == [("traces", Path("w.vcd"), 1e-8, "sm", [])]
    made.run(launch_of(TEXT), 5)
    written = (
        (save, Path("w.vcd"), "traces"),
        {"period": 1e-8, "root": "sm", "marked_cycles": "mark"},
    )
    assert called[1:] == (["close"] if save is None else ["close", written])


def test_a_run_that_fails_still_delivers_what_was_observed(runs):
    engine: Any = None
    made = Hardware(TINY, engine, check=True)

    def fails():
        raise RuntimeError("stop")

    runs.parts.simulator.run = fails
    with pytest.raises(RuntimeError, match="stop"):
        made.run(launch_of(TEXT), 5)
    assert runs.observers == ["finish"]
