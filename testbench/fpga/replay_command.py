"""What the commands have in common that play a kernel's run on another form of the machine."""

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from rtl.params import PRESETS
from sim.engine import choose
from sim.launch_options import number_from_one
from sim.support.command import CommandError, Parser, claim_folder, print_text
from testbench.fpga.replay import Recording, ReplayError, record, recursion

__all__ = ["Check", "run_replay_command"]

Check = Callable[[Namespace, Recording, Path, Callable[[str], None]], None]
"""Plays the recording and prints the result, given the options, the tools' folder and what reports progress.
ReplayError with the first difference, or when a tool fails."""


def run_replay_command(
    arguments: Sequence[str] | None,
    parser: Parser,
    folder: str,
    missing: Callable[[], str | None],
    check: Check,
) -> int:
    """Adds the options that all of them have (the preset, the kernel's threads, the tools' folder), records a run and
    has it checked. Returns the exit code.

    ``folder``: how the name of the tools' folder begins; the preset's follows. ``missing``: why the check cannot be
    done here, in one line, or None.
    """
    parser.add_argument(
        "--preset", choices=PRESETS, default="tiny", help="the machine (default: tiny)"
    )
    parser.add_argument(
        "--threads",
        type=number_from_one,
        default=6,
        metavar="N",
        help="of the kernel, which computes Fibonacci numbers by recursion (default: 6)",
    )
    parser.add_argument(
        "--build", type=Path, metavar="DIR", help=f"the tools' files; default build/{folder}-PRESET"
    )
    start = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - start:4.0f} s  {what}", file=sys.stderr, flush=True)

    def body(options: Namespace) -> int:
        if (reason := missing()) is not None:
            raise CommandError(reason)
        try:
            build = options.build or Path("build", f"{folder}-{options.preset}")
            claim_folder(build, ".warpstack-replay")
            say("a run to record")
            recording = record(PRESETS[options.preset], choose()[0], recursion(options.threads))
            check(
                options,
                recording,
                build,
                say,
            )
        except ReplayError as error:
            print_text(f"{error}\n")
            return 1
        return 0

    return parser.run(arguments, body)
