# amaranth: UnusedElaboratable=no
"""Verilog with arbitrary register and memory contents at power-up: the stack with unknown and
random contents.
"""

import re
from functools import cache, partial
from random import Random
from typing import Any

import numpy as np
import pytest

from rtl.crs import records
from rtl.fpga.flat import Flat
from rtl.params import PRESETS
from rtl.words import Words
from sim.checks.testbench import run
from testbench.crs.driver import Driver
from testbench.crs.random_steps import operations
from testbench.crs.tb_crs import UNRULY
from testbench.fpga import power_up
from testbench.fpga.power_up import RandomContents, play, without_contents
from testbench.fpga.replay import Recorder, Recording, ReplayError
from testbench.refusal import refused
from testbench.simulation import ENGINE

OPERATIONS = {"tiny": 150, "least": 40}
"""Number of operations of each warp; the serial stack needs many cycles."""
SOME = 200
"""Number of cycles of a recording."""
needs_tools = pytest.mark.skipif(power_up.missing() is not None, reason=f"{power_up.missing()}")


def quiet(_what):
    """A progress function that prints nothing."""


class Tap:
    """Records the ports of a component in a testbench."""

    def __init__(self, dut: Any) -> None:
        self._recorder, self._cycles = Recorder(dut), 0

    async def serve(self, ctx: Any) -> None:
        """Records the ports' values in each cycle."""
        async for _, _, *values in ctx.tick().sample(*self._recorder.signals):
            self._recorder.take(
                [(self._cycles, number, value) for number, value in enumerate(values)]
            )
            self._cycles += 1

    def recording(self) -> Recording:
        """Returns the recording."""
        return self._recorder.recording(self._cycles)


class RecordedDriver(Driver):
    """A driver of stacks that records their ports."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.tap = Tap(self.dut)
        self._servers = (*self._servers, self.tap)


@cache
def stack_at_work(preset: str) -> tuple[RecordedDriver, Recording]:
    """Returns the driver of a stack that has executed random operations, and the recording of its
    ports.
    """
    drivers = []

    def body(bench):
        driver = RecordedDriver(bench, PRESETS[preset], Random(1), UNRULY)
        driver.run(
            [
                partial(
                    lambda seed, stack: operations(stack, Random(seed), OPERATIONS[preset]), warp
                )
                for warp in range(PRESETS[preset].warps)
            ]
        )
        drivers.append(driver)

    assert run("crs", body, ENGINE).failure is None
    return drivers[0], drivers[0].tap.recording()


def at_memory(recording: Recording) -> Recording:
    """Returns a recording of the inputs, the memory port, and the signals that determine which
    outputs are relevant.

    The relevant fields of a result depend on the operation.
    """
    return Recording(
        [
            port
            for port in recording.ports
            if port.is_input
            or port.name.startswith("port_")
            or port.name.endswith(("valid", "ready"))
        ],
        recording.rows,
    )


def stack_of(preset: str) -> Flat:
    """Returns such a stack with flat ports."""
    return Flat(Driver(None, PRESETS[preset], Random(1)).dut)  # pyright: ignore[reportArgumentType]


@needs_tools
@pytest.mark.parametrize("preset", OPERATIONS)
def test_a_stack_of_which_nothing_is_known_at_power_up_does_the_same_in_every_cycle(
    preset, tmp_path
):
    driver, recording = stack_at_work(preset)
    assert {"spill", "fill"} <= driver.statistics.events.keys()
    assert play(stack_of(preset), recording, tmp_path, quiet, without_contents) == len(
        recording.rows
    )


@needs_tools
@pytest.mark.parametrize("preset", OPERATIONS)
def test_a_stack_with_random_words_at_power_up_does_the_same_in_every_cycle(preset, tmp_path):
    recording = at_memory(stack_at_work(preset)[1])
    assert play(stack_of(preset), recording, tmp_path, quiet, RandomContents(Random(1))) == len(
        recording.rows
    )


class Unswept(Words):
    """Memories that a reset does not sweep."""

    def __init__(self, shape, depth, _sweep=None, _initial=0, **attributes):
        super().__init__(shape, depth, **attributes)


@needs_tools
def test_a_memory_that_a_reset_does_not_sweep_is_found_with_random_words(tmp_path, monkeypatch):
    recording = at_memory(stack_at_work("tiny")[1])
    monkeypatch.setattr(records, "Words", Unswept)
    with pytest.raises(ReplayError, match=r"^cycle \d+: \w+ is \w+, not \w+$"):
        play(stack_of("tiny"), recording, tmp_path, quiet, RandomContents(Random(1)))


@needs_tools
def test_a_memory_that_a_reset_leaves_unknown_is_found(tmp_path, monkeypatch):
    _, recording = stack_at_work("tiny")
    monkeypatch.setattr(records, "Words", Unswept)
    # An unknown condition is treated as 0 there, so that dependent values may be known, and wrong.
    with pytest.raises(ReplayError, match=r"^cycle \d+: request_ready is [x0], not 1$"):
        play(stack_of("tiny"), recording, tmp_path, quiet, without_contents)


@needs_tools
def test_an_output_that_was_another_one_is_found(tmp_path):
    _, recording = stack_at_work("tiny")
    (port,) = (port for port in recording.ports if port.name == "result_error")
    rows = recording.rows[:SOME].copy()
    rows[-1, port.first] ^= 1
    with pytest.raises(ReplayError, match=f"^cycle {SOME - 1}: result_error is "):
        play(stack_of("tiny"), Recording(recording.ports, rows), tmp_path, quiet, without_contents)


@needs_tools
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("port_request_address", ["port_request_valid"]),
        ("port_request_data", ["port_request_valid", "port_request_write"]),
    ],
)
def test_a_field_is_compared_when_it_counts(name, counts, tmp_path):
    recording = at_memory(stack_at_work("tiny")[1])
    (port,) = (port for port in recording.ports if port.name == name)
    flags = [port for port in recording.ports if port.name in counts]
    is_counted = np.all([recording.rows[:, flag.first] == 1 for flag in flags], axis=0)
    for cycle in np.flatnonzero(~is_counted)[:1], np.flatnonzero(is_counted)[:1]:
        rows = recording.rows.copy()
        rows[cycle, port.first] ^= 1
        altered = Recording(recording.ports, rows)
        if is_counted[cycle]:
            with pytest.raises(ReplayError, match=f"^cycle {cycle[0]}: {name} is "):
                play(stack_of("tiny"), altered, tmp_path, quiet, RandomContents(Random(1)))
        else:
            play(stack_of("tiny"), altered, tmp_path, quiet, RandomContents(Random(1)))


def test_random_contents_are_as_wide_as_those_they_replace():
    text = (
        "module top(a);\n  reg [11:0] count = 12'h000;\n  reg flag = 1'h0;\n"
        "  initial begin\n    words[0] = 8'h00;\n    words[1] = 8'h00;\n  end\n"
        "  always @(posedge clk)\n    words[at] <= value;\nendmodule\n"
    )
    filled = RandomContents(Random(3))(text)
    assert re.sub(r"'h\w+", "'h", filled) == re.sub(r"'h\w+", "'h", text)
    assert [int(number, 16) for number in re.findall(r"'h(\w+)", filled)] != [0, 0, 0, 0]


def test_values_at_power_up_are_left_out_but_those_of_constants():
    memory = "  initial begin\n    {0}[0] = 2'h1;\n    {0}[1] = 2'h2;\n  end\n"
    write = "  always @(posedge clk) begin\n    if (en)\n      words[\\at ] <= value;\n  end\n"
    text = (
        "module top(a, b);\n  reg [1:0] count = 2'h0;\n"
        + memory.format("words")
        + write
        + "{}endmodule\n"
    )
    assert without_contents(text.format(memory.format("table"))) == (
        "module top(a, b);\n  reg [1:0] count ;\n" + write + memory.format("table") + "endmodule\n"
    )


def test_missing_tools_are_named_in_one_line(capsys, monkeypatch):
    monkeypatch.setattr(power_up, "missing_tool", lambda _name: None)
    monkeypatch.setattr(power_up.shutil, "which", lambda _name: None)
    assert (
        refused(capsys, power_up.main, [])
        == "python -m testbench.fpga.power_up: iverilog is not installed"
    )
