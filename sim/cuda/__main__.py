"""Runs a CUDA program on this machine: ``python -m sim.cuda -- COMMAND``."""

import sys

from sim.cuda.command import main

if __name__ == "__main__":
    sys.exit(main())
