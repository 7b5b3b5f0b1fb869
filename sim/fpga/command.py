"""Builds the machine for FPGAs, or measures its units: ``python -m sim.fpga BOARD`` builds the
bitstream of a board, ``--unit NAME`` measures a unit by itself, ``--verilog FILE`` writes the
machine, or with ``--unit`` a unit, for other tools.

A unit's size is the size of the unit alone. Its clock rate is measured with a register on every
input and output, placed and routed with each seed; the registers and what reaches them
(:mod:`rtl.fpga.harness`) are not counted.

Exit code 1: the bitstream is slower than its clock. 2, and one line on stderr: it could not be done. 130: interrupted.
"""

import fcntl
import json
import shlex
import statistics
import sys
import time
from argparse import ArgumentTypeError, BooleanOptionalAction
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

from rtl.fpga.boards import BOARDS, SDRAM, board_top
from rtl.fpga.flat import Flat
from rtl.fpga.harness import TimingHarness
from rtl.fpga.units import UNITS
from rtl.params import PRESETS, SmParams
from sim.fpga.bitstream import Bitstream, build, check_loader, constraints, load, missing_boards
from sim.fpga.ecp5 import (
    DEVICE,
    KEPT,
    Timing,
    cells,
    missing_tool,
    pack,
    place_and_route,
    synthesize,
    versions,
)
from sim.fpga.verilog import check_name, verilog_of
from sim.report.ports import port_comments
from sim.support.command import (
    CALLED,
    CommandError,
    Parser,
    check_file,
    claim_folder,
    make_folder,
    write_file,
)

__all__ = ["Measurement", "main", "measure"]

_LOCK = ".lock"
"""In a folder of the tools' files: it shows that this command made it, and is locked by the one that works there."""
_SEEDS = [1, 2, 3]
"""Seeds of a unit's measurement; all are used."""
_BOARD_SEEDS = [1, 2, 3, 4, 5, 6]
"""Seeds of a board's bitstream; they are tried until one meets every clock."""
_MARGIN = 0.05
"""Margin of a proposed clock below the reached one."""
_USED_BY_LOAD = ("board", "load")
"""Options that are compatible with ``--load FILE.bit``, which builds nothing."""
_USED_BY_LPF = ("board", "lpf", "memory", "video")
"""Options that are compatible with ``--lpf``: the pads of memory and video are among the pins that
it writes.
"""
_PARAMETERS = ("warps", "lanes", "stack_tokens")
"""Parameters of SmParams that are options of the command."""
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
"""The counted quantities: name and remark, by key in the results."""


@dataclass(frozen=True)
class Measurement:
    """The size and speed of a unit.

    Attributes:
        unit: Name of the unit.
        preset: The preset of its parameters.
        small: Whether it was synthesized for size.
        size: Numbers by the keys of COUNTED.
        timings: The timing for each seed.
        tools: Versions of the tools.
    """

    unit: str
    preset: str
    small: bool
    size: dict[str, int]
    timings: list[Timing]
    tools: dict[str, str]

    @property
    def median(self) -> float | None:
        """The median clock rate in MHz; None if the unit was only synthesized."""
        return statistics.median(timing.fmax for timing in self.timings) if self.timings else None

    def text(self) -> str:
        """Returns the measurement as text."""
        small = "small, " if self.small else ""
        lines = [f"{self.unit}, preset {self.preset}, {small}alone on {DEVICE}", ""]
        lines += [
            f"  {name:16}{self.size[key]:>7,}  {remark}".rstrip()
            for key, (name, remark) in COUNTED.items()
        ]
        if self.timings:
            lines += ["", "between registers"]
            for timing in self.timings:
                lines += [f"  seed {timing.seed:<3} {timing.fmax:7.1f} MHz  {timing.path}"]
            lines += [f"  median   {self.median:7.1f} MHz"]
        return "\n".join(lines) + "\n"

    def json(self) -> str:
        """Returns the measurement as JSON."""
        return (
            json.dumps(
                {
                    "unit": self.unit,
                    "preset": self.preset,
                    "small": self.small,
                    "device": DEVICE,
                    **self.size,
                    "fmax_mhz": None if self.median is None else round(self.median, 2),
                    "tools": self.tools,
                    "seeds": [asdict(timing) for timing in self.timings],
                },
                indent=2,
            )
            + "\n"
        )


def _size(folder: Path) -> dict[str, int]:
    """Returns the numbers of COUNTED for the synthesized unit."""
    count, packed = cells(folder), pack(folder)
    return {
        "lut4": count["LUT4"],
        "ccu2c": count["CCU2C"],
        "lut4_with_carry": count["LUT4"] + 2 * count["CCU2C"],
        "comb": packed["TRELLIS_COMB"],
        "ff": packed["TRELLIS_FF"],
        "dp16kd": packed["DP16KD"],
        "dpr16x4": count["TRELLIS_DPR16X4"],
        "mult18x18d": count["MULT18X18D"],
    }


class _Progress:
    """Shows the current step, since a step takes minutes."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._start = time.monotonic()

    def __call__(self, what: str) -> None:
        print(
            f"{time.monotonic() - self._start:4.0f} s  {self._unit}: {what}",
            file=sys.stderr,
            flush=True,
        )


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Locks a folder of tool files for one command at a time.

    CommandError while another command uses the folder, or if the folder has other files.
    """
    claim_folder(folder, _LOCK)
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CommandError(
                f"{folder}: another sim.fpga works there; --build names another folder"
            ) from error
        yield


def measure(
    unit: str,
    preset: str,
    seeds: Sequence[int],
    folder: Path,
    *,
    small: bool = False,
    parameters: Mapping[str, int] | None = None,
) -> Measurement:
    """Measures a unit of UNITS.

    Args:
        unit: Name of the unit.
        preset: Preset of its parameters.
        seeds: Seeds of placement and routing; without any nothing is placed.
        folder: Receives the tools' files.
        small: Whether the unit is synthesized for size.
        parameters: Parameters of SmParams that replace those of the preset.

    Raises:
        FpgaError: A tool fails.
        ValueError: A parameter is out of range.
    """
    params = replace(PRESETS[preset], **(parameters or {}))
    say, folder = _Progress(unit), folder.resolve()
    make_folder(folder)
    tools = versions(folder, say)
    say("synthesis")
    if not synthesize(
        rtlil.convert(TimingHarness(UNITS[unit](params))), folder, tools["yosys"], small=small
    ):
        say(KEPT)
    size = _size(folder)
    say(f"{size['lut4']} LUT4, {size['ff']} FF")
    timings = []
    for seed in seeds:
        say(f"placement and routing, seed {seed}")
        timings.append(place_and_route(folder, seed))
        say(f"{timings[-1].fmax:.1f} MHz")
    machine = ", ".join(
        [preset, *(f"{value} {name}" for name, value in (parameters or {}).items())]
    )
    return Measurement(unit, machine, small, size, timings, tools)


def _numbers(numbers: Sequence[int]) -> str:
    """Returns a comma-separated list, the format of --seeds."""
    return ",".join(map(str, numbers))


def _seeds(text: str) -> list[int]:
    """Parses a comma-separated list of numbers, or ``none``."""
    if text == "none":
        return []
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise ArgumentTypeError(
            f"{text!r} is neither a list of numbers such as 1,2,3 nor none"
        ) from error


def _memory(text: str) -> int | str:
    """Parses the name of a board's SDRAM chip, or a number of bytes."""
    if text != SDRAM and not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text!r} is neither {SDRAM} nor a number of bytes")
    return text if text == SDRAM else int(text)


def _parser() -> Parser:
    parser = Parser(
        "sim.fpga",
        "Builds the bitstream of a board, measures the size and the "
        "clock rate of a unit, or writes Verilog of the machine or of a unit.",
        "--unit crs",
    )
    parser.add_argument("board", nargs="?", metavar="BOARD", help=f"the board: {', '.join(BOARDS)}")
    parser.add_argument("--unit", help=f"the unit to measure: {', '.join(UNITS)}")
    parser.add_argument(
        "--verilog",
        type=Path,
        metavar="OUT",
        help="write Verilog to this file: the machine, or the unit of --unit",
    )
    parser.add_argument(
        "--name", help="name of the Verilog's top module (default: the unit's, or sm)"
    )
    parser.add_argument(
        "--preset",
        help=f"the machine: {', '.join(PRESETS)} (default: default; for a board: what it has room for)",
    )
    for parameter in _PARAMETERS:
        parser.add_argument(
            f"--{parameter.replace('_', '-')}",
            type=int,
            metavar="N",
            help=f"{parameter}, instead of the preset's",
        )
    parser.add_argument(
        "--small",
        action="store_true",
        help="synthesize without the multiplexers between LUTs: smaller, and slower",
    )
    parser.add_argument(
        "--seeds",
        type=_seeds,
        metavar="N,N,...|none",
        help=f"seeds of placement: a unit is placed with all of them (default: {_numbers(_SEEDS)}), or only "
        f"synthesized (none); a board until one meets the clock rate (default: {_numbers(_BOARD_SEEDS)})",
    )
    parser.add_argument(
        "--clock",
        type=int,
        metavar="HZ",
        help="clock rate of a board's machine (default: the board's)",
    )
    parser.add_argument(
        "--memory",
        type=_memory,
        metavar=f"{SDRAM}|BYTES",
        help="memory of a board: its SDRAM chip, or so many bytes of block memory (default: the board's)",
    )
    parser.add_argument(
        "--video", action=BooleanOptionalAction, help="with or without video (default: the board's)"
    )
    parser.add_argument(
        "--lpf",
        type=Path,
        metavar="OUT",
        help="write the pins and clocks of a board to this file (LPF), and build nothing",
    )
    parser.add_argument(
        "--load",
        nargs="?",
        const=True,
        metavar="FILE.bit",
        help="program the board with openFPGALoader: with the bitstream that is built, or with FILE.bit, "
        "without building anything",
    )
    parser.add_argument(
        "--json", type=Path, metavar="OUT", help="write the results to this file as well"
    )
    parser.add_argument(
        "--build",
        type=Path,
        metavar="DIR",
        help="folder of the tools' files: a new or an empty one, or one that this command made "
        "(default: build/fpga/NAME-PRESET)",
    )
    return parser


def _check(options: Any) -> None:
    """Raises CommandError for options that cannot be combined; the preset must be known."""
    if (
        options.board is None and options.load in BOARDS
    ):  # --load BOARD: the option takes the next argument
        options.board, options.load = options.load, True
    given = [name for name in ("board", "unit", "verilog") if getattr(options, name) is not None]
    if len(given) != 1 and given != ["unit", "verilog"]:
        raise CommandError(
            "one of BOARD, --unit and --verilog is required"
            + (f", not {' and '.join(given)}" if given else "")
        )
    for what, names in (("board", BOARDS), ("unit", UNITS)):
        if getattr(options, what) not in (None, *names):
            raise CommandError(f"no {what} {getattr(options, what)}; there are {', '.join(names)}")
    for flag in ("clock", "memory", "video", "load", "lpf"):
        if getattr(options, flag) is not None and options.board is None:
            raise CommandError(f"--{flag} is for boards")
    for flag in (*_PARAMETERS, "small"):
        if _is_given(options, flag) and options.unit is None:
            instead = (
                ": a board takes a --preset"
                if options.board is not None and flag != "small"
                else ""
            )
            raise CommandError(f"--{flag.replace('_', '-')} is for units{instead}")
    if options.seeds == [] and options.unit is None:
        raise CommandError("--seeds none is for units: a bitstream is placed with a seed")
    for flag in ("small", "seeds", "json"):
        if _is_given(options, flag) and options.verilog is not None:
            raise CommandError(f"--{flag} does not go with --verilog, which measures nothing")
    if options.name is not None:
        if options.verilog is None:
            raise CommandError("--name is for --verilog")
        check_name(options.name)
    if isinstance(options.load, str):
        _refuse_others(options, _USED_BY_LOAD, "--load FILE.bit, which builds nothing")
    elif options.lpf is not None:
        _refuse_others(options, _USED_BY_LPF, "--lpf, which writes pins and clocks alone")
    if options.preset is None:
        options.preset = "default" if options.board is None else BOARDS[options.board].preset
    if options.preset not in PRESETS:
        raise CommandError(f"no preset {options.preset}; there are {', '.join(PRESETS)}")


def _is_given(options: Any, name: str) -> bool:
    """Whether an option was given on the command line, also with the value 0, and as
    ``--no-video``.
    """
    value = getattr(options, name)
    return bool(value) if name == "small" else value is not None


def _refuse_others(options: Any, used: Sequence[str], by: str) -> None:
    """Raises CommandError, which names the first given option that is not among the ``used`` ones."""
    for name in vars(options):
        if name not in used and _is_given(options, name):
            flag = "no-video" if name == "video" and not options.video else name.replace("_", "-")
            raise CommandError(f"--{flag} does not go with {by}")


def _parameters(options: Any) -> dict[str, int]:
    """Returns the parameters that were given."""
    return {
        parameter: value
        for parameter in _PARAMETERS
        if (value := getattr(options, parameter)) is not None
    }


def _name(options: Any) -> str:
    """Returns unit, preset and parameters, for file names."""
    parameters = [f"{value}-{parameter}" for parameter, value in _parameters(options).items()]
    return "-".join([options.unit or "sm", options.preset, *parameters])


def _measure(options: Any) -> int:
    """Measures a unit."""
    folder = options.build or Path("build", "fpga", _name(options))
    with _claimed(folder):
        result = measure(
            options.unit,
            options.preset,
            _SEEDS if options.seeds is None else options.seeds,
            folder,
            small=options.small,
            parameters=_parameters(options),
        )
    print(result.text(), end="")
    if options.json is not None:
        write_file(options.json, result.json().encode())
    return 0


def _build(options: Any) -> int:
    """Builds a board's bitstream, and programs the board."""
    board = BOARDS[options.board]
    if options.lpf is not None:
        text = constraints(board, memory=options.memory, video=options.video)
        write_file(options.lpf, text.encode())
        return 0
    if options.load:
        check_loader()
    if isinstance(options.load, str):
        load(board.make_platform(), Path(options.load))
        print(_next_on_a_board())
        return 0
    top = board_top(
        board,
        PRESETS[options.preset],
        clock=options.clock,
        memory=options.memory,
        video=options.video,
    )
    folder = options.build or Path("build", "fpga", f"{options.board}-{options.preset}")
    say = _Progress(options.board)
    seeds = options.seeds or _BOARD_SEEDS
    with _claimed(folder):
        result, _ = build(options.board, options.preset, top, folder, seeds, say)
        print(result.text(), end="", flush=True)
        if options.json is not None:
            write_file(options.json, result.json().encode())
        if options.load and result.met:
            say("programming")
            load(top.platform, result.path)
    if not result.met:
        print(_next_when_slow(options, result))
        return 1
    print(_next_on_a_board() if options.load else _next_when_met(options, result))
    return 0


def _call(*words: str) -> str:
    """Returns a call of this command with other arguments, as a line for a shell."""
    return " ".join([CALLED.get() or "python -m sim.fpga", shlex.join(words)])


def _next_when_met(options: Any, result: Bitstream) -> str:
    here = Path.cwd()
    path = result.path.relative_to(here) if result.path.is_relative_to(here) else result.path
    return f"program it    {_call(options.board, '--load', str(path))}"


def _next_on_a_board() -> str:
    return (
        "programmed    now: python -m sim.run testbench/programs/k08_fib_recursion.O3.cubin --block 12 "
        "--arg 'buf:OUT=u32[12]' --check --engine board --port /dev/ttyUSB0"
    )


def _next_when_slow(options: Any, result: Bitstream) -> str:
    """Returns the results of each seed and, in a last line, options that help: a slower clock if
    the machine's is missed, or seeds that were not tried.
    """
    reached = ", ".join(
        f"{timing.fmax:.1f} MHz with seed {timing.seed}" for timing in result.timings
    )
    lines = [f"not met       {reached}; {result.wanted:g} MHz are wanted"]
    lines += [
        f"              {name}: {rate:.1f} of {wanted:g} MHz"
        for name, (rate, wanted) in result.slow_clocks(result.best).items()
        if rate != result.best.fmax
    ]
    if options.load:
        lines.append("not loaded    the board is not programmed, as its clock is not met")
    given = _given(options)
    first = max(timing.seed for timing in result.timings) + 1
    clock = [] if options.clock is None else [f"--clock={options.clock}"]
    seeds = _call(
        options.board,
        *given,
        *clock,
        f"--seeds={_numbers(range(first, first + len(_BOARD_SEEDS)))}",
    )
    slower = int(result.best.fmax * (1 - _MARGIN)) * 1_000_000
    choices = (
        [_call(options.board, *given, f"--clock={slower}")]
        if result.best.fmax < result.wanted
        else []
    )
    choices.append(f"{seeds}, which takes the netlist as it is")
    return "\n".join([*lines, f"next          {', or '.join(choices)}"])


def _given(options: Any) -> list[str]:
    """Returns the options of a board that were given, except its clock and its seeds."""
    given = [
        f"--{name}={value}"
        for name in ("memory", "build")
        if (value := getattr(options, name)) is not None
    ]
    if options.preset != BOARDS[options.board].preset:
        given.append(f"--preset={options.preset}")
    if options.video is not None:
        given.append("--video" if options.video else "--no-video")
    return [*given, *(["--load"] if options.load else [])]


def _verilog(options: Any) -> int:
    """Writes the Verilog of the machine or of a unit."""
    params = replace(PRESETS[options.preset], **_parameters(options))
    unit, name = options.unit or "sm", options.name or options.unit or "sm"
    folder = options.build or Path("build", "fpga", f"verilog-{_name(options)}")
    with _claimed(folder):
        component = UNITS[unit](params)
        head = _verilog_head(unit, params, component)
        text = verilog_of(Flat(component), folder, _Progress(unit), name)
    write_file(
        options.verilog,
        "".join(f"// {line}".rstrip() + "\n" for line in head).encode() + text.encode(),
    )
    print(f"verilog       {options.verilog}: module {name}")
    return 0


def _verilog_head(unit: str, params: SmParams, component: Any) -> list[str]:
    """Returns the comment at the head of the file, with the ports."""
    parameters = ", ".join(f"{parameter} {value}" for parameter, value in asdict(params).items())
    return [
        f"Warpstack: {unit}, written by python -m sim.fpga --verilog, with the parameters",
        f"  {parameters}",
        "",
        "Ports: direction, name, bits, what these are. All are synchronous to the rising edge of clk; rst is the",
        "reset, active high.",
        "",
        *port_comments(component),
        "",
    ]


def _run(options: Any) -> int:
    _check(options)
    loads = isinstance(options.load, str)
    if options.board is not None:
        reason = missing_boards(tools=not loads and options.lpf is None)
    elif options.verilog is not None:
        reason = missing_tool("yosys")
    else:
        reason = missing_tool()
    if reason is not None:
        raise CommandError(reason)
    for path in (options.json, options.verilog, options.lpf):
        if path is not None:
            check_file(path)
    action = (
        _build
        if options.board is not None
        else _verilog
        if options.verilog is not None
        else _measure
    )
    try:
        return action(options)
    except ValueError as error:
        raise CommandError(str(error)) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, _run)
