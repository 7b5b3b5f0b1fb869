"""Dependencies between the sources: no import cycles, layers, no unit of the hardware that imports
another.
"""

import ast
import re
from pathlib import Path

import pytest

from sim.toolchain.compiler.analysis.graphs import strongly_connected_components

ROOT = Path(__file__).parents[2]
UNITS = (
    "barrier",
    "convert",
    "crs",
    "execute",
    "fetch",
    "flow",
    "host",
    "issue",
    "launch",
    "memory",
    "trap",
)

LAYERS = (
    {"support"},
    {"toolchain"},
    {"engine", "launch"},
    {"model", "waves"},
    {"machine"},
    {"board", "firmware", "report"},
    {"runner"},
    {"debugger", "launch_options"},
    {"api", "cuda", "demo", "fpga"},
    {"checks"},
    {
        "asm",
        "bench",
        "debug",
        "dis",
        "fuzz",
        "mutate",
        "profile",
        "prove",
        "ptx",
        "run",
        "run_tb",
        "board.__main__",
        "cuda.__main__",
        "demo.__main__",
        "fpga.__main__",
        "waves.__main__",
    },
    {"manual"},
    {"__main__"},
)
"""Parts of ``sim``: each imports only those of lower layers. A package's module for ``python -m``
is a command.
"""


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def exists(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


LABELS = {"sim.report.diagrams"}
"""Modules in whose strings the names of modules are labels of a picture."""


def part_of(name: str) -> str:
    """Returns the part of ``sim`` to which a module belongs."""
    _, part, *rest = name.split(".")
    return f"{part}.__main__" if rest == ["__main__"] else part


def imported(path: Path) -> set[str]:
    """Returns the modules that a file names.

    In imports, including those in functions and for type checkers: of the names in a package those
    that are modules, else the package. In strings, as ``import_module`` and ``python -m`` take
    them, except a command's own name and packages that contain the module; the string "testbench",
    which is part of paths, is included.
    """
    return modules_in(
        ast.parse(path.read_text()), name_of(path), is_package=path.name == "__init__.py"
    )


def modules_in(tree: ast.Module, name: str, *, is_package: bool = False) -> set[str]:
    """Returns the modules named in the source of a module of this name, see :func:`imported`."""
    package = name if is_package else name.rpartition(".")[0]
    own_names = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.func, ast.Name)
        and node.func.id == "Parser"
    }
    found = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in own_names
            and name not in LABELS
        ):
            module = node.value.partition("{")[0].rstrip(".")
            if module == "testbench" or (
                re.fullmatch(r"(rtl|sim|testbench)(\.\w+)+", module)
                and exists(module)
                and not f"{name}.".startswith(f"{module}.")
            ):
                found.add(module)
        elif isinstance(node, ast.ImportFrom):
            above = (
                package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            )
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {
                full if exists(full := f"{base}.{alias.name}") else base for alias in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.fixture(scope="module")
def imports():
    files = {
        name_of(path): path
        for top in ("rtl", "sim", "testbench")
        for path in (ROOT / top).rglob("*.py")
    }
    return {
        name: {other for other in imported(path) if other in files and other != name}
        for name, path in files.items()
    }


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import testbench.words", {"testbench.words"}),
        ("from testbench import words", {"testbench.words"}),
        ("def f():\n    from testbench.words import memory_left", {"testbench.words"}),
        ("import_module('testbench.words')", {"testbench.words"}),
        ("NAME = 'testbench.fuzz'", {"testbench.fuzz"}),
        ("import_module(f'testbench.fuzz.{name}')", {"testbench.fuzz"}),
        ("run([sys.executable, '-m', 'sim.run_tb'])", {"sim.run_tb"}),
        ("HERE / 'testbench' / 'programs'", {"testbench"}),
        ("Parser('sim.run', 'Runs a kernel.')", set()),
        ("files('sim.launch')", set()),
        ("'an example: testbench/programs/x.cubin'", set()),
    ],
)
def test_names_of_modules_are_found_in_imports_and_strings(source, found):
    assert modules_in(ast.parse(source), "sim.launch.memory") == found


def test_there_is_no_circle_of_imports(imports):
    """Modules and packages of all trees are checked."""
    assert {name.partition(".")[0] for name in imports} == {"rtl", "sim", "testbench"}
    assert [
        sorted(circle) for circle in strongly_connected_components(imports) if len(circle) > 1
    ] == []


def test_units_of_the_hardware_meet_only_in_layouts(imports):
    wrong = [
        (name, other)
        for name, others in imports.items()
        for other in others
        if name.startswith("rtl.")
        and other.startswith("rtl.")
        and name.split(".")[1] in UNITS
        and other.split(".")[1] in UNITS
        and name.split(".")[1] != other.split(".")[1]
    ]
    assert wrong == []


def test_the_serial_machine_is_apart(imports):
    """Only code that selects the machine imports its units; they share only layouts, except the
    lane, which is a part of execute, the errors, and the core, which connects them.
    """
    assert {
        name
        for name, others in imports.items()
        if name.startswith("rtl.")
        and not name.startswith("rtl.serial")
        and any(other.startswith("rtl.serial") for other in others)
    } == {"rtl.machines"}
    units = {
        (name.split(".")[2], other.split(".")[2])
        for name, others in imports.items()
        for other in others
        if name.startswith("rtl.serial.") and other.startswith("rtl.serial.")
    }
    assert {
        (unit, other)
        for unit, other in units
        if other not in (unit, "core", "errors") and unit != "core"
    } == {("execute", "lane")}


def test_parts_of_the_simulation_import_only_lower_layers(imports):
    layer = {name: number for number, names in enumerate(LAYERS) for name in names}
    assert {part_of(name) for name in imports if name.startswith("sim.")} == layer.keys()
    between = {
        (part_of(name), part_of(other))
        for name, others in imports.items()
        for other in others
        if name.startswith("sim.") and other.startswith("sim.")
    }
    assert [
        (name, other)
        for name, other in sorted(between)
        if name != other and layer[name] <= layer[other]
    ] == []


def test_no_module_imports_the_one_that_runs_it(imports):
    """The hardware is independent of simulation, and simulation of testbenches except in
    sim.checks.
    """
    assert [
        (name, other)
        for name, others in imports.items()
        for other in others
        if (name.startswith("rtl") and other.startswith(("sim", "testbench")))
        or (
            name.startswith("sim")
            and not name.startswith("sim.checks")
            and other.startswith("testbench")
        )
    ] == []
    assert any(
        name.startswith("sim.checks") and other.startswith("testbench")
        for name, others in imports.items()
        for other in others
    )
