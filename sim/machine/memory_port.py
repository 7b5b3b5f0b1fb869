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
    """How the memory behaves, in cycles.

    ``latency``: least and most from a request to its answer. ``interval``: from one request taken to the
    next, at least. ``stall``: chance that a request is not taken in a cycle. ``reorder``: tags overtake each
    other. ``late``: requests are performed when they are answered, and not when they are taken: with ``reorder`` in
    any order that the port allows.
    """

    latency: tuple[int, int] = (4, 4)
    interval: int = 1
    stall: float = 0.0
    reorder: bool = False
    late: bool = False


@dataclass
class _PortRequest:
    """A request, the first cycle in which its answer may be returned, and the answer, once the
    request is performed."""

    due: int
    request: Any
    response: dict[str, int] | None = None


class MemoryServer:
    """Serves a memory port from a :class:`Memory`, one request and one answer a cycle at most, or one beat of each
    where the port is one of beats.

    Attributes:
        reads, writes: Requests taken.
        depths: How many requests were not answered yet when one was taken, with this one.
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
        # Only what is taken is worth its fields.
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
        """The line that is requested or written, with its last beat; None with the others.
        AssertionError when beats are mixed."""
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
        """Beats of the answer that a tag's oldest request gets."""
        return BEATS if self._in_beats and not self._queues[tag][0].request.write else 1

    def _answer(self, tag: int, beat: int) -> dict[str, int]:
        """A beat of it."""
        answer = self._performed(self._queues[tag][0])
        if not self._in_beats:
            return answer
        data = answer["data"] >> 8 * BEAT_BYTES * beat & (1 << 8 * BEAT_BYTES) - 1
        return {**answer, "beat": beat, "data": data}

    def _take(self, cycle: int, request: Any) -> None:
        """Queues a request, behind those of its tag."""
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
        """Performs a request, if that was not done; returns the answer."""
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
        """The tag whose oldest answer is given next."""
        due = [tag for tag, queue in self._queues.items() if queue and queue[0].due <= cycle]
        if not due:
            return None
        if self._behaviour.reorder:
            return self._random.choice(due)
        return min(due, key=lambda tag: self._queues[tag][0].due)
