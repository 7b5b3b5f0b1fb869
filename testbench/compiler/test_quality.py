"""How many instructions compiled kernels execute."""

from statistics import median

from sim.checks.benchmarks.ptx import ptx_table
from testbench.kernels.manifest import RUNS


def test_compiled_kernels_execute_about_what_nvidia_s_do():
    rows = ptx_table()
    assert len(rows) == len({run.kernel for run in RUNS.values()}) - 1      # one has nothing to be compared with
    assert max(row.to_unoptimised for row in rows) <= 1
    assert median(row.to_optimised for row in rows) <= 1
    assert max(row.to_optimised for row in rows) < 1.4
