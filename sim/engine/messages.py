"""What a compiled design prints and asserts, from the values that it notes when that happens."""

from collections.abc import Sequence
from typing import Any

from sim.engine.internals import AsyncPrint, AsyncProperty, SyncPrint, value_to_string

__all__ = ["Messages"]

_KINDS = {"assert": "Assertion violated", "assume": "Assumption violated"}


class Messages:
    """The prints and checks of a design.

    Parameters
    ----------
    cells : sequence of netlist cells
        By number.
    words : sequence of sequence of int
        For each, how many words each value of its message has.

    Attributes
    ----------
    text : str
        What was printed and not taken yet.
    failure : tuple[str, str] or None
        Place and message of the first failed assertion.
    combinational : bool
        Some of them belong to no clock.
    """

    def __init__(self, cells: Sequence[Any], words: Sequence[Sequence[int]]) -> None:
        self._cells, self._words = cells, words
        self.text = ""
        self.failure: tuple[str, str] | None = None
        self.combinational = any(isinstance(cell, (AsyncPrint, AsyncProperty)) for cell in cells)

    def clear(self) -> None:
        """Forgets everything."""
        self.text, self.failure = "", None

    def take_text(self) -> str:
        """What was printed; it is forgotten."""
        text, self.text = self.text, ""
        return text

    def take(self, events: Sequence[int]) -> None:
        """Takes events: each is a number and the words of the message's values."""
        at = 0
        while at < len(events):
            number = events[at]
            cell, at = self._cells[number], at + 1
            values = []
            for count in self._words[number]:
                values.append(sum(word << 64 * index for index, word in enumerate(events[at:at + count])))
                at += count
            self._note(cell, _message(cell, values))

    def _note(self, cell: Any, message: str) -> None:
        if isinstance(cell, (SyncPrint, AsyncPrint)):
            self.text += message
            return
        place = f"{cell.src_loc[0]}:{cell.src_loc[1]}"
        if cell.kind == "cover":
            if message:
                self.text += f"Coverage hit at {place}: {message}\n"
        elif self.failure is None:
            self.failure = place, _KINDS[cell.kind] + (f": {message}" if message else "")


def _message(cell: Any, values: Sequence[int]) -> str:
    """A message with its values."""
    if cell.format is None:
        return ""
    found, left = [], list(values)
    for chunk in cell.format.chunks:
        if isinstance(chunk, str):
            found.append(chunk)
            continue
        value, width = left.pop(0), len(chunk.value)
        if chunk.signed and width and value >> width - 1 & 1:
            value -= 1 << width
        if chunk.format_desc.endswith("s"):
            found.append(format(value_to_string(value), chunk.format_desc[:-1]))
        else:
            found.append(format(value, chunk.format_desc))
    return "".join(found)
