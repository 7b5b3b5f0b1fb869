"""Sources and results of the instructions in the unit, by beats and by threads.

They lie in block memory. What is read in the cycle of a write to it is what was there before in simulation; block
memory does not promise it, and nobody asks.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.condition import Flags
from rtl.params import WARP_THREADS, SmParams
from rtl.pick import pick
from rtl.wires import IN_BLOCKS

from .instruction import DOUBLE_BITS, ENTRY_BITS, WORD_BITS

__all__ = ["GROUPS", "ResultBuffer", "SourceBuffer"]

_THREAD_BITS = ceil_log2(WARP_THREADS)
GROUPS = 2
"""Groups of threads, side by side, in a beat: they are computed one after the other."""


class SourceBuffer(Component):
    """Sources of a warp's threads: written by beats, read by groups and threads.

    Members
    -------
    write, entry, beat, values : In(1), In, In, In(array of 64 bits a lane)
    read_entry, thread : In, In(5)
    group : Out(array of 32 bits)
        The low words of that thread's group, a cycle later.
    value : Out(64)
        That thread's source, a cycle later.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._together = params.lanes // GROUPS
        super().__init__({
            "write": In(1), "entry": In(ENTRY_BITS), "beat": In(range(params.beats)),
            "values": In(data.ArrayLayout(DOUBLE_BITS, params.lanes)), "read_entry": In(ENTRY_BITS),
            "thread": In(_THREAD_BITS), "group": Out(data.ArrayLayout(WORD_BITS, self._together)),
            "value": Out(DOUBLE_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = [[value.word_select(part, WORD_BITS) for value in self.values] for part in (0, 1)]
        group, high, number = Signal.like(self.group), Signal(WORD_BITS), Signal.like(self.thread)
        m.d.sync += [group.eq(self._part(m, "low", words[0], self._together)),
                     high.eq(self._part(m, "high", words[1], 1)), number.eq(self.thread)]
        m.d.comb += [self.group.eq(group),
                     self.value.eq(Cat(pick(group, number[:ceil_log2(self._together)]), high))]
        return m

    def _part(self, m: Module, name: str, words: list[Any], together: int) -> Value:
        """Words that are written a beat at a time: ``together`` of them, those of the thread that is read among them.

        Synthesis makes one wide port of the ports that write a beat, and block memory whose reading side is narrower.
        """
        inside = ceil_log2(together)
        m.submodules[name] = rows = memory.Memory(
            shape=WORD_BITS * together, depth=WARP_THREADS // together << ENTRY_BITS, init=[], attrs=IN_BLOCKS)
        read = rows.read_port(domain="comb")
        m.d.comb += read.addr.eq(Cat(self.thread[inside:], self.read_entry))
        for first in range(0, len(words), together):
            write = rows.write_port()
            m.d.comb += [
                write.en.eq(self.write), write.data.eq(Cat(words[first:first + together])),
                write.addr.eq(Cat(Const(first >> inside, ceil_log2(len(words) // together)), self.beat, self.entry))]
        return read.data


class ResultBuffer(Component):
    """Results of a warp's threads: written by lanes, read by beats, a word at a time.

    Members
    -------
    write, values_written, written : In(1 bit a lane), In(array of word, zero and sign), In(array of places)
        Of each lane: whether a word of its thread is written, and where: its entry, its beat, whether it is the
        ``second`` word. ``zero`` and ``sign`` are those of the result up to it.
    read : In(place)
    values, conditions : Out(array of words), Out(array of Flags)
        Of what was named a cycle before; the ``second`` word is the high one. C and O are clear.
    """

    def __init__(self, params: SmParams) -> None:
        place = data.StructLayout({"second": 1, "beat": range(params.beats), "entry": ENTRY_BITS})
        self._word = data.StructLayout({"value": WORD_BITS, "zero": 1, "sign": 1})
        self._depth = 1 << place.size
        super().__init__({
            "write": In(params.lanes), "values_written": In(data.ArrayLayout(self._word, params.lanes)),
            "written": In(data.ArrayLayout(place, params.lanes)), "read": In(place),
            "values": Out(data.ArrayLayout(WORD_BITS, params.lanes)),
            "conditions": Out(data.ArrayLayout(Flags, params.lanes))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for lane, (value, flags) in enumerate(zip(self.values, self.conditions, strict=True)):
            m.submodules[f"lane_{lane}"] = rows = memory.Memory(
                shape=self._word, depth=self._depth, init=[], attrs=IN_BLOCKS)
            write, read, found = rows.write_port(), rows.read_port(domain="comb"), Signal(self._word)
            m.d.comb += [
                write.en.eq(self.write[lane]), write.data.eq(self.values_written[lane]),
                write.addr.eq(self.written[lane]), read.addr.eq(self.read), value.eq(found.value),
                flags.zero.eq(found.zero), flags.sign.eq(found.sign)]
            m.d.sync += found.eq(read.data)
        return m
