"""Simulates a board: ``python -m sim.board`` simulates one behind a pseudo-terminal, whose name it
prints, to try the commands for boards without one. Ctrl-C ends it.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from rtl.fpga.block_memory import BlockMemory, check_size
from rtl.fpga.video import Video
from rtl.params import PRESETS
from sim.engine import ENGINES, chosen_engine, current_name
from sim.support.command import CommandError, Parser, add_cache_option, print_text

from .stand_in import StandIn


def _serve(options: Namespace) -> None:
    engine = chosen_engine(options, sys.stderr.write)
    try:
        memory = partial(BlockMemory, size=check_size(options.memory))
    except ValueError as error:
        raise CommandError(str(error)) from error
    board = StandIn(PRESETS[options.preset], engine, memory, Video if options.video else None)
    print_text(f"{board.port}\n")
    with suppress(KeyboardInterrupt):
        board.serve()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Parser(
        "sim.board", "Simulates a board behind a pseudo-terminal.", "--preset tiny --video"
    )
    parser.add_argument(
        "--preset", choices=PRESETS, default="small", help="the machine (default: small)"
    )
    parser.add_argument(
        "--memory",
        type=int,
        default=1 << 16,
        metavar="BYTES",
        help="bytes of memory, a power of two (default: 65536)",
    )
    parser.add_argument(
        "--video", action="store_true", help="with video, which shows the picture of a demo"
    )
    parser.add_argument(
        "--engine",
        type=current_name,
        choices=("auto", *ENGINES),
        default="auto",
        help="what simulates the board (default: auto)",
    )
    add_cache_option(parser)
    return parser.run(arguments, _serve)


if __name__ == "__main__":
    sys.exit(main())
