"""Records the waveform of a testbench, and opens it: ``python -m sim.waves crs --open``.

The command is :mod:`sim.checks.waves`.
"""

import sys

from sim.checks.waves import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
