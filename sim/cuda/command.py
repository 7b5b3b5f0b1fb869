"""Runs a CUDA program: ``python -m sim.cuda -- PROGRAM``: a server, a program that uses it, and the
outcomes of its launches.

Exit code: the program's, or 1 where a launch failed and the program ended with 0. 2: it could not
be run.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields

from tqdm import tqdm

from rtl.params import PRESETS
from sim.cuda.compilers import Compiler, OwnCompiler, Ptxas
from sim.cuda.device import Device
from sim.cuda.recording import Files, Recording
from sim.cuda.report import content, table
from sim.cuda.server import Server
from sim.cuda.setup import check_setup, environment, find_ptxas
from sim.engine import ENGINES, chosen_engine, current_name
from sim.launch_options import BOARD, MODEL, add_board_options, chosen_runner, number_from_one
from sim.runner import BoardRunner, HardwareRunner, Runner
from sim.support.command import CommandError, Parser, add_cache_option, check_file, write_file
from sim.support.interrupt import interrupted, stop_threads
from sim.toolchain.cuda import INSTALL

__all__ = ["main"]

_PRESET = "programs"
_LIMIT = 1_000_000_000
_MEMORY_MIB = 4096
_GRACE_SECONDS = 5
"""Seconds that a program has to end after Ctrl-C before it is terminated."""


@dataclass(frozen=True)
class CudaOptions:
    """The options of the command line."""

    engine: str
    preset: str | None
    check: bool
    max_cycles: int
    memory: int | None
    port: str | None
    baud: int
    ptxas: bool
    launch: int | None
    vcd: str | None
    fst: str | None
    timeline: str | None
    profile: str | None
    report: str | None
    shell: bool
    check_setup: bool
    cached: bool
    command: list[str]

    @property
    def files(self) -> Files:
        """Returns the files of a recording."""
        return Files(**{field.name: getattr(self, field.name) for field in fields(Files)})


def _parser() -> Parser:
    parser = Parser(
        "sim.cuda",
        "Runs a CUDA program: all its kernels run on this machine.",
        "--engine model -- python docs/examples/numba_add.py",
    )
    parser.add_argument(
        "--engine",
        choices=("auto", *ENGINES, MODEL, BOARD),
        type=current_name,
        default="auto",
        help="what runs kernels: the hardware in simulation, the warp model, or a board at a serial "
        "port (default: auto)",
    )
    add_board_options(parser)
    parser.add_argument(
        "--preset",
        choices=tuple(PRESETS),
        help=f"the machine's size (default: {_PRESET}, which takes blocks of 1,024 threads; of a "
        "board: what it has)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare every instruction with the warp model, on a board memory at the end of each "
        "launch (not with the engine model)",
    )
    parser.add_argument(
        "--max-cycles",
        metavar="N",
        type=number_from_one,
        default=_LIMIT,
        help=f"give a launch up after N cycles (default: {_LIMIT})",
    )
    parser.add_argument(
        "--memory",
        metavar="MIB",
        type=number_from_one,
        help=f"device memory (default: {_MEMORY_MIB}; of a board: what it has); the host allocates "
        "only what is written",
    )
    parser.add_argument(
        "--ptxas",
        action="store_true",
        help="compile PTX with NVIDIA's ptxas, if it is installed",
    )
    parser.add_argument(
        "--launch",
        metavar="N",
        type=number_from_one,
        help="record launch N, the number in the table that is printed at the end (not with the engine "
        "model)",
    )
    waveform = parser.add_mutually_exclusive_group()
    waveform.add_argument("--vcd", metavar="FILE", help="write its waveform")
    waveform.add_argument(
        "--fst", metavar="FILE.fst", help="write it as FST; needs vcd2fst, which comes with GTKWave"
    )
    parser.add_argument(
        "--timeline",
        metavar="FILE",
        help="write what its warps did in every cycle, as a page of HTML",
    )
    parser.add_argument(
        "--profile",
        metavar="FILE",
        help="write what each of its instructions cost, as a page of HTML",
    )
    parser.add_argument("--report", metavar="FILE", help="write all launches to a file, as JSON")
    parser.add_argument(
        "--shell", action="store_true", help="serve until Ctrl-C, and print the environment to use"
    )
    parser.add_argument(
        "--check-setup", action="store_true", help="say what is installed, and what is missing"
    )
    add_cache_option(parser)
    parser.add_argument(
        "command", nargs="*", metavar="COMMAND", help="the program and its arguments, behind --"
    )
    return parser


def _compiler(options: CudaOptions) -> Compiler:
    """Returns the compiler of PTX; CommandError if it is not installed."""
    if not options.ptxas:
        return OwnCompiler()
    found = find_ptxas(options.command)
    if found is None:
        raise CommandError(
            "--ptxas: no ptxas that knows sm_50 is installed (CUDA 13 cannot compile for it): "
            f"{INSTALL}"
        )
    return Ptxas(found)


def _recording(options: CudaOptions) -> Recording | None:
    """Returns the requested recording, None without one; CommandError if it is not possible."""
    files = options.files
    if options.launch is None and not files.requested:
        return None
    flag = next(iter(files.requested), "launch")
    if options.engine == BOARD:
        raise CommandError(f"--{flag} needs a simulation, which a board is not")
    if options.engine == MODEL:
        raise CommandError(f"--{flag} needs hardware, which the engine model does not have")
    if options.launch is None:
        raise CommandError(
            f"--{next(iter(files.requested))} needs --launch N: which launch is recorded"
        )
    if not files.requested:
        raise CommandError(
            "--launch needs --vcd, --fst, --timeline or --profile: what is recorded, and where it goes"
        )
    files.check()
    preset = options.preset or _PRESET
    params, engine = PRESETS[preset], chosen_engine(options)
    return Recording(
        options.launch,
        files,
        params,
        lambda **how: HardwareRunner(params, engine, check=options.check, **how),
        f"preset {preset}",
    )


def _program(options: CudaOptions) -> list[str]:
    """Returns the program's path and its arguments, empty with ``--shell``; CommandError if it does
    not exist.
    """
    if options.shell:
        return []
    found = shutil.which(options.command[0])
    if found is None:
        raise CommandError(f"{options.command[0]}: no such program")
    return [found, *options.command[1:]]


def _run(command: list[str], options: CudaOptions, server: Server) -> int:
    """Runs the program to its end; returns its exit code. A signal that ends this process ends the
    program, too.
    """
    variables = environment(server.name, options.command)
    program = subprocess.Popen(command, env=os.environ | variables)
    try:
        code = program.wait()
    except BaseException as error:
        # The terminal sends Ctrl-C to the program, too; it may still print after its launch has
        # ended.
        if isinstance(error, KeyboardInterrupt):
            server.device.stop(interrupted(error).number)
        try:
            program.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
        raise
    return 128 - code if code < 0 else code


def _serve(options: CudaOptions, server: Server) -> int:
    """Prints the environment and serves until a signal."""
    for name, value in environment(server.name, []).items():
        print(f"export {name}={shlex.quote(value)}", flush=True)
    signal.pause()
    return 0


def _programs(program: list[str], options: CudaOptions, server: Server) -> int:
    """Runs the program or, with ``--shell``, serves until a signal; closes the server; returns the exit code."""
    try:
        return _serve(options, server) if options.shell else _run(program, options, server)
    except KeyboardInterrupt as request:
        server.device.stop(interrupted(request).number)
        raise
    finally:
        server.close()
        stop_threads(0)


def _print_setup() -> int:
    lines = check_setup()
    for line in lines:
        print(
            f"{'there  ' if line.is_installed else 'missing'}  {line.component}"
            + ("" if line.is_installed else f": {line.install}")
        )
    return 0


def _work(options: CudaOptions) -> int:
    if options.check_setup:
        return _print_setup()
    if not options.command and not options.shell:
        raise CommandError("the program is missing: it stands behind --, with its arguments")
    if options.report is not None:
        check_file(options.report)
    if options.engine == BOARD and options.memory is not None:
        raise CommandError("--memory needs a simulation, which a board is not")
    program = _program(options)
    recording, compiler = _recording(options), _compiler(options)
    runner = chosen_runner(options, options.preset, _PRESET)
    with tqdm(unit=" cycles", unit_scale=True, disable=None, leave=False, delay=1) as bar:

        def progress(launch: int, cycles: int) -> None:
            bar.set_description_str(f"launch {launch}", refresh=False)
            bar.update(cycles)

        device = Device(
            runner, (options.memory or _MEMORY_MIB) << 20, options.max_cycles, progress, recording
        )
        try:
            code = _programs(program, options, Server(device, compiler))
        except KeyboardInterrupt as request:
            bar.close()
            _tell(options, device, runner, recording, interrupted(request).code)
            raise
    return _tell(options, device, runner, recording, code)


def _tell(
    options: CudaOptions, device: Device, runner: Runner, recording: Recording | None, code: int
) -> int:
    """Prints and writes the outcomes of the launches; returns the exit code, derived from the
    program's and theirs.
    """
    lines = []
    is_board = isinstance(runner, BoardRunner)
    preset = runner.board.preset if is_board else options.preset or _PRESET
    if device.launches:
        lines = [f"machine       {preset}, {runner.engine}", *table(device.launches)]
    failed = any(one.outcome.status != "ok" for one in device.launches)
    if recording is not None:
        lines += recording.lines
        if recording.failure is not None:
            lines.append(f"launch {recording.number} is not recorded: {recording.failure}")
        elif not recording.lines:
            lines.append(
                f"launch {recording.number} is not recorded: there were {len(device.launches)} launches"
            )
        failed |= recording.failure is not None or not recording.lines
    code = code or int(failed)
    if lines:
        print("\n".join(lines), file=sys.stderr)
    if options.report is not None:
        setting = {
            "command": options.command,
            "engine": options.engine,
            "preset": preset,
            "exit_code": code,
        }
        write_file(options.report, content(device.launches, setting))
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, lambda options: _work(CudaOptions(**vars(options))))
