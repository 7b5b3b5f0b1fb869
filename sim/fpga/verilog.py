"""Writes a component as Verilog, for tools that support no other format."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

from sim.fpga.ecp5 import run_tool
from sim.support.command import CommandError, make_folder

__all__ = ["check_name", "through_yosys", "verilog_of"]

_BEGIN = "read_rtlil top.il\nchformal -remove\ndelete t:$print\n"
_SCRIPT = """\
proc -nomux -norom
memory_collect
attrmap -remove generator -remove top -remove src -remove amaranth.hierarchy -remove amaranth.decoding
attrmap -modattr -remove generator -remove top -remove src -remove amaranth.hierarchy -remove amaranth.decoding
write_verilog -norename top.v
"""
"""The Yosys commands with which Amaranth writes Verilog."""
_NEVER = re.compile(r"always @\*(?=\n[^=\n]+ = \d+'\w+;\n)")
"""A block that waits for no signal: constant parts of registers, which some simulators would never
set.
"""
_MODULE = re.compile(r"^module .*?^endmodule$", re.MULTILINE | re.DOTALL)
_TRIGGER = re.compile(r"^  reg (\\\$auto\$verilog_backend\S+)  = 0;\n", re.MULTILINE)
"""A signal that Yosys adds to the sensitivity of a module's blocks ``always @*``, so that they run
when the simulation begins.
"""
_ASSIGNMENT = re.compile(r"^  always @\*\n    ([^\n]+;)$", re.MULTILINE)
"""A block that assigns a part of a register, and does not read that signal."""
_WARNINGS = (
    "WIDTH",
    "CASEINCOMPLETE",
    "CASEOVERLAP",
    "UNOPTFLAT",
    "UNSIGNED",
    "CMPCONST",
    "DECLFILENAME",
    "UNUSED",
    "INITIALDLY",
    "VARHIDDEN",
    "LITENDIAN",
    "SYMRSVDWORD",
)
"""Verilator's warnings that generated Verilog usually causes."""


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(
    (
        "alias",
        "always",
        "always_comb",
        "always_ff",
        "always_latch",
        "and",
        "assert",
        "assign",
        "assume",
        "automatic",
        "before",
        "begin",
        "bind",
        "bins",
        "binsof",
        "bit",
        "break",
        "buf",
        "bufif0",
        "bufif1",
        "byte",
        "case",
        "casex",
        "casez",
        "cell",
        "chandle",
        "class",
        "clocking",
        "cmos",
        "config",
        "const",
        "constraint",
        "context",
        "continue",
        "cover",
        "covergroup",
        "coverpoint",
        "cross",
        "deassign",
        "default",
        "defparam",
        "design",
        "disable",
        "dist",
        "do",
        "edge",
        "else",
        "end",
        "endcase",
        "endclass",
        "endclocking",
        "endconfig",
        "endfunction",
        "endgenerate",
        "endgroup",
        "endinterface",
        "endmodule",
        "endpackage",
        "endprimitive",
        "endprogram",
        "endproperty",
        "endsequence",
        "endspecify",
        "endtable",
        "endtask",
        "enum",
        "event",
        "expect",
        "export",
        "extends",
        "extern",
        "final",
        "first_match",
        "for",
        "force",
        "foreach",
        "forever",
        "fork",
        "forkjoin",
        "function",
        "generate",
        "genvar",
        "highz0",
        "highz1",
        "if",
        "iff",
        "ifnone",
        "ignore_bins",
        "illegal_bins",
        "import",
        "incdir",
        "include",
        "initial",
        "inout",
        "input",
        "inside",
        "instance",
        "int",
        "integer",
        "interface",
        "intersect",
        "join",
        "join_any",
        "join_none",
        "large",
        "liblist",
        "library",
        "local",
        "localparam",
        "logic",
        "longint",
        "macromodule",
        "matches",
        "medium",
        "modport",
        "module",
        "nand",
        "negedge",
        "new",
        "nmos",
        "nor",
        "noshowcancelled",
        "not",
        "notif0",
        "notif1",
        "null",
        "or",
        "output",
        "package",
        "packed",
        "parameter",
        "pmos",
        "posedge",
        "primitive",
        "priority",
        "program",
        "property",
        "protected",
        "pull0",
        "pull1",
        "pulldown",
        "pullup",
        "pulsestyle_ondetect",
        "pulsestyle_onevent",
        "pure",
        "rand",
        "randc",
        "randcase",
        "randsequence",
        "rcmos",
        "real",
        "realtime",
        "ref",
        "reg",
        "release",
        "repeat",
        "return",
        "rnmos",
        "rpmos",
        "rtran",
        "rtranif0",
        "rtranif1",
        "scalared",
        "sequence",
        "shortint",
        "shortreal",
        "showcancelled",
        "signed",
        "small",
        "solve",
        "specify",
        "specparam",
        "static",
        "string",
        "strong0",
        "strong1",
        "struct",
        "super",
        "supply0",
        "supply1",
        "table",
        "tagged",
        "task",
        "this",
        "throughout",
        "time",
        "timeprecision",
        "timeunit",
        "tran",
        "tranif0",
        "tranif1",
        "tri",
        "tri0",
        "tri1",
        "triand",
        "trior",
        "trireg",
        "type",
        "typedef",
        "union",
        "unique",
        "unsigned",
        "use",
        "uwire",
        "var",
        "vectored",
        "virtual",
        "void",
        "wait",
        "wait_order",
        "wand",
        "weak0",
        "weak1",
        "while",
        "wildcard",
        "wire",
        "with",
        "within",
        "wor",
        "xnor",
        "xor",
    )
)
"""Reserved words of Verilog (IEEE 1364-2005, annex B) and SystemVerilog (IEEE 1800-2005, annex B)."""


def check_name(name: str) -> None:
    """Raises CommandError for an invalid module name."""
    if _NAME.fullmatch(name) is None or name in _RESERVED:
        raise CommandError(f"{name!r} is no name of a Verilog module")


def through_yosys(
    component: Any,
    script: str,
    folder: Path,
    say: Callable[[str], None],
    description: str,
    name: str = "top",
) -> Path:
    """Runs a Yosys script on ``top.il``, Amaranth's output for the component without simulation
    constructs, as the module ``name``; returns the resolved folder with all files.

    Raises FpgaError if Yosys fails.
    """
    folder = folder.resolve()
    make_folder(folder)
    say("elaboration")
    (folder / "top.il").write_text(
        rtlil.convert(component, name=name, emit_src=False), encoding="utf-8"
    )
    (folder / "top.ys").write_text(_BEGIN + script, encoding="utf-8")
    say(description)
    run_tool("yosys", ["-q", "-s", "top.ys"], folder, "yosys.log")
    return folder


def _settled(module: str) -> str:
    """Returns a module in which all blocks ``always @*`` run when the simulation begins.

    Blocks that read only registers would not, in simulators for which the initial value of a
    register is no change (SystemVerilog; Icarus Verilog with -g2012): their results would be
    unknown until one of the registers changes.
    """
    trigger = _TRIGGER.search(module)
    if trigger is None and _ASSIGNMENT.search(module) is None:
        return module
    name = r"\$begins" if trigger is None else trigger[1]
    module = _ASSIGNMENT.sub(
        lambda found: f"  always @* begin\n    if ({name} ) begin end\n    {found[1]}\n  end",
        _TRIGGER.sub("", module),
    )
    head, _, rest = module.partition(");\n")
    # It changes when all of them wait: a nonblocking assignment is executed after everything else
    # at that time.
    return f"{head});\n  reg {name} ;\n  initial {name} <= 0;\n{rest}"


def verilog_of(component: Any, folder: Path, say: Callable[[str], None], name: str = "top") -> str:
    """Returns a component as Verilog.

    The top module has the ``name``, the component's ports, ``clk`` and ``rst``; the names of all
    other modules begin with the top's name. The tools' files are left in ``folder``. Raises
    FpgaError if a tool fails.
    """
    folder = through_yosys(component, _SCRIPT, folder, say, "Verilog", name)
    text = _NEVER.sub("initial", (folder / "top.v").read_text(encoding="utf-8"))
    text = _MODULE.sub(lambda module: _settled(module[0]), text)
    return "".join(f"/* verilator lint_off {warning} */\n" for warning in _WARNINGS) + text
