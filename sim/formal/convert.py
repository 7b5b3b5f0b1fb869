"""From a theorem to RTLIL: ``python -m sim.formal.convert FILE OUT [MODULE OLD NEW]``."""

import sys
from pathlib import Path

from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

from sim.formal.fault import Fault, insert
from sim.formal.theorem import load


def main(arguments: list[str]) -> None:
    """Writes the theorem of FILE to OUT; with a fault in what it is about if there is one."""
    path, out, *fault = arguments
    if fault:
        insert(Fault(*fault))
    Path(out).write_text(rtlil.convert(load(Path(path)).make(), ports=[], platform="formal"), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
