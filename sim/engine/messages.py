"""The prints and assertions of a compiled design, formatted from the values that the model records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sim.engine.internals import AsyncPrint, AsyncProperty, SyncPrint, value_to_string

__all__ = ["FormattedValue", "Message", "Messages"]

_KINDS = {"assert": "Assertion violated", "assume": "Assumption violated"}


@dataclass(frozen=True)
class FormattedValue:
    """A value in a message: its bits, the number of words that hold it, and its Python format."""

    width: int
    signed: bool
    words: int
    form: str

    def text(self, value: int) -> str:
        """Returns the formatted value."""
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
        location: Source location, ``file:line``.
        clocked: Whether it belongs to a clock.
        chunks (tuple of str and values): Its text and values, in order.
    """

    kind: str
    location: str
    clocked: bool
    chunks: tuple[str | FormattedValue, ...]

    @classmethod
    def of(cls, cell: Any, words: Sequence[int]) -> "Message":
        """Returns the message of a cell of the netlist; ``words`` are the numbers of words of its
        values.
        """
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
        """Returns the message as JSON values."""
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
        """Returns the message from its record."""
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
        text: Printed text that has not been taken yet.
        failure: Source location and message of the first failed assertion.
        combinational: Whether some messages belong to no clock.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self.text = ""
        self.failure: tuple[str, str] | None = None
        self.combinational = any(not message.clocked for message in messages)

    def clear(self) -> None:
        """Discards the text and the failure."""
        self.text, self.failure = "", None

    def take_text(self) -> str:
        """Returns the printed text, and discards it."""
        text, self.text = self.text, ""
        return text

    def take(self, events: Sequence[int]) -> None:
        """Processes events: each is the number of a message and the words of its values."""
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
