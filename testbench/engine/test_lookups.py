"""Values selected by an index, from constants and from signals; the choice of an engine; the
recording of calls.
"""

from array import array
from random import Random
from typing import Any

import pytest
from amaranth.hdl import Array, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from sim.engine import ENGINES, CompiledEngine, PysimEngine, choose, current_name
from sim.engine.errors import EngineError
from sim.engine.tape import Tape
from testbench.engine.designs import needs_compiled
from testbench.fakes import fake
from testbench.simulation import simulate


@pytest.fixture(params=["pysim", pytest.param("compiled", marks=needs_compiled)])
def engine(request):
    return ENGINES[request.param]


SHAPES = ((4, 1), (16, 4), (16, 12), (10, 33), (200, 7), (300, 9), (5, 64), (12, 100), (3, 8))
"""Length of each table of constants, and the width of its entries in bits."""


class Lookups(wiring.Component):
    """Each output is one of several numbers, and 0 if the index is beyond their end."""

    def __init__(self, tables):
        super().__init__(
            {"index": In(9), "condition": In(1), "signals": Out(8), "mixed": Out(8)}
            | {f"in{number}": In(8) for number in range(4)}
            | {f"table{number}": Out(width) for number, (_, width) in enumerate(SHAPES)}
            | {"kept": Out(8), "held": Out(16)}
        )
        self.tables = tables

    def elaborate(self: Any, platform):
        m = Module()
        inputs = [getattr(self, f"in{number}") for number in range(4)]
        for number, (count, width) in enumerate(SHAPES):
            table = Array(Const(value, width) for value in self.tables[number])
            narrow = self.index[: (count - 1).bit_length() + number % 2]
            m.d.comb += getattr(self, f"table{number}").eq(table[narrow])
        m.d.comb += self.signals.eq(Array(inputs)[self.index])
        m.d.comb += self.mixed.eq(
            Array([inputs[0], Const(7, 8), inputs[0], inputs[2], Const(9, 8)])[self.index[:3]]
        )
        with m.If(self.condition):
            m.d.sync += self.kept.eq(Array(inputs)[self.index[:2]])
        with m.Elif(self.index[0]):
            m.d.sync += self.kept.eq(self.kept + 1)
        with m.If(~self.condition):
            m.d.sync += self.held.eq(self.kept * 3)
        return m


def test_a_number_picks_one_of_several_and_0_beyond_their_end(engine):
    """The results are those of Amaranth's simulator."""
    random = Random(3)
    tables = [[random.getrandbits(width) for _ in range(count)] for count, width in SHAPES]
    dut: Any = Lookups(tables)

    async def body(ctx):
        kept = held = 0
        for step in range(600):
            index = step % 512 if step < 512 else random.randrange(512)
            condition, values = random.randrange(2), [random.randrange(256) for _ in range(4)]
            ctx.set(dut.index, index)
            ctx.set(dut.condition, condition)
            for number, value in enumerate(values):
                ctx.set(getattr(dut, f"in{number}"), value)
            for number, (count, _) in enumerate(SHAPES):
                narrow = index & (1 << (count - 1).bit_length() + number % 2) - 1
                expected = (*tables[number], *[0] * 1024)[narrow]
                assert ctx.get(getattr(dut, f"table{number}")) == expected, (number, index)
            assert ctx.get(dut.signals) == (values[index] if index < 4 else 0)
            mixed = [values[0], 7, values[0], values[2], 9, 0, 0, 0]
            assert ctx.get(dut.mixed) == mixed[index & 7]
            await ctx.tick()
            held = held if condition else kept * 3
            if condition:
                kept = values[index & 3]
            elif index & 1:
                kept = (kept + 1) % 256
            assert (ctx.get(dut.kept), ctx.get(dut.held)) == (kept, held)

    simulate(dut, body, engine=engine)


# Choice of an engine


def test_an_engine_is_chosen_by_name_or_the_fastest_that_can_be_used(monkeypatch):
    monkeypatch.setattr(CompiledEngine, "missing", lambda: None)
    assert choose() == (CompiledEngine, None) == choose("auto") == choose("compiled")
    assert choose("pysim") == (PysimEngine, None)
    assert choose("cxxrtl") == (CompiledEngine, None) and current_name("cxxrtl") == "compiled"
    assert current_name("pysim") == "pysim"
    monkeypatch.setattr(CompiledEngine, "missing", lambda: "there is no compiler")
    assert choose() == (
        PysimEngine,
        "engine pysim; compiled would be faster, but there is no compiler",
    )
    for name, said in (
        ("compiled", "engine compiled: there is no compiler"),
        ("other", "no engine other; there are auto, pysim, compiled"),
    ):
        with pytest.raises(EngineError) as refused:
            choose(name)
        assert str(refused.value) == said


# Recording of calls


def test_calls_are_noted_with_their_numbers_in_order(tmp_path):
    """The format is that of replay.cc: a letter followed by numbers."""
    called = []

    def function(name, result=None):
        return lambda *arguments: (called.append((name, *arguments)), result)[1]

    library = fake(
        model_step=function("step", 3), model_reset=function("reset"), model_look=function("look", 1),
        model_sample=function("sample"), model_touch=function("touch"), model_run=function("run", 40),
        model_create=function("create", 5),
    )  # fmt: skip
    words = [10, 11, 12]
    tape = Tape(library, words)
    assert tape.model_create() == 5 and tape.model_step(5) == 3 and tape.model_look(5, 7) == 1
    words[1] = 99
    tape.model_touch(5, 1)
    assert tape.model_run(5, 100, -1, True, "hit") == 40
    tape.model_run(5, 1, 2, 3, "hit")
    tape.model_sample(5)
    tape.model_reset(5)
    assert tape.cycles == 80
    tape.write(tmp_path / "tape")
    found = array("Q")
    found.frombytes((tmp_path / "tape").read_bytes())
    assert list(found) == [
        ord("s"), ord("l"), ord("t"), 1, 99, ord("c"), 100, (1 << 64) - 1, 1,
        ord("c"), 1, 2, 3, ord("l"), ord("r"),
    ]  # fmt: skip
    assert called[0] == ("create",) and ("run", 5, 100, -1, True, "hit") in called
    assert ("touch", 5, 1) in called and ("look", 5, 7) in called
