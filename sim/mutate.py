"""Changes the sources in one small place at a time, and runs the tests (mutation testing):
``python -m sim.mutate crs``.

The command is :mod:`sim.checks.mutate`.
"""

import sys

from sim.checks.mutate import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
