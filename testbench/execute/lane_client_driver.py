"""A model of the lanes for a unit with a LaneClientPort or a LaneWriterPort: executes its
operations on registers.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rtl.isa.condition import Flags
from rtl.isa.syntax import PT, RZ
from rtl.layouts import operation_beat, register_gather, register_write
from rtl.params import WARP_THREADS, SmParams
from sim.checks.testbench import Bench
from sim.machine.changed_input import ChangedInput

WANTED_CYCLES = 3
"""Cycles from an operation taken to the request of its first beat's data."""
READ_CYCLES = 3
"""Cycles from an operation taken to the read of its first beat's registers."""
GATHERED_CYCLES = 5
"""Cycles from an operation taken to the delivery of its first beat's registers to the unit."""
WRITTEN_CYCLES = 8
"""Cycles from an operation taken to the end of the cycle in which its first beat is written."""
_WORD_BITS = 32
_WORD = (1 << _WORD_BITS) - 1
_CC_BITS = Flags.as_shape().size


@dataclass(frozen=True)
class LaneOperation:
    """A gather or a write that the unit has requested.

    Its fields are those of ``rtl.layouts.register_gather`` or ``rtl.layouts.register_write``;
    ``cycle`` is the one in which it was taken. A write has one register.
    """

    gather: bool
    warp: int
    sequence: int
    registers: tuple[int, ...]
    index: int
    last: bool
    barrier: int
    cycle: int
    predicate: int = PT
    conditional: bool = False
    threads: int = 0


@dataclass(frozen=True)
class _UnderWay:
    """An operation whose beats are in the lanes."""

    operation: LaneOperation
    beats: list[int] = field(default_factory=list)
    """The bits that a gather has read, for each beat."""
    answers: list[tuple[int, int, int]] = field(default_factory=list)
    """The data of a write, for each beat: values, flags, conditions."""


class LaneClientDriver:
    """Serves the port of one unit. Operations take effect in the order in which they were taken.

    The beats of an operation are consecutive. Those of two operations never overlap, except a
    gather and a write that were taken in one cycle: after that the port is not ready for the rest
    of their beats. A gather is not taken in the first cycle in which it is offered. All cycles are
    counted from the start of :meth:`serve`.

    Parameters:
        bench: Source of random numbers for the readiness of the port.
        params: Parameters of the hardware.
        port (interface of LaneClientPort or LaneWriterPort): The port of the unit.
        idle: Probability, from 0 to less than 1, that the port is not ready in a cycle.
        delay: Cycles by which every event is later than in the lanes.
        ended: Called when the last beat of an operation was delivered or written.

    Attributes:
        registers (dict[(warp, register), list[int]]): Values of each thread; zeros unless set or
        written.
        predicates (dict[(warp, predicate), int]): Masks of threads.
        conditions: CC of each thread, in the layout of :class:`~rtl.isa.condition.Flags`.
        now: The current cycle: the number of clock edges before it.
    """

    def __init__(
        self,
        bench: Bench,
        params: SmParams,
        port: Any,
        *,
        idle: float = 0.0,
        delay: int = 0,
        ended: Callable[[LaneOperation], None] = lambda operation: None,
    ) -> None:
        self._bench, self._port = bench, port
        self.registers: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0] * WARP_THREADS)
        self.predicates: dict[tuple[int, int], int] = defaultdict(int)
        self.conditions: dict[int, list[int]] = defaultdict(lambda: [0] * WARP_THREADS)
        self._params = params
        self.now = 0
        self._idle = idle
        self._delay = delay
        self._ended = ended
        self._layouts = {"gather": register_gather(params), "write": register_write(params)}
        self._kinds = [kind for kind in self._layouts if hasattr(port, kind)]
        self._beat_layout = operation_beat(params)
        self._under_way: list[_UnderWay] = []
        self._busy_until = 0
        self._gather_waits = False

    @property
    def quiet(self) -> bool:
        """Whether every operation taken has ended."""
        return not self._under_way

    async def serve(self, ctx: Any) -> None:
        """The testbench process, which does not end."""
        port = self._port
        streams = [getattr(port, kind) for kind in self._kinds]
        readies = {kind: ChangedInput(ctx, getattr(port, kind).ready) for kind in self._kinds}
        gathered_beat = BeatInput(ctx, port.data.gathered) if "gather" in self._kinds else None
        wanted_beat = BeatInput(ctx, port.data.wanted)
        ticks = ctx.tick().sample(
            port.data.values.as_value(),
            port.data.flags,
            port.data.conditions.as_value(),
            *(stream.valid for stream in streams),
            *(stream.payload.as_value() for stream in streams),
        )

        def set_inputs() -> set[str]:
            gathered = [self._gathered(under_way) for under_way in self._under_way]
            if gathered_beat is not None:
                gathered_beat.set(gathered)
            wanted_beat.set([self._wanted(under_way) for under_way in self._under_way])
            ready = self._ready()
            for kind, is_ready in readies.items():
                is_ready.set(kind in ready)
            return ready

        ready = set_inputs()
        async for _, _, *sampled in ticks:
            written, valid, payloads = (
                sampled[:3],
                sampled[3 : 3 + len(streams)],
                sampled[3 + len(streams) :],
            )
            for under_way in self._under_way:
                self._write(under_way, *written)
            for ended in [
                each for each in self._under_way if self._age(each) >= self._last_age(each)
            ]:
                self._under_way.remove(ended)
                self._ended(ended.operation)
            self._gather_waits = False
            for kind, offers, payload in zip(self._kinds, valid, payloads, strict=True):
                if offers and kind in ready:
                    self._take(kind, payload)
                elif offers and kind == "gather":
                    self._gather_waits = True
            self.now += 1
            ready = set_inputs()

    def _ready(self) -> set[str]:
        """The kinds of operations that the port is ready for in this cycle."""
        if self.now < self._busy_until:
            return set()
        return {
            kind
            for kind in self._kinds
            if self._bench.random.random() >= self._idle
            and (kind != "gather" or self._gather_waits)
        }

    def _take(self, kind: str, bits: int) -> None:
        """Records an operation that is taken in this cycle."""
        fields: Any = self._layouts[kind].from_bits(bits)
        common = (int(fields.index), bool(fields.last), int(fields.barrier), self.now)
        owner = (int(fields.warp), int(fields.sequence))
        self._under_way.append(
            _UnderWay(
                LaneOperation(True, *owner, tuple(map(int, fields.registers)), *common)
                if kind == "gather"
                else LaneOperation(
                    False,
                    *owner,
                    (int(fields.register),),
                    *common,
                    int(fields.predicate),
                    bool(fields.conditional),
                    int(fields.threads),
                )
            )
        )
        self._busy_until = self.now + self._params.beats

    def _age(self, under_way: _UnderWay) -> int:
        """Cycles since an operation was taken, without the delay."""
        return self.now - under_way.operation.cycle - self._delay

    def _last_age(self, under_way: _UnderWay) -> int:
        """The age at which an operation ends."""
        return (
            (GATHERED_CYCLES if under_way.operation.gather else WRITTEN_CYCLES)
            + self._params.beats
            - 1
        )

    def _beat(self, under_way: _UnderWay, first: int) -> int | None:
        """The beat in the stage that beat 0 reaches at age ``first``; None if no beat of the
        operation is there.
        """
        beat = self._age(under_way) - first
        return beat if 0 <= beat < self._params.beats else None

    def _threads(self, beat: int) -> range:
        """The threads of a beat."""
        return range(beat * self._params.lanes, (beat + 1) * self._params.lanes)

    def _beat_of(self, operation: LaneOperation, beat: int) -> int:
        return self._beat_layout.const({"index": operation.index, "beat": beat}).as_bits()

    def _gathered(self, under_way: _UnderWay) -> int | None:
        """The payload of ``gathered`` in this cycle, None if the operation has none; reads the
        registers of a beat.
        """
        operation = under_way.operation
        if not operation.gather:
            return None
        if (beat := self._beat(under_way, READ_CYCLES)) is not None:
            words = [
                0 if register == RZ else self.registers[operation.warp, register][thread]
                for thread in self._threads(beat)
                for register in operation.registers
            ]
            under_way.beats.append(
                sum(word << _WORD_BITS * place for place, word in enumerate(words))
            )
        if (beat := self._beat(under_way, GATHERED_CYCLES)) is None:
            return None
        return self._beat_of(operation, beat) | under_way.beats[beat] << self._beat_layout.size

    def _wanted(self, under_way: _UnderWay) -> int | None:
        """The payload of ``wanted`` in this cycle, None if the operation requests no data."""
        beat = None if under_way.operation.gather else self._beat(under_way, WANTED_CYCLES)
        return None if beat is None else self._beat_of(under_way.operation, beat)

    def _write(self, under_way: _UnderWay, values: int, flags: int, conditions: int) -> None:
        """Records the data that the unit supplies for a beat, and writes the beat that has reached
        the last stage.
        """
        operation = under_way.operation
        if operation.gather:
            return
        if self._beat(under_way, WANTED_CYCLES + 1) is not None:
            under_way.answers.append((values, flags, conditions))
        if (beat := self._beat(under_way, WRITTEN_CYCLES)) is None:
            return
        values, flags, conditions = under_way.answers[beat]
        for lane, thread in enumerate(self._threads(beat)):
            if not operation.threads >> thread & 1:
                continue
            if (register := operation.registers[0]) != RZ:
                self.registers[operation.warp, register][thread] = (
                    values >> _WORD_BITS * lane & _WORD
                )
            if operation.predicate != PT:
                mask = self.predicates[operation.warp, operation.predicate] & ~(1 << thread)
                self.predicates[operation.warp, operation.predicate] = (
                    mask | (flags >> lane & 1) << thread
                )
            if operation.conditional:
                self.conditions[operation.warp][thread] = (
                    conditions >> _CC_BITS * lane & (1 << _CC_BITS) - 1
                )


class BeatInput:
    """The input of an event; at most one operation has a beat in it."""

    def __init__(self, ctx: Any, event: Any) -> None:
        self._valid = ChangedInput(ctx, event.valid)
        self._payload = ChangedInput(ctx, event.payload.as_value())

    def set(self, beats: list[int | None]) -> None:
        """Sets the event to the beat that is not None; to no event without one."""
        happens = [beat for beat in beats if beat is not None]
        assert len(happens) <= 1, "beats of two operations in one cycle"
        self._valid.set(len(happens))
        self._payload.set(happens[0] if happens else 0)
