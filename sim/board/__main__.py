"""A board that is not there: ``python -m sim.board`` simulates one behind a pseudo-terminal, whose name it prints, for
whoever wants to try what runs kernels on boards. Ctrl-C ends it.
"""

import sys
from collections.abc import Sequence
from functools import partial

from rtl.fpga.block_memory import BlockMemory, check_size
from rtl.fpga.video import Video
from rtl.params import PRESETS
from sim.command import Parser, add_cache_option, print_text
from sim.engine import ENGINES, EngineError, choose, current_name

from .stand_in import StandIn


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Parser(prog="python -m sim.board", description="Simulates a board behind a pseudo-terminal.")
    parser.add_argument("--preset", choices=PRESETS, default="small", help="the machine (default: small)")
    parser.add_argument("--memory", type=int, default=1 << 16, metavar="BYTES", help="a power of two (default: 65536)")
    parser.add_argument("--video", action="store_true", help="with video, whose framebuffer demos use")
    parser.add_argument("--engine", type=current_name, choices=("auto", *ENGINES), default="auto")
    add_cache_option(parser)
    options = parser.parse_args(arguments)
    try:
        engine, advice = choose(options.engine, cached=options.cached)
        if advice is not None:
            print(advice, file=sys.stderr)
        board = StandIn(PRESETS[options.preset], engine, partial(BlockMemory, size=check_size(options.memory)),
                        Video if options.video else None)
    except (EngineError, ValueError) as error:
        parser.error(str(error))
    print_text(f"{board.port}\n")
    try:
        board.serve()
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
