"""Memories that hold one word for each warp, CTA or barrier."""

from typing import Any

from amaranth.hdl import Assert, Module, ShapeLike, Signal, Value
from amaranth.lib import memory

from rtl.sweep import Sweep
from rtl.wires import SWEPT, for_depth

__all__ = ["Words"]


class Words(memory.Memory):
    """A memory with asynchronous reads: a word is valid in the cycle of its number.

    Each call of ``read`` and ``write`` makes a port. A word that is written is read from the next
    cycle on. Without a sweep, a word has to be written after a reset before anything depends on it.

    Parameters
    ----------
    shape
        Of a word.
    depth
        The number of words.
    sweep
        The sweep that writes ``initial`` to all words after a reset, through the port that
        ``write`` makes.
    initial
        The content of each word after the sweep.
    attributes
        Of the memory, for synthesis: which RAM it becomes, where that must not be its own choice.
    """

    def __init__(self, shape: ShapeLike, depth: int, sweep: Sweep | None = None, initial: int = 0,
                 **attributes: Any) -> None:
        is_in_block_ram = "no_rw_check" in attributes
        if not is_in_block_ram:
            attributes = for_depth(depth, **attributes)
        if sweep is not None:
            attributes = attributes | SWEPT
        super().__init__(shape=shape, depth=depth, init=[], attrs=attributes)
        self.sweep = sweep
        self.initial = initial

    def read(self, m: Module, number: Any) -> Any:
        """The word of that number."""
        port = self.read_port(domain="comb")
        m.d.comb += port.addr.eq(number)
        return port.data

    def write(self, m: Module, when: Any, number: Any, word: Any) -> None:
        """Writes a word, ``when`` that is 1: a value, or fields of it by name. Of words with a
        sweep there is one such port, and it is not used during the sweep."""
        port = self.write_port()
        content: Any = word
        if isinstance(word, dict):
            content = Signal(self.shape, name="word")
            for name, value in word.items():
                m.d.comb += content[name].eq(value)
        if self.sweep is None:
            m.d.comb += port.en.eq(when)
            m.d.comb += port.addr.eq(number)
            m.d.comb += port.data.eq(Value.cast(content))
        else:
            m.d.sync += Assert(~(self.sweep.active & when), "a word is written during the sweep")
            written = self.sweep.over(m, when, number, content, self.initial)
            m.d.comb += port.en.eq(written.enable)
            m.d.comb += port.addr.eq(written.number)
            m.d.comb += port.data.eq(written.word)
