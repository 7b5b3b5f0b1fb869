"""The stream contract in the whole machine: an offered payload does not change until it is
taken.
"""

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Signal, Value
from amaranth.lib import wiring

from sim.engine import Change
from sim.machine.hardware import Watched

__all__ = ["LOOSE", "StreamWatch"]

_GATHERS = (
    ("memory.front", "gather"),
    ("memory", "port.gather"),
    ("issue", "gather_offers.0"),
    ("issue.operations", "gather_offers.0"),
    ("issue.operations.gathers", "offers.0"),
)
LOOSE = {
    (f"sm.core.{part}", name)
    for part, name in (
        *_GATHERS,
        ("memory.access", "found"),
        ("memory.queue", "found"),
        ("memory.crossbar", "job"),
    )
}
"""Streams with a weaker contract, as documented there: the operands of a gather follow ``valid`` by
a cycle; a found line is offered while its threads are still being collected; a beat with priority
replaces one of which the crossbar has taken nothing.
"""
_Stream = tuple[Signal, Signal, Signal]


def _parts(path: str, part: Any, seen: set[int]) -> Iterator[tuple[str, wiring.Component]]:
    """A component and its subcomponents, with their paths."""
    if id(part) in seen:
        return
    seen.add(id(part))
    if isinstance(part, wiring.Component):
        yield path, part
    for name, kept in vars(part).items():
        for inner in kept if isinstance(kept, (list, tuple)) else [kept]:
            if hasattr(inner, "elaborate"):
                yield from _parts(f"{path}.{name}", inner, seen)


def _streams(part: wiring.Component) -> Iterator[tuple[str, _Stream]]:
    """The streams among the ports of a component: valid, ready and payload."""
    members = {path: Value.cast(value) for path, _, value in part.signature.flatten(part)}
    for path in members:
        stream = tuple(members.get((*path[:-1], name)) for name in ("valid", "ready", "payload"))
        if path[-1] == "ready" and all(isinstance(member, Signal) for member in stream):
            yield ".".join(map(str, path[:-1])), stream  # pyright: ignore[reportReturnType]


class StreamWatch:
    """Watches the streams of a machine: ``Hardware(..., watched=watch.watched)``.

    Attributes:
        streams: Path of the component and name of each stream.
        broken: For each stream that violated the contract, the first violation.
        waited: Streams that were not ready at least once.
    """

    def __init__(self) -> None:
        self.streams: list[tuple[str, str]] = []
        self.broken: dict[tuple[str, str], str] = {}
        self.waited: set[tuple[str, str]] = set()
        self._now: list[int] = []
        self._offered: dict[int, int] = {}
        self._cycle = 0

    def watched(self, machine: wiring.Component) -> list[Watched]:
        """The signals of all streams of the machine."""
        signals: list[Signal] = []
        for path, part in _parts("sm", machine, set()):
            for name, stream in _streams(part):
                self.streams.append((path, name))
                signals += stream
        self._now = [0] * len(signals)
        return [(signals, self._take)]

    def _take(self, changes: list[Change]) -> None:
        """Processes the signal changes of some cycles. A stream without changes keeps its offer."""
        touched: set[int] = set()
        for cycle, number, value in changes:
            if cycle < self._cycle:  # a new run has begun
                self._offered.clear()
            elif cycle > self._cycle:
                self._judge(touched)
            if cycle != self._cycle:
                self._cycle, touched = cycle, set()
            self._now[number] = value
            touched.add(number // 3)
        self._judge(touched)

    def _judge(self, touched: set[int]) -> None:
        for number in touched:
            valid, ready, payload = self._now[3 * number : 3 * number + 3]
            before = self._offered.pop(number, None)
            if before is not None and (not valid or payload != before):
                self.broken.setdefault(
                    self.streams[number],
                    f"cycle {self._cycle}: {before:#x}, then {payload:#x}, valid {valid}",
                )
            if valid and not ready:
                self._offered[number] = payload
                self.waited.add(self.streams[number])
