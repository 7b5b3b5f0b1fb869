"""Options that the commands which launch a kernel share, and the launch that they describe."""

import argparse
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rtl.params import PRESETS, SmParams
from sim.board.errors import BoardError
from sim.board.link import BAUD, Link, open_port
from sim.board.machine import Board
from sim.board.placing import fit, share
from sim.engine import chosen_engine, current_name
from sim.launch import Launch, lacking, prepare
from sim.launch.arguments import ARGUMENT_FORMS, parse_arguments
from sim.launch.instructions import check_instructions
from sim.launch.memory import Memory
from sim.launch.parameters import ArgumentCountError
from sim.launch.programs import SUFFIXES, read_program
from sim.launch.runtime import HEAP_DEFAULT, OUTPUT_DEFAULT
from sim.runner import BoardRunner, HardwareRunner, ModelRunner, Runner
from sim.support.activity import activity
from sim.support.command import CommandError, Parser, add_cache_option
from sim.toolchain.module import Module, ProgramError
from sim.toolchain.runtime.supply import supplied

__all__ = [
    "BOARD",
    "DEFAULT_PRESET",
    "MODEL",
    "LaunchError",
    "LaunchOptions",
    "add_board_options",
    "add_launch_options",
    "check_size",
    "chosen_runner",
    "number_from_one",
    "open_board",
    "prepared",
    "preset_hint",
]


DEFAULT_PRESET = "default"
"""The preset that is simulated by default."""
MODEL = "model"
"""Selects the warp model in place of an engine."""
BOARD = "board"
"""Selects a board at a serial port in place of an engine."""
_EXAMPLES = "--arg buf:out=u32[12] passes a buffer, --arg u32:12 a number"
"""For who has passed no argument."""
PARAMETERS = ("warps", "lanes")
"""Parameters of SmParams that an option can override."""
T = TypeVar("T", bound=Any)


class LaunchError(CommandError):
    """A launch for which the machine has no room. The message is one line with the reason."""


@dataclass(frozen=True)
class LaunchOptions:
    """The options that select the program and the machine. ``None``: not given. Sizes are in bytes."""

    program: str
    entry: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arg: list[str]
    preset: str
    warps: int | None
    lanes: int | None
    engine: str
    cached: bool
    crs: int | None
    local: int | None
    shared: int
    output: int | None
    heap: int | None
    port: str | None
    baud: int

    @property
    def changed(self) -> dict[str, int]:
        """The parameters of the machine that differ from the preset's."""
        return {name: value for name in PARAMETERS if (value := getattr(self, name)) is not None}

    @property
    def params(self) -> SmParams:
        """The parameters of the simulated machine; CommandError if they are invalid."""
        try:
            return replace(PRESETS[self.preset], **self.changed)
        except ValueError as error:
            raise CommandError(f"preset {self.preset} with {self._changes}: {error}") from None

    @property
    def machine_name(self) -> str:
        """The simulated machine, for messages and titles: ``default``, ``default with 16 warps``."""
        return f"{self.preset} with {self._changes}" if self.changed else self.preset

    @property
    def _changes(self) -> str:
        """Returns the changed parameters as text: ``16 warps, 4 lanes``."""
        return ", ".join(
            f"{value} {name if value != 1 else name.removesuffix('s')}"
            for name, value in self.changed.items()
        )

    def board(self) -> Board | None:
        """Returns the board, if the engine is ``board``; see :func:`open_board`."""
        if self.engine == BOARD and self.changed:
            raise CommandError(
                f"--{next(iter(self.changed))}: a board has the machine that it was built with"
            )
        return open_board(self.engine, self.port, self.baud, self.preset)


def _dimensions(text: str) -> tuple[int, int, int]:
    """Parses ``X``, ``X,Y`` or ``X,Y,Z``."""
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(
        part.isascii() and part.isdigit() and int(part) for part in parts
    ):
        raise argparse.ArgumentTypeError(f"{text!r} is not X[,Y[,Z]] with numbers from 1 on")
    x, y, z = (*map(int, parts), 1, 1)[:3]
    return x, y, z


def _bytes(text: str) -> int:
    """Parses a size, a number >= 0."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes")
    return int(text)


def number_from_one(text: str) -> int:
    """Parses a number >= 1."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def add_launch_options(parser: Parser, engines: tuple[str, ...], engine_help: str) -> None:
    """Adds the options of LaunchOptions to a parser."""
    parser.add_argument("program", metavar="PROGRAM", help=f"a file: {' '.join(SUFFIXES)}")
    parser.add_argument(
        "--entry", metavar="K", help="the kernel; not needed when there is only one"
    )
    parser.add_argument(
        "--grid",
        metavar="X[,Y[,Z]]",
        type=_dimensions,
        default=(1, 1, 1),
        help="number of CTAs (default: 1)",
    )
    parser.add_argument(
        "--block",
        metavar="X[,Y[,Z]]",
        type=_dimensions,
        default=(32, 1, 1),
        help="number of threads of a CTA (default: 32)",
    )
    parser.add_argument(
        "--arg",
        metavar="SPEC",
        action="append",
        default=[],
        help=f"a parameter, in order: {ARGUMENT_FORMS}",
    )
    parser.add_argument(
        "--preset",
        choices=PRESETS,
        default=DEFAULT_PRESET,
        help=f"the machine (default: {DEFAULT_PRESET}; of a board: what it has)",
    )
    parser.add_argument(
        "--warps",
        metavar="N",
        type=number_from_one,
        help="number of warps, instead of the preset's",
    )
    parser.add_argument(
        "--lanes",
        metavar="N",
        type=number_from_one,
        help="number of lanes, instead of the preset's",
    )
    parser.add_argument(
        "--engine",
        type=current_name,
        choices=("auto", *engines, BOARD),
        default="auto",
        help=f"{engine_help}; board: a board at a serial port (default: auto)",
    )
    add_cache_option(parser)
    add_board_options(parser)
    parser.add_argument(
        "--crs", metavar="BYTES", type=_bytes, help="size of a warp's call/return stack in memory"
    )
    parser.add_argument(
        "--local", metavar="BYTES", type=_bytes, help="size of a thread's local memory"
    )
    parser.add_argument(
        "--shared",
        metavar="BYTES",
        type=_bytes,
        default=0,
        help="size of a CTA's dynamic shared memory",
    )
    parser.add_argument(
        "--output",
        metavar="BYTES",
        type=_bytes,
        help=f"size of the buffer for printf (default: {OUTPUT_DEFAULT})",
    )
    parser.add_argument(
        "--heap",
        metavar="BYTES",
        type=_bytes,
        help=f"size of the heap for malloc (default: {HEAP_DEFAULT})",
    )


def add_board_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for a board's port to a parser."""
    parser.add_argument(
        "--port", metavar="DEVICE", help="the board's serial port, such as /dev/ttyUSB0"
    )
    parser.add_argument(
        "--baud",
        metavar="N",
        type=number_from_one,
        default=BAUD,
        help=f"speed of the port in bits a second (default: {BAUD})",
    )


def open_board(engine: str, port: str | None, baud: int, preset: str) -> Board | None:
    """Returns the board at a port, if the engine is ``board``.

    Raises BoardError if there is none, or if its machine differs from the requested preset.
    """
    if (engine == BOARD) != (port is not None):
        raise BoardError(
            "--engine board needs --port" if port is None else "--port needs --engine board"
        )
    if port is None:
        return None
    board = Board(Link(open_port(port, baud), port), port)
    if preset not in (DEFAULT_PRESET, board.preset):
        raise BoardError(f"port {port}: the board has preset {board.preset}, not {preset}")
    return board


def chosen_runner(
    options: Any, preset: str | None, default: str, *, results: Container[str] | None = None
) -> Runner:
    """Returns the runner of launches that the options select.

    Args:
        options: The options engine, port, baud, check and the cache's.
        preset: The preset of the machine, None if none is requested.
        default: The preset then.
        results: As in :class:`~sim.runner.BoardRunner`.
    """
    if options.engine == MODEL and options.check:
        raise CommandError("--check needs hardware, which the engine model does not have")
    board = open_board(options.engine, options.port, options.baud, preset or DEFAULT_PRESET)
    if board is not None:
        return BoardRunner(board, check=options.check, results=None if options.check else results)
    params = PRESETS[preset or default]
    if options.engine == MODEL:
        return ModelRunner(params)
    return HardwareRunner(params, chosen_engine(options), check=options.check)


def prepared(
    options: LaunchOptions, finish: Callable[[Launch], T], board: Board | None = None
) -> tuple[Module, T]:
    """Returns the program of the options, and the result of ``finish`` for its launch: a launch, or
    an object with an attribute ``launch``.

    Raises BoardError if the launch does not fit into the board's memory.
    """
    with activity(f"reading {options.program}"):
        module = supplied(read_program(options.program))
    name, params = machine_of(options, board)
    output, heap = (
        size if board is None or size is not None else share(default, board.size)
        for size, default in ((options.output, OUTPUT_DEFAULT), (options.heap, HEAP_DEFAULT))
    )
    check_instructions(module, module.kernel(options.entry), name, params)

    def place(local: int | None, crs: int | None, memory: Memory) -> tuple[Launch, T]:
        try:
            launch = prepare(
                module,
                parse_arguments(options.arg),
                entry=options.entry,
                grid=options.grid,
                block=options.block,
                local=local,
                crs=crs,
                dynamic_shared=options.shared,
                memory=memory,
                output=output,
                heap=heap,
            )
        except ArgumentCountError as error:
            if options.arg:
                raise
            raise ProgramError(f"{error}; {_EXAMPLES}") from error
        made = finish(replace(launch, floats=params.floats, doubles=params.doubles))
        placed: Launch = made if isinstance(made, Launch) else made.launch
        return placed, made  # pyright: ignore[reportReturnType]

    if board is None:
        return module, place(options.local, options.crs, Memory())[1]
    return module, fit(place, board.size, board.params.warps, options.local, options.crs)


def machine_of(options: LaunchOptions, board: Board | None) -> tuple[str, SmParams]:
    """Returns the name and the parameters of a board's machine, or of the simulated one."""
    return (options.machine_name, options.params) if board is None else (board.preset, board.params)


def check_size(launch: Launch, options: LaunchOptions, board: Board | None) -> None:
    """Raises LaunchError if the launch does not fit on the machine of the options, or the board's."""
    name, params = machine_of(options, board)
    if (why := lacking(launch, params)) is not None:
        # No hint for a board: its preset is chosen when it is built, and the hint could be one that fits no board.
        hint = preset_hint(lambda params: lacking(launch, params) is None) if board is None else ""
        raise LaunchError(f"{why[0]}, preset {name} has {why[1]}{hint}")


def preset_hint(fits: Callable[[SmParams], bool]) -> str:
    """Returns a hint with a preset that is large enough: the default one if it is, empty if none
    is.
    """
    presets = {DEFAULT_PRESET: PRESETS[DEFAULT_PRESET], **PRESETS}
    return next(
        (f"; preset {name} has enough" for name, params in presets.items() if fits(params)), ""
    )
