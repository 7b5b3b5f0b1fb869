"""SHFL: threads read a register of each other."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.kinds import ShuffleMode
from rtl.params import WARP_THREADS, SmParams

from .instruction import WORDS, MemoryInstruction
from .switch import source_layout
from .words import word_write

__all__ = ["ShuffleEngine"]

_VALUE, _STEP, _CLAMP = range(1, 4)
"""Which of a thread's operands are what: they lie as the one gather brings them, behind the place of a first word."""
_BITS = ceil_log2(WARP_THREADS)


class ShuffleEngine(Component):
    """First finds out from where each thread reads, then takes each beat's values to all beats, one after the other.

    Threads that do not execute the instruction have nothing to give: who reads them gets 0 (ours). Whether a thread
    reads in its segment has nothing to do with that.

    Members
    -------
    start : In(1)
    instruction : In(MemoryInstruction)
    threads : In(32)
        Those that execute it.
    beat, word, values : Out, Out, In
        A beat, a word of its threads, and what it is.
    sources, found : Out(source_layout), In
        Which lanes' values the lanes want, and these values.
    write : Out(word_write)
    given : Out(32)
        The threads that read one that executes; the others get 0.
    inside : Out(32)
        The threads that read in their segment; the others read their own value.
    busy : Out(1)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "start": In(1), "instruction": In(MemoryInstruction), "threads": In(WARP_THREADS),
            "beat": Out(range(params.beats)), "word": Out(range(WORDS)),
            "values": In(data.ArrayLayout(32, params.lanes)),
            "sources": Out(source_layout(params)), "found": In(data.ArrayLayout(32, params.lanes)),
            "write": Out(word_write(params)), "given": Out(WARP_THREADS), "inside": Out(WARP_THREADS), "busy": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self._params
        lane_bits = ceil_log2(params.lanes)
        sources = Signal(data.ArrayLayout(data.ArrayLayout(_BITS, params.lanes), params.beats))
        steps: Any = Signal(data.ArrayLayout(_BITS, params.lanes))
        first, second = Signal(range(params.beats)), Signal(range(params.beats))
        giving, given = self.threads.word_select(first, params.lanes), self.given.word_select(second, params.lanes)
        last_first, last_second = first == params.beats - 1, second == params.beats - 1

        m.d.comb += self.write.values.eq(self.found)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [first.eq(0), second.eq(0)]
                with m.If(self.start):
                    m.next = "STEP"
            with m.State("STEP"):
                m.d.comb += [self.busy.eq(1), self.beat.eq(first), self.word.eq(_STEP)]
                m.d.sync += [step.eq(value[:_BITS]) for step, value in zip(steps, self.values, strict=True)]
                m.next = "FIND"
            with m.State("FIND"):
                m.d.comb += [self.busy.eq(1), self.beat.eq(first), self.word.eq(_CLAMP)]
                m.d.sync += first.eq(Mux(last_first, 0, first + 1))
                for lane in range(params.lanes):
                    source, inside = self._source(m, lane, Cat(Const(lane, lane_bits), first)[:_BITS], steps[lane])
                    m.d.sync += [
                        sources[first][lane].eq(source), self.inside.word_select(first, params.lanes)[lane].eq(inside)]
                m.next = "STEP"
                with m.If(last_first):
                    m.next = "MOVE"
            with m.State("MOVE"):
                m.d.comb += [
                    self.busy.eq(1), self.beat.eq(first), self.word.eq(_VALUE), self.write.beat.eq(second),
                    self.write.lanes.eq(Cat(source[lane_bits:] == first for source in sources[second])),
                    Cat(self.sources).eq(Cat(source[:lane_bits] for source in sources[second]))]
                m.d.sync += first.eq(Mux(last_first, 0, first + 1))
                for lane in range(params.lanes):
                    with m.If(self.write.lanes[lane]):
                        m.d.sync += given[lane].eq(giving.bit_select(self.sources[lane], 1))
                with m.If(last_first):
                    m.d.sync += second.eq(second + 1)
                    with m.If(last_second):
                        m.next = "IDLE"
        return m

    def _source(self, m: Module, lane: int, thread: Value, step: Value) -> tuple[Value, Value]:
        """Which thread's value one gets, and whether it is in the thread's segment.

        The last thread of a segment is in bits 4:0 of the clamp, the segment's mask in bits 12:8.
        """
        instruction = self.instruction
        step, clamp = step | instruction.step, self.values[lane] | instruction.clamp
        segment, lowest = clamp[8:8 + _BITS], thread & clamp[8:8 + _BITS]
        last = lowest | clamp[:_BITS] & ~segment
        reached, inside = Signal(_BITS + 2, name=f"reached_{lane}"), Signal(name=f"inside_{lane}")
        with m.Switch(instruction.mode):
            with m.Case(ShuffleMode.IDX):
                m.d.comb += reached.eq(lowest | step & ~segment)
            with m.Case(ShuffleMode.UP):
                m.d.comb += reached.eq(thread - step)
            with m.Case(ShuffleMode.DOWN):
                m.d.comb += reached.eq(thread + step)
            with m.Case(ShuffleMode.BFLY):
                m.d.comb += reached.eq(thread ^ step)
        m.d.comb += inside.eq(Mux(
            instruction.mode == ShuffleMode.UP, reached.as_signed() >= last, reached <= last))
        return Mux(inside, reached, thread)[:_BITS], inside
