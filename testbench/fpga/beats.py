"""Clients and servers of beat ports that transfer whole lines, for testbenches."""

from collections import deque
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEAT_BYTES, BEATS
from sim.launch.memory import Memory, MemoryFaultError

__all__ = ["BeatServer", "Gatherer", "LineClient", "perform", "random_requests"]

_BITS = 8 * BEAT_BYTES
_WHOLE = (1 << LINE_BYTES) - 1


def _beats(line: dict[str, int], count: int) -> Iterator[dict[str, int]]:
    """Yields the beats of a request or an answer."""
    widths = {"data": _BITS, "mask": BEAT_BYTES}
    for beat in range(count):
        yield (
            line
            | {"beat": beat}
            | {
                name: line[name] >> width * beat & (1 << width) - 1
                for name, width in widths.items()
                if name in line
            }
        )


def _fields(payload: Any) -> dict[str, int]:
    return {name: int(getattr(payload, name)) for name, _ in payload.shape()}


class Gatherer:
    """Assembles beats. Raises AssertionError if the beats of a burst are not numbered from 0 on or
    are interleaved.

    Args:
        short: Value of the field ``write`` for bursts of one beat: 0 for requests, 1 for answers.
    """

    def __init__(self, short: int) -> None:
        self._short = short
        self._beats: list[dict[str, int]] = []

    def take(self, beat: Any) -> dict[str, int] | None:
        """Returns the whole request or answer if this is its last beat, else None."""
        fields = _fields(beat)
        assert fields.pop("beat") == len(self._beats), "a beat is not the next one"
        self._beats.append(fields)
        if fields["write"] != self._short and len(self._beats) < BEATS:
            return None
        beats, self._beats = self._beats, []
        line = {
            name: sum(beat.pop(name) << width * number for number, beat in enumerate(beats))
            for name, width in (("data", _BITS), ("mask", BEAT_BYTES))
            if name in fields
        }
        assert beats == beats[:1] * len(beats), "bursts are mixed"
        return fields | line


def perform(memory: dict[int, int], request: dict[str, int], lines: range) -> dict[str, int]:
    """Performs a request on a plain memory of some lines; returns its answer, without data if they
    do not matter.
    """
    write, tag, address = request["write"], request["tag"], request["address"]
    if address not in lines:
        return {"write": write, "tag": tag, "error": 1}
    if not write:
        return {"write": 0, "tag": tag, "error": 0, "data": memory.get(address, 0)}
    kept = sum(0xFF << 8 * byte for byte in range(LINE_BYTES) if not request["mask"] >> byte & 1)
    memory[address] = memory.get(address, 0) & kept | request["data"] & ~kept
    return {"write": 1, "tag": tag, "error": 0}


def random_requests(
    count: int, addresses: Sequence[int], tags: int, random: Random
) -> list[dict[str, int]]:
    """Returns requests to a few lines, so that reads and writes conflict in every way."""
    return [
        {
            "write": int(random.random() < 0.5),
            "tag": random.randrange(tags),
            "address": random.choice(addresses),
            "data": random.getrandbits(8 * LINE_BYTES),
            "mask": random.choice([_WHOLE, random.getrandbits(LINE_BYTES), 0]),
        }
        for _ in range(count)
    ]


class LineClient:
    """Sends requests at a port of beats without gaps, and compares every answer with that of a
    plain memory.

    Its testbenches are :meth:`ask` and :meth:`hear`.

    Args:
        port: A BeatPort, or a MemoryPort, whose beats are lines.
        lines: The addresses of existing lines.
        pauses: Probability of a cycle without a beat.
        takes: Probability that an answer's beat is accepted in a cycle.

    Attributes:
        cycles: Number of cycles until the last answer.
        answers, errors: Number of answers, and of answers with an error.
    """

    def __init__(
        self,
        port: Any,
        requests: list[dict[str, int]],
        lines: range,
        random: Random,
        *,
        pauses: float = 0,
        takes: float = 1,
    ) -> None:
        self._port, self._requests, self._lines, self._random = port, requests, lines, random
        self._pauses, self._takes = pauses, takes
        self._at_once = "beat" not in dict(port.request.payload.shape())
        self._expected: dict[int, deque[dict[str, int]]] = {}
        self.cycles = self.answers = self.errors = 0

    async def ask(self, ctx: Any) -> None:
        """Sends the requests."""
        request, memory = self._port.request, dict[int, int]()
        await ctx.tick()
        for line in self._requests:
            for beat in (line,) if self._at_once else _beats(line, BEATS if line["write"] else 1):
                while self._random.random() < self._pauses:
                    await ctx.tick()
                ctx.set(request.payload, beat)
                ctx.set(request.valid, 1)
                await ctx.tick().until(request.ready)
                ctx.set(request.valid, 0)
            self._expected.setdefault(line["tag"], deque()).append(
                perform(memory, line, self._lines)
            )

    async def hear(self, ctx: Any) -> None:
        """Compares the answers; raises AssertionError also if an answer is missing."""
        response, gatherer, quiet = self._port.response, Gatherer(1), 0
        while self.answers < len(self._requests):
            ctx.set(response.ready, self._random.random() < self._takes)
            _, _, valid, ready, beat = await ctx.tick().sample(
                response.valid, response.ready, response.payload
            )
            self.cycles += 1
            quiet = 0 if valid else quiet + 1
            assert quiet < 20_000, "no answer"
            line = None
            if valid and ready:
                line = _fields(beat) if self._at_once else gatherer.take(beat)
            if line is not None:
                expected = self._expected[line["tag"]].popleft()
                assert {name: line[name] for name in expected} == expected
                self.answers += 1
                self.errors += line["error"]


class BeatServer:
    """Serves a port of beats from a :class:`~sim.launch.memory.Memory`, one request after the
    other.

    Args:
        latency: Minimum and maximum number of cycles from a request's last beat to the first one of
            its answer.
    """

    def __init__(self, port: Any, memory: Memory, latency: tuple[int, int], random: Random) -> None:
        self._port, self._memory, self._latency, self._random = port, memory, latency, random

    async def serve(self, ctx: Any) -> None:
        """The server's testbench, to be run in the background."""
        request, response, gatherer = self._port.request, self._port.response, Gatherer(0)
        while True:
            ctx.set(request.ready, 1)
            (beat,) = await ctx.tick().sample(request.payload).until(request.valid)
            if (asked := gatherer.take(beat)) is None:
                continue
            ctx.set(request.ready, 0)
            for _ in range(self._random.randint(*self._latency) - 1):
                await ctx.tick()
            for answer in _beats(self._perform(asked), 1 if asked["write"] else BEATS):
                ctx.set(response.payload, answer)
                ctx.set(response.valid, 1)
                await ctx.tick().until(response.ready)
            ctx.set(response.valid, 0)

    def _perform(self, asked: dict[str, int]) -> dict[str, int]:
        address, data, error = (
            asked["address"] * LINE_BYTES,
            self._random.getrandbits(8 * LINE_BYTES),
            0,
        )
        try:
            if asked["write"]:
                self._memory.write_line(
                    address, asked["data"].to_bytes(LINE_BYTES, "little"), asked["mask"]
                )
            else:
                data = self._memory.read_number(address, LINE_BYTES)
        except MemoryFaultError:
            error = 1
        return {"write": asked["write"], "tag": asked["tag"], "error": error, "data": data}
