# amaranth: UnusedElaboratable=no
"""Litmus tests on the hardware: no outcome that the memory model forbids. A faulty memory must be
detected.
"""

from collections import Counter
from functools import cache
from random import Random
from typing import Any

import pytest

from rtl.params import PRESETS
from sim.engine import ENGINES
from sim.launch.memory import Memory
from sim.machine.hardware import Hardware
from sim.machine.memory_latch import MemoryLatch
from sim.machine.memory_service import MemoryService
from testbench.engine.designs import needs_compiled
from testbench.memory.litmus import (
    SETTINGS,
    TESTS,
    Fence,
    Seen,
    Setting,
    allowed,
    complaints,
    main,
    run,
    sequential,
)
from testbench.refusal import refused

ROUNDS = 3
"""Rounds of each test in each setting, with 32 threads each."""
LATENCY = 40
MESSAGE, BUFFERING, LOADS, INDEPENDENT, *COHERENCE = TESTS
APART = Setting(apart=True, shared=False, fence=Fence.NONE)


@cache
def hardware() -> Hardware:
    return Hardware(PRESETS["default"], ENGINES["compiled"], latency=LATENCY)


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_the_table_agrees_with_the_model(test):
    """An outcome is allowed in the table if the rules allow it."""
    assert (test.known in allowed(test, False)) is test.weak
    assert test.known not in sequential(test)
    assert sequential(test) <= allowed(test, False)


def test_outcomes_known_without_the_model():
    assert sequential(MESSAGE) == {(0, 0, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1)}
    assert allowed(MESSAGE, False) == sequential(MESSAGE) | {(1, 0, 1, 1)}
    assert sequential(BUFFERING) == {(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 1, 1)}
    assert len(allowed(INDEPENDENT, False)) == 16
    assert all(allowed(test, False) == sequential(test) for test in COHERENCE)


@pytest.mark.parametrize(
    "apart, fence, fenced",
    [
        (False, Fence.NONE, False),
        (False, Fence.CTA, True),
        (False, Fence.GL, True),
        (True, Fence.NONE, False),
        (True, Fence.CTA, False),
        (True, Fence.GL, True),
    ],
)
def test_how_far_a_fence_reaches(apart, fence, fenced):
    assert Setting(apart, False, fence).fenced is fenced


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_a_made_up_trace_with_a_forbidden_outcome_is_found(test, setting):
    """The known outcome of each test, beside sequential ones."""
    good = next(iter(sequential(test)))
    seen = Seen(test, setting, Counter({good: 95, test.known: 1}))
    found = complaints(seen)
    if setting.fenced or not test.weak:
        assert [line.rpartition("  ")[2] for line in found] == ["1 times, FORBIDDEN"]
    else:
        assert found == []
        assert seen.kind(test.known) == "weak"
    assert complaints(Seen(test, setting, Counter({good: 96}))) == []
    assert complaints(Seen(test, setting, Counter({(7,) * len(good): 1}))) != []


@needs_compiled
@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_no_forbidden_outcome(test, setting, record_property):
    seen = run(hardware(), test, setting, ROUNDS, Random(f"{test.name} {setting}"))
    record_property("outcomes", "\n".join(seen.lines()))
    assert complaints(seen) == []
    assert seen.outcomes.total() == 32 * ROUNDS


@needs_compiled
def test_warps_really_meet():
    """Programs of a round overlap: without overlap only one outcome would be seen."""
    for setting in (APART, Setting(apart=False, shared=True, fence=Fence.NONE)):
        for test in (MESSAGE, BUFFERING, LOADS):
            assert len(run(hardware(), test, setting, 12, Random(1)).outcomes) > 1, (
                test.name,
                setting,
            )


class Told(MemoryService):
    """Memory that records the order in which it performs requests, by address."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.order = []

    def _do(self, request):
        self.order.append(request.fields["address"])
        super()._do(request)


class Latch:
    """The latch of a memory port for a service: holds requests, and records answers."""

    def __init__(self, latch):
        self.latch, self.count, self.request, self.answers = latch, 0, 0, []

    def make(self, tag, address):
        self.count += 1
        layout = self.latch.request.shape()
        self.request = layout.const({"tag": tag, "address": address}).as_value().value

    def get(self, signal):
        if signal is self.latch.count:
            return self.count % 256
        return 1 if signal is self.latch.free else self.request

    def set(self, _signal, value):
        self.answers.append(self.latch.answer.shape().from_bits(value).payload.tag)


@pytest.mark.parametrize("disorder", [None, Random(0)], ids=["in order", "in disorder"])
def test_memory_keeps_what_the_port_promises(disorder):
    """Requests of one tag are performed and answered in order. With disorder enabled those of
    different tags are not.
    """
    latch = MemoryLatch(tag_bits=2)
    service, ctx, source = Told(latch, Memory(), 30, disorder), Latch(latch), Random(1)
    tags = [source.randrange(4) for _ in range(300)]
    for cycle in range(3000):
        if cycle % 5 == 0 and cycle // 5 < len(tags):
            ctx.make(tags[cycle // 5], cycle // 5)
            service.take(ctx, cycle)
        service.serve(ctx, cycle)
    assert service.wait(3000) is None
    assert sorted(service.order) == list(range(len(tags)))
    for tag in range(4):
        performed = [number for number in service.order if tags[number] == tag]
        assert performed == sorted(performed)
        assert ctx.answers.count(tag) == tags.count(tag)
    assert (service.order == list(range(len(tags)))) is (disorder is None)
    assert (ctx.answers == tags) is (disorder is None)


class LateMemory:
    """Memory that writes lines some time later, in random order."""

    def __init__(self, memory):
        self._memory, self._late, self._random = memory, [], Random(0)

    def __getattr__(self, name):
        return getattr(self._memory, name)

    def write_line(self, *line):
        self._late.append(line)
        self.settle(40)

    def settle(self, left=0):
        while len(self._late) > left:
            self._memory.write_line(*self._late.pop(self._random.randrange(len(self._late))))


class Careless(MemoryService):
    """A service that confirms writes before they are performed."""

    def __init__(self, latch, memory, *arguments):
        self._late: Any = LateMemory(memory)
        super().__init__(latch, self._late, *arguments)

    def finish(self):
        super().finish()
        self._late.settle()


@needs_compiled
def test_memory_that_breaks_its_promises_is_found(monkeypatch):
    """A written value is not in memory when the write is confirmed: the same thread reads the old
    value.
    """
    monkeypatch.setattr("sim.machine.hardware.MemoryService", Careless)
    machine = Hardware(PRESETS["default"], ENGINES["compiled"], latency=LATENCY)
    seen = [
        run(machine, test, Setting(False, False, Fence.GL), ROUNDS, Random(0))
        for test in (BUFFERING, *COHERENCE)
    ]
    assert any(complaints(each) for each in seen)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--rounds", "0"], "--rounds 0: at least 1"),
        (["--latency", "-1"], "--latency -1: at least 1"),
        (
            ["--preset", "huge"],
            f"no preset huge; there are {', '.join(PRESETS)}",
        ),
        (["--seed", "x"], "--seed"),
    ],
)
def test_a_bad_argument_gets_one_line(arguments, message, capsys):
    assert message in refused(capsys, main, arguments)


@needs_compiled
@pytest.mark.parametrize("forbidden", [False, True])
def test_the_command_counts_outcomes(forbidden, capsys, monkeypatch):
    seen = Seen(
        MESSAGE,
        Setting(False, False, Fence.GL),
        Counter({MESSAGE.known if forbidden else (0, 0, 1, 1): 5}),
    )
    monkeypatch.setattr("testbench.memory.litmus.Hardware", lambda *_, **__: None)
    monkeypatch.setattr("testbench.memory.litmus.run", lambda *_: seen)
    assert main([]) == int(forbidden)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "MP, message passing; warps, global, MEMBAR.GL: " + (
        "reads 1 0, then 1 1 in memory  5 times, FORBIDDEN"
        if forbidden
        else "reads 0 0, then 1 1 in memory  5 times, sequential"
    )
    assert lines[-1] == f"{len(lines) - 1 if forbidden else 0} forbidden outcomes"
