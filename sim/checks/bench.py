"""Measures the machine in simulation: ``python -m sim.bench``.

It prints tables of: the throughput of its lanes; the cycles of each class of instructions; how
close programs come to the limits of lanes, memory and issue; the utilisation of the lanes by
single-precision programs; and the speed of the simulation. ``--json`` writes all figures to a file,
``--svg`` the roofline as a picture. ``--ptx`` measures the PTX compiler's code instead,
``--compile-time`` its duration. Exit code 2: bad arguments, or results that cannot be written; one
line on stderr names them.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from rtl.params import SmParams
from sim.board.machine import Board
from sim.checks.benchmarks.classes import class_table, class_text
from sim.checks.benchmarks.compile_time import compile_table, compile_text
from sim.checks.benchmarks.cuda import (
    GROWTH_LAUNCHES,
    cuda_rows,
    cuda_text,
    growth_rows,
    growth_text,
)
from sim.checks.benchmarks.floats import float_table, float_text
from sim.checks.benchmarks.kernels import KernelMachine, kernel_text
from sim.checks.benchmarks.machine import MACHINES, BenchmarkMachine
from sim.checks.benchmarks.model import model_rows, model_text
from sim.checks.benchmarks.plot import check_plotter, roofline_svg
from sim.checks.benchmarks.ptx import ptx_table, ptx_text
from sim.checks.benchmarks.roofline import (
    QUICK,
    programs_without_room,
    roofline_table,
    roofline_text,
)
from sim.checks.benchmarks.speed import SpeedRow, speed_rows, speed_text
from sim.checks.benchmarks.throughput import throughput_table, throughput_text
from sim.checks.benchmarks.verilator import (
    missing_verilator,
    verilator_rows,
    verilator_text,
)
from sim.engine import ENGINES, CompiledEngine, Engine, chosen_engine
from sim.launch_options import BOARD, add_board_options, open_board
from sim.machine.memory_service import LATENCY
from sim.support.command import (
    CommandError,
    Parser,
    add_cache_option,
    check_file,
    print_text,
    write_file,
)

__all__ = ["main"]

_BENCHMARKS = ("throughput", "classes", "roofline", "floats", "speed")
_CUDA = "cuda"
"""The benchmark of CUDA programs, which runs only on request."""
_MODEL = "model"
"""The benchmark of the warp model, which runs only on request."""
_KERNELS = "kernels"
"""The benchmark of the project's kernels, which runs only on request."""
_ON_REQUEST = (_CUDA, _MODEL, _KERNELS)
_QUICK_KERNELS = ("k04_loop_break_continue", "k08_fib_recursion")
_ON_BOARDS = ("throughput", "classes")
"""The benchmarks that run on boards: they need little memory, and no simulation."""
_QUICK_TURNS, _TURNS = (1, 2), (4, 40)
_QUICK_CLASSES = ("arithmetic: IADD to IADD", "LDG to LDG", "SSY, SYNC")
_QUICK_CLASS_TURNS = (2, 6)
_SPEED_TURNS = {"pysim": 1, "compiled": 60}
"""Iterations of the loop that take some seconds on each engine."""


def _parser() -> Parser:
    parser = Parser("sim.bench", "Measures the machine in simulation.", "throughput --quick")
    parser.add_argument(
        "only",
        nargs="*",
        metavar="BENCHMARK",
        help=f"benchmarks: {', '.join(_BENCHMARKS)} (default: all of these); or one of "
        f"{', '.join(_ON_REQUEST)}",
    )
    parser.add_argument(
        "--preset",
        default="default",
        metavar="|".join(MACHINES),
        help="the machine (default: default): a preset with all counters, or wide, which has 8 warps and full's lanes",
    )
    parser.add_argument(
        "--engine",
        default="auto",
        metavar=f"auto|{'|'.join(ENGINES)}|{BOARD}",
        help="what simulates the hardware (default: auto; for the benchmark speed: every engine, one after "
        f"the other); {BOARD}: a board at a serial port, for {' and '.join(_ON_BOARDS)}",
    )
    add_cache_option(parser)
    add_board_options(parser)
    parser.add_argument(
        "--python",
        metavar="FILE",
        help=f"a Python with numba, for the benchmark {_CUDA} (default: this one, if it has numba)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all figures to this file")
    parser.add_argument("--svg", metavar="FILE", help="draw the roofline to this file")
    parser.add_argument(
        "--verilator",
        action="store_true",
        help="with the benchmark speed: also compare the compiled engine's model with Verilator's model of the same "
        "machine, which takes minutes to build",
    )
    parser.add_argument("--quick", action="store_true", help="measure a few things, in short runs")
    parser.add_argument(
        "--ptx", action="store_true", help="measure the code that the PTX compiler makes instead"
    )
    parser.add_argument(
        "--compile-time",
        action="store_true",
        help="measure how long the PTX compiler takes for large programs instead",
    )
    return parser


def _speed(
    params: SmParams,
    engines: Sequence[type[Engine]],
    machines: dict[type[Engine], BenchmarkMachine],
    quick: bool,
) -> list[SpeedRow]:
    rows: list[SpeedRow] = []
    for engine in engines:
        if engine not in machines:
            machines[engine] = BenchmarkMachine(params, engine)
        rows += speed_rows(
            machines[engine], engine.name, 1 if quick else _SPEED_TURNS[engine.name], quick
        )
    return rows


class _Figures(dict[str, Any]):
    """All figures, by the measured quantity."""

    def report(self, name: str, rows: Sequence[Any], text: Callable[[Any], str]) -> None:
        """Adds the rows of a table, and prints it."""
        self[name] = [row.record() for row in rows]
        print_text(text(rows) + "\n")


def _count(
    figures: _Figures, wanted: Sequence[str], machine: BenchmarkMachine, quick: bool
) -> None:
    """Runs the requested benchmarks that need little memory, and no simulation."""
    if "throughput" in wanted:
        rows = throughput_table(machine, _QUICK_TURNS if quick else _TURNS)
        figures.report("throughput", rows, lambda rows: throughput_text(rows, machine.params))
    if "classes" in wanted:
        rows = (
            class_table(machine, _QUICK_CLASSES, _QUICK_CLASS_TURNS)
            if quick
            else class_table(machine)
        )
        figures.report("classes", rows, class_text)


def _measure_board(options: argparse.Namespace, board: Board) -> _Figures:
    """Runs the requested benchmarks on a board; returns the figures."""
    figures = _Figures(
        preset=board.preset, params=asdict(board.params), engine=BOARD, clock_hz=board.clock
    )
    _count(
        figures, options.only or _ON_BOARDS, BenchmarkMachine(board.params, board), options.quick
    )
    return figures


def _measure(options: argparse.Namespace, params: SmParams, engine: type[Engine]) -> _Figures:
    """Runs the requested benchmarks in simulation; returns the figures."""
    wanted = options.only or _BENCHMARKS
    machines = {engine: BenchmarkMachine(params, engine)}
    figures = _Figures(
        preset=options.preset, params=asdict(params), engine=engine.name, memory_latency=LATENCY
    )
    _count(figures, wanted, machines[engine], options.quick)
    if "roofline" in wanted:
        rows = roofline_table(machines[engine], QUICK if options.quick else None)
        if options.svg is not None:
            write_file(options.svg, roofline_svg(rows, options.preset).encode())
        figures.report("roofline", rows, roofline_text)
        if not options.quick and (names := programs_without_room(params)):
            figures["left_out"] = names
            print_text(f"No room for {', '.join(names)}\n\n")
    if "floats" in (options.only or (wanted if params.floats and not options.quick else ())):
        figures.report("floats", float_table(machines[engine]), float_text)
    if "speed" in wanted:
        engines = [engine]
        if options.engine == "auto" and not options.quick:
            engines = [each for each in ENGINES.values() if each.missing() is None]
        figures.report("speed", _speed(params, engines, machines, options.quick), speed_text)
    if options.verilator:
        rows = verilator_rows(
            machines[engine],
            1 if options.quick else _SPEED_TURNS[engine.name],
            options.quick,
            lambda what: print(what, file=sys.stderr, flush=True),
        )
        figures.report("verilator", rows, verilator_text)
    if _KERNELS in wanted:
        names = _QUICK_KERNELS if options.quick else None
        figures.report(_KERNELS, KernelMachine(params, engine).rows(names), kernel_text)
    if _CUDA in wanted:
        python = options.python or (sys.executable if find_spec("numba") is not None else None)
        figures.report(_CUDA, cuda_rows(params, engine, python), cuda_text)
        figures.report("cuda_growth", growth_rows(params, GROWTH_LAUNCHES), growth_text)
    if _MODEL in wanted:
        figures.report(_MODEL, model_rows(options.quick), model_text)
    return figures


def _check_names(options: argparse.Namespace) -> None:
    """CommandError for a benchmark, a Python or a preset that does not exist."""
    for name in options.only:
        if name not in (*_BENCHMARKS, *_ON_REQUEST):
            raise CommandError(
                f"no benchmark {name}; there are {', '.join((*_BENCHMARKS, *_ON_REQUEST))}"
            )
    if options.python is not None:
        if _CUDA not in options.only:
            raise CommandError(f"--python goes with the benchmark {_CUDA}")
        if shutil.which(options.python) is None:
            raise CommandError(f"--python: {options.python}: no such program")
    if options.preset not in MACHINES:
        raise CommandError(f"no preset {options.preset}; there are {', '.join(MACHINES)}")


def _check_combination(options: argparse.Namespace) -> None:
    """CommandError for options that exclude each other, or that need a benchmark that is not measured."""
    for option, is_set in (("--ptx", options.ptx), ("--compile-time", options.compile_time)):
        if is_set and options.only:
            raise CommandError(f"{option} measures the compiler alone, not {options.only[0]}")
    if options.ptx and options.compile_time:
        raise CommandError(
            "--ptx and --compile-time measure different things: expected one of them"
        )
    if options.svg is not None and (
        options.ptx
        or options.compile_time
        or options.engine == BOARD
        or "roofline" not in (options.only or _BENCHMARKS)
    ):
        raise CommandError("--svg draws the roofline, which is not measured")
    if options.engine == BOARD and (
        others := [name for name in options.only if name not in _ON_BOARDS]
    ):
        raise CommandError(f"{others[0]} is not measured on boards, {' and '.join(_ON_BOARDS)} are")
    if options.verilator:
        _check_verilator(options)


def _check_verilator(options: argparse.Namespace) -> None:
    """CommandError where Verilator's model can't be compared with the compiled engine's."""
    if "speed" not in (options.only or _BENCHMARKS) or options.ptx or options.compile_time:
        raise CommandError("--verilator goes with the benchmark speed")
    if options.engine not in ("auto", CompiledEngine.name):
        raise CommandError(
            f"--verilator compares the engine {CompiledEngine.name}, not {options.engine}"
        )
    if (reason := CompiledEngine.missing() or missing_verilator()) is not None:
        raise CommandError(f"--verilator: {reason}")


def _check_files(options: argparse.Namespace) -> None:
    """CommandError where the results can't be drawn or written."""
    if options.svg is not None:
        check_plotter()
        check_file(options.svg)
    if options.json is not None:
        check_file(options.json)


def _measure_compiler(options: argparse.Namespace) -> _Figures:
    """Measures the PTX compiler's code, or its time. Returns the figures."""
    if options.ptx:
        rows = ptx_table()
        print_text(ptx_text(rows))
        return _Figures(ptx=[row.record() for row in rows])
    rows = compile_table(options.quick)
    print_text(compile_text(rows))
    return _Figures(compile_time=[row.record() for row in rows])


def _measured(options: argparse.Namespace) -> _Figures:
    """Measures what the options request, on what they request. Returns the figures."""
    if options.ptx or options.compile_time:
        return _measure_compiler(options)
    board = open_board(options.engine, options.port, options.baud, options.preset)
    if board is not None:
        return _measure_board(options, board)
    if options.only == [_MODEL]:
        figures = _Figures()
        figures.report(_MODEL, model_rows(options.quick), model_text)
        return figures
    return _measure(options, MACHINES[options.preset], chosen_engine(options, sys.stderr.write))


def _run(options: argparse.Namespace) -> None:
    _check_names(options)
    _check_combination(options)
    _check_files(options)
    figures = _measured(options)
    if options.json is not None:
        write_file(options.json, (json.dumps(figures, indent=2) + "\n").encode())


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, _run)
