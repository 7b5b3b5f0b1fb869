# amaranth: UnusedElaboratable=no
"""A simulated board behind a pseudo-terminal, with a loopback instead of its machine; the command
that starts one.
"""

import os
import select
from threading import Thread

import pytest
from amaranth.hdl import Fragment

from rtl.fpga.block_memory import BlockMemory
from rtl.fpga.video import Video
from rtl.params import PRESETS
from sim.board import __main__ as command
from sim.board import stand_in
from sim.engine import PysimEngine, run_cycles
from testbench.fpga.test_board_machine import Loop
from testbench.refusal import refused


@pytest.fixture
def cycles(monkeypatch):
    """Returns how many cycles were simulated at a time by boards with a loopback."""
    passed = []

    async def counted(ctx, count):
        passed.append(count)
        await run_cycles(ctx, count)

    monkeypatch.setattr(stand_in, "BoardMachine", Loop)
    monkeypatch.setattr(stand_in, "run_cycles", counted)
    return passed


def received(line, count):
    """Reads a number of bytes from a line, or fewer after ten seconds without a byte."""
    content = b""
    while len(content) < count and select.select([line], [], [], 10)[0]:
        content += os.read(line, count - len(content))
    return content


def test_what_a_host_sends_to_a_simulated_board_arrives_and_comes_back(cycles):
    board = stand_in.StandIn(PRESETS["tiny"], PysimEngine)
    thread = Thread(target=board.serve, daemon=True)
    thread.start()
    line = os.open(board.port, os.O_RDWR | os.O_NOCTTY)
    try:
        sent = bytes(
            [0, 10, 13, 3, 17, 19, 26, 127, 255, 126]
        )  # a terminal may change none of these
        os.write(line, sent)
        assert received(line, len(sent)) == sent
        board.go_on(1234)
        assert cycles.count(1234) == 1
    finally:
        board.end()
        thread.join(10)
        os.close(line)
    assert not thread.is_alive()
    assert set(cycles) == {stand_in._CYCLES, 1234}


def test_no_time_but_two_looks_passes_on_a_board_without_a_host(cycles, monkeypatch):
    board = stand_in.StandIn(PRESETS["tiny"], PysimEngine)
    looks, honest = [], select.select

    def look(reading, writing, failing, wait):
        looks.append(wait)
        if len(looks) == 5:
            board.end()
        return honest(reading, writing, failing, 0)

    monkeypatch.setattr(stand_in.select, "select", look)
    board.serve()
    assert 1 <= len(cycles) <= 2 and set(cycles) == {stand_in._CYCLES}


@pytest.mark.parametrize("name", ["busy", "traffic"])
def test_time_passes_while_a_grid_runs_or_the_link_works(cycles, name):
    """There is no byte on the line."""
    cable = stand_in._Cable(PRESETS["tiny"], 12_000_000, BlockMemory, None)
    busy = {"busy": cable.machine.sm.busy, "traffic": cable.machine.traffic}[name]
    seen = []

    async def testbench(ctx):
        for value in (0, 1, 0):
            ctx.set(busy, value)
            seen.append(ctx.get(cable.busy))

    simulator = stand_in.make_simulator(cable, PysimEngine)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
    assert seen == [0, 1, 0]


# Command


@pytest.fixture
def made(monkeypatch):
    """The boards that the command makes; they serve until the first Ctrl-C."""
    boards = []

    class Made:
        port = "/dev/pts/9"

        def __init__(self, params, engine, memory, video):
            self.params, self.engine, self.memory, self.video = params, engine, memory, video
            boards.append(self)

        def serve(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(command, "StandIn", Made)
    return boards


@pytest.mark.parametrize(
    ("arguments", "preset", "size", "video"),
    [
        ([], "small", 65_536, None),
        (["--preset", "tiny", "--video"], "tiny", 65_536, Video),
        (["--memory", "128"], "small", 128, None),
    ],
)
def test_the_command_prints_its_port_and_serves_until_ctrl_c(
    made, capsys, arguments, preset, size, video
):
    assert command.main([*arguments, "--engine", "pysim"]) == 0
    assert capsys.readouterr().out == "/dev/pts/9\n"
    (board,) = made
    assert board.params == PRESETS[preset] and board.engine is PysimEngine
    assert board.video is video
    memory = board.memory(3)
    Fragment.get(memory, None)  # one that is not elaborated is a warning
    assert isinstance(memory, BlockMemory) and memory.size == size


@pytest.mark.parametrize("size", [64, 100_000])
def test_a_memory_that_is_no_power_of_two_is_refused_in_one_line(made, capsys, size):
    said = refused(capsys, command.main, ["--memory", str(size), "--engine", "pysim"])
    assert "a power of two of bytes, at least 128" in said
    assert not made
