"""Each thread's words: what the next instruction stores, and what the one that is under way stores or has loaded."""

from amaranth.hdl import Module, Mux, Value
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
    """Two sides, each with four words of 32 bits for each thread. A beat is read or written in a cycle.

    Members
    -------
    side : In(1)
        The one that ``fill`` goes to. The rest is about the other one.
    fill : In(words, beat, values)
        Each of ``words`` is written with its values in all lanes.
    write : In(word_write)
    beat : In(range(beats))
    values : Out(4 times a word for each lane)
        The words of that beat's threads, in the same cycle.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        beat, words = data.ArrayLayout(32, params.lanes), data.ArrayLayout(data.ArrayLayout(32, params.lanes), WORDS)
        super().__init__({
            "side": In(1),
            "fill": In(data.StructLayout({"words": WORDS, "beat": range(params.beats), "values": words})),
            "write": In(word_write(params)), "beat": In(range(params.beats)), "values": Out(words)})
        self._shape = beat

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for word in range(WORDS):
            found = [self._side(m, word, side) for side in range(2)]
            m.d.comb += self.values[word].eq(Mux(self.side, found[0], found[1]))
        return m

    def _side(self, m: Module, word: int, side: int) -> Value:
        """One word of one side; returns what it reads."""
        m.submodules[f"word_{word}_{side}"] = kept = memory.Memory(
            shape=self._shape, depth=self._params.beats, init=[])
        write, read = kept.write_port(granularity=1), kept.read_port(domain="comb")
        m.d.comb += read.addr.eq(self.beat)
        with m.If(self.side == side):
            m.d.comb += [
                write.addr.eq(self.fill.beat), write.data.eq(self.fill.values[word]),
                write.en.eq(self.fill.words[word].replicate(self._params.lanes))]
        with m.Else():
            m.d.comb += [write.addr.eq(self.write.beat), write.data.eq(self.write.values)]
            with m.If(self.write.word == word):
                m.d.comb += write.en.eq(self.write.lanes)
        return Value.cast(read.data)
