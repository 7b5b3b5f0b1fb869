"""Builds bitstreams of boards with open tools, as a board's platform calls them, and reports their
size and speed.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from amaranth.build.run import LocalBuildProducts
from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.fpga.boards import Board, BoardTop, board_top
from rtl.fpga.lamps import LampSignals
from rtl.params import SmParams
from sim.fpga.ecp5 import (
    BLOCK_TIMING,
    FOR_SIZE,
    KEPT,
    FpgaError,
    Timing,
    critical_path,
    missing_tool,
    run_tool,
    run_tool_once,
    versions,
)
from sim.fpga.netlist import names_of
from sim.support.command import make_folder

__all__ = [
    "COLUMNS",
    "Bitstream",
    "PadsAlone",
    "build",
    "check_loader",
    "constraints",
    "load",
    "missing_boards",
]

_NAME = "top"
_REPORT = "report.json"
_SYNTHESIS_OPTIONS = "-nowidelut"
"""Synthesis option for a small netlist: without the multiplexers between LUTs, as ``--small`` does
for units.
"""
_SYNTHESIS = f"""\
chformal -remove
delete t:$print
{FOR_SIZE}
synth_ecp5 {_SYNTHESIS_OPTIONS} -top {_NAME} -run begin:map_luts
opt_clean -purge
{BLOCK_TIMING}"""
"""Synthesis commands: assertions and prints, which are for simulation, are removed; so are alias
names of nets before the mapping, as for units.
"""
_MAPPING = f"{_SYNTHESIS_OPTIONS} -run map_luts:check"
_LAST = "blackbox =A:whitebox"
"""The commands of Yosys after ``check``, except naming all cells."""
_PLACER, _ROUTER = "static", "router1"
"""nextpnr's placer and router.

The placer heap packs a machine into the middle of the device, as densely as it can
(``--placer-heap-beta`` has no effect there), and needs a fifth more wire. router2 leaves some 2,000
wires of preset ``least`` overused, however many rounds it runs; router1 terminates.
"""
COLUMNS = {
    "lut4": "LUT4",
    "ccu2c": "CCU2C",
    "ff": "TRELLIS_FF",
    "dpr16x4": "TRELLIS_DPR16X4",
    "dp16kd": "DP16KD",
    "mult18x18d": "MULT18X18D",
}
"""The counted cells: type by key in the results."""
_OPENED = ("machine", "machine.sm", "machine.sm.core")
"""Modules whose submodules are counted separately."""
_GLOBAL = "$glbnet$"
_SAME = 0.01
"""Tolerance in MHz between a requested clock and nextpnr's figure for it."""
_LOADER = ("OPENFPGALOADER", "openFPGALoader")
_PART = re.compile(rb"Part: ([\w-]+)")
_HEADER_BYTES = 1024
"""Size in bytes of the start of a bitstream, with the text that names its device."""


@dataclass
class Bitstream:
    """A bitstream, its size and its speed.

    Attributes:
        wanted: Target frequency of the machine's clock in MHz.
        units: Cells by unit, by the keys of COLUMNS. A cell of logic is counted for the unit whose
            signal it drives.
        used: By kind of cell: the number that is used, and the number that the device has.
        timings: Timing of the machine's clock, for each seed that was tried.
        clocks: By seed and clock: reached and target frequency in MHz.
        path: Path of the bitstream.
    """

    board: str
    preset: str
    device: str
    wanted: float
    path: Path
    units: dict[str, dict[str, int]] = field(default_factory=dict)
    used: dict[str, tuple[int, int]] = field(default_factory=dict)
    timings: list[Timing] = field(default_factory=list)
    clocks: dict[int, dict[str, tuple[float, float]]] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)

    def slow_clocks(self, timing: Timing) -> dict[str, tuple[float, float]]:
        """Returns the clocks whose target is missed with a seed: reached and target frequency in
        MHz.
        """
        return {
            name: (reached, wanted)
            for name, (reached, wanted) in self.clocks[timing.seed].items()
            if reached < wanted
        }

    @property
    def best(self) -> Timing:
        """The timing of the bitstream: the fastest of those that meet all clocks, else of all."""
        return max(self.timings, key=lambda timing: (not self.slow_clocks(timing), timing.fmax))

    @property
    def met(self) -> bool:
        """Whether all clocks are met."""
        return not self.slow_clocks(self.best)

    def text(self) -> str:
        """Returns the report as text."""
        lines = [f"{self.board}, preset {self.preset}, on {self.device}", ""]
        lines += [
            f"  {'':40}"
            + "".join(f"{kind.removeprefix('TRELLIS_'):>12}" for kind in COLUMNS.values())
        ]
        rows = [*self.units.items(), ("all", self.total)]
        lines += [
            f"  {name:40}" + "".join(f"{count[key]:>12,}" for key in COLUMNS)
            for name, count in rows
        ]
        lines += [
            "",
            *(f"  {kind:16}{used:>8,} of {there:,}" for kind, (used, there) in self.used.items()),
            "",
        ]
        lines += [
            f"  seed {timing.seed:<3} {timing.fmax:7.1f} MHz  {timing.path}"
            for timing in self.timings
        ]
        lines += [
            f"  {name}: {reached:.1f} of {wanted:g} MHz"
            for name, (reached, wanted) in self.clocks[self.best.seed].items()
        ]
        verdict = "is met" if self.met else "IS NOT MET"
        return (
            "\n".join([*lines, f"  {self.wanted:.1f} MHz {verdict}", f"bitstream     {self.path}"])
            + "\n"
        )

    @property
    def total(self) -> dict[str, int]:
        """The cells of all units."""
        return {key: sum(count[key] for count in self.units.values()) for key in COLUMNS}

    def json(self) -> str:
        """Returns the report as JSON."""
        return (
            json.dumps(
                {
                    "board": self.board,
                    "preset": self.preset,
                    "device": self.device,
                    "clock_mhz": round(self.wanted, 3),
                    "fmax_mhz": round(self.best.fmax, 2),
                    "met": self.met,
                    **self.total,
                    "units": self.units,
                    "used": {kind: used for kind, (used, _) in self.used.items()},
                    "available": {kind: there for kind, (_, there) in self.used.items()},
                    "tools": self.tools,
                    "clocks": {
                        name: dict(zip(("fmax_mhz", "wanted_mhz"), rates, strict=True))
                        for name, rates in self.clocks[self.best.seed].items()
                    },
                    "seeds": [asdict(timing) for timing in self.timings],
                    "bitstream": str(self.path),
                },
                indent=2,
            )
            + "\n"
        )


def build(
    board: str,
    preset: str,
    top: BoardTop,
    folder: Path,
    seeds: Sequence[int],
    say: Callable[[str], None],
) -> tuple[Bitstream, Any]:
    """Builds the bitstream of a top with the first seed that meets all clocks, else with the best.

    The tools' files are left in ``folder``; the netlist of an earlier run of the same design is
    used again.

    Returns:
        The bitstream, and the platform's object from which it is programmed.

    Raises:
        FpgaError: A tool fails.
    """
    folder = folder.resolve()
    make_folder(folder)
    platform = top.platform
    say("elaboration")
    commands = _prepare(top, folder)
    tools = versions(folder, say, "ecppack")
    result = Bitstream(
        board,
        preset,
        f"{platform.device}, {platform.package}, speed grade {platform.speed}",
        top.frequency / 1e6,
        folder / f"{_NAME}.bit",
        tools=tools,
    )
    say("synthesis")
    netlist = _synthesize(commands["yosys"], folder, tools["yosys"], say)
    names = names_of(netlist)
    result.units = _units(netlist, names)
    say(f"{result.total['lut4']:,} LUT4, {result.total['ff']:,} FF")
    _place_and_route(result, commands["nextpnr-ecp5"], folder, seeds, names, say)
    say("bitstream")
    run_tool("ecppack", commands["ecppack"], folder, "ecppack.log", [result.path.name])
    return result, LocalBuildProducts(str(folder))


def _prepare(top: BoardTop, folder: Path) -> dict[str, list[str]]:
    """Elaborates a top, and writes the tools' files to ``folder``. Returns each tool's arguments."""
    plan = top.platform.prepare(
        top,
        _NAME,
        script_after_read=_SYNTHESIS,
        debug_verilog=False,
        synth_opts=_MAPPING,
        script_after_synth=_LAST,
        nextpnr_opts=f"--timing-allow-fail --placer {_PLACER} --router {_ROUTER} "
        f"--report {_REPORT}",
    )
    plan.extract(folder)
    return dict(_commands(plan.files[f"build_{_NAME}.sh"]))


def _synthesize(
    arguments: list[str], folder: Path, version: str, say: Callable[[str], None]
) -> dict[str, Any]:
    """The top's netlist, made by Yosys, or by an earlier run of it on the same design."""
    if not run_tool_once(
        "yosys",
        arguments,
        folder,
        "yosys.log",
        version,
        [f"{_NAME}.il", f"{_NAME}.ys"],
        [f"{_NAME}.json"],
    ):
        say(KEPT)
    return json.loads((folder / f"{_NAME}.json").read_text(encoding="utf-8"))["modules"][_NAME]


def _place_and_route(
    result: Bitstream,
    arguments: list[str],
    folder: Path,
    seeds: Sequence[int],
    names: Mapping[str, str],
    say: Callable[[str], None],
) -> None:
    """Runs nextpnr with one seed after the other until a placement meets all clocks, adds their timings to
    ``result``, and leaves the configuration of the best one.
    """
    config = folder / f"{_NAME}.config"
    for seed in seeds:
        say(f"placement and routing, seed {seed}")
        run_tool(
            "nextpnr-ecp5",
            [*arguments, "--seed", str(seed)],
            folder,
            f"seed{seed}.log",
            [_REPORT, config.name],
        )
        timing = _read_report(
            result, json.loads((folder / _REPORT).read_text(encoding="utf-8")), seed, names
        )
        say(_rates(result, timing))
        if timing is result.best:
            config.replace(folder / "best.config")
        if result.met:
            break
    (folder / "best.config").replace(config)


def _rates(result: Bitstream, timing: Timing) -> str:
    """Returns the clock rate of a placement, and those of other clocks that are too slow, as text."""
    others = [
        f"{name} {reached:.1f} of {wanted:g} MHz"
        for name, (reached, wanted) in result.slow_clocks(timing).items()
        if reached != timing.fmax
    ]
    return ", ".join([f"{timing.fmax:.1f} MHz", *others])


class PadsAlone(Component):
    """A BoardMachine without its machine and its link: pads, memory and video, if it has them."""

    def __init__(
        self, params: SmParams, clock: int, baud: int, memory: Any, lamps: int, video: Any
    ) -> None:
        self._memory: Any = memory(1)
        self._video: Any = None if video is None else video(1)
        self._has_bus = "bus" in self._memory.signature.members
        self._has_lanes = video is not None and "lanes" in self._video.signature.members
        members = {"receive": In(1), "transmit": Out(1), "lamps": Out(LampSignals(lamps))}
        if self._has_bus:
            members["bus"] = self._memory.signature.members["bus"]
        if self._has_lanes:
            members["lanes"] = self._video.signature.members["lanes"]
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        """Connects pads, memory and video, so that synthesis removes none of them."""
        m = Module()
        m.d.sync += self.transmit.eq(self.receive)
        m.submodules.memory = self._memory
        if self._has_bus:
            connect(m, flipped(self.bus), self._memory.bus)
        if self._has_lanes:
            m.d.comb += self.lanes.eq(self._video.lanes)
        if self._video is not None:
            m.submodules.video = self._video
            connect(m, self._video.memory, self._memory.port)
            m.d.comb += self._video.framebuffer.enable.eq(1)
        return m


def constraints(board: Board, memory: int | str | None = None, video: bool | None = None) -> str:
    """Returns the pins and clocks of a board's top, in nextpnr's format LPF.

    ``memory`` and ``video`` are those of :func:`~rtl.fpga.boards.board_top`. Raises ValueError if
    the board has none that is supported.
    """
    top = board_top(board, memory=memory, video=video, make=PadsAlone)
    plan = top.platform.prepare(top, _NAME, debug_verilog=False, add_preferences=" ")
    lines = [line.strip() for line in plan.files[f"{_NAME}.lpf"].splitlines()]
    return "".join(f"{line}\n" for line in lines if line)


def _commands(script: str | bytes) -> Iterator[tuple[str, list[str]]]:
    """Yields the tools that a platform's script calls, and their arguments."""
    for line in (script if isinstance(script, str) else script.decode()).splitlines():
        if line.startswith('"$'):
            tool, *arguments = shlex.split(line)
            yield tool.removeprefix("$").lower().replace("_", "-"), arguments


def _units(netlist: dict[str, Any], names: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Returns the cells of a netlist by unit, from their names, and by kind."""
    kinds = {kind: key for key, kind in COLUMNS.items()}
    found: dict[str, Counter[str]] = {}
    for cell, content in netlist["cells"].items():
        if (key := kinds.get(content["type"])) is not None:
            found.setdefault(_unit_of(names[cell]), Counter())[key] += 1
    return {unit: {key: found[unit][key] for key in COLUMNS} for unit in sorted(found)}


def _unit_of(name: str) -> str:
    """Returns the unit of a cell, from the cell's name or that of its signal, without a
    disambiguating number.
    """
    first, *rest = (re.sub(r"\$\d+(\[\d+\])?$", "", part) for part in name.split("."))
    unit = first if rest else "top"
    for part in rest[:-1]:
        if unit not in _OPENED:
            break
        unit = f"{unit}.{part}"
    return unit


def _read_report(
    result: Bitstream, report: dict[str, Any], seed: int, names: Mapping[str, str]
) -> Timing:
    """Adds nextpnr's report to the result; returns the timing of the machine's clock, with the
    slowest frequency.
    """
    result.used = {
        kind: (entry["used"], entry["available"])
        for kind, entry in report["utilization"].items()
        if entry["used"]
    }
    rates = {name: (rate["achieved"], rate["constraint"]) for name, rate in report["fmax"].items()}
    result.clocks[seed] = {name.removeprefix(_GLOBAL): both for name, both in rates.items()}
    clock = min(
        (name for name, (_, wanted) in rates.items() if abs(wanted - result.wanted) < _SAME),
        key=lambda name: rates[name],
    )
    paths = [
        entry["path"]
        for entry in report["critical_paths"]
        if entry["from"] == entry["to"] == f"posedge {clock}"
    ]
    timing = Timing(seed, rates[clock][0], critical_path(paths[0], names))
    result.timings.append(timing)
    return timing


def missing_boards(*, tools: bool = True) -> str | None:
    """Returns what must be installed for boards, in one line: the package of boards and, if
    required, the ``tools`` that make bitstreams; None if nothing is missing.
    """
    if find_spec("amaranth_boards") is None:
        return "the extra 'fpga' is not installed: pip install -e '.[fpga]'"
    return missing_tool("yosys", "nextpnr-ecp5", "ecppack") if tools else None


def check_loader() -> None:
    """Raises FpgaError if no programmer for boards is installed."""
    variable, program = _LOADER
    named = os.environ.get(variable)
    if shutil.which(program if named is None else named) is None:
        missing = (
            f"{program} is not installed"
            if named is None
            else f"{variable}={named}: there is no such program"
        )
        raise FpgaError(
            f"{missing}; it programs boards: apt install openfpgaloader, brew install openfpgaloader, or "
            f"see https://trabucayre.github.io/openFPGALoader"
        )


def load(platform: Any, bitstream: Path) -> None:
    """Programs a board with the bitstream in a file, through its platform; FpgaError if that fails,
    or if the bitstream is for another device.
    """
    content = _read_bitstream(bitstream)
    part = _PART.search(content[:_HEADER_BYTES])
    if part is not None and not part[1].decode().startswith(f"{platform.device}-"):
        raise FpgaError(f"{bitstream}: for {part[1].decode()}, and the board has {platform.device}")
    with TemporaryDirectory() as folder:
        (Path(folder) / f"{_NAME}.bit").write_bytes(content)
        try:
            platform.toolchain_program(LocalBuildProducts(folder), _NAME)
        except (OSError, subprocess.CalledProcessError) as error:
            raise FpgaError(f"the board could not be programmed: {error}") from error


def _read_bitstream(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FpgaError(f"{path}: {error.strerror}") from error
