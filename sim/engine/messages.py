"""What a compiled design prints and asserts, from the values that it notes when that happens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sim.engine.internals import AsyncPrint, AsyncProperty, SyncPrint, value_to_string

__all__ = ["FormattedValue", "Message", "Messages"]

_KINDS = {"assert": "Assertion violated", "assume": "Assumption violated"}


@dataclass(frozen=True)
class FormattedValue:
    """A value in a message: its bits, the words in which they come, its format (Python's)."""

    width: int
    signed: bool
    words: int
    form: str

    def text(self, value: int) -> str:
        """The value, formatted for the message."""
        if self.signed and self.width and value >> self.width - 1 & 1:
            value -= 1 << self.width
        if self.form.endswith("s"):
            return format(value_to_string(value), self.form[:-1])
        return format(value, self.form)


@dataclass(frozen=True)
class Message:
    """A print or a check of a design.

    Attributes:
        kind: ``print``, ``assert``, ``assume`` or ``cover``.
        location: In its source, ``file:line``.
        clocked: It belongs to a clock.
        chunks (tuple of str and values): What it says.
    """

    kind: str
    location: str
    clocked: bool
    chunks: tuple[str | FormattedValue, ...]

    @classmethod
    def of(cls, cell: Any, words: Sequence[int]) -> "Message":
        """That of a cell of the netlist; ``words``: how many each of its values takes."""
        left = list(words)
        chunks = [
            chunk
            if isinstance(chunk, str)
            else FormattedValue(len(chunk.value), chunk.signed, left.pop(0), chunk.format_desc)
            for chunk in (cell.format.chunks if cell.format is not None else ())
        ]
        kind = "print" if isinstance(cell, (SyncPrint, AsyncPrint)) else cell.kind
        return cls(
            kind,
            f"{cell.src_loc[0]}:{cell.src_loc[1]}",
            not isinstance(cell, (AsyncPrint, AsyncProperty)),
            tuple(chunks),
        )

    def record(self) -> list[Any]:
        """As texts and lists."""
        return [
            self.kind,
            self.location,
            self.clocked,
            [
                chunk
                if isinstance(chunk, str)
                else [chunk.width, chunk.signed, chunk.words, chunk.form]
                for chunk in self.chunks
            ],
        ]

    @classmethod
    def restore(cls, record: Sequence[Any]) -> "Message":
        """From its record."""
        kind, place, clocked, chunks = record
        return cls(
            kind,
            place,
            clocked,
            tuple(chunk if isinstance(chunk, str) else FormattedValue(*chunk) for chunk in chunks),
        )


class Messages:
    """The messages of a design's prints and checks, by number.

    Attributes:
        text: What was printed and not taken yet.
        failure: Place and message of the first failed assertion.
        combinational: Some of them belong to no clock.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self.text = ""
        self.failure: tuple[str, str] | None = None
        self.combinational = any(not message.clocked for message in messages)

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
            message, at = self._messages[events[at]], at + 1
            said = []
            for chunk in message.chunks:
                if isinstance(chunk, str):
                    said.append(chunk)
                    continue
                said.append(
                    chunk.text(
                        sum(
                            word << 64 * index
                            for index, word in enumerate(events[at : at + chunk.words])
                        )
                    )
                )
                at += chunk.words
            self._note(message, "".join(said))

    def _note(self, message: Message, said: str) -> None:
        if message.kind == "print":
            self.text += said
        elif message.kind == "cover":
            if said:
                self.text += f"Coverage hit at {message.location}: {said}\n"
        elif self.failure is None:
            self.failure = message.location, _KINDS[message.kind] + (f": {said}" if said else "")
