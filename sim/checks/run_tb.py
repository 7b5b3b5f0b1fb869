"""Runs testbenches: ``python -m sim.run_tb crs``. They are files ``tb_<unit>.py`` in a folder of
``testbench``, see :mod:`sim.checks.testbench`.

Exit code 0: all checks passed. 1: one failed; the first difference is printed. 2: there is no such
testbench, or it cannot be run here; one line on stderr has the reason.
"""

import argparse
import ast
import re
import sys
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from sim.checks.report import Report
from sim.checks.testbench import Bench, run
from sim.engine import ENGINES, Engine, chosen_engine
from sim.support.command import (
    CommandError,
    Parser,
    add_cache_option,
    check_file,
    make_folder,
    print_text,
)
from sim.waves.fst import FST, check_fst

__all__ = ["execute", "main", "module_name", "testbenches", "title_of"]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "testbench"
PREFIX = "tb_"


def testbenches(folder: Path = FOLDER) -> dict[str, Path]:
    """Returns the files of the testbenches by unit, sorted."""
    files = sorted(folder.rglob(f"{PREFIX}*.py"), key=lambda path: path.stem)
    return {path.stem.removeprefix(PREFIX): path for path in files}


def title_of(path: Path) -> str:
    """Returns the first sentence of a file's docstring in one line, without running the file."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence = re.match(r".*?\.(?= |$)", paragraph)
    return paragraph if sentence is None else sentence[0]


def module_name(path: Path, folder: Path = FOLDER) -> str:
    """Returns the module name of a testbench of a folder."""
    return ".".join((FOLDER.name, *path.relative_to(folder).with_suffix("").parts))


def _body(path: Path, folder: Path, part: str) -> Callable[[Bench], None]:
    """Returns a function of a testbench."""
    name = module_name(path, folder)
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if not hasattr(module, part):
        raise CommandError(f"{path}: no function {part}(bench)")
    return getattr(module, part)


def execute(
    unit: str,
    engine: type[Engine],
    *,
    seed: int = 0,
    thorough: bool = False,
    vcd: Path | None = None,
    folder: Path = FOLDER,
    part: str = "run",
) -> Report:
    """Runs the testbench of a unit, or another function of its file; KeyError if there is none."""
    path = testbenches(folder)[unit]
    return run(
        unit,
        _body(path, folder, part),
        engine,
        seed=seed,
        thorough=thorough,
        vcd=vcd,
        title=title_of(path),
    )


def _parser() -> Parser:
    parser = Parser("sim.run_tb", "Runs the testbench of a unit of the hardware.", "flow --seed 1")
    parser.add_argument("unit", nargs="?", help="the unit; --list shows the names")
    parser.add_argument("--list", action="store_true", help="show the testbenches")
    parser.add_argument(
        "--all",
        action="store_true",
        help="run the long form of the checks; without a unit, of every testbench",
    )
    parser.add_argument(
        "--engine",
        default="auto",
        metavar=f"auto|{'|'.join(ENGINES)}",
        help="what simulates the hardware (default: auto)",
    )
    add_cache_option(parser)
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the random numbers (default: 0)"
    )
    waveform = parser.add_mutually_exclusive_group()
    waveform.add_argument(
        "--vcd",
        type=Path,
        metavar="FILE",
        help="file of the waveform (default: waveforms/UNIT.vcd)",
    )
    waveform.add_argument("--fst", action="store_true", help="record waveforms/UNIT.fst instead")
    waveform.add_argument("--no-vcd", action="store_true", help="record no waveform")
    parser.add_argument(
        "--record", action="store_true", help="record the waveform, and check nothing"
    )
    return parser


def _list(known: dict[str, Path]) -> None:
    width = max(map(len, known), default=0)
    print_text("".join(f"{unit:{width}}  {title_of(path)}\n" for unit, path in known.items()))


def _run(options: argparse.Namespace, folder: Path) -> int:
    known = testbenches(folder)
    if options.list:
        _list(known)
        return 0
    if options.unit is None and not options.all:
        raise CommandError(f"no testbench is named; there are {', '.join(known)}")
    if options.unit is not None and options.unit not in known:
        raise CommandError(f"no testbench {options.unit}; there are {', '.join(known)}")
    if options.unit is None and options.vcd is not None:
        raise CommandError("--vcd names one file, and there are several testbenches")
    if options.record and (options.no_vcd or options.all):
        raise CommandError(
            f"--record and --{'no-vcd' if options.no_vcd else 'all'} exclude each other: --record only "
            "records the waveform of a testbench"
        )
    failed, engine = False, chosen_engine(options, sys.stderr.write)
    for unit in [options.unit] if options.unit else known:
        vcd = (
            None
            if options.no_vcd
            else options.vcd or ROOT / "waveforms" / f"{unit}{FST if options.fst else '.vcd'}"
        )
        if vcd is not None and options.vcd is None:
            make_folder(vcd.parent)
        if vcd is not None:
            check_file(vcd)
            check_fst(vcd)
        report = execute(
            unit,
            engine,
            seed=options.seed,
            thorough=options.all,
            vcd=vcd,
            folder=folder,
            part="record" if options.record else "run",
        )
        report.is_recording = options.record
        print_text(f"{report.text()}\n")
        failed |= not report.passed
    return int(failed)


def main(arguments: Sequence[str] | None = None, folder: Path = FOLDER) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, lambda options: _run(options, folder))
