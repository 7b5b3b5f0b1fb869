"""The events of the hardware's retirement interface, read from the changes of its signals."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data

from rtl.layouts import ERROR_SOURCES
from rtl.retire import COMPLETION_SOURCES
from sim.engine import Change

__all__ = ["Event", "EventReader"]

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Event:
    """Something that happened in one clock cycle: ``what`` names a member of the interface, ``source`` who told of it
    where several can. ``fields`` are those of its payload; an array is one number, its first element the lowest bits.
    """

    cycle: int
    what: str
    fields: Fields
    source: str = ""


def _reader(shape: Any) -> Callable[[int], dict[str, Any]]:
    """From the bits of a struct to the values of its fields: numbers, and mappings for structs in it."""
    fields = [(str(name), field.offset, (1 << field.width) - 1) for name, field in data.Layout.cast(shape)]
    inner = [(str(name), _reader(field.shape)) for name, field in data.Layout.cast(shape) if _is_struct(field.shape)]

    def read(bits: int) -> dict[str, Any]:
        values: dict[str, Any] = {name: bits >> offset & mask for name, offset, mask in fields}
        for name, read_inner in inner:
            values[name] = read_inner(values[name])
        return values

    return read


def _is_struct(shape: Any) -> bool:
    return isinstance(shape, data.StructLayout) or (isinstance(shape, type) and issubclass(shape, data.Struct))


class _Member:
    """One signal of the interface: one event, or an array of them from several sources."""

    def __init__(self, what: str, signal: Any, sources: Sequence[str] = ()) -> None:
        self.signal = signal.as_value()
        self._what = what
        layout = signal.shape()
        self._sources = sources
        self._step = Shape.cast(layout.elem_shape).width if sources else 0
        event = layout.elem_shape if sources else layout
        self._wrapped = "payload" in event.members
        self._read = _reader(event)
        valid = event["valid"].offset
        self._valid = sum(1 << valid + index * self._step for index in range(len(sources) or 1))
        self._one = 1 << valid

    def active(self, bits: int) -> bool:
        """Whether there is an event."""
        return bool(bits & self._valid)

    def events(self, cycle: int, bits: int) -> Iterator[Event]:
        """The events of a cycle."""
        for source in self._sources or ("",):
            if bits & self._one:
                fields = self._read(bits)
                yield Event(cycle, self._what, fields["payload"] if self._wrapped else fields, source)
            bits >>= self._step


class EventReader:
    """Turns changes of the interface's signals, as an engine's observer tells them, into events.

    Attributes:
        signals: What is to be observed, in the order in which changes number them.
    """

    def __init__(self, port: Any) -> None:
        self._members = [
            _Member("launched", port.launched), _Member("issued", port.issued), _Member("written", port.written),
            _Member("errors", port.errors, tuple(ERROR_SOURCES)), _Member("flow", port.flow),
            _Member("withdrawn", port.withdrawn), _Member("completed", port.completed, COMPLETION_SOURCES)]
        self.signals = [member.signal for member in self._members]
        self._active: dict[int, int] = {}
        """Bits of the members that tell of events, by number."""
        self._cycle = 0
        self._take: Callable[[Event], None] = lambda _event: None

    def begin(self, take: Callable[[Event], None]) -> None:
        """Begins at cycle 0; hands events to ``take`` from now on."""
        self._active.clear()
        self._cycle, self._take = 0, take

    def changes(self, changes: Sequence[Change]) -> None:
        """Takes changes, in order of cycles: the events of each cycle that is over."""
        members, active = self._members, self._active
        for cycle, number, value in changes:
            if cycle != self._cycle:
                self._emit(cycle)
            if members[number].active(value):
                active[number] = value
            else:
                active.pop(number, None)

    def finish(self, cycle: int) -> None:
        """Takes the events up to a cycle."""
        self._emit(cycle)

    def _emit(self, until: int) -> None:
        """The events of all cycles before ``until``, in the order of members: what does not change happens again."""
        if self._active:
            active = sorted(self._active.items())
            for cycle in range(self._cycle, until):
                for number, bits in active:
                    for event in self._members[number].events(cycle, bits):
                        self._take(event)
        self._cycle = until
