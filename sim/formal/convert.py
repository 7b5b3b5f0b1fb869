"""From a theorem to RTLIL: ``python -m sim.formal.convert FILE OUT {all,examples} [MODULE OLD NEW]``."""

import sys
from pathlib import Path

from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

from sim.formal.fault import Fault, insert
from sim.formal.theorem import load


def main(arguments: list[str]) -> None:
    """Writes the theorem of FILE to OUT, or its examples; with a fault in what it is about if there is one."""
    path, out, which, *fault = arguments
    if fault:
        insert(Fault(*fault))
    theorem = load(Path(path))
    make = theorem.examples if which == "examples" and theorem.examples is not None else theorem.make
    Path(out).write_text(rtlil.convert(make(), ports=[], platform="formal"), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
