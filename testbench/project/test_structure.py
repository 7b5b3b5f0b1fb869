"""How the sources depend on each other: no circle of imports, layers, no unit of the hardware that imports another."""

import ast
from pathlib import Path

import pytest

from sim.toolchain.compiler.analysis.graphs import strongly_connected_components

ROOT = Path(__file__).parents[2]
UNITS = ("barrier", "convert", "crs", "execute", "fetch", "flow", "host", "issue", "launch", "memory", "trap")

LAYERS = (
    {"activity", "alignment", "collector", "interrupt", "scratch"},
    {"children", "entry"},
    {"command"},
    {"ecp5", "netlist", "toolchain", "workers"},
    {"engine", "launch", "bitstream", "verilog"},
    {"formal", "kernels", "model", "waves"},
    {"machine", "mutation"},
    {"board", "firmware", "report"},
    {"runner"},
    {"debugger", "launch_options", "testbench"},
    {"api", "cuda", "demo"},
    {"benchmarks"},
    {"asm", "bench", "debug", "dis", "fpga", "fuzz", "manual", "mutate", "profile", "prove", "ptx", "run", "run_tb"},
    {"__main__"},
)
"""Parts of ``sim``: each imports those of layers before its own."""


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def exists(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def imported(path: Path) -> set[str]:
    """The modules that a file names in imports, also in functions and in those for type checkers alone: of a package's
    names those that are modules, else the package."""
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")[:len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {name if exists(name := f"{base}.{alias.name}") else base for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.fixture(scope="module")
def imports():
    files = {name_of(path): path for top in ("rtl", "sim", "testbench") for path in (ROOT / top).rglob("*.py")}
    return {name: {other for other in imported(path) if other in files and other != name}
            for name, path in files.items()}


def test_there_is_no_circle_of_imports(imports):
    """Of modules, packages among them, in all of the trees."""
    assert {name.partition(".")[0] for name in imports} == {"rtl", "sim", "testbench"}
    assert [sorted(circle) for circle in strongly_connected_components(imports) if len(circle) > 1] == []


def test_units_of_the_hardware_meet_only_in_layouts(imports):
    wrong = [(name, other) for name, others in imports.items() for other in others
             if name.startswith("rtl.") and other.startswith("rtl.")
             and name.split(".")[1] in UNITS and other.split(".")[1] in UNITS
             and name.split(".")[1] != other.split(".")[1]]
    assert wrong == []


def test_the_serial_machine_is_apart(imports):
    """Only what chooses the machine imports its units; they meet only in layouts, but for the lane, which is a part of
    execute, for what is said of errors, and for the core, which joins them."""
    assert {name for name, others in imports.items() if name.startswith("rtl.") and not name.startswith("rtl.serial")
            and any(other.startswith("rtl.serial") for other in others)} == {"rtl.machines"}
    units = {(name.split(".")[2], other.split(".")[2]) for name, others in imports.items() for other in others
             if name.startswith("rtl.serial.") and other.startswith("rtl.serial.")}
    assert {(unit, other) for unit, other in units if other not in (unit, "core", "errors") and unit != "core"} == {
        ("execute", "lane")}


def test_parts_of_the_simulation_import_only_lower_layers(imports):
    layer = {name: number for number, names in enumerate(LAYERS) for name in names}
    assert {name.split(".")[1] for name in imports if name.startswith("sim.")} == layer.keys()
    between = {(name.split(".")[1], other.split(".")[1]) for name, others in imports.items() for other in others
               if name.startswith("sim.") and other.startswith("sim.")}
    assert [(name, other) for name, other in sorted(between) if name != other and layer[name] <= layer[other]] == []


def test_nobody_imports_who_runs_it(imports):
    """Hardware knows nothing of simulation, simulation nothing of testbenches, executors nothing of the formulas."""
    assert [(name, other) for name, others in imports.items() for other in others
            if (name.startswith("rtl") and other.startswith(("sim", "testbench")))
            or (name.startswith("sim") and other.startswith("testbench"))] == []
    formulas = {name for name in imports if name.startswith("testbench.formulas.") and ".test_" not in name}
    reached, waiting = set(), list(formulas)
    while waiting:
        for other in imports[waiting.pop()] - reached:
            reached.add(other)
            waiting.append(other)
    assert formulas
    assert [name for name in reached if name.startswith(("sim.", "rtl.execute.", "rtl.convert."))] == []
