"""What the commands that launch a kernel share: its options, and the launch that they ask for."""

import argparse
from dataclasses import dataclass

from rtl.isa.errors import WarpError
from rtl.isa.legality import encoding_error, refusal_of
from rtl.isa.syntax import RZ
from rtl.isa.table import find
from rtl.params import PRESETS
from sim.arguments import parse_arguments
from sim.command import Parser, add_cache_option
from sim.engine import current_name
from sim.launch import Launch, lacking, prepare
from sim.programs import SUFFIXES, read_program
from sim.toolchain.module import Module, ProgramError
from sim.toolchain.reach import reached
from sim.toolchain.spelling import ILLEGAL, spell

__all__ = ["LaunchError", "LaunchOptions", "add_launch_options", "check_size", "number_from_one", "prepared"]



class LaunchError(Exception):
    """A launch that the machine has no room for: one line that says why."""


@dataclass(frozen=True)
class LaunchOptions:
    """The part of a command line that says what runs on what. ``None``: not given. Sizes in bytes."""

    program: str
    entry: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arg: list[str]
    preset: str
    engine: str
    cached: bool
    crs: int | None
    local: int | None
    shared: int


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


def number_from_one(text: str) -> int:
    """A number from 1 on."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def add_launch_options(parser: Parser, engines: tuple[str, ...], engine_help: str) -> None:
    """Adds what LaunchOptions has to a command line."""
    parser.add_argument("program", metavar="PROGRAM", help=f"a file: {' '.join(SUFFIXES)}")
    parser.add_argument("--entry", metavar="K", help="the kernel; not needed when there is only one")
    parser.add_argument("--grid", metavar="X[,Y[,Z]]", type=_dimensions, default=(1, 1, 1), help="CTAs (default: 1)")
    parser.add_argument("--block", metavar="X[,Y[,Z]]", type=_dimensions, default=(32, 1, 1),
                        help="threads of a CTA (default: 32)")
    parser.add_argument("--arg", metavar="SPEC", action="append", default=[],
                        help="a parameter, in order: u32:V s32:V u64:V buf:NAME=u32[COUNT] buf:NAME=@FILE")
    parser.add_argument("--preset", choices=PRESETS, default="default", help="the machine (default: default)")
    parser.add_argument("--engine", type=current_name, choices=("auto", *engines), default="auto",
                        help=f"{engine_help} (default: auto)")
    add_cache_option(parser)
    parser.add_argument("--crs", metavar="BYTES", type=_bytes, help="call/return stack of a warp in memory")
    parser.add_argument("--local", metavar="BYTES", type=_bytes, help="local memory of a thread")
    parser.add_argument("--shared", metavar="BYTES", type=_bytes, default=0, help="dynamic shared memory of a CTA")


def _check_instructions(module: Module, entry: str | None) -> None:
    """Refuses a kernel that may come to what is no instruction of this machine: ProgramError."""
    for pc, word in reached(module, module.kernel(entry)):
        if encoding_error(word, RZ) is WarpError.ILLEGAL_INSTR_ENCODING:
            name = max((place, name) for name, place in module.code.symbols.items() if place <= pc)[1]
            raise ProgramError(f"{module.name}: {name}, {pc:#06x}: this machine has no instruction {_named(word, pc)}")


def _named(word: int, pc: int) -> str:
    """A word that is refused, with its text and the reason as far as there are any."""
    form, text = find(word), spell(word, pc)
    why = None if form is None else refusal_of(form, form.values(word))
    return f"{word:016x}" + ("" if text == ILLEGAL else f" {text}") + ("" if why is None else f": {why.why}")


def prepared(options: LaunchOptions) -> tuple[Module, Launch]:
    """The program of the options, and the same placed in memory."""
    module = read_program(options.program)
    _check_instructions(module, options.entry)
    return module, prepare(
        module, parse_arguments(options.arg), entry=options.entry, grid=options.grid, block=options.block,
        local=options.local, crs=options.crs, dynamic_shared=options.shared)


def check_size(launch: Launch, preset: str) -> None:
    """Refuses what the machine is too small for: LaunchError."""
    if (why := lacking(launch, PRESETS[preset])) is not None:
        fitting = [name for name, params in PRESETS.items() if lacking(launch, params) is None]
        raise LaunchError(f"{why[0]}, preset {preset} has {why[1]}"
                          + (f"; preset {fitting[0]} has enough" if fitting else ""))
