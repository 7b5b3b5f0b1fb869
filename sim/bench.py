"""Measures the machine in simulation: ``python -m sim.bench``.

The command is :mod:`sim.checks.bench`.
"""

import sys

from sim.checks.bench import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
