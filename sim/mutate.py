"""Changes the sources in one small place after another, to see whether tests notice: ``python -m sim.mutate crs``.

The command is :mod:`sim.checks.mutate`.
"""

import sys

from sim.checks.mutate import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
