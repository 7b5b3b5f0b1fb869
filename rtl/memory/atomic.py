"""Atomic operations, thread by thread."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.params import WARP_THREADS, SmParams
from rtl.pick import pick

from .banks import bank_access
from .instruction import WORDS, MemoryInstruction
from .modify import AtomicArithmetic
from .places import OFFSET_BITS, inner_place_layout
from .switch import source_layout
from .words import word_write

__all__ = ["AtomicEngine"]


class AtomicEngine(Component):
    """Takes the lowest thread that is left: finds its number, changes it, writes it. Four cycles a thread, and one for
    each word of its operands.

    Members
    -------
    start, threads, line : In(1), In(32), In(1)
        Whose operations are to be done, and whether in the line that was read or in shared memory.
    instruction : In(MemoryInstruction)
    beat, places, word, values : Out, In, Out, In
        A beat, its threads' places, a word of their operands, and what it is.
    access : Out(bank_access)
        An access to the banks.
    sources, found : Out(source_layout), In
        Which banks' words the lanes want a cycle later or, when ``fetching``, whose operands; and these words.
    fetching : Out(1)
    write : Out(word_write)
        Old values, in the place of the first operand.
    busy, done : Out(1)
        ``done`` in the last cycle of being busy.
    event : Out(1)
        An operation is done.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        banks = data.ArrayLayout(32, params.lanes)
        super().__init__({
            "start": In(1), "threads": In(WARP_THREADS), "line": In(1), "instruction": In(MemoryInstruction),
            "beat": Out(range(params.beats)), "places": In(inner_place_layout(params)),
            "word": Out(range(WORDS)), "values": In(banks), "access": Out(bank_access(params)),
            "sources": Out(source_layout(params)), "found": In(banks), "fetching": Out(1),
            "write": Out(word_write(params)), "busy": Out(1), "done": Out(1), "event": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, instruction = self._params, self.instruction
        m.submodules.arithmetic = arithmetic = AtomicArithmetic()
        left, line, wide = Signal(WARP_THREADS), Signal(), instruction.words != 1
        thread, place = Signal(range(WARP_THREADS)), Signal(params.shared_bits)
        old, new = Signal(data.ArrayLayout(32, 2)), Signal(data.ArrayLayout(32, 2))
        operands = Signal(data.ArrayLayout(32, WORDS))
        bank, last_word = place[2:2 + ceil_log2(params.lanes)], Mux(instruction.compare, Mux(wide, 3, 1), wide)
        lane, beat = thread[:ceil_log2(params.lanes)], thread[ceil_log2(params.lanes):]
        m.d.comb += [
            self.beat.eq(beat), self.access.line.eq(line), self.sources[0].eq(bank), self.sources[1].eq(bank | 1),
            self.write.beat.eq(beat), self.busy.eq(1), arithmetic.operation.eq(instruction.atomic),
            arithmetic.compare.eq(instruction.compare), arithmetic.signed.eq(instruction.is_signed),
            arithmetic.wide.eq(wide), arithmetic.old.eq(old), arithmetic.operand.eq(Cat(
                operands[0], Mux(wide, operands[1], 0))),
            arithmetic.swap.eq(Mux(wide, Cat(operands[2], operands[3]), operands[1]))]

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.busy.eq(0)
                m.d.sync += [left.eq(self.threads), line.eq(self.line), thread.eq(lowest(self.threads))]
                with m.If(self.start):
                    m.next = "FETCH"
            with m.State("FETCH"):
                found = pick(self.places, lane)
                m.d.comb += [self.fetching.eq(1), self.sources[0].eq(lane)]
                m.d.sync += [
                    place.eq(Mux(line, found[:OFFSET_BITS], found)), left.bit_select(thread, 1).eq(0),
                    operands[self.word].eq(self.found[0]), self.word.eq(self.word + 1)]
                with m.If(self.word == last_word):
                    m.d.sync += self.word.eq(0)
                    m.next = "READ"
            with m.State("READ"):
                self._address(m, place)
                m.next = "OLD"
            with m.State("OLD"):
                m.d.sync += [old[0].eq(self.found[0]), old[1].eq(Mux(wide, self.found[1], 0))]
                m.next = "CHANGE"
            with m.State("CHANGE"):
                m.d.sync += new.eq(arithmetic.new)
                self._keep(m, lane, 0, old[0])
                m.next = "WRITE"
            with m.State("WRITE"):
                self._address(m, place)
                self._store(m, place, new, wide)
                with m.If(wide):
                    self._keep(m, lane, 1, old[1])
                m.d.sync += thread.eq(lowest(left))
                m.d.comb += [self.event.eq(1), self.done.eq(~left.any())]
                m.next = "FETCH"
                with m.If(~left.any()):
                    m.next = "IDLE"
        return m

    def _address(self, m: Module, place: Signal) -> None:
        """All banks see the row in which the number is."""
        m.d.comb += self.access.used.eq(1)
        m.d.comb += [bank.row.eq(place[2 + ceil_log2(self._params.lanes):]) for bank in self.access.banks]

    def _keep(self, m: Module, lane: Any, word: int, value: Any) -> None:
        """The old value goes to the thread."""
        m.d.comb += [self.write.lanes.eq(1 << lane), self.write.word.eq(word)]
        m.d.comb += [kept.eq(value) for kept in self.write.values]

    def _store(self, m: Module, place: Signal, new: data.View, wide: Any) -> None:
        bank = place[2:2 + ceil_log2(self._params.lanes)]
        for index, access in enumerate(self.access.banks):
            m.d.comb += access.value.eq(new[0])
            with m.If(bank == index):
                m.d.comb += access.bytes.eq(15)
            if index & 1:
                with m.If(wide):
                    m.d.comb += access.value.eq(new[1])
                    with m.If(bank == index - 1):
                        m.d.comb += access.bytes.eq(15)
