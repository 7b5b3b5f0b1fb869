"""Runs a kernel and reports the cost of each instruction: ``python -m sim.profile PROGRAM ...``.

Cycles are counted per warp: each cycle of a live warp belongs to one instruction, the one that it
waits to issue, or the one that holds it. Exit code 0: the kernel ended. 1: an error, a trap or the
limit stopped it. 2: it could not be run; one line on stderr has the reason.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from sim.engine import ENGINES, chosen_engine
from sim.launch_options import (
    BOARD,
    LaunchOptions,
    add_launch_options,
    check_size,
    number_from_one,
    prepared,
)
from sim.machine.hardware import Hardware
from sim.machine.profile import Profile
from sim.report.profile import content, page, text
from sim.report.run import head_lines
from sim.runner import engine_text
from sim.support.command import CommandError, Parser, check_file, print_text, write_file
from sim.toolchain.cubin.line_table import source_lines

__all__ = ["main"]

_LIMIT = 10_000_000
_LINES = 20


def _parser() -> Parser:
    parser = Parser(
        "sim.profile",
        "Runs a kernel and reports the cost of each instruction, the most expensive first.",
        "testbench/programs/k08_fib_recursion.O3.cubin --block 12 --arg 'buf:OUT=u32[12]' --html fib.html",
    )
    add_launch_options(parser, tuple(ENGINES), "what simulates the hardware")
    parser.add_argument(
        "--max-cycles",
        metavar="N",
        type=number_from_one,
        default=_LIMIT,
        help=f"give up after N cycles (default: {_LIMIT})",
    )
    parser.add_argument(
        "--lines",
        metavar="N",
        type=number_from_one,
        default=_LINES,
        help=f"how many instructions are printed (default: {_LINES})",
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="write all of it as a page, with the source beside it where the "
        "program is a cubin with line numbers",
    )
    parser.add_argument("--json", metavar="FILE", help="write all of it as JSON")
    return parser


def _sources(program: str, names: set[str]) -> dict[str, list[str]]:
    """Returns the lines of the source files in the program's folder, by name."""
    paths = {name: Path(program).with_name(name) for name in sorted(names)}
    return {
        name: path.read_text(encoding="utf-8", errors="replace").splitlines()
        for name, path in paths.items()
        if path.is_file()
    }


def _work(options: Namespace) -> int:
    if options.engine == BOARD:
        raise CommandError("a profile needs a simulation, which a board is not")
    for path in (options.html, options.json):
        if path is not None:
            check_file(path, options.program)
    fields = {name: getattr(options, name) for name in LaunchOptions.__dataclass_fields__}
    options_of_launch = LaunchOptions(**fields)
    module, launch = prepared(options_of_launch, lambda launch: launch)
    check_size(launch, options_of_launch, None)
    profile = Profile(options_of_launch.params)
    engine = chosen_engine(options)
    hardware = Hardware(options_of_launch.params, engine, watched=profile.watched)
    result = hardware.run(launch, options.max_cycles)
    profile.finish(hardware.cycles, result.cycles)
    head = [
        *head_lines(launch, f"{options_of_launch.machine_name}, {engine_text(engine)}"),
        f"status        {result.status}",
        f"cycles        {result.cycles}",
    ]
    print_text("\n".join(head) + "\n\n" + text(profile, options.lines))
    lines = source_lines(options.program, module)
    if options.json is not None:
        write_file(options.json, (json.dumps(content(profile, lines)) + "\n").encode())
    if options.html is not None:
        title = f"{Path(options.program).name}, preset {options_of_launch.machine_name}"
        sources = _sources(options.program, {file for file, _ in lines.values()})
        write_file(options.html, page(profile, title, lines, sources).encode())
        print_text(f"\nprofile       {options.html}\n")
    return 0 if result.status == "ok" else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, _work)


if __name__ == "__main__":
    sys.exit(main())
