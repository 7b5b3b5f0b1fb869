"""The contract of streams, watched in the whole machine: an offered payload stays unchanged until
it is taken."""

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
"""Streams that are looser, as their docstrings say: what a gather asks for comes a cycle after ``valid``; a line that
is found is offered while its threads are still looked for; a beat that goes first takes the place of one of which the
crossbar has taken nothing."""
_Stream = tuple[Signal, Signal, Signal]


def _parts(path: str, part: Any, seen: set[int]) -> Iterator[tuple[str, wiring.Component]]:
    """A component and those that it keeps, with their places."""
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
    """The streams among its ports: valid, ready and payload."""
    members = {path: Value.cast(value) for path, _, value in part.signature.flatten(part)}
    for path in members:
        stream = tuple(members.get((*path[:-1], name)) for name in ("valid", "ready", "payload"))
        if path[-1] == "ready" and all(isinstance(member, Signal) for member in stream):
            yield ".".join(map(str, path[:-1])), stream  # pyright: ignore[reportReturnType]


class StreamWatch:
    """Watches streams of a machine: ``Hardware(..., watched=watch.watched)``.

    Attributes:
        streams: Where they are, and their names.
        broken: Of each stream that broke the contract, how.
        waited: Streams of which something was not taken at once.
    """

    def __init__(self) -> None:
        self.streams: list[tuple[str, str]] = []
        self.broken: dict[tuple[str, str], str] = {}
        self.waited: set[tuple[str, str]] = set()
        self._now: list[int] = []
        self._offered: dict[int, int] = {}
        self._cycle = 0

    def watched(self, machine: wiring.Component) -> list[Watched]:
        """The signals of all units that the machine's parts keep."""
        signals: list[Signal] = []
        for path, part in _parts("sm", machine, set()):
            for name, stream in _streams(part):
                self.streams.append((path, name))
                signals += stream
        self._now = [0] * len(signals)
        return [(signals, self._take)]

    def _take(self, changes: list[Change]) -> None:
        """Changes of some whole cycles. What is offered and does not change stays."""
        touched: set[int] = set()
        for cycle, number, value in changes:
            if cycle < self._cycle:  # of another run
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
