"""Debugs a kernel on the hardware: ``python -m sim.debug PROGRAM ...``.

It works through the host's registers, a trap handler and memory, as a debugger on a host would.
Exit code 0: the user left, or all commands of the batch were carried out. 2: something could not be
done; one line on stderr has the reason.
"""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from sim.board.machine import Board
from sim.debugger.addresses import FunctionAddresses
from sim.debugger.session import DebuggerSession
from sim.debugger.terminal import Batch, Terminal, read_batch
from sim.debugger.watch import Watch
from sim.engine import ENGINES, chosen_engine
from sim.firmware.trap_handler import SaveArea, install_trap_handler
from sim.launch import Launch
from sim.launch_options import (
    LaunchError,
    LaunchOptions,
    add_launch_options,
    check_size,
    prepared,
)
from sim.machine.base import BaseMachine
from sim.machine.hardware import Hardware
from sim.machine.host import HardwareHost
from sim.support.command import Parser, print_text

__all__ = ["main"]

_LIMIT = 1 << 62
"""Practically no limit of cycles."""


@dataclass(frozen=True)
class DebugOptions(LaunchOptions):
    """The options of the command line. ``None``: not given."""

    batch: str | None


def _parser() -> Parser:
    """Returns the parser of the command line."""
    parser = Parser(
        "sim.debug",
        "Debugs a kernel through the registers of the hardware.",
        "testbench/programs/k08_fib_recursion.O3.cubin --block 12 --arg 'buf:OUT=u32[12]'",
    )
    add_launch_options(parser, tuple(ENGINES), "what simulates the hardware")
    parser.add_argument(
        "--batch",
        metavar="FILE",
        help="read the commands from a file, one on each line, # for comments; - is standard input, which "
        "is also read if it is not a terminal",
    )
    return parser


def _session(options: DebugOptions, watch: Watch, board: Board | None) -> DebuggerSession:
    """Returns a session for the launch with its trap handler."""

    def install(launch: Launch) -> SaveArea:
        if not launch.crs:
            raise LaunchError("a debugger needs call/return stacks in memory: --crs 512 or more")
        return (
            install_trap_handler(launch)
            if board is None
            else install_trap_handler(launch, board.params.warps)
        )

    module, area = prepared(options, install, board)
    launch = area.launch
    check_size(launch, options, board)
    return DebuggerSession(area, FunctionAddresses(module.code.symbols, launch.program_size), watch)


def _debug(
    session: DebuggerSession, source: Batch | Terminal, machine: BaseMachine, watch: Watch
) -> None:
    """Runs grids as long as the user starts another one. Ctrl-C stops the machine in an interactive
    session, and ends a batch.
    """

    async def drive(host: HardwareHost) -> None:
        with watch.installed() if isinstance(source, Terminal) else nullcontext():
            await session.begin(host)
            print_text("".join(f"{line}\n" for line in await session.restart()))
            await source.serve(session)

    while not session.leaves:
        machine.run(session.area.launch, _LIMIT, driver=drive)


def _run(options: DebugOptions) -> None:
    watch = Watch()
    batch = None if options.batch is None else read_batch(options.batch)
    board = options.board()
    session = _session(options, watch, board)
    if batch is None and not sys.stdin.isatty():
        batch = read_batch("-")
    machine = board or Hardware(options.params, chosen_engine(options))
    _debug(session, batch or Terminal(session), machine, watch)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, lambda options: _run(DebugOptions(**vars(options))))


if __name__ == "__main__":
    sys.exit(main())
