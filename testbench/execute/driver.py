"""Executes instruction words on decoder and lanes, a beat every cycle, and compares the outputs
three cycles later.

A beat of the full lanes takes several cycles, one for each part.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Module, Shape
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.execute.decode import LaneDecoder
from rtl.execute.instruction import LaneInstruction, OperandSource, ValueSource
from rtl.execute.lanes import LANE_CYCLES
from rtl.execute.stages import Operands
from rtl.isa.functions import ONE, TURN
from rtl.isa.rate import quarter_rate
from rtl.isa.syntax import PT, RZ, WORD_BITS
from rtl.machines import units_of
from rtl.params import SmParams
from rtl.serial.lane import BYTE_LANE_CYCLES
from sim.checks.testbench import Bench
from testbench.driver import UnitDriver

_OPERANDS = data.Layout.cast(Operands)
_WIDTH = Shape.cast(Operands).width
_FACTORS = {ValueSource.ONE: ONE, ValueSource.TURN: TURN}


class DecodedLanes(Component):
    """The decoder and the lanes."""

    def __init__(self, params: SmParams) -> None:
        self.decoder, self.lanes = LaneDecoder(params.floats), units_of(params).lanes(params)
        of_lanes = self.lanes.signature.members
        super().__init__(
            {
                "operands": of_lanes["operands"],
                "part": of_lanes["part"],
                "results": of_lanes["results"],
                "word": In(WORD_BITS),
                "instruction": Out(LaneInstruction),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder, m.submodules.lanes = decoder, lanes = self.decoder, self.lanes
        m.d.comb += [
            decoder.word.eq(self.word),
            self.instruction.eq(decoder.instruction),
            lanes.instruction.eq(decoder.instruction),
        ]
        m.d.comb += [
            lanes.operands.eq(self.operands),
            lanes.part.eq(self.part),
            lanes.executes.eq(~0),
            self.results.eq(lanes.results),
        ]
        return m


@dataclass
class Threads:
    """The state of the threads of a beat before an instruction. Sequences have an element per
    thread.

    Attributes:
        registers: Values of each register, by number.
        constant: The value of a constant operand.
        special: The value of a special register, which replaces operand a.
        vote: The result of a vote.
    """

    registers: Mapping[int, Sequence[int]]
    predicates: Sequence[int]
    conditions: Sequence[int]
    constant: int = 0
    special: Sequence[int] | None = None
    vote: Sequence[int] | None = None


@dataclass
class Expected:
    """What a beat writes. None or empty: nothing is written.

    Attributes:
        threads: Positions of the threads that execute it.
        destination: Number of the register, with its ``values``.
        predicates: Values of each written predicate, by number.
        conditions: CC of each thread.
    """

    threads: Sequence[int]
    destination: int = RZ
    values: Sequence[int] | None = None
    predicates: Mapping[int, Sequence[int]] = field(default_factory=dict)
    conditions: Sequence[int] | None = None


@dataclass
class Beat:
    """A word, the state of its threads before it, and what it must write."""

    name: str
    word: int
    before: Threads
    after: Expected


class LaneDriver(UnitDriver):
    """Executes beats on the lanes and compares the outputs.

    Attributes:
        dut: The decoder and the lanes.
        counts: Number of compared threads, by instruction.
    """

    def __init__(self, bench: Bench, lanes: int, beats: Iterable[Beat]) -> None:
        self._params = params = SmParams(lanes=lanes, floats=lanes > 1, doubles=False)
        super().__init__(bench, DecodedLanes(params))
        self.counts: dict[str, int] = {}
        self._lanes, self._beats, self._parts = lanes, beats, params.parts

    async def _drive(self, ctx: Any) -> None:
        """Executes all beats."""
        if self._params.serial:
            await self._drive_serial(ctx)
            return
        under_way: deque[tuple[Beat, Any] | None] = deque([None] * LANE_CYCLES)
        for beat in _then_nothing(self._beats):
            if beat is not None and quarter_rate(beat.word):
                for number in range(self._parts):
                    self._give(ctx, beat, number)
                    if (done := under_way.popleft()) is not None:
                        self._compare(ctx, *done)
                    under_way.append(None)
                    await self._tick(ctx)
                ctx.set(self.dut.part, {"valid": 0, "number": 0})
            under_way.append(None if beat is None else (beat, self._give(ctx, beat)))
            if (done := under_way.popleft()) is not None:
                self._compare(ctx, *done)
            await self._tick(ctx)

    async def _drive_serial(self, ctx: Any) -> None:
        """Executes one beat at a time, sometimes with a pause."""
        for beat in self._beats:
            instruction = self._give(ctx, beat, 0)
            for _ in range(BYTE_LANE_CYCLES):
                await self._tick(ctx)
                ctx.set(self.dut.part.valid, 0)
            self._compare(ctx, beat, instruction)
            for _ in range(self.bench.random.choice((1, 1, 2, 5))):
                await self._tick(ctx)

    def _give(self, ctx: Any, beat: Beat, part: int | None = None) -> Any:
        """Sets the inputs to a beat, in the form that the instruction selects; with ``part``, the
        full lanes get the operands of that part of the threads.
        """
        dut, before = self.dut, beat.before
        ctx.set(dut.word, beat.word)
        instruction = ctx.get(dut.instruction)
        operands = [self._register(beat, number) for number in instruction.registers]
        if before.special is not None:
            operands[0] = before.special
        if instruction.source_a in _FACTORS:
            operands[0] = [_FACTORS[instruction.source_a]] * self._lanes
        for index, source in ((1, instruction.source_b), (2, instruction.source_c)):
            if source is not OperandSource.REGISTER:
                value = (
                    before.constant if source is OperandSource.CONSTANT else instruction.immediate
                )
                operands[index] = [value] * self._lanes
        sources = [0] * self._lanes
        for position, predicate in enumerate(instruction.predicates):
            for thread, held in enumerate(before.predicates):
                holds = (held | 1 << PT) >> predicate.number & 1 ^ predicate.negated
                if position == 0 and before.vote is not None:
                    holds = before.vote[thread]
                sources[thread] |= holds << position
        fields = {
            name: list(values)
            for name, values in {
                **dict(zip("abc", operands, strict=True)),
                "conditions": before.conditions,
                "sources": sources,
                "predicates": before.predicates,
            }.items()
        }
        if part is not None:
            ctx.set(dut.part, {"valid": 1, "number": part})
            for values in fields.values():
                values[:: self._parts] = values[part :: self._parts]
        ctx.set(
            dut.operands.as_value(),
            sum(
                value << _OPERANDS[name].offset + thread * _WIDTH
                for name, values in fields.items()
                for thread, value in enumerate(values)
            ),
        )
        return instruction

    def _register(self, beat: Beat, number: int) -> Sequence[int]:
        """The values of a register of all threads; random values if the instruction does not read
        it.
        """
        return beat.before.registers.get(number) or [
            self.bench.random.getrandbits(32) for _ in range(self._lanes)
        ]

    def _compare(self, ctx: Any, beat: Beat, instruction: Any) -> None:
        """Compares the outputs with the expected results of a beat."""
        self._happened()
        dut, after, expect = self.dut, beat.after, self.bench.expect
        destination = instruction.destination
        what = f"{beat.name} {beat.word:016x}"
        expect(f"{what}: destination", destination.register, after.destination)
        expect(f"{what}: writes CC", destination.writes_cc, int(after.conditions is not None))
        executing = [thread for thread in range(self._lanes) if instruction.quad >> thread % 4 & 1]
        expect(f"{what}: threads", executing, list(after.threads))
        results = ctx.get(dut.results)
        for thread in after.threads:
            result = results[thread]
            moved, moves = result.value, result.predicates_written
            of = f"{what}: thread {thread}, from {self._shown(beat, instruction, thread)}"
            if after.values is not None:
                expect(f"{of}: value", result.value, after.values[thread])
            if after.conditions is not None:
                expect(f"{of}: CC", result.conditions.as_bits(), after.conditions[thread])
            written = {destination.p: result.p, destination.q: result.q}
            for number in range(PT):
                if moves >> number & 1:
                    written[number] = moved >> number & 1
            written.pop(PT, None)
            held = beat.before.predicates[thread]
            for number in range(PT):
                new = (
                    after.predicates[number][thread]
                    if number in after.predicates
                    else held >> number & 1
                )
                expect(f"{of}: P{number}", written.get(number, held >> number & 1), new)
        self.counts[beat.name] = self.counts.get(beat.name, 0) + len(after.threads)

    def _shown(self, beat: Beat, instruction: Any, thread: int) -> str:
        """The operands of a thread, for a message."""
        before = beat.before
        registers = ", ".join(
            f"{before.registers[number][thread]:#x}" if number in before.registers else "any"
            for number in instruction.registers
        )
        return (
            f"registers {registers}, constant {before.constant:#x}, immediate {instruction.immediate:#x}, "
            f"CC {before.conditions[thread]:04b}, predicates {before.predicates[thread]:07b}"
        )


def _then_nothing(beats: Iterable[Beat]) -> Iterator[Beat | None]:
    """The beats, followed by None for the cycles until the last one has left the lanes."""
    yield from beats
    yield from [None] * LANE_CYCLES
