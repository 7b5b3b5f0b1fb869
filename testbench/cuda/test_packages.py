"""A program with numba and one with tinygrad, if the extra ``clients`` is installed."""

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from sim.engine.build import missing_tool

_ROOT = Path(__file__).parents[2]
_CLIENTS = _ROOT / "testbench" / "programs" / "clients"
_LAUNCH = re.compile(r"^ +\d+ .* ok$", re.M)


def installed(distribution, wanted):
    """Returns whether the package is installed in the version of the extra."""
    try:
        return version(distribution) == wanted
    except PackageNotFoundError:
        return False


def run(program, **variables):
    """Runs a program on the warp model; returns the lines about its launches."""
    done = subprocess.run(
        [sys.executable, "-m", "sim.cuda", "--engine", "model", "--", sys.executable, program],
        env=os.environ | variables,
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return _LAUNCH.findall(done.stderr)


pytestmark = pytest.mark.skipif(missing_tool() is not None, reason=f"{missing_tool()}")


@pytest.mark.skipif(not installed("numba", "0.60.0"), reason="pip install -e '.[clients]'")
@pytest.mark.parametrize(
    ("program", "kernel"), [("numba_sum.py", "block_sum"), ("numba_collatz.py", "collatz")]
)
def test_numba_gets_right_numbers(program, kernel):
    (line,) = run(_CLIENTS / program)
    assert kernel in line


@pytest.mark.skipif(not installed("tinygrad", "0.14.0"), reason="pip install -e '.[clients]'")
@pytest.mark.parametrize(
    ("program", "kernel"), [("tinygrad_matmul.py", "r_8_8_8"), ("tinygrad_max.py", "r_16_16_16")]
)
def test_tinygrad_gets_right_numbers(program, kernel, tmp_path):
    (line,) = run(_CLIENTS / program, DEV="CUDA:PTX", CACHEDB=str(tmp_path / "cache.db"))
    assert kernel in line
