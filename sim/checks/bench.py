"""Measures the machine in simulation: ``python -m sim.bench``.

The throughput of its lanes, the cycles that each class of instructions takes, how near programs
come to what lanes, memory and issue allow, how busy programs in single precision keep the lanes,
and the speed of the simulation, as tables; with ``--json`` all figures in a file, with ``--svg``
the roofline as a picture. ``--ptx`` measures the PTX compiler's code instead, ``--compile-time``
how long it takes. Exit code 2: bad arguments, or results that cannot be written; one line on stderr
names them.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from statistics import median
from typing import Any

from rtl.layouts import WaitReason
from rtl.params import SmParams
from sim.board.machine import Board
from sim.checks.benchmarks.classes import ClassRow, class_table
from sim.checks.benchmarks.compile_time import CompileRow, compile_table
from sim.checks.benchmarks.cuda import GROWTH_LAUNCHES, CudaRow, GrowthRow, cuda_rows, growth_rows
from sim.checks.benchmarks.floats import FLOAT_AIM, FloatRow, float_table
from sim.checks.benchmarks.kernels import KernelMachine, KernelRow, total_of
from sim.checks.benchmarks.machine import MACHINES, BenchmarkMachine
from sim.checks.benchmarks.model import MODEL_AIMS, ModelRow, model_rows
from sim.checks.benchmarks.plot import check_plotter, roofline_svg
from sim.checks.benchmarks.ptx import PtxRow, ptx_table, total
from sim.checks.benchmarks.roofline import QUICK, RooflineRow, left_out, roofline_table
from sim.checks.benchmarks.speed import AIMS, SpeedRow, speed_rows
from sim.checks.benchmarks.table import table
from sim.checks.benchmarks.throughput import AIM, ThroughputRow, throughput_table
from sim.checks.benchmarks.verilator import VerilatorRow, missing_verilator, verilator_rows
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
"""The benchmark that runs programs, which must be requested."""
_MODEL = "model"
"""The benchmark of the warp model, which must be requested."""
_KERNELS = "kernels"
"""The benchmark of the project's kernels, which must be requested."""
_ON_REQUEST = (_CUDA, _MODEL, _KERNELS)
_QUICK_KERNELS = ("k04_loop_break_continue", "k08_fib_recursion")
_ON_BOARDS = ("throughput", "classes")
"""Those that need little memory, and no simulation."""
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
        help="the machine (default: default)",
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


def _throughput_text(rows: list[ThroughputRow], params: SmParams) -> str:
    lines = [
        (
            row.control_codes,
            f"{row.instructions:,}",
            f"{row.cycles:,}",
            f"{row.busy:.3f}",
            f"{row.per_cycle:.3f}",
            f"{AIM / params.beats:.3f}",
        )
        for row in rows
    ]
    return table(
        f"Independent integer work, {rows[0].warps} warps, {params.lanes} lanes. Lanes busy: aim {AIM}",
        ("control codes", "instructions", "cycles", "lanes busy", "instructions/cycle", "aim"),
        lines,
    )


def _class_text(rows: list[ClassRow]) -> str:
    lines = [
        (
            row.name,
            f"{row.warps}",
            f"{row.instructions:g}",
            f"{row.cycles:.1f}",
            f"{row.per_instruction:.1f}",
            f"{row.stall:g}",
        )
        for row in rows
    ]
    return table(
        f"Cycles by class of instructions; memory answers after {LATENCY} cycles",
        ("class", "warps", "instructions", "cycles", "cycles/instruction", "NVIDIA's stall"),
        lines,
    )


def _roofline_text(rows: list[RooflineRow]) -> str:
    lines = [
        (
            row.name,
            f"{row.cycles:,}",
            f"{row.work.beats(row.lanes):,}",
            f"{row.work.lines:,}",
            f"{row.work.instructions:,}",
            row.limit,
            f"{row.ratio:.3f}",
            "" if row.intensity is None else f"{row.intensity:.2f}",
            f"{row.rate:.2f}",
        )
        for row in rows
    ]
    for name, chosen in (("streaming", True), ("others", False)):
        ratios = [row.ratio for row in rows if row.streaming is chosen]
        if ratios:
            lines.append((f"median, {name}", "", "", "", "", "", f"{median(ratios):.3f}", "", ""))
    return table(
        f"Cycles beside the least that {rows[0].lanes} lanes, a line of memory and an instruction a cycle "
        f"need; memory answers after {LATENCY} cycles",
        (
            "program",
            "cycles",
            "lane beats",
            "memory lines",
            "instructions",
            "limit",
            "bound/cycles",
            "operations/byte",
            "operations/cycle",
        ),
        lines,
    )


def _float_text(rows: list[FloatRow]) -> str:
    lines = [
        (
            row.name,
            f"{row.cycles:,}",
            f"{row.instructions:,}",
            f"{row.lane_instructions:,}",
            f"{row.accesses:,}",
            f"{row.computing:.3f}",
            f"{row.busy:.3f}",
            f"{FLOAT_AIM}",
        )
        for row in rows
    ]
    return table(
        f"Single precision, {rows[0].lanes} lanes. Busy: they compute, or units access registers",
        (
            "program",
            "cycles",
            "instructions",
            "lane instructions",
            "register accesses",
            "lanes compute",
            "lanes busy",
            "aim",
        ),
        lines,
    )


def _speed_text(rows: list[SpeedRow]) -> str:
    lines = [
        (
            row.engine,
            row.program,
            f"{row.cycles:,}",
            f"{row.requests:,}",
            f"{row.seconds:.2f}",
            f"{row.processor_seconds:.2f}",
            f"{row.per_second:,.0f}",
            f"{AIMS[row.engine]:,}" if row.engine in AIMS else "",
            "" if row.instructions is None else f"{row.instructions:,.0f}",
        )
        for row in rows
    ]
    return table(
        "Speed of the simulation, by second of processor; no comparison with the warp model",
        (
            "engine",
            "program",
            "cycles",
            "memory requests",
            "seconds",
            "processor",
            "cycles/second",
            "aim",
            "instructions/cycle",
        ),
        lines,
    )


def _verilator_text(rows: list[VerilatorRow]) -> str:
    lines = [
        (
            row.program,
            f"{row.compiled_cycles:,}",
            f"{row.compiled_per_second:,.0f}",
            f"{row.verilator_per_second:,.0f}",
            f"{row.compiled_per_second / row.verilator_per_second:.2f}",
        )
        for row in rows
    ]
    return table(
        "Speed of the model alone, by second of processor, the best of several runs",
        ("program", "cycles", "compiled: cycles/second", "Verilator: cycles/second", "ratio"),
        lines,
    )


def _model_text(rows: list[ModelRow]) -> str:
    lines = [
        (
            row.program,
            row.executor,
            f"{row.size} x {row.size}",
            f"{row.instructions:,}",
            f"{row.seconds:.2f}",
            f"{row.per_second:,.0f}",
            f"{MODEL_AIMS[row.executor]:,}",
            "" if row.compiling is None else f"{row.compiling:.2f}",
        )
        for row in rows
    ]
    return table(
        "Speed of the warp model, by second of processor; compiling: seconds for a kernel that is new",
        (
            "program",
            "executed",
            "threads",
            "warp instructions",
            "processor",
            "instructions/second",
            "aim",
            "compiling",
        ),
        lines,
    )


def _kernel_text(rows: list[KernelRow]) -> str:
    reasons = [reason.name for reason in WaitReason if reason is not WaitReason.NOT_LIVE]
    lines = [
        (
            row.name,
            f"{row.warps}",
            f"{row.grid_cycles:,}",
            f"{row.cycles:,}",
            f"{row.instructions:,}",
            f"{row.per_instruction:.2f}",
            *(f"{row.share(reason):.3f}" for reason in reasons),
        )
        for row in rows
    ]
    of_one_warp = [row for row in rows if row.warps == 1]
    for what, chosen in (("all kernels", rows), ("those of one warp", of_one_warp)):
        if not chosen:
            continue
        total = total_of(chosen)
        for how, shares in (("average", total.average_shares), ("all cycles", total.shares)):
            texts = (f"{shares.get(reason, 0):.3f}" for reason in reasons)
            name = f"{what}, {how}"
            lines.append((name, "", "", "", "", f"{total.per_instruction:.2f}", *texts))
    return table(
        f"{len(rows)} kernels at -O3: cycles in which a warp lives, for each instruction of a warp "
        "(at the end the geometric mean), and the parts of warps' time by what they wait for (at "
        "the end the average of the kernels, and of all their cycles); memory answers after "
        f"{LATENCY} cycles",
        (
            "kernel",
            "warps",
            "grid",
            "cycles",
            "instructions",
            "cycles/instruction",
            *(reason.lower() for reason in reasons),
        ),
        lines,
    )


def _cuda_text(rows: list[CudaRow]) -> str:
    lines = [
        (row.what, row.engine, f"{row.seconds:.4f}", "" if row.aim is None else f"{row.aim:g}")
        for row in rows
    ]
    return table("What a CUDA program waits for", ("what", "engine", "seconds", "aim"), lines)


def _growth_text(rows: list[GrowthRow]) -> str:
    lines = [
        (
            row.what,
            f"{row.launches:,}",
            f"{row.memory:,}",
            f"{row.memory / row.launches:,.0f}",
            "" if row.files is None else str(row.files),
        )
        for row in rows
    ]
    return table(
        "What launches on the warp model leave behind",
        ("where", "launches", "bytes", "bytes/launch", "files"),
        lines,
    )


def _ptx_text(rows: list[PtxRow]) -> str:
    lines = [
        (
            row.kernel,
            f"{row.compiled:,}",
            f"{row.unoptimised:,}",
            f"{row.optimised:,}",
            f"{row.to_unoptimised:.2f}",
            f"{row.to_optimised:.2f}",
        )
        for row in [*rows, total(rows)]
    ]
    lines.append(
        (
            "median",
            "",
            "",
            "",
            f"{median(row.to_unoptimised for row in rows):.2f}",
            f"{median(row.to_optimised for row in rows):.2f}",
        )
    )
    return table(
        "Warp instructions that kernels execute, compiled here and by NVIDIA's assembler",
        ("kernel", "here", "-O0", "-O3", "here/-O0", "here/-O3"),
        lines,
    )


def _compile_text(rows: list[CompileRow]) -> str:
    lines = [
        (
            row.kind,
            f"{row.size / 1000:.0f}",
            f"{row.front_end:.2f}",
            f"{row.compiler:.2f}",
            f"{row.assembler:.2f}",
            f"{row.seconds:.2f}",
            f"{row.rate:.0f}",
            f"{row.growth:.2f}",
        )
        for row in rows
    ]
    return table(
        "Seconds of processor that large programs take to compile; growth: a byte's time beside that in a "
        "program of half the size",
        ("program", "KB of PTX", "front end", "compiler", "assembler", "all", "KB/s", "growth"),
        lines,
    )


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
    """All figures, by what was measured."""

    def report(self, name: str, rows: Sequence[Any], text: Callable[[Any], str]) -> None:
        """Adds the rows of a table, and prints it."""
        self[name] = [row.record() for row in rows]
        print_text(text(rows) + "\n")


def _count(
    figures: _Figures, wanted: Sequence[str], machine: BenchmarkMachine, quick: bool
) -> None:
    """Measures what needs little memory, and no simulation."""
    if "throughput" in wanted:
        rows = throughput_table(machine, _QUICK_TURNS if quick else _TURNS)
        figures.report("throughput", rows, lambda rows: _throughput_text(rows, machine.params))
    if "classes" in wanted:
        rows = (
            class_table(machine, _QUICK_CLASSES, _QUICK_CLASS_TURNS)
            if quick
            else class_table(machine)
        )
        figures.report("classes", rows, _class_text)


def _measure_board(options: argparse.Namespace, board: Board) -> _Figures:
    """Runs the requested benchmarks on a board. Returns the figures."""
    figures = _Figures(
        preset=board.preset, params=asdict(board.params), engine=BOARD, clock_hz=board.clock
    )
    _count(
        figures, options.only or _ON_BOARDS, BenchmarkMachine(board.params, board), options.quick
    )
    return figures


def _measure(options: argparse.Namespace, params: SmParams, engine: type[Engine]) -> _Figures:
    """Runs the requested benchmarks in simulation. Returns the figures."""
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
        figures.report("roofline", rows, _roofline_text)
        if not options.quick and (names := left_out(params)):
            figures["left_out"] = names
            print_text(f"No room for {', '.join(names)}\n\n")
    if "floats" in (options.only or (wanted if params.floats and not options.quick else ())):
        figures.report("floats", float_table(machines[engine]), _float_text)
    if "speed" in wanted:
        engines = [engine]
        if options.engine == "auto" and not options.quick:
            engines = [each for each in ENGINES.values() if each.missing() is None]
        figures.report("speed", _speed(params, engines, machines, options.quick), _speed_text)
    if options.verilator:
        rows = verilator_rows(
            machines[engine],
            1 if options.quick else _SPEED_TURNS[engine.name],
            options.quick,
            lambda what: print(what, file=sys.stderr, flush=True),
        )
        figures.report("verilator", rows, _verilator_text)
    if _KERNELS in wanted:
        names = _QUICK_KERNELS if options.quick else None
        figures.report(_KERNELS, KernelMachine(params, engine).rows(names), _kernel_text)
    if _CUDA in wanted:
        python = options.python or (sys.executable if find_spec("numba") is not None else None)
        figures.report(_CUDA, cuda_rows(params, engine, python), _cuda_text)
        figures.report("cuda_growth", growth_rows(params, GROWTH_LAUNCHES), _growth_text)
    if _MODEL in wanted:
        figures.report(_MODEL, model_rows(options.quick), _model_text)
    return figures


def _run(options: argparse.Namespace) -> None:
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
    for option, given in (("--ptx", options.ptx), ("--compile-time", options.compile_time)):
        if given and options.only:
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
        if "speed" not in (options.only or _BENCHMARKS) or options.ptx or options.compile_time:
            raise CommandError("--verilator goes with the benchmark speed")
        if options.engine not in ("auto", CompiledEngine.name):
            raise CommandError(
                f"--verilator compares the engine {CompiledEngine.name}, not {options.engine}"
            )
        if (reason := CompiledEngine.missing() or missing_verilator()) is not None:
            raise CommandError(f"--verilator: {reason}")
    if options.svg is not None:
        check_plotter()
        check_file(options.svg)
    if options.json is not None:
        check_file(options.json)
    if options.ptx:
        rows = ptx_table()
        figures = _Figures(ptx=[row.record() for row in rows])
        print_text(_ptx_text(rows))
    elif options.compile_time:
        rows = compile_table(options.quick)
        figures = _Figures(compile_time=[row.record() for row in rows])
        print_text(_compile_text(rows))
    elif (
        board := open_board(options.engine, options.port, options.baud, options.preset)
    ) is not None:
        figures = _measure_board(options, board)
    elif options.only == [_MODEL]:
        figures = _Figures()
        figures.report(_MODEL, model_rows(options.quick), _model_text)
    else:
        figures = _measure(
            options, MACHINES[options.preset], chosen_engine(options, sys.stderr.write)
        )
    if options.json is not None:
        write_file(options.json, (json.dumps(figures, indent=2) + "\n").encode())


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, _run)
