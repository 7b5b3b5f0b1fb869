"""Runs random programs on the hardware, in lockstep with the warp model: ``python -m sim.fuzz --minutes 10 --seed 1``.

The command is :mod:`sim.checks.fuzz`.
"""

import sys

from sim.checks.fuzz import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
