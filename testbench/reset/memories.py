"""The memories of a design, and their table in the manual."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from amaranth.hdl import MemoryData
from amaranth.hdl._mem import MemoryInstance  # pyright: ignore[reportPrivateImportUsage]

from rtl.wires import SWEPT

__all__ = ["FoundMemory", "described", "memories_of"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reset.md"


class FoundMemory(NamedTuple):
    """A memory of a design.

    Attributes:
        path: Its place in the design, with numbers as ``*``.
        swept: Whether a sweep clears it.
        writes: Whether it is written.
        filled: Whether its initial content is not all zeros.
    """

    path: str
    data: MemoryData
    swept: bool
    writes: bool
    filled: bool


def memories_of(fragment: Any, path: tuple[str, ...] = ()) -> Iterator[FoundMemory]:
    """All memories of an elaborated design."""
    if issubclass(type(fragment), MemoryInstance):
        data: Any = fragment._data
        name = re.sub(r"\d+", "*", ".".join(path))
        yield FoundMemory(
            name,
            data,
            SWEPT.items() <= fragment._attrs.items(),
            bool(fragment._write_ports),
            any(data.init),
        )
    for part, name, _ in fragment.subfragments:
        yield from memories_of(part, (*path, name or "_"))


def described() -> dict[str, str]:
    """The table of the manual: for each memory the reason why no result depends on its former
    content, or "swept".
    """
    rows = re.findall(
        r"^\| `([\w.*]+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return dict(rows)
