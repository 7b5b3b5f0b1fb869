"""The code of every PTX file of the tree is compared with the stored code table."""

from dataclasses import replace

import pytest

from sim.checks.benchmarks.ptx import ptx_table
from testbench.compiler.code_table import differences, kept_rows, made_row, program_keys
from testbench.kernels.manifest import RUNS


@pytest.mark.parametrize(("name", "registers"), kept_rows())
def test_code_is_that_of_the_table(name, registers):
    """``python -m testbench.compiler.code_table`` regenerates the table, and prints its changes."""
    key = name, registers
    assert differences([made_row(*key)], {key: kept_rows()[key]}) == []


def test_the_table_has_every_program():
    assert program_keys() == list(kept_rows())


def test_a_difference_is_reported_by_file():
    kept = kept_rows()
    (first, second, third), others = list(kept.values())[:3], list(kept.values())[3:]
    made = [
        replace(first, executed=1, instructions=2),
        replace(second, digest="0"),
        replace(third, name="new"),
        *others,
    ]
    assert differences(made, kept) == [
        f"{first.name}, 255 registers: {first.instructions} -> 2 instructions, "
        f"{first.executed} -> 1 warp instructions executed",
        f"{second.name}, 255 registers: other code of the same length",
        "new, 255 registers: is new",
        f"{third.name}, 255 registers: is gone",
    ]


def test_the_benchmark_counts_what_the_table_has(monkeypatch):
    names = ("k05_triple_loop", "k14_transpose_shared")
    monkeypatch.setattr("sim.checks.benchmarks.ptx.RUNS", {name: RUNS[name] for name in names})
    kept = kept_rows()
    found = {row.kernel: row.compiled for row in ptx_table()}
    assert found == {name: kept[f"testbench/programs/{name}.ptx", 255].executed for name in names}
