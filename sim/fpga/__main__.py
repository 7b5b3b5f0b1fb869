"""The command ``python -m sim.fpga``: see :mod:`sim.fpga.command`."""

import sys

from sim.fpga.command import main

if __name__ == "__main__":
    sys.exit(main())
