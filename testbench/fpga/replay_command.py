"""Common parts of commands that replay a kernel's run on another form of the machine."""

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
"""Replays the recording and prints the result, given the options, the tools' folder and a function
for progress.

Raises ReplayError with the first difference, or if a tool fails.
"""


def run_replay_command(
    arguments: Sequence[str] | None,
    parser: Parser,
    folder: str,
    missing: Callable[[], str | None],
    check: Check,
) -> int:
    """Adds the common options (preset, number of threads, tools' folder), records a run and checks
    it. Returns the exit code.

    ``folder`` is the start of the tools' folder's name; the preset's name follows. ``missing``
    returns why the check is not possible here, in one line, or None.
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
