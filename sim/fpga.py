"""The machine on FPGAs: ``python -m sim.fpga BOARD`` builds the bitstream of a board, ``--unit NAME`` measures a unit
by itself, ``--verilog FILE`` writes the machine for other tools.

A unit's size is that of the unit alone. Its clock rate is that of the unit with a register on every input and output,
placed and routed with each seed; the registers and what reaches them (:mod:`rtl.fpga.harness`) are not counted.

Exit code 1: the bitstream is slower than its clock. 2, and one line on stderr: it could not be done.
"""

import json
import statistics
import sys
import time
from argparse import ArgumentTypeError, BooleanOptionalAction
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

from rtl.fpga.boards import BOARDS, SDRAM, board_top
from rtl.fpga.flat import FlatSm
from rtl.fpga.harness import TimingHarness
from rtl.fpga.units import UNITS
from rtl.params import PRESETS
from sim.bitstream import build, check_loader, constraints, load, missing_boards
from sim.command import CommandError, Parser, check_file, make_folder, write_file
from sim.ecp5 import DEVICE, Timing, cells, missing_tool, pack, place_and_route, synthesize, versions
from sim.verilog import verilog_of

__all__ = ["Measurement", "main", "measure"]

_SEEDS = [1, 2, 3]
_KNOBS = ("warps", "lanes", "stack_tokens")
"""Knobs of SmParams that the command can set."""
COUNTED = {
    "lut4": ("LUT4", "after synthesis"),
    "ccu2c": ("CCU2C", "after synthesis: carry cells, two LUTs each"),
    "lut4_with_carry": ("LUT4 with carry", "LUT4 + 2 CCU2C"),
    "comb": ("TRELLIS_COMB", "after packing: LUTs of logic, carry, memories and constants"),
    "ff": ("TRELLIS_FF", ""),
    "dp16kd": ("DP16KD", "block memories of 16 Kbit"),
    "dpr16x4": ("TRELLIS_DPR16X4", "memories of 16 x 4 bits in LUTs"),
    "mult18x18d": ("MULT18X18D", "multipliers"),
}
"""What is counted: key in results, name, remark."""


@dataclass(frozen=True)
class Measurement:
    """What a unit needs, and how fast it is.

    Attributes:
        unit, preset, small: What was measured; whether it was synthesized for size.
        size: The keys of COUNTED.
        timings: One for each seed.
        tools: Their versions.
    """

    unit: str
    preset: str
    small: bool
    size: dict[str, int]
    timings: list[Timing]
    tools: dict[str, str]

    @property
    def median(self) -> float:
        """The median clock rate, in MHz."""
        return statistics.median(timing.fmax for timing in self.timings)

    def text(self) -> str:
        """The measurement for people."""
        small = "small, " if self.small else ""
        lines = [f"{self.unit}, preset {self.preset}, {small}alone on {DEVICE}", ""]
        lines += [f"  {name:16}{self.size[key]:>7,}  {remark}".rstrip() for key, (name, remark) in COUNTED.items()]
        lines += ["", "between registers"]
        for timing in self.timings:
            lines += [f"  seed {timing.seed:<3} {timing.fmax:7.1f} MHz  {timing.path}"]
        return "\n".join([*lines, f"  median   {self.median:7.1f} MHz"]) + "\n"

    def json(self) -> str:
        """The measurement for programs."""
        return json.dumps({"unit": self.unit, "preset": self.preset, "small": self.small, "device": DEVICE, **self.size,
                           "fmax_mhz": round(self.median, 2), "tools": self.tools,
                           "seeds": [asdict(timing) for timing in self.timings]}, indent=2) + "\n"


def _size(folder: Path) -> dict[str, int]:
    """What the synthesized unit needs."""
    count, packed = cells(folder), pack(folder)
    return {"lut4": count["LUT4"], "ccu2c": count["CCU2C"], "lut4_with_carry": count["LUT4"] + 2 * count["CCU2C"],
            "comb": packed["TRELLIS_COMB"], "ff": packed["TRELLIS_FF"], "dp16kd": packed["DP16KD"],
            "dpr16x4": count["TRELLIS_DPR16X4"], "mult18x18d": count["MULT18X18D"]}


class _Progress:
    """Says what is being done, since it takes minutes."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._start = time.monotonic()

    def __call__(self, what: str) -> None:
        print(f"{time.monotonic() - self._start:4.0f} s  {self._unit}: {what}", file=sys.stderr, flush=True)


def measure(unit: str, preset: str, seeds: Sequence[int], folder: Path, *, small: bool = False,
            knobs: Mapping[str, int] | None = None) -> Measurement:
    """Measures a unit of UNITS, which is synthesized for size if ``small``; leaves the tools' files in ``folder``.
    ``knobs`` of SmParams count instead of the preset's. FpgaError when a tool fails, ValueError for a knob."""
    params = replace(PRESETS[preset], **(knobs or {}))
    say, folder = _Progress(unit), folder.resolve()
    make_folder(folder)
    say("synthesis")
    synthesize(rtlil.convert(TimingHarness(UNITS[unit](params))), folder, small=small)
    size = _size(folder)
    say(f"{size['lut4']} LUT4, {size['ff']} FF")
    timings = []
    for seed in seeds:
        say(f"placement and routing, seed {seed}")
        timings.append(place_and_route(folder, seed))
        say(f"{timings[-1].fmax:.1f} MHz")
    machine = ", ".join([preset, *(f"{value} {name}" for name, value in (knobs or {}).items())])
    return Measurement(unit, machine, small, size, timings, versions(folder))


def _seeds(text: str) -> list[int]:
    """The numbers of a list with commas."""
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is not a list of numbers such as 1,2,3") from error


def _memory(text: str) -> int | str:
    """A board's SDRAM chip, or a number of bytes."""
    if text != SDRAM and not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text!r} is neither {SDRAM} nor a number of bytes")
    return text if text == SDRAM else int(text)


def _parser() -> Parser:
    parser = Parser("sim.fpga", "Builds the bitstream of a board, measures the size and the "
                    "clock rate of a unit, or writes Verilog of the machine.",
                    "--unit crs")
    parser.add_argument("board", nargs="?", metavar="BOARD", help=f"of {', '.join(BOARDS)}")
    parser.add_argument("--unit", help=f"which: {', '.join(UNITS)}")
    parser.add_argument("--verilog", type=Path, metavar="OUT", help="write the machine there as Verilog")
    parser.add_argument("--preset", help=f"of {', '.join(PRESETS)}; default default, of a board what it has room for")
    for knob in _KNOBS:
        parser.add_argument(f"--{knob.replace('_', '-')}", type=int, metavar="N",
                            help=f"{knob}, instead of the preset's")
    parser.add_argument("--small", action="store_true",
                        help="without the multiplexers between LUTs: smaller, and slower")
    parser.add_argument("--seeds", type=_seeds, metavar="N,N,...", help="of placement, default 1,2,3; of a "
                        "board, which takes the first one that is fast enough, default 1")
    parser.add_argument("--clock", type=int, metavar="HZ", help="of a board's machine, instead of the board's own")
    parser.add_argument("--memory", type=_memory, metavar=f"{SDRAM}|BYTES",
                        help="of a board, instead of the board's own: its SDRAM chip, or so many bytes of block memory")
    parser.add_argument("--video", action=BooleanOptionalAction, help="of a board, instead of the board's own")
    parser.add_argument("--lpf", type=Path, metavar="OUT", help="write pins and clocks of a board there, and no more")
    parser.add_argument("--load", action="store_true", default=None, help="program the board, by openFPGALoader")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the results there as well")
    parser.add_argument("--build", type=Path, metavar="DIR", help="the tools' files; default build/fpga/NAME-PRESET")
    return parser


def _check(options: Any) -> None:
    """Refuses what does not go together; the preset is settled."""
    given = [name for name in ("board", "unit", "verilog") if getattr(options, name) is not None]
    if len(given) != 1:
        raise CommandError("one of BOARD, --unit and --verilog is wanted"
                     + (f", not {' and '.join(given)}" if given else ""))
    for what, names in (("board", BOARDS), ("unit", UNITS)):
        if getattr(options, what) not in (None, *names):
            raise CommandError(f"no {what} {getattr(options, what)}; there are {', '.join(names)}")
    for flag in ("clock", "memory", "video", "load", "lpf"):
        if getattr(options, flag) is not None and options.board is None:
            raise CommandError(f"--{flag} is for boards")
    for flag in (*_KNOBS, "small"):
        if getattr(options, flag) and options.unit is None:
            raise CommandError(f"--{flag.replace('_', '-')} is for units")
    if options.preset is None:
        options.preset = "default" if options.board is None else BOARDS[options.board].preset
    if options.preset not in PRESETS:
        raise CommandError(f"no preset {options.preset}; there are {', '.join(PRESETS)}")


def _measure(options: Any) -> int:
    """Measures a unit."""
    knobs = {knob: value for knob in _KNOBS if (value := getattr(options, knob)) is not None}
    name = "-".join([options.unit, options.preset, *(f"{value}-{knob}" for knob, value in knobs.items())])
    folder = options.build or Path("build", "fpga", name)
    result = measure(options.unit, options.preset, options.seeds or _SEEDS, folder, small=options.small, knobs=knobs)
    print(result.text(), end="")
    if options.json is not None:
        write_file(options.json, result.json().encode())
    return 0


def _build(options: Any) -> int:
    """Builds a board's bitstream, and programs the board."""
    if options.lpf is not None:
        write_file(options.lpf, constraints(BOARDS[options.board]).encode())
        return 0
    if options.load:
        check_loader()
    top = board_top(BOARDS[options.board], PRESETS[options.preset], clock=options.clock, memory=options.memory,
                    video=options.video)
    folder = options.build or Path("build", "fpga", f"{options.board}-{options.preset}")
    say = _Progress(options.board)
    result, products = build(options.board, options.preset, top, folder, options.seeds or [1], say)
    print(result.text(), end="")
    if options.json is not None:
        write_file(options.json, result.json().encode())
    if options.load and result.met:
        say("programming")
        load(top.platform, products)
    return 0 if result.met else 1


def _verilog(options: Any) -> int:
    """Writes Verilog."""
    folder = options.build or Path("build", "fpga", f"verilog-{options.preset}")
    say = _Progress("verilog")
    write_file(options.verilog, verilog_of(FlatSm(PRESETS[options.preset]), folder, say).encode(), folders=True)
    return 0


def _run(options: Any) -> int:
    _check(options)
    if (reason := missing_tool()) or (reason := missing_boards() if options.board is not None else None):
        raise CommandError(reason)
    for path in (options.json, options.verilog, options.lpf):
        if path is not None:
            check_file(path)
    try:
        return (_measure if options.unit is not None else _build if options.board is not None else _verilog)(options)
    except ValueError as error:
        raise CommandError(str(error)) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, _run)


if __name__ == "__main__":
    sys.exit(main())
