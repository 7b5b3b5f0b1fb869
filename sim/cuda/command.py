"""The command ``python -m sim.cuda``: a server, a program that uses it, and what its launches came to.

Exit code: that of the program, or 1 where a launch failed and the program ended with 0. 2: it could not be run.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tqdm import tqdm

from rtl.params import PRESETS
from sim.command import CommandError, Parser, add_cache_option
from sim.cuda.device import Device, LaunchRecord
from sim.cuda.server import Server
from sim.cuda.setup import check_setup, environment
from sim.engine import ENGINES, chosen_engine
from sim.launch_options import number_from_one
from sim.runner import HardwareRunner, ModelRunner, Runner

__all__ = ["main"]

_MODEL = "model"
_PRESET = "programs"
_LIMIT = 1_000_000_000
_MEMORY_MIB = 4096
_GRACE_SECONDS = 5
"""What a program gets to end in after Ctrl-C, before it is ended."""


@dataclass(frozen=True)
class Options:
    """The command line."""

    engine: str
    preset: str
    check: bool
    max_cycles: int
    memory: int
    shell: bool
    check_setup: bool
    cached: bool
    command: list[str]


def _parser() -> Parser:
    parser = Parser("sim.cuda", "Runs a CUDA program: all its kernels run on this machine.",
                    "--engine model -- python docs/examples/numba_add.py")
    parser.add_argument("--engine", choices=("auto", *ENGINES, _MODEL), default="auto",
                        help="what runs kernels: the hardware in simulation, or the warp model (default: auto)")
    parser.add_argument("--preset", choices=tuple(PRESETS), default=_PRESET,
                        help=f"the machine's size (default: {_PRESET}, which takes blocks of 1,024 threads)")
    parser.add_argument("--check", action="store_true",
                        help="compare every instruction with the warp model (not with the engine model)")
    parser.add_argument("--max-cycles", metavar="N", type=number_from_one, default=_LIMIT,
                        help=f"give a launch up after N cycles (default: {_LIMIT})")
    parser.add_argument("--memory", metavar="MIB", type=number_from_one, default=_MEMORY_MIB,
                        help=f"device memory (default: {_MEMORY_MIB}); what nobody writes takes no room")
    parser.add_argument("--shell", action="store_true", help="serve until Ctrl-C, and print the environment to use")
    parser.add_argument("--check-setup", action="store_true", help="say what is installed, and what is missing")
    add_cache_option(parser)
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="the program and its arguments, behind --")
    return parser


def _runner(options: Options) -> Runner:
    params = PRESETS[options.preset]
    if options.engine == _MODEL:
        if options.check:
            raise CommandError("--check needs hardware, which the engine model does not have")
        return ModelRunner(params)
    return HardwareRunner(params, chosen_engine(options), check=options.check)


def _shape(sizes: tuple[int, int, int]) -> str:
    """Three sizes without the last ones that are 1."""
    shown = list(sizes)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return ",".join(map(str, shown))


_LONGEST_NAME = 40


def readable(name: str) -> str:
    """The name of a kernel for people: of a mangled one the names that it is nested in, joined by dots."""
    if match := re.match(r"_ZN?(?=[0-9])", name):
        parts, at = [], match.end()
        while number := re.match(r"[0-9]+", name[at:]):
            start = at + number.end()
            at = start + int(number[0])
            parts.append(re.sub(r"_(2[0-9a-f]|3[a-f]|5b|5d)", lambda found: chr(int(found[1], 16)), name[start:at]))
        name = ".".join(part for part in parts if part not in ("cudapy", "<locals>"))
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME - 1]}…"


def table(launches: Sequence[LaunchRecord]) -> list[str]:
    """Launches as a table: one line each."""
    rows = [("launch", "kernel", "grid", "block", "cycles", "instructions", "cycles/instr", "seconds", "status")]
    for number, one in enumerate(launches, 1):
        outcome = one.outcome
        each = f"{outcome.cycles / outcome.instructions:.2f}" if outcome.instructions else "-"
        rows.append((str(number), readable(one.kernel), _shape(one.grid), _shape(one.block), f"{outcome.cycles:,}",
                     f"{outcome.instructions:,}", each, f"{one.seconds:.3f}", outcome.status))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = {1, 8}
    return ["  ".join(cell.ljust(width) if column in left else cell.rjust(width)
                      for column, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip() for row in rows]


def _run(options: Options, server: Server) -> int:
    """Runs the program to its end; returns its exit code. A signal that ends this process ends the program, too."""
    found = shutil.which(options.command[0])
    if found is None:
        raise CommandError(f"{options.command[0]}: no such program")
    variables = environment(server.name, options.command)
    program = subprocess.Popen([found, *options.command[1:]], env=os.environ | variables)
    try:
        code = program.wait()
    except BaseException:
        # Ctrl-C reaches the program by the terminal; it may want to say something.
        try:
            program.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
        raise
    return 128 - code if code < 0 else code


def _serve(options: Options, server: Server) -> int:
    """Prints the environment and serves until a signal."""
    for name, value in environment(server.name, []).items():
        print(f"export {name}={shlex.quote(value)}", flush=True)
    signal.pause()
    return 0


def _print_setup() -> int:
    lines = check_setup()
    for line in lines:
        print(f"{'there  ' if line.there else 'missing'}  {line.what}" + ("" if line.there else f": {line.install}"))
    return 0


def _work(options: Options) -> int:
    if options.check_setup:
        return _print_setup()
    if not options.command and not options.shell:
        raise CommandError("no program: a command follows --")
    with tqdm(unit=" cycles", unit_scale=True, disable=None, leave=False, delay=1) as bar:
        def progress(launch: int, cycles: int) -> None:
            bar.set_description_str(f"launch {launch}", refresh=False)
            bar.update(cycles)

        device = Device(_runner(options), options.memory << 20, options.max_cycles, progress)
        server = Server(device)
        try:
            code = _serve(options, server) if options.shell else _run(options, server)
        finally:
            server.close()
    if device.launches:
        print("\n".join(table(device.launches)), file=sys.stderr)
    failed = any(one.outcome.status != "ok" for one in device.launches)
    return code or int(failed)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, lambda options: _work(Options(**vars(options))))
