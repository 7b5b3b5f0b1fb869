"""A testbench's traces in a waveform: a tree of names, flattened to bits of signals, and the
initial view.

A tree maps names to signals, views of structures, whole interfaces (streams, components: all their
members), lists of these, :class:`Trace` for another format, :class:`Text` for text computed from
several signals, or to trees. Trees, interfaces, structures and lists become scopes. :class:`View`
is a tree with a part that is shown first, and with events.
"""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from amaranth.hdl import Shape, Signal, Value, ValueCastable
from amaranth.lib import data, wiring

from sim.engine.internals import Operator, Slice

__all__ = [
    "Bits",
    "Leaf",
    "Mark",
    "NumberFormat",
    "Text",
    "TextLeaf",
    "Trace",
    "Traces",
    "View",
    "bits_of",
    "flatten",
    "view_of",
]

NumberFormat = Literal["hex", "dec", "signed", "bin"]
Traces = Mapping[str, Any]
"""Signals, views, interfaces, lists, Traces, Texts or trees, by name."""
Bits = tuple[Signal, int, int]
"""Bits of a signal: the signal, the lowest bit, and the number of bits."""


@dataclass(frozen=True)
class Trace:
    """A signal, or any other item of a tree, whose numbers a viewer shows in ``format`` instead of
    hexadecimal.
    """

    value: Any
    format: NumberFormat


@dataclass(frozen=True)
class Text:
    """Text that is computed from signals.

    Attributes:
        decode: Called with the values of the signals whenever one of them has changed; returns the
            text from this cycle on, None to leave it unchanged.
        signals: Signals, or parts of them.
    """

    decode: Callable[..., str | None]
    signals: Sequence[Any]


@dataclass(frozen=True)
class Mark:
    """An event: the first cycle in which ``condition``, called with the values of the signals, is
    true.

    Attributes:
        name: Name of the marker at the event.
        signals: Signals, or parts of them.
    """

    name: str
    signals: Sequence[Any]
    condition: Callable[..., Any] = all

    def holds(self, numbers: Sequence[int]) -> bool:
        """Whether the event happens in a cycle with these numbers."""
        return bool(self.condition(numbers) if self.condition is all else self.condition(*numbers))


@dataclass(frozen=True)
class View:
    """Traces, and how a viewer shows them first.

    Attributes:
        traces: All traces.
        expanded: Names of the traces that are on top and open; the groups of the others are closed.
            None: all are open.
        marks: Events, the most interesting one first: the view begins at the first of them that
            happens.
        cycle_pixels: Width of a clock cycle in pixels.
    """

    traces: Traces
    expanded: Sequence[str] | None = None
    marks: Sequence[Mark] = ()
    cycle_pixels: int = 60

    def ordered(self) -> tuple[Traces, Traces]:
        """Returns the story, and the other traces."""
        story = self.traces.keys() if self.expanded is None else self.expanded
        return (
            {name: self.traces[name] for name in story},
            {name: item for name, item in self.traces.items() if name not in story},
        )


def view_of(traces: "Traces | View") -> View:
    """Returns a view; for a plain tree, one in which all groups are open."""
    return traces if isinstance(traces, View) else View(traces)


@dataclass(frozen=True)
class Leaf:
    """Bits of a signal under a name.

    Attributes:
        path: Scopes, then the name.
        signal: The signal.
        start: Its lowest bit of the leaf.
        width: Number of bits.
        format: Format of numbers in a viewer.
        names: Names of values, for an enumeration.
    """

    path: tuple[str, ...]
    signal: Signal
    start: int
    width: int
    format: NumberFormat
    names: Mapping[int, str] | None = None


@dataclass(frozen=True)
class TextLeaf:
    """Text under a name.

    Attributes:
        path: Scopes, then the name.
        decode: See :class:`Text`.
        sources: The signals from which it is computed.
    """

    path: tuple[str, ...]
    decode: Callable[..., str | None]
    sources: tuple[Bits, ...]


def flatten(traces: Traces) -> list[Leaf | TextLeaf]:
    """Returns the leaves of a tree, in its order.

    Raises:
        ValueError: A waveform cannot have this name.
        TypeError: An item is neither a signal nor a tree.
    """
    return list(_walk((), traces, None))


def _walk(
    path: tuple[str, ...], item: Any, number: NumberFormat | None
) -> Iterator[Leaf | TextLeaf]:
    if isinstance(item, Trace):
        yield from _walk(path, item.value, item.format)
    elif isinstance(item, Text):
        yield TextLeaf(
            path, item.decode, tuple(bits_of(part, ".".join(path)) for part in item.signals)
        )
    elif isinstance(item, Mapping):
        for name, part in item.items():
            if not name or any(character.isspace() or character == "." for character in name):
                raise ValueError(f"a trace cannot be called {name!r}")
            yield from _walk((*path, name), part, number)
    elif isinstance(item, (Value, ValueCastable)):
        yield from _bits(path, item, number)
    elif isinstance(getattr(item, "signature", None), wiring.Signature):
        for name in item.signature.members:
            yield from _walk((*path, name), getattr(item, name), number)
    elif isinstance(item, Sequence) and not isinstance(item, str):
        for index, part in enumerate(item):
            yield from _walk((*path, str(index)), part, number)
    else:
        raise TypeError(f"trace {'.'.join(path)} is {item!r}, which has no waveform")


def _bits(path: tuple[str, ...], item: Any, number: NumberFormat | None) -> Iterator[Leaf]:
    """Yields the leaves of a signal, a view of one, or a part of one."""
    signal, start, _ = bits_of(item, ".".join(path))
    yield from _fields(
        path, signal, start, item.shape(), number, _variants(signal) if signal is item else None
    )


def bits_of(item: Any, name: str) -> Bits:
    """Returns the bits of a signal, a view of one, or a part of one; TypeError, which mentions
    ``name``, for any other expression.
    """
    value: Any = Value.cast(item)
    start, width = 0, len(value)
    while not isinstance(value, Signal):
        if isinstance(value, Slice):
            start += value.start
            value = value.value
        elif isinstance(value, Operator) and value.operator in (
            "s",
            "u",
        ):  # a signed field of a structure
            value = value.operands[0]
        else:
            raise TypeError(f"trace {name} is an expression: give it a signal of its own")
    return value, start, width


def _variants(signal: Any) -> Mapping[int, str] | None:
    """Returns the names of the values of a plain signal that represents an enumeration, such as the
    state of an FSM.
    """
    variants = getattr(signal._format, "_variants", None)
    return None if variants is None else dict(variants)


def _fields(
    path: tuple[str, ...],
    signal: Signal,
    start: int,
    shape: Any,
    number: NumberFormat | None,
    names: Mapping[int, str] | None,
) -> Iterator[Leaf]:
    """Yields the leaves of bits with this shape, from bit ``start``."""
    if isinstance(shape, data.Layout) or (
        isinstance(shape, type) and issubclass(shape, (data.Struct, data.Union))
    ):
        for name, field in data.Layout.cast(shape):
            yield from _fields(
                (*path, str(name)), signal, start + field.offset, field.shape, number, None
            )
        return
    width, signed = Shape.cast(shape).width, Shape.cast(shape).signed
    if isinstance(shape, type) and issubclass(shape, enum.Enum):
        names = {member.value & (1 << width) - 1: member.name for member in shape}
    if width:
        yield Leaf(path, signal, start, width, number or ("signed" if signed else "hex"), names)
