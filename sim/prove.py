"""Proves theorems about the hardware: ``python -m sim.prove error_status``.

The command is :mod:`sim.checks.prove`.
"""

import sys

from sim.checks.prove import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
