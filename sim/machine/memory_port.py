"""Memory behind a hardware port: any latency, stalls, and any order between tags."""

from collections import Counter, deque
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any

from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEAT_BYTES, BEATS
from sim.launch.memory import Memory, MemoryFaultError
from sim.machine.changed_input import ChangedInput

__all__ = ["MemoryBehaviour", "MemoryServer"]


@dataclass(frozen=True)
class MemoryBehaviour:
    """The behaviour of the memory, in cycles.

    Attributes:
        latency: Least and most cycles from a request to its response.
        interval: Least cycles between two accepted requests.
        stall: Probability that a request is not accepted in a cycle.
        reorder: Whether responses of different tags overtake each other.
        late: Whether requests are performed when they are answered, and not when they are accepted:
            with ``reorder``, in any order that the port allows.
    """

    latency: tuple[int, int] = (4, 4)
    interval: int = 1
    stall: float = 0.0
    reorder: bool = False
    late: bool = False


@dataclass
class _PortRequest:
    """A request, the first cycle in which its response may be sent, and the response, once the
    request has been performed.
    """

    due: int
    request: Any
    response: dict[str, int] | None = None


class MemoryServer:
    """Serves a memory port from a :class:`Memory`.

    It accepts at most one request and sends at most one response a cycle, or one beat of each on a
    port of beats.

    Attributes:
        reads: Number of read requests accepted.
        writes: Number of write requests accepted.
        depths: For each accepted request, the number of requests in flight, including it.
    """

    def __init__(
        self, port: Any, memory: Memory, behaviour: MemoryBehaviour, random: Random
    ) -> None:
        self._port, self._memory, self._behaviour, self._random = port, memory, behaviour, random
        self._queues: dict[int, deque[_PortRequest]] = {}
        self._in_beats = "beat" in dict(port.request.payload.shape())
        self._coming: Any = None
        self.reads = self.writes = 0
        self.depths: Counter[int] = Counter()

    async def serve(self, ctx: Any) -> None:
        """The testbench; run it in the background."""
        request, response = self._port.request, self._port.response
        ready, answering, cycle, pause, beat = False, None, 0, 0, 0
        # The fields are read only of accepted requests.
        layout = request.payload.shape()
        answers, accepts = ChangedInput(ctx, response.valid), ChangedInput(ctx, request.ready)
        answer = response.payload
        ticks = ctx.tick().sample(request.valid, request.payload.as_value(), response.ready)
        async for _, _, valid, payload, taken in ticks:
            cycle += 1
            pause = max(0, pause - 1)
            if ready and valid and (line := self._gathered(layout.from_bits(payload))) is not None:
                self._take(cycle, line)
                pause = self._behaviour.interval - 1
            if answering is not None and taken:
                beat += 1
                if beat == self._answer_beats(answering):
                    self._queues[answering].popleft()
                    answering, beat = None, 0
                else:
                    ctx.set(answer, self._answer(answering, beat))
            if answering is None and (tag := self._next(cycle)) is not None:
                answering = tag
                ctx.set(answer, self._answer(tag, 0))
            answers.set(answering is not None)
            ready = not pause and self._random.random() >= self._behaviour.stall
            accepts.set(ready)

    def _gathered(self, request: Any) -> Any:
        """Collects the beats of a request; returns the request with its last beat, else None.

        Raises AssertionError if the beats of two requests are interleaved.
        """
        if not self._in_beats:
            return request
        line = self._coming or SimpleNamespace(
            write=request.write, tag=request.tag, address=request.address, data=0, mask=0, beats=0
        )
        assert (line.write, line.tag, line.address, line.beats) == (
            request.write,
            request.tag,
            request.address,
            request.beat,
        ), "a beat is not the next one of its burst"
        line.data |= request.data << 8 * BEAT_BYTES * line.beats
        line.mask |= request.mask << BEAT_BYTES * line.beats
        line.beats += 1
        self._coming = line if request.write and line.beats < BEATS else None
        return None if self._coming else line

    def _answer_beats(self, tag: int) -> int:
        """Returns the number of beats of the response to a tag's oldest request."""
        return BEATS if self._in_beats and not self._queues[tag][0].request.write else 1

    def _answer(self, tag: int, beat: int) -> dict[str, int]:
        """Returns one beat of the response to a tag's oldest request."""
        answer = self._performed(self._queues[tag][0])
        if not self._in_beats:
            return answer
        data = answer["data"] >> 8 * BEAT_BYTES * beat & (1 << 8 * BEAT_BYTES) - 1
        return {**answer, "beat": beat, "data": data}

    def _take(self, cycle: int, request: Any) -> None:
        """Queues a request behind those of its tag."""
        if request.write:
            self.writes += 1
        else:
            self.reads += 1
        due = cycle + self._random.randint(*self._behaviour.latency) - 1
        waiting = _PortRequest(due, request)
        self._queues.setdefault(request.tag, deque()).append(waiting)
        self.depths[sum(map(len, self._queues.values()))] += 1
        if not self._behaviour.late:
            self._performed(waiting)

    def _performed(self, waiting: _PortRequest) -> dict[str, int]:
        """Performs a request, unless that was done already; returns the response."""
        if waiting.response is not None:
            return waiting.response
        request = waiting.request
        address, error, data = request.address * LINE_BYTES, 0, 0
        try:
            if request.write:
                self._memory.write_line(
                    address, request.data.to_bytes(LINE_BYTES, "little"), request.mask
                )
            else:
                data = self._memory.read_number(address, LINE_BYTES)
        except MemoryFaultError:
            error = 1
        waiting.response = {
            "write": request.write,
            "tag": request.tag,
            "error": error,
            "data": data,
        }
        return waiting.response

    def _next(self, cycle: int) -> int | None:
        """Returns the tag whose oldest response is sent next; None if none is due."""
        due = [tag for tag, queue in self._queues.items() if queue and queue[0].due <= cycle]
        if not due:
            return None
        if self._behaviour.reorder:
            return self._random.choice(due)
        return min(due, key=lambda tag: self._queues[tag][0].due)
