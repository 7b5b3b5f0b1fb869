"""The events of the hardware's retirement interface, decoded from the changes of its signals."""

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
    """An event in one clock cycle.

    Attributes:
        cycle: The clock cycle.
        member: Name of the member of the interface.
        source: The origin of the event, for members with several.
        fields: The fields of the payload; an array is one number, its first element in the lowest
            bits.
    """

    cycle: int
    member: str
    fields: Fields
    source: str = ""


def _reader(shape: Any) -> Callable[[int], dict[str, Any]]:
    """Returns a decoder from the bits of a struct to the values of its fields: numbers, and
    mappings for nested structs.
    """
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
    """One member of the interface: its two signals, and the decoder of its payload."""

    def __init__(self, name: str, event: Any, source: str = "") -> None:
        payload = Value.cast(event.payload)
        self.signals = (event.valid, payload)
        self._name = name
        self._source = source
        shape = event.payload.shape()
        self._read = _reader(shape) if _is_struct(shape) else lambda bits: {"warp": bits}

    def event(self, cycle: int, bits: int) -> RetirementEvent:
        """Returns the event of a cycle, from its payload."""
        return RetirementEvent(cycle, self._name, self._read(bits), self._source)


class EventReader:
    """Converts changes of the interface's signals, as an engine's observer reports them, to events.

    Attributes:
        signals: The signals to observe, in the order in which changes number them: for each event
            ``valid``, then ``payload``.
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
        """Starts at cycle 0; passes events to ``take`` from now on."""
        self._active: set[int] = set()
        """Indices of the members whose event is valid."""
        self._payloads = [0] * len(self._members)
        self._cycle, self._take = 0, take

    def changes(self, changes: Sequence[Change]) -> None:
        """Processes changes, in order of cycles: emits the events of each completed cycle."""
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
        """Emits the events up to a cycle."""
        self._emit(cycle)

    def _emit(self, until: int) -> None:
        """Emits the events of all cycles before ``until``, in the order of members: an unchanged
        event is repeated.
        """
        if self._active:
            active = sorted(self._active)
            for cycle in range(self._cycle, until):
                for number in active:
                    self._take(self._members[number].event(cycle, self._payloads[number]))
        self._cycle = until
