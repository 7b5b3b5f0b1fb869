"""A word for each warp, in memories in LUTs: read in the cycle that asks."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import memory

__all__ = ["add_words", "make_words", "read", "write"]


def make_words(warps: int, **shapes: Any) -> dict[str, memory.Memory]:
    """A memory for each of these shapes, by name."""
    return {name: memory.Memory(shape=shape, depth=warps, init=[]) for name, shape in shapes.items()}


def add_words(m: Module, words: dict[str, memory.Memory]) -> list[memory.Memory]:
    """Makes them submodules."""
    for name, each in words.items():
        m.submodules[name] = each
    return list(words.values())


def read(m: Module, words: memory.Memory, warp: Any) -> Any:
    """The warp's word, through a port of its own."""
    port = words.read_port(domain="comb")
    m.d.comb += port.addr.eq(warp)
    return port.data


def write(m: Module, words: memory.Memory, enable: Any, warp: Any, value: Any) -> None:
    """Writes the warp's word at the end of the cycle, through a port of its own."""
    port = words.write_port()
    m.d.comb += [port.en.eq(enable), port.addr.eq(warp), port.data.eq(value)]
