"""Verilog of a component, for tools that read nothing else."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

from sim.command import make_folder
from sim.ecp5 import run_tool

__all__ = ["through_yosys", "verilog_of"]

_BEGIN = "read_rtlil top.il\nchformal -remove\ndelete t:$print\n"
_SCRIPT = """\
proc -nomux -norom
memory_collect
attrmap -remove generator -remove top -remove src -remove amaranth.hierarchy -remove amaranth.decoding
attrmap -modattr -remove generator -remove top -remove src -remove amaranth.hierarchy -remove amaranth.decoding
write_verilog -norename top.v
"""
"""As Amaranth has it written."""
_NEVER = re.compile(r"always @\*(?=\n[^=\n]+ = \d+'\w+;\n)")
"""What waits for nothing: parts of registers that are constant, which some simulators would never set."""
_WARNINGS = ("WIDTH", "CASEINCOMPLETE", "CASEOVERLAP", "UNOPTFLAT", "UNSIGNED", "CMPCONST", "DECLFILENAME", "UNUSED",
             "INITIALDLY", "VARHIDDEN", "LITENDIAN", "SYMRSVDWORD")
"""Of Verilator: what is usual in Verilog that a program has written."""


def through_yosys(component: Any, script: str, folder: Path, say: Callable[[str], None], what: str) -> Path:
    """Has Yosys make what a script makes of ``top.il``, the component as Amaranth has it, without what is for
    simulation; the folder, resolved, with all files. FpgaError when Yosys fails.
    """
    folder = folder.resolve()
    make_folder(folder)
    say("elaboration")
    (folder / "top.il").write_text(rtlil.convert(component, emit_src=False), encoding="utf-8")
    (folder / "top.ys").write_text(_BEGIN + script, encoding="utf-8")
    say(what)
    run_tool("yosys", ["-q", "-s", "top.ys"], folder, "yosys.log")
    return folder


def verilog_of(component: Any, folder: Path, say: Callable[[str], None]) -> str:
    """A component as Verilog, its top module ``top`` with the component's ports, ``clk`` and ``rst``; the tools' files
    are left in ``folder``. FpgaError when a tool fails.
    """
    folder = through_yosys(component, _SCRIPT, folder, say, "Verilog")
    text = _NEVER.sub("initial", (folder / "top.v").read_text(encoding="utf-8"))
    return "".join(f"/* verilator lint_off {warning} */\n" for warning in _WARNINGS) + text
