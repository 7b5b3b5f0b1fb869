"""The lanes, as a unit that has a LaneClientPort or a LaneWriterPort sees them: takes its operations, reads and writes
registers for it.
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
"""From the cycle in which an operation is taken to the one in which the first beat's data are
requested."""
READ_CYCLES = 3
"""From the cycle in which an operation is taken to the one in which the first beat's registers are read."""
GATHERED_CYCLES = 5
"""From the cycle in which an operation is taken to the one in which the unit has the first beat's registers."""
WRITTEN_CYCLES = 8
"""From the cycle in which an operation is taken to the one at whose end its first beat is written."""
_WORD_BITS = 32
_WORD = (1 << _WORD_BITS) - 1
_CC_BITS = Flags.as_shape().size


@dataclass(frozen=True)
class LaneOperation:
    """A gather or a write that the unit has requested, with the fields of
    ``rtl.layouts.register_gather`` or ``rtl.layouts.register_write``, and the ``cycle`` in which it
    was taken. A write has one register."""

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
    """An operation whose beats pass the lanes."""

    operation: LaneOperation
    beats: list[int] = field(default_factory=list)
    """What a gather has read, beat by beat, as bits."""
    answers: list[tuple[int, int, int]] = field(default_factory=list)
    """What the unit has given for a write, beat by beat: values, flags, conditions."""


class LaneClientDriver:
    """Serves one unit's port. Operations take effect in the order in which they were taken.

    The beats of an operation follow each other without a gap. Those of two operations never
    overlap, except a gather and a write that were taken in one cycle: after that the port is not
    ready for the rest of their beats. A gather is not taken in the first cycle in which it is
    offered. All cycles are counted from the start of :meth:`serve`.

    Parameters:
        bench: Whose random numbers decide when the port is ready.
        params: Sizes of the hardware.
        port (interface of LaneClientPort or LaneWriterPort): The unit's.
        idle: How often the port is not ready without a reason, from 0 on, less than 1.
        delay: Cycles by which everything comes later than the lanes would do it.
        ended: Called when the last beat of an operation was handed over or written.

    Attributes:
        registers (dict[(warp, register), list[int]]): Of each thread; zeros unless set or written.
        predicates (dict[(warp, predicate), int]): As masks.
        conditions: CC of each thread, laid out as :class:`~rtl.isa.condition.Flags`.
        now: The cycle that it is in: clock edges before it.
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
        """Whether every operation that was taken has ended."""
        return not self._under_way

    async def serve(self, ctx: Any) -> None:
        """The testbench: without end."""
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
        """An operation is taken in this cycle."""
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
        """Which beat is in the stage that beat 0 is in at age ``first``; None for none of the operation."""
        beat = self._age(under_way) - first
        return beat if 0 <= beat < self._params.beats else None

    def _threads(self, beat: int) -> range:
        """The threads of a beat."""
        return range(beat * self._params.lanes, (beat + 1) * self._params.lanes)

    def _beat_of(self, operation: LaneOperation, beat: int) -> int:
        return self._beat_layout.const({"index": operation.index, "beat": beat}).as_bits()

    def _gathered(self, under_way: _UnderWay) -> int | None:
        """The payload of ``gathered`` in this cycle, if it comes from this operation; reads its registers."""
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
        """The payload of ``wanted`` in this cycle, if it comes from this operation."""
        beat = None if under_way.operation.gather else self._beat(under_way, WANTED_CYCLES)
        return None if beat is None else self._beat_of(under_way.operation, beat)

    def _write(self, under_way: _UnderWay, values: int, flags: int, conditions: int) -> None:
        """Notes what the unit gives for a beat in this cycle; writes the beat that has reached the last stage."""
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
    """An event of a beat, which comes from one operation at most."""

    def __init__(self, ctx: Any, event: Any) -> None:
        self._valid = ChangedInput(ctx, event.valid)
        self._payload = ChangedInput(ctx, event.payload.as_value())

    def set(self, beats: list[int | None]) -> None:
        """Sets the event to the beat that is not None, or to none."""
        happens = [beat for beat in beats if beat is not None]
        assert len(happens) <= 1, "beats of two operations in one cycle"
        self._valid.set(len(happens))
        self._payload.set(happens[0] if happens else 0)
