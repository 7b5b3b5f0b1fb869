"""What the stack of a serial machine keeps, in block RAM."""

from typing import Any

from amaranth.hdl import Module, Signal, Value, unsigned
from amaranth.lib import data, memory

from rtl.layouts import CRS_GRANULE_BITS, DEPTH_BITS
from rtl.params import WARP_THREADS, SmParams
from rtl.wires import IN_BLOCKS

__all__ = ["BlockWords", "StackSizes", "TokenWord", "serial_stack_state"]


def serial_stack_state(params: SmParams) -> data.StructLayout:
    """A warp's stack.

    Fields
    ------
    depth
        Tokens on the stack.
    lines, dirty
        The topmost ``lines`` are on chip; the topmost ``dirty`` ones of these differ from memory.
    calls : 8
        API call depth.
    kill : 1
        Limited branches are killed.
    trap : 1
        The warp is in the trap handler.
    """
    return data.StructLayout({
        "depth": DEPTH_BITS,
        "lines": params.stack_count_bits,
        "dirty": params.stack_count_bits,
        "calls": 8,
        "kill": 1,
        "trap": 1,
    })


class StackSizes(data.Struct):
    """What a launch says of a warp's stack."""

    less: unsigned(CRS_GRANULE_BITS)
    """Granules of the region in memory, less 1; without a region, what is on chip."""
    memory: unsigned(1)
    """There is a region in memory."""
    checks_calls: unsigned(1)
    """The API call depth is limited."""


TokenWord = data.StructLayout({"bits": WARP_THREADS, "note": 4})
"""Half of a token: its mask and its kind, or its pc and whether it is ``counted``."""


class BlockWords:
    """A memory in block RAM, with a word that stays until another one is read.

    Attributes
    ----------
    memory : Memory
        To be made a submodule.
    read_enable, read_address, read_data
        The word of an address is there from the next cycle on.
    write_enable, write_address, write_data
    """

    def __init__(self, shape: Any, depth: int) -> None:
        self.memory = memory.Memory(shape=shape, depth=depth, init=[], attrs=IN_BLOCKS)
        self._read = self.memory.read_port(domain="comb")
        self.read_enable = Signal()
        self.read_address = self._read.addr
        self.read_data: Any = Signal(shape)
        write = self.memory.write_port()
        self.write_enable = write.en
        self.write_address = write.addr
        self.write_data: Any = write.data

    def connect(self, m: Module) -> None:
        """The register of the word that was read."""
        with m.If(self.read_enable):
            m.d.sync += Value.cast(self.read_data).eq(Value.cast(self._read.data))
