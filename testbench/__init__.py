"""Testbenches: tb_<unit>.py for ``python -m sim.run_tb <unit>``, test_*.py for pytest, programs/ that both run."""

import sys

if sys.argv[:1] == ["-m"]:  # as in sim
    from sim.support.entry import begin

    begin()
