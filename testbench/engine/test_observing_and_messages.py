"""Several observers of one simulation, messages that a design prints, patterns wider than a word."""

import os
from random import Random

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from sim.engine import ENGINES, make_simulator
from sim.engine.cache import cache_folder, trim
from sim.engine.clock import observe_all, run_cycles
from sim.engine.messages import FormattedValue, Message, Messages
from testbench.engine.designs import needs_compiled
from testbench.simulation import simulate


@pytest.fixture(params=["pysim", pytest.param("compiled", marks=needs_compiled)])
def engine(request):
    return ENGINES[request.param]


class Counters(wiring.Component):
    """Three counters: one of cycles, one of every second cycle, one that is constant."""

    one: Out(4)
    two: Out(4)
    none: Out(4, init=9)  # pyright: ignore[reportCallIssue]

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.one.eq(self.one + 1)
        with m.If(self.one[0]):
            m.d.sync += self.two.eq(self.two + 1)
        return m


def test_each_of_several_observers_gets_the_changes_of_its_own_signals(engine):
    dut = Counters()
    simulator = make_simulator(dut, engine)
    simulator.add_clock(1e-6)
    found: dict[str, list] = {"first": [], "second": [], "third": []}

    async def testbench(ctx):
        await run_cycles(ctx, 6)

    observer = observe_all(
        simulator,
        [
            ([dut.one], found["first"].extend),
            ([dut.none, dut.two], found["second"].extend),
            ([dut.one, dut.two], found["third"].extend),
        ],
    )
    simulator.add_testbench(testbench)
    simulator.run()
    observer.finish()
    one = [(cycle, cycle) for cycle in range(6)]
    two = [(0, 0), (2, 1), (4, 2)]

    def of(name, wanted):
        """Returns the changes of one of an observer's signals in the first six cycles."""
        return [(at, value) for at, number, value in found[name] if number == wanted and at < 6]

    assert of("first", 0) == of("third", 0) == one
    assert of("second", 0) == [(0, 9)]
    assert of("second", 1) == of("third", 1) == two
    assert {number for _, number, _ in found["first"]} == {0}


def test_a_register_that_a_testbench_changes_is_a_change_for_others_that_wait(engine):
    """Values computed from it change as well."""
    dut = Counters()
    found = []

    async def waits(ctx):
        async for (value,) in ctx.changed(dut.two):
            found.append(value)

    async def changes(ctx):
        for value in (5, 9, 9, 2):
            ctx.set(dut.two, value)
            assert ctx.get(dut.two) == value
            await ctx.delay(1e-9)
        await ctx.tick().repeat(3)

    simulate(dut, changes, background=(waits,), engine=engine)
    assert found[:4] == [0, 5, 9, 2]


def test_an_observer_of_a_simulation_that_is_reset_begins_again_at_cycle_0(engine):
    dut = Counters()
    simulator = make_simulator(dut, engine)
    simulator.add_clock(1e-6)
    found: list[tuple[int, int, int]] = []

    async def testbench(ctx):
        await run_cycles(ctx, 3)

    observer = observe_all(simulator, [([dut.one], found.extend)])
    simulator.add_testbench(testbench)
    simulator.run()
    assert observer.finish() == 3
    first = list(found)
    assert first == [(cycle, 0, cycle) for cycle in range(4)]
    found.clear()
    simulator.reset()
    observer.restart()
    simulator.run()
    observer.finish()
    assert found == first


# Messages


@pytest.mark.parametrize(
    ("width", "signed", "form", "value", "text"),
    [
        (8, False, "", 255, "255"),
        (8, True, "", 255, "-1"),
        (8, True, "", 128, "-128"),
        (8, True, "", 127, "127"),
        (1, True, "", 1, "-1"),
        (0, True, "", 0, "0"),
        (70, True, "", 1 << 69, str(-(1 << 69))),
        (70, True, "", (1 << 69) - 1, str((1 << 69) - 1)),
        (16, False, "04x", 0xAB, "00ab"),
        (16, True, "+d", 0xFFFE, "-2"),
        (24, False, "s", 0x636261, "abc"),
        (24, False, ">5s", 0x636261, "  abc"),
    ],
)
def test_a_value_is_printed_in_its_format_and_with_its_sign(width, signed, form, value, text):
    assert FormattedValue(width, signed, 1, form).text(value) == text


def message(kind, *chunks, clocked=True, place="a.py:7"):
    return Message(kind, place, clocked, chunks)


def test_prints_are_joined_in_order_with_values_of_several_words():
    wide, small = FormattedValue(100, False, 2, "x"), FormattedValue(4, False, 1, "")
    found = Messages([message("print", "w=", wide, " s=", small, "\n"), message("print", "end")])
    found.take([0, 5, 1, 9, 1, 0, 7, 0, 3])
    assert found.text == "w=10000000000000005 s=9\nendw=7 s=3\n"
    assert found.take_text() == "w=10000000000000005 s=9\nendw=7 s=3\n"
    assert found.take_text() == ""


def test_the_first_assertion_that_fails_is_kept_with_its_place():
    number = FormattedValue(4, False, 1, "")
    found = Messages(
        [
            message("cover", place="c:1"),
            message("cover", "seen ", number, place="c:2"),
            message("assume", place="a:1"),
            message("assert", "n=", number, place="a:2"),
        ]
    )
    found.take([0])
    assert (found.text, found.failure) == ("", None)
    found.take([1, 6])
    assert found.text == "Coverage hit at c:2: seen 6\n"
    found.take([3, 5, 2])
    assert found.failure == ("a:2", "Assertion violated: n=5")
    found.clear()
    assert (found.text, found.failure) == ("", None)
    found.take([2, 3, 1])
    assert found.failure == ("a:1", "Assumption violated")


def test_messages_without_a_clock_are_known_and_a_record_has_everything():
    value = FormattedValue(9, True, 1, "d")
    made = message("print", "a", value, clocked=False)
    assert Message.restore(made.record()) == made
    assert Messages([message("print")]).combinational is False
    assert Messages([message("print"), made]).combinational is True


# Patterns


WIDTHS = (1, 7, 31, 63, 64, 65, 127, 128, 129, 200)


class Patterns(wiring.Component):
    """For each width, whether a value matches either of two patterns."""

    def __init__(self, patterns):
        super().__init__(
            {f"value{width}": In(width) for width in WIDTHS}
            | {f"match{width}": Out(1) for width in WIDTHS}
        )
        self.patterns = patterns

    def elaborate(self, platform):
        m = Module()
        m.d.sync += Signal(name="clocked").eq(1)
        for width in WIDTHS:
            value = getattr(self, f"value{width}")
            m.d.comb += getattr(self, f"match{width}").eq(value.matches(*self.patterns[width]))
        return m


def test_a_pattern_of_any_width_matches_where_its_bits_are_those_of_the_value(engine):
    random = Random(7)
    patterns = {
        width: ["".join(random.choice("01---") for _ in range(width)) for _ in range(2)]
        for width in WIDTHS
    }
    dut = Patterns(patterns)

    async def body(ctx):
        for _ in range(40):
            for width in WIDTHS:
                text = "".join(
                    random.choice("01") if bit == "-" else bit
                    for bit in random.choice(patterns[width])
                )
                value = int(text, 2) ^ (1 << random.randrange(width)) * random.randrange(2)
                bits = f"{value:0{width}b}"
                expected = any(
                    all(want in ("-", bit) for want, bit in zip(pattern, bits, strict=True))
                    for pattern in patterns[width]
                )
                ctx.set(getattr(dut, f"value{width}"), value)
                assert ctx.get(getattr(dut, f"match{width}")) == expected, (width, bits)

    simulate(dut, body, engine=engine)


# The cache


def test_what_was_not_used_for_longest_is_removed_first(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path))
    monkeypatch.setattr("sim.engine.cache._limit", lambda: 250)
    for age, name in enumerate(("d.so", "c.json", "b.cubin", "a.so", "other.txt")):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (10_000 - age, 10_000 - age))
    assert cache_folder() == tmp_path
    trim()
    assert {path.name for path in tmp_path.iterdir()} == {"d.so", "c.json", "other.txt"}
    monkeypatch.setattr("sim.engine.cache._limit", lambda: 0)
    trim()  # the newest is not removed
    assert {path.name for path in tmp_path.iterdir()} == {"d.so", "other.txt"}
