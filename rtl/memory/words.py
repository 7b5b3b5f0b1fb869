"""Each thread's words: what it stores, and what it has loaded."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import SmParams
from rtl.pick import pick

from .instruction import WORDS

__all__ = ["OperandBuffer", "ResultBuffer", "word_write"]


def word_write(params: SmParams) -> data.StructLayout:
    """A word for each of some lanes: word ``word`` of the threads of a beat."""
    return data.StructLayout({
        "lanes": params.lanes, "beat": range(params.beats), "word": range(WORDS),
        "values": data.ArrayLayout(32, params.lanes)})


class OperandBuffer(Component):
    """Two sides, each with four words of 32 bits for each thread: operands of the next instruction, and of that
    which is under way.

    Members
    -------
    side : In(1)
        The one that ``fill`` goes to; the other one is read.
    fill : In(words, beat, values)
        Each of ``words`` is written with its values in all lanes.
    beat, word, values : In(range(beats)), In(range(4)), Out(a word for each lane)
        The words of that beat's threads, in the same cycle.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        beat, words = range(params.beats), data.ArrayLayout(data.ArrayLayout(32, params.lanes), WORDS)
        super().__init__({
            "side": In(1), "fill": In(data.StructLayout({"words": WORDS, "beat": beat, "values": words})),
            "beat": In(beat), "word": In(range(WORDS)), "values": Out(data.ArrayLayout(32, params.lanes))})

    def elaborate(self, platform: object) -> Module:
        m, words = Module(), []
        for word in range(WORDS):
            m.submodules[f"word_{word}"] = kept = memory.Memory(
                shape=data.ArrayLayout(32, self._params.lanes), depth=2 * self._params.beats, init=[])
            write, read = kept.write_port(), kept.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(self.fill.words[word]), write.addr.eq(Cat(self.fill.beat, self.side)),
                write.data.eq(self.fill.values[word]), read.addr.eq(Cat(self.beat, ~self.side))]
            words.append(read.data)
        for lane, value in enumerate(self.values):
            m.d.comb += value.eq(pick((word[lane] for word in words), self.word))
        return m


class ResultBuffer(Component):
    """Four words of 32 bits for each thread. A beat's words of one number are read in the same cycle.

    Members
    -------
    write : In(word_write)
    beat, word, values : In(range(beats)), In(range(4)), Out(a word for each lane)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "write": In(word_write(params)), "beat": In(range(params.beats)), "word": In(range(WORDS)),
            "values": Out(data.ArrayLayout(32, params.lanes))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = kept = memory.Memory(
            shape=data.ArrayLayout(32, self._params.lanes), depth=WORDS * self._params.beats, init=[])
        write, read = kept.write_port(granularity=1), kept.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(self.write.lanes), write.addr.eq(Cat(self.write.word, self.write.beat)),
            write.data.eq(self.write.values), read.addr.eq(Cat(self.word, self.beat)), self.values.eq(read.data)]
        return m
