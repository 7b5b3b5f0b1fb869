# amaranth: UnusedElaboratable=no
"""Verilog of which nothing is known at power-up, in a simulator of four states."""

from functools import cache, partial
from random import Random
from typing import Any

import pytest

from rtl.crs import records
from rtl.fpga.flat import Flat
from rtl.params import PRESETS
from rtl.words import Words
from sim.testbench import run
from testbench.crs.driver import Driver
from testbench.crs.random_steps import operations
from testbench.crs.tb_crs import UNRULY
from testbench.fpga import four_states
from testbench.fpga.four_states import play, without_values
from testbench.fpga.replay import Recorder, Recording, ReplayError
from testbench.refusal import refused
from testbench.simulation import ENGINE

OPERATIONS = {"tiny": 150, "least": 40}
"""Of each warp; the serial stack takes many cycles."""
SOME = 200
"""Cycles of a recording."""
needs_tools = pytest.mark.skipif(four_states.missing() is not None, reason=f"{four_states.missing()}")


class Tap:
    """Records the ports of a component in a testbench."""

    def __init__(self, dut: Any) -> None:
        self._recorder, self._cycles = Recorder(dut), 0

    async def serve(self, ctx: Any) -> None:
        """Takes what they are in each cycle."""
        async for _, _, *values in ctx.tick().sample(*self._recorder.signals):
            self._recorder.take([(self._cycles, number, value) for number, value in enumerate(values)])
            self._cycles += 1

    def recording(self) -> Recording:
        """What was seen."""
        return self._recorder.recording(self._cycles)


class RecordedDriver(Driver):
    """A driver of stacks that records them."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.tap = Tap(self.dut)
        self._servers = (*self._servers, self.tap)


@cache
def stack_at_work(preset: str) -> tuple[RecordedDriver, Recording]:
    """The driver of a stack that has done random operations, and what was at its ports."""
    drivers = []

    def body(bench):
        driver = RecordedDriver(bench, PRESETS[preset], Random(1), UNRULY)
        driver.run([partial(lambda seed, stack: operations(stack, Random(seed), OPERATIONS[preset]), warp)
                    for warp in range(PRESETS[preset].warps)])
        drivers.append(driver)

    assert run("crs", body, ENGINE).failure is None
    return drivers[0], drivers[0].tap.recording()


def stack_of(preset: str) -> Flat:
    """Such a stack, its ports plain."""
    return Flat(Driver(None, PRESETS[preset], Random(1)).dut)    # pyright: ignore[reportArgumentType]


@needs_tools
@pytest.mark.parametrize("preset", OPERATIONS)
def test_a_stack_of_which_nothing_is_known_at_power_up_does_the_same_in_every_cycle(preset, tmp_path):
    driver, recording = stack_at_work(preset)
    assert {"spill", "fill"} <= driver.statistics.events.keys()
    assert play(stack_of(preset), recording, tmp_path, lambda _what: None) == len(recording.rows)


@needs_tools
def test_a_memory_that_a_reset_leaves_unknown_is_found(tmp_path, monkeypatch):
    class Unswept(Words):
        def __init__(self, shape, depth, _sweep=None, _initial=0, **attributes):
            super().__init__(shape, depth, **attributes)

    _, recording = stack_at_work("tiny")
    monkeypatch.setattr(records, "Words", Unswept)
    # A condition that is unknown counts as 0 there, so that what depends on it may be known, and wrong.
    with pytest.raises(ReplayError, match=r"^cycle \d+: request_ready is [x0], not 1$"):
        play(stack_of("tiny"), recording, tmp_path, lambda _what: None)


@needs_tools
def test_an_output_that_was_another_one_is_found(tmp_path):
    _, recording = stack_at_work("tiny")
    port, = (port for port in recording.ports if port.name == "result_error")
    rows = recording.rows[:SOME].copy()
    rows[-1, port.first] ^= 1
    with pytest.raises(ReplayError, match=f"^cycle {SOME - 1}: result_error is "):
        play(stack_of("tiny"), Recording(recording.ports, rows), tmp_path, lambda _what: None)


def test_values_at_power_up_are_left_out_but_those_of_constants():
    memory = "  initial begin\n    {0}[0] = 2'h1;\n    {0}[1] = 2'h2;\n  end\n"
    write = "  always @(posedge clk) begin\n    if (en)\n      words[\\at ] <= value;\n  end\n"
    text = "module top(a, b);\n  reg [1:0] count = 2'h0;\n" + memory.format("words") + write + "{}endmodule\n"
    assert without_values(text.format(memory.format("table"))) == (
        "module top(a, b);\n  reg [1:0] count ;\n" + write + memory.format("table") + "endmodule\n")


def test_missing_tools_are_named_in_one_line(capsys, monkeypatch):
    monkeypatch.setattr(four_states, "missing_tool", lambda _name: None)
    monkeypatch.setattr(four_states.shutil, "which", lambda _name: None)
    assert refused(capsys, four_states.main, []) == "python -m testbench.fpga.four_states: iverilog is not installed"
