"""Memories of a word for each of several: warps, CTAs, barriers."""

from typing import Any

from amaranth.hdl import Module, ShapeLike, Value
from amaranth.lib import memory

from rtl.wires import for_depth

__all__ = ["Words"]


class Words(memory.Memory):
    """Words that all begin alike, each of which is read in the cycle in which its number is known.

    Each call of ``read`` and ``write`` makes a port. A word that is written is read from the next cycle on.

    Parameters
    ----------
    shape
        Of a word.
    depth
        How many there are.
    initial
        What all begin as.
    attributes
        Of the memory, for synthesis: which RAM it becomes, where that must not be its own choice.
    """

    def __init__(self, shape: ShapeLike, depth: int, initial: int = 0, **attributes: Any) -> None:
        super().__init__(shape=shape, depth=depth, init=[initial] * depth if initial else [],
                         attrs=attributes if "no_rw_check" in attributes else for_depth(depth, **attributes))

    def read(self, m: Module, number: Any) -> Any:
        """The word of that number."""
        port = self.read_port(domain="comb")
        m.d.comb += port.addr.eq(number)
        return port.data

    def write(self, m: Module, when: Any, number: Any, word: Any) -> None:
        """Writes a word, ``when`` that is 1: a value, or fields of it by name."""
        port = self.write_port()
        m.d.comb += [port.en.eq(when), port.addr.eq(number)]
        if isinstance(word, dict):
            m.d.comb += [port.data[name].eq(value) for name, value in word.items()]
        else:
            m.d.comb += port.data.eq(Value.cast(word))
