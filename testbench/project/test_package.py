"""The installed package, without the sources."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from testbench.programs import PROGRAMS

ROOT = Path(__file__).parents[2]
PROGRAM = PROGRAMS / "k06_switch_brx.O3.cubin"
_BUILD = "from setuptools import setup; setup()"

pytestmark = pytest.mark.skipif(
    find_spec("setuptools") is None or not (ROOT / "pyproject.toml").exists(),
    reason="setuptools, which builds packages, or the sources are not there",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the installed project, built from a copy, because a build leaves files."""
    folder = tmp_path_factory.mktemp("package")
    sources = folder / "sources"
    sources.mkdir()
    shutil.copy(ROOT / "pyproject.toml", sources)
    (sources / "README.md").write_text("Not installed, but asked for.\n")
    for name in ("rtl", "sim"):
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, "-c", _BUILD, "-q", "build_py", "--build-lib", folder / "installed"],
        cwd=sources,
        check=True,
        capture_output=True,
    )
    return folder / "installed"


def command(installed: Path, *arguments: str | Path) -> str:
    """Runs a command of the installed package and returns its output."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=installed.parent,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(installed)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_file_of_the_sources_is_installed(installed):
    """Modules and the files that they read: the assembler's grammar, the C++ engine's template."""
    for name in ("rtl", "sim"):
        files = {
            path.relative_to(ROOT)
            for path in (ROOT / name).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md"
        }
        assert files <= {path.relative_to(installed) for path in (installed / name).rglob("*")}


def test_the_installed_assembler_works(installed):
    source, out = installed.parent / "in.sass", installed.parent / "out.cubin"
    source.write_text(command(installed, "sim.dis", "--source", PROGRAM))
    command(installed, "sim.asm", source, "-o", out)
    assert command(installed, "sim.dis", out) == command(installed, "sim.dis", PROGRAM)
