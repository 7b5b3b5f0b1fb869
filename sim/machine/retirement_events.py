"""The events of the hardware's retirement interface, read from the changes of its signals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Value
from amaranth.lib import data

from rtl.layouts import errors_by_source
from sim.engine import Change

__all__ = ["EventReader", "RetirementEvent"]

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class RetirementEvent:
    """Something that happened in one clock cycle: ``member`` names a member of the interface,
    ``source`` its origin where there are several. ``fields`` are its payload's; an array is one
    number, its first element the lowest bits.
    """

    cycle: int
    member: str
    fields: Fields
    source: str = ""


def _reader(shape: Any) -> Callable[[int], dict[str, Any]]:
    """From the bits of a struct to the values of its fields: numbers, and mappings for structs in it."""
    fields = [
        (str(name), field.offset, (1 << field.width) - 1) for name, field in data.Layout.cast(shape)
    ]
    inner = [
        (str(name), _reader(field.shape))
        for name, field in data.Layout.cast(shape)
        if _is_struct(field.shape)
    ]

    def read(bits: int) -> dict[str, Any]:
        values: dict[str, Any] = {name: bits >> offset & mask for name, offset, mask in fields}
        for name, read_inner in inner:
            values[name] = read_inner(values[name])
        return values

    return read


def _is_struct(shape: Any) -> bool:
    return isinstance(shape, data.StructLayout) or (
        isinstance(shape, type) and issubclass(shape, data.Struct)
    )


class _Member:
    """One event of the interface: its two signals, and how the payload is read."""

    def __init__(self, name: str, event: Any, source: str = "") -> None:
        payload = Value.cast(event.payload)
        self.signals = (event.valid, payload)
        self._name = name
        self._source = source
        shape = event.payload.shape()
        self._read = _reader(shape) if _is_struct(shape) else lambda bits: {"warp": bits}

    def event(self, cycle: int, bits: int) -> RetirementEvent:
        """The event of a cycle, from its payload."""
        return RetirementEvent(cycle, self._name, self._read(bits), self._source)


class EventReader:
    """Turns changes of the interface's signals, as an engine's observer reports them, into events, once it has begun.

    Attributes:
        signals: The signals to observe, in the order in which changes number them: of each event
        ``valid``, then
            ``payload``.
    """

    def __init__(self, port: Any) -> None:
        completed = port.completed
        self._members = [
            _Member("launched", port.launched),
            _Member("issued", port.issued),
            _Member("written", port.written),
            *(
                _Member("errors", event, source)
                for source, event in errors_by_source(port.errors).items()
            ),
            _Member("flow", port.flow),
            _Member("withdrawn", port.withdrawn),
            _Member("completed", completed.issue, "issue"),
            _Member("completed", completed.lanes, "lanes"),
            _Member("completed", completed.memory, "memory"),
            _Member("completed", completed.conversion, "conversion"),
            _Member("completed", completed.barrier, "barrier"),
            _Member("completed", completed.trap, "trap"),
        ]
        self.signals: list[Any] = [signal for member in self._members for signal in member.signals]

    def begin(self, take: Callable[[RetirementEvent], None]) -> None:
        """Begins at cycle 0; hands events to ``take`` from now on."""
        self._active: set[int] = set()
        """Numbers of the members with an event."""
        self._payloads = [0] * len(self._members)
        self._cycle, self._take = 0, take

    def changes(self, changes: Sequence[Change]) -> None:
        """Takes changes, in order of cycles: the events of each cycle that is over."""
        for cycle, number, value in changes:
            if cycle != self._cycle:
                self._emit(cycle)
            member, is_payload = divmod(number, 2)
            if is_payload:
                self._payloads[member] = value
            elif value:
                self._active.add(member)
            else:
                self._active.discard(member)

    def finish(self, cycle: int) -> None:
        """Takes the events up to a cycle."""
        self._emit(cycle)

    def _emit(self, until: int) -> None:
        """The events of all cycles before ``until``, in the order of members: what does not change happens again."""
        if self._active:
            active = sorted(self._active)
            for cycle in range(self._cycle, until):
                for number in active:
                    self._take(self._members[number].event(cycle, self._payloads[number]))
        self._cycle = until
