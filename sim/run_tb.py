"""Runs testbenches: ``python -m sim.run_tb crs``.

The command is :mod:`sim.checks.run_tb`.
"""

import sys

from sim.checks.run_tb import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
