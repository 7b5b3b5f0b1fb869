"""The lane of a serial machine beside a full lane of another one, with the same words and
operands.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from amaranth.hdl import Module, Mux
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.execute.decode import LANE_FORMS, LaneDecoder
from rtl.execute.lanes import LANE_CYCLES, Lanes
from rtl.execute.stages import LaneResult, Operands
from rtl.isa.floating import FLOATING
from rtl.isa.rate import quarter_rate
from rtl.isa.syntax import PT, RZ, WORD_BITS, Form
from rtl.params import SmParams
from rtl.serial.lane import BYTE_LANE_CYCLES, SerialLanes
from sim.checks.testbench import Bench
from testbench.driver import UnitDriver
from testbench.instructions.cases import number, random_word

_SERIAL, _OTHER = (SmParams(lanes=lanes, floats=False, doubles=False) for lanes in (1, 2))
_OPERANDS = data.Layout.cast(Operands)
INTEGER_FORMS = tuple(form for form in LANE_FORMS if form not in FLOATING)
"""The forms that the lane of a serial machine executes."""


class BothLanes(Component):
    """The decoder and both lanes."""

    def __init__(self) -> None:
        self.decoder, self.serial, self.other = (
            LaneDecoder(floats=False),
            SerialLanes(_SERIAL),
            Lanes(_OTHER),
        )
        super().__init__(
            {
                "word": In(WORD_BITS),
                "operands": In(Operands),
                "immediate": Out(32),
                "quarter": In(1),
                "start": In(1),
                "ours": Out(LaneResult),
                "theirs": Out(LaneResult),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder, m.submodules.serial, m.submodules.other = decoder, serial, other = (
            self.decoder,
            self.serial,
            self.other,
        )
        m.d.comb += [
            decoder.word.eq(self.word),
            self.immediate.eq(decoder.instruction.immediate),
            serial.part.valid.eq(self.start),
            other.part.valid.eq(self.quarter),
            self.ours.eq(serial.results[0]),
            self.theirs.eq(other.results[0]),
        ]
        for lanes in (serial, other):
            m.d.comb += [
                lanes.instruction.eq(decoder.instruction),
                lanes.operands[0].eq(self.operands),
                lanes.executes.eq(Mux(lanes is serial, 1, 3)),
            ]
        return m


class BothDriver(UnitDriver):
    """Compares all outputs of both lanes, written or not.

    Attributes:
        dut: The decoder and both lanes.
        counts: Number of compared words, by instruction.
    """

    def __init__(self, bench: Bench, count: int, forms: Sequence[Form] = INTEGER_FORMS) -> None:
        super().__init__(bench, BothLanes())
        self.counts: Counter[str] = Counter()
        self._count, self._forms = count, forms

    async def _drive(self, ctx: Any) -> None:
        """Executes ``count`` words of each form, in random order."""
        dut, source = self.dut, self.bench.random
        order = list(self._forms) * self._count
        source.shuffle(order)
        for form in order:
            word = random_word(source, form, (*range(8), RZ), RZ + 1, {})
            ctx.set(dut.word, word)
            operands = self._operands(source, ctx.get(dut.immediate))
            ctx.set(
                dut.operands.as_value(),
                sum(value << _OPERANDS[name].offset for name, value in operands.items()),
            )
            ctx.set(dut.quarter, quarter_rate(word))
            ctx.set(dut.start, 1)
            for _ in range(BYTE_LANE_CYCLES):
                await self._tick(ctx)
                ctx.set(dut.start, 0)
            ours, theirs = ctx.get(dut.ours), ctx.get(dut.theirs)
            self._happened()
            self.bench.expect(f"{form.name} {word:016x} of {operands}", ours, theirs)
            self.counts[form.name] += 1

    def _operands(self, source: Random, immediate: int) -> dict[str, int]:
        """Random operands; b is often small, or the immediate."""
        b = source.choice(
            (
                number(source),
                immediate,
                source.getrandbits(6),
                source.getrandbits(5) << 8 | source.getrandbits(5),
            )
        )
        return {
            "a": number(source),
            "b": b,
            "c": number(source),
            "sources": source.getrandbits(3),
            "conditions": source.getrandbits(4),
            "predicates": source.getrandbits(PT),
        }


assert BYTE_LANE_CYCLES > LANE_CYCLES + 1
