"""Each thread's words of the instruction that is under way: what it stores, and then what it loaded."""

from amaranth.hdl import Module
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import SmParams

from .instruction import WORDS

__all__ = ["WordBuffer", "word_write"]


def word_write(params: SmParams) -> data.StructLayout:
    """A word for each of some lanes: word ``word`` of the threads of a beat."""
    return data.StructLayout({
        "lanes": params.lanes, "beat": range(params.beats), "word": range(WORDS),
        "values": data.ArrayLayout(32, params.lanes)})


class WordBuffer(Component):
    """Four words of 32 bits for each thread, a beat of which is read or written in a cycle.

    Members
    -------
    fill : In(words, beat, values)
        Each of ``words`` is written with its values in all lanes. Goes before ``write``.
    write : In(word_write)
    beat : In(range(beats))
    values : Out(4 times a word for each lane)
        The words of that beat's threads, in the same cycle.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        beat, words = data.ArrayLayout(32, params.lanes), data.ArrayLayout(data.ArrayLayout(32, params.lanes), WORDS)
        super().__init__({
            "fill": In(data.StructLayout({"words": WORDS, "beat": range(params.beats), "values": words})),
            "write": In(word_write(params)), "beat": In(range(params.beats)), "values": Out(words)})
        self._shape = beat

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for word in range(WORDS):
            m.submodules[f"word_{word}"] = kept = memory.Memory(
                shape=self._shape, depth=self._params.beats, init=[])
            write, read = kept.write_port(granularity=1), kept.read_port(domain="comb")
            m.d.comb += [
                read.addr.eq(self.beat), self.values[word].eq(read.data), write.addr.eq(self.write.beat),
                write.data.eq(self.write.values)]
            with m.If(self.fill.words[word]):
                m.d.comb += [
                    write.addr.eq(self.fill.beat), write.data.eq(self.fill.values[word]), write.en.eq(~0)]
            with m.Elif(self.write.word == word):
                m.d.comb += write.en.eq(self.write.lanes)
        return m
