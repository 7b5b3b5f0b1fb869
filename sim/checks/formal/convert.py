"""Converts a theorem to RTLIL: ``python -m sim.checks.formal.convert FILE OUT {all,examples}
[MODULE OLD NEW]``.

A memory that is written has no initial content there: a theorem holds for any content of memories
at the reset.
"""

import re
import sys
from pathlib import Path

from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

from sim.checks.formal.fault import Fault, insert
from sim.checks.formal.theorem import load

__all__ = ["main", "without_contents"]

_MODULE = re.compile(r"^module .*?^end$", re.MULTILINE | re.DOTALL)
_CONTENT = re.compile(
    r"(?:^  attribute [^\n]*\n)*^  cell \$meminit_v2 .*?^  end\n", re.MULTILINE | re.DOTALL
)
_WRITE = re.compile(r"^  cell \$memwr_v2 .*?^  end\n", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"parameter \\MEMID (\S+)")


def without_contents(text: str) -> str:
    """Returns the RTLIL without the initial content of memories that are written."""

    def name_of(cell: re.Match[str]) -> str:
        found = _NAME.search(cell[0])
        assert found is not None
        return found[1]

    def of_module(module: re.Match[str]) -> str:
        written = {name_of(cell) for cell in _WRITE.finditer(module[0])}
        return _CONTENT.sub(lambda cell: "" if name_of(cell) in written else cell[0], module[0])

    return _MODULE.sub(of_module, text)


def main(arguments: list[str]) -> None:
    """Writes the theorem of FILE to OUT, or its examples; with a fault of the hardware, if one is
    given.
    """
    path, out, which, *fault = arguments
    if fault:
        insert(Fault(*fault))
    theorem = load(Path(path))
    make = (
        theorem.examples if which == "examples" and theorem.examples is not None else theorem.make
    )
    text = rtlil.convert(make(), ports=[], platform="formal")
    Path(out).write_text(without_contents(text), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
