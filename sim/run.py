"""Runs a kernel: ``python -m sim.run PROGRAM ...``.

Exit code 0: the kernel ended. 1: an error, a trap or the limit stopped it. 2: it could not be run; one line on
stderr says why.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tqdm import tqdm

from rtl.params import PRESETS
from sim.arguments import ArgumentError, parse_arguments
from sim.command import OutputError, Parser, print_text, write_file
from sim.launch import Launch, prepare
from sim.model.warp import ErrorStatus, Machine, Result
from sim.programs import SUFFIXES, read_program
from sim.report import describe
from sim.toolchain.module import ProgramError

__all__ = ["Options", "RunError", "main", "results"]

ENGINES = ("auto", "model")
_LIMIT = 10_000_000
_STEP = 10_000
"""Instructions between two moves of the progress bar."""


class RunError(Exception):
    """A run that can't be started: one line that says why."""


@dataclass(frozen=True)
class Options:
    """The command line. ``None``: not given. Sizes in bytes."""

    program: str
    entry: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arg: list[str]
    preset: str
    engine: str
    max_cycles: int
    crs: int | None
    local: int | None
    shared: int
    json: str | None
    vcd: str | None
    check: bool


def _dimensions(text: str) -> tuple[int, int, int]:
    """``X``, ``X,Y`` or ``X,Y,Z``."""
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not X[,Y[,Z]] with numbers from 1 on")
    x, y, z = (*map(int, parts), 1, 1)[:3]
    return x, y, z


def _bytes(text: str) -> int:
    """A size: a number that is not negative."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes")
    return int(text)


def _limit(text: str) -> int:
    """A number from 1 on."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _parser() -> Parser:
    """The command line."""
    parser = Parser(prog="python -m sim.run", description="Runs a kernel and reports what it left in its buffers.")
    parser.add_argument("program", metavar="PROGRAM", help=f"a file: {' '.join(SUFFIXES)}")
    parser.add_argument("--entry", metavar="K", help="the kernel; not needed when there is only one")
    parser.add_argument("--grid", metavar="X[,Y[,Z]]", type=_dimensions, default=(1, 1, 1), help="CTAs (default: 1)")
    parser.add_argument("--block", metavar="X[,Y[,Z]]", type=_dimensions, default=(32, 1, 1),
                        help="threads of a CTA (default: 32)")
    parser.add_argument("--arg", metavar="SPEC", action="append", default=[],
                        help="a parameter, in order: u32:V s32:V u64:V buf:NAME=u32[COUNT] buf:NAME=@FILE")
    parser.add_argument("--preset", choices=PRESETS, default="default", help="the machine (default: default)")
    parser.add_argument("--engine", choices=ENGINES, default="auto", help="what runs it (default: auto)")
    parser.add_argument("--max-cycles", metavar="N", type=_limit, default=_LIMIT,
                        help=f"give up after N cycles (default: {_LIMIT})")
    parser.add_argument("--crs", metavar="BYTES", type=_bytes, help="call/return stack of a warp in memory")
    parser.add_argument("--local", metavar="BYTES", type=_bytes, help="local memory of a thread")
    parser.add_argument("--shared", metavar="BYTES", type=_bytes, default=0, help="dynamic shared memory of a CTA")
    parser.add_argument("--json", metavar="OUT", help="write the results to a file")
    parser.add_argument("--vcd", metavar="FILE", help="write a waveform (not with the engine model)")
    parser.add_argument("--check", action="store_true",
                        help="compare every instruction with the reference machine (not with the engine model)")
    return parser


def _check(options: Options) -> None:
    """Refuses options that the engine can't serve."""
    for flag, given in (("--vcd", options.vcd is not None), ("--check", options.check)):
        if given:
            raise RunError(f"{flag} needs hardware, which the engine model does not have")


def _launch(options: Options) -> Launch:
    """The program of the options, placed in memory."""
    module = read_program(options.program)
    launch = prepare(module, parse_arguments(options.arg), entry=options.entry, grid=options.grid,
                     block=options.block, local=options.local, crs=options.crs, dynamic_shared=options.shared)
    slots = PRESETS[options.preset].warps
    if launch.warps > slots:
        fitting = [name for name, params in PRESETS.items() if params.warps >= launch.warps]
        hint = f"; preset {fitting[0]} has enough" if fitting else ""
        raise RunError(f"a block of {launch.threads} threads needs {launch.warps} warps, preset {options.preset} has "
                       f"{slots}{hint}")
    return launch


def _run(machine: Machine, limit: int) -> Result:
    """Runs to the end or the limit, with a progress bar on a terminal."""
    with tqdm(unit=" instructions", disable=None, leave=False) as bar:
        while True:
            before = machine.instructions
            result = machine.run(min(_STEP, limit - before))
            bar.update(machine.instructions - before)
            if result.status != "timeout" or machine.instructions in (before, limit):
                return result


def _error_status(status: ErrorStatus | None, events: Sequence[str]) -> dict[str, object]:
    """The error status as it is written to a file; empty when there is none."""
    decoded: dict[str, object] = {}
    if status is not None:
        decoded |= {"error": status.error.name, "code": status.error.value, "warp": status.warp, "pc": status.pc}
        if status.trap_reasons:
            decoded["trap_reasons"] = list(status.trap_reasons)
    if events:
        decoded["global"] = sorted(events)
    return decoded


def _words(content: bytes) -> list[int]:
    """A buffer as 32-bit numbers, the last one filled up with zeros."""
    content += bytes(-len(content) % 4)
    return [int.from_bytes(content[at:at + 4], "little") for at in range(0, len(content), 4)]


def results(machine: Machine, result: Result) -> dict[str, object]:
    """What ``--json`` writes."""
    buffers = {name: _words(machine.memory.read(base, size)) for name, (base, size) in machine.launch.buffers.items()}
    return {"status": result.status, "cycles": result.instructions, "instructions": result.instructions,
            "buffers": buffers, "esr": _error_status(result.error_status, sorted(machine.raised))}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    parser = _parser()
    options = Options(**vars(parser.parse_args(arguments)))
    try:
        _check(options)
        machine = Machine(_launch(options), warps=PRESETS[options.preset].warps)
        if options.engine == "auto":
            print_text("engine: model, the reference machine; cycles count instructions\n")
        result = _run(machine, options.max_cycles)
        print_text(f"{describe(machine, result)}\n")
        if options.json is not None:
            write_file(options.json, f"{json.dumps(results(machine, result))}\n".encode())
    except (RunError, ArgumentError, OutputError, ProgramError) as error:
        parser.error(str(error))
    return 0 if result.status == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
