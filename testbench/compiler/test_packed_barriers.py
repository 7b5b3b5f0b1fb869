"""Barriers and counts that are known only at launch: packed in one register, as by NVIDIA's
compiler, or one of them.

The same kernel, compiled by NVIDIA and here, runs on both models and on the whole hardware.
"""

import struct
from functools import cache
from pathlib import Path

import pytest

from rtl.isa.table import find
from rtl.params import PRESETS
from sim.engine import ENGINES
from sim.launch import Buffer, Launch, Scalar, prepare
from sim.launch.programs import read_program
from sim.machine.hardware import Hardware
from sim.toolchain.module import Module
from testbench.compiler.runs import words_left
from testbench.ended import in_lockstep
from testbench.engine.designs import needs_compiled
from testbench.words import contents

PROGRAMS = sorted((Path(__file__).parents[1] / "data").glob("packed_barriers.*"))
THREADS, PAIR, WORDS_EACH = 128, 64, 5
FIRST_BARRIER = 3
SIZE = THREADS * WORDS_EACH


def expected() -> list[int]:
    """Returns the results that the PTX defines: pairs of warps exchange words and count threads;
    the first pair passes its count to the second.
    """
    return [
        word
        for t in range(THREADS)
        for word in (3 * (t ^ 32), 16, 1 if t < PAIR else 2, 1, 16 if t >= PAIR else 0)
    ]


@cache
def program(path: Path) -> Module:
    return read_program(str(path))


def launch(path: Path) -> Launch:
    return prepare(
        program(path),
        [Buffer("out", bytes(4 * SIZE)), Scalar(FIRST_BARRIER, 4), Scalar(PAIR, 4)],
        block=(THREADS, 1, 1),
    )


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.suffix)
def test_the_reference_machines(path):
    assert words_left(program(path), THREADS, SIZE, FIRST_BARRIER, PAIR) == expected()


@needs_compiled
def test_the_hardware_in_lockstep():
    hardware = Hardware(PRESETS["default"], ENGINES["compiled"], check=True)
    for path in PROGRAMS:
        assert contents(in_lockstep(hardware, launch(path)), "out") == expected(), path


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.suffix)
def test_barrier_and_count_are_one_register_where_both_are_in_registers(path):
    """If only one of them is in a register, that register is not packed."""
    words = [
        word
        for _, *group in struct.iter_unpack("<4Q", program(path).code.content)
        for word in group
    ]
    bars = [
        (form.variant, form.values(word))
        for word in words
        if (form := find(word)) is not None and form.name == "BAR"
    ]
    assert sorted(variant for variant, _ in bars) == ["ir", "ri", *["rr"] * 4]
    assert all(values["Ra"] == values["Rb"] for variant, values in bars if variant == "rr")
