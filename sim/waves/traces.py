"""What a testbench wants to see in a waveform: a tree of names, flattened to bits of signals.

A tree maps names to signals, views of structures, whole interfaces (streams, components: all their members), lists of
these, :class:`Trace` for another format, or to trees. Trees, interfaces, structures and lists become scopes.
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from amaranth.hdl import Shape, Signal, Value, ValueCastable
from amaranth.lib import data, wiring

from sim.engine.internals import Operator, Slice

__all__ = ["Leaf", "NumberFormat", "Trace", "Traces", "flatten"]

NumberFormat = Literal["hex", "dec", "signed", "bin"]
Traces = Mapping[str, Any]
"""Name -> signal, view, interface, list, Trace or Traces."""


@dataclass(frozen=True)
class Trace:
    """A signal, or anything else in a tree, whose numbers a viewer shows in ``format`` instead of hexadecimal."""

    value: Any
    format: NumberFormat


@dataclass(frozen=True)
class Leaf:
    """Bits of a signal under a name.

    Attributes:
        path: Scopes, then the name.
        signal, start, width: Which bits.
        format: How a viewer shows numbers.
        names: The names of values, for an enumeration.
    """

    path: tuple[str, ...]
    signal: Signal
    start: int
    width: int
    format: NumberFormat
    names: Mapping[int, str] | None = None


def flatten(traces: Traces) -> list[Leaf]:
    """The leaves of a tree, in its order.

    ValueError for a name that a waveform cannot have, TypeError for something that is neither signal nor tree.
    """
    return list(_walk((), traces, None))


def _walk(path: tuple[str, ...], item: Any, number: NumberFormat | None) -> Iterator[Leaf]:
    if isinstance(item, Trace):
        yield from _walk(path, item.value, item.format)
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
    """The leaves of a signal, a view of one, or a part of one."""
    shape = item.shape()
    value: Any = Value.cast(item)
    start = 0
    while not isinstance(value, Signal):
        if isinstance(value, Slice):
            start += value.start
            value = value.value
        elif isinstance(value, Operator) and value.operator in ("s", "u"):   # a signed field of a structure
            value = value.operands[0]
        else:
            raise TypeError(f"trace {'.'.join(path)} is an expression: give it a signal of its own")
    names = _variants(value) if value is item else None
    yield from _fields(path, value, start, shape, number, names)


def _variants(signal: Any) -> Mapping[int, str] | None:
    """The names of the values of a plain signal that stands for an enumeration, as the state of an FSM does."""
    variants = getattr(signal._format, "_variants", None)
    return None if variants is None else dict(variants)


def _fields(path: tuple[str, ...], signal: Signal, start: int, shape: Any, number: NumberFormat | None,
            names: Mapping[int, str] | None) -> Iterator[Leaf]:
    """The leaves of bits with this shape, from bit ``start``."""
    if isinstance(shape, data.Layout) or (isinstance(shape, type) and issubclass(shape, (data.Struct, data.Union))):
        for name, field in data.Layout.cast(shape):
            yield from _fields((*path, str(name)), signal, start + field.offset, field.shape, number, None)
        return
    width, signed = Shape.cast(shape).width, Shape.cast(shape).signed
    if isinstance(shape, type) and issubclass(shape, enum.Enum):
        names = {member.value & (1 << width) - 1: member.name for member in shape}
    if width:
        yield Leaf(path, signal, start, width, number or ("signed" if signed else "hex"), names)
