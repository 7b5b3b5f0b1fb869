"""``python -m sim.demo``."""

import sys

from sim.demo.command import main

if __name__ == "__main__":
    sys.exit(main())
