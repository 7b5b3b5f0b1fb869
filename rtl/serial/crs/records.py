"""What the stack of a serial machine keeps, in block RAM."""

from typing import Any

from amaranth.hdl import Module, Signal, Value, unsigned
from amaranth.lib import data, memory

from rtl.layouts import CRS_GRANULE_BITS, DEPTH_BITS
from rtl.params import WARP_THREADS, SmParams
from rtl.wires import IN_BLOCKS

__all__ = ["BlockWords", "StackSizes", "TokenWord", "serial_stack_state"]


def serial_stack_state(params: SmParams) -> data.StructLayout:
    """A warp's stack. The topmost ``lines`` are on chip, the topmost ``dirty`` ones of these are not in memory as they
    are."""
    return data.StructLayout({
        "depth": DEPTH_BITS, "lines": params.stack_count_bits, "dirty": params.stack_count_bits, "calls": 8, "kill": 1,
        "trap": 1})


class StackSizes(data.Struct):
    """Granules of the region in memory, less 1; whether there is one; whether calls are limited."""

    less: unsigned(CRS_GRANULE_BITS)
    memory: unsigned(1)
    checks_calls: unsigned(1)


TokenWord = data.StructLayout({"bits": WARP_THREADS, "note": 4})
"""Half of a token: its mask and its kind, or its pc and whether it is ``counted``."""


class BlockWords:
    """A memory in block RAM: a word that is read is there from the next cycle on, until another is read."""

    def __init__(self, shape: Any, depth: int) -> None:
        self.memory = memory.Memory(shape=shape, depth=depth, init=[], attrs=IN_BLOCKS)
        self._from, self._into = self.memory.read_port(domain="comb"), self.memory.write_port()
        self.reads, self.writes = Signal(), self._into.en
        self.out: Any = Signal(shape)
        self.at, self.to, self.word = self._from.addr, self._into.addr, self._into.data

    def add(self, m: Module) -> None:
        """Joins its read port."""
        out = self.out
        with m.If(self.reads):
            m.d.sync += Value.cast(out).eq(Value.cast(self._from.data))
