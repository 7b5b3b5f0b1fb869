"""The machine as Verilog in Verilator: outputs are those of the project's simulation, in every cycle."""

import shutil
import subprocess
from dataclasses import replace

import pytest

from rtl.fpga.flat import FlatSm
from rtl.params import PRESETS
from sim.ecp5 import missing_tool
from sim.engine import CompiledEngine
from sim.verilog import verilog_of
from testbench.engine_designs import needs_compiled
from testbench.replay import ReplayError, build, play, record, recursion

MISSING = missing_tool()
needs_tools = pytest.mark.skipif(MISSING is not None, reason=f"sim.fpga: {MISSING}")
needs_verilator = pytest.mark.skipif(shutil.which("verilator") is None, reason="verilator is not installed")


@needs_tools
@needs_verilator
@needs_compiled
def test_the_whole_machine_in_verilator_does_the_same_in_every_cycle(tmp_path):
    params, source = PRESETS["tiny"], tmp_path / "top.v"
    recording = record(params, CompiledEngine, recursion(6))
    assert len(recording.rows) > 3000
    source.write_text(verilog_of(FlatSm(params), tmp_path, lambda _what: None))
    if shutil.which("iverilog"):
        done = subprocess.run(["iverilog", "-g2012", "-t", "null", "-s", "top", source], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    program = build([source], recording, tmp_path)
    assert play(program, recording) == len(recording.rows)
    # What differs is found: an output that was expected otherwise, and the machine after another input.
    port, = (port for port in recording.ports if port.name == "memory_response_data")
    answers = recording.rows[:, port.first].nonzero()[0]
    for name, place in (("host_value", len(recording.rows) - 1), ("memory_response_data", answers[0])):
        port, = (port for port in recording.ports if port.name == name)
        rows = recording.rows.copy()
        rows[place:, port.first] ^= 1
        with pytest.raises(ReplayError, match=r"^Vtop: cycle \d+: \w+ is \w+, not \w+$"):
            play(program, replace(recording, rows=rows))
