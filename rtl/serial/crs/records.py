"""The words that the stack of the serial machine stores in block RAM."""

from typing import Any

from amaranth.hdl import Module, Signal, Value, unsigned
from amaranth.lib import data, memory

from rtl.layouts import CRS_GRANULE_BITS, DEPTH_BITS
from rtl.params import WARP_THREADS, SmParams
from rtl.wires import IN_BLOCKS

__all__ = ["BlockWords", "StackSizes", "TokenWord", "serial_stack_state"]


def serial_stack_state(params: SmParams) -> data.StructLayout:
    """The state of a warp's stack.

    Fields
    ------
    depth
        The number of tokens on the stack.
    lines, dirty
        The topmost ``lines`` lines are on chip; the topmost ``dirty`` of these are dirty.
    calls : 8
        The API call depth.
    kill : 1
        The kill bit: limited branches are not taken.
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
    """The sizes of a warp's stack, from its launch."""

    less: unsigned(CRS_GRANULE_BITS)
    """The number of granules of the region in memory, minus 1; without a region, of the tokens on
    chip."""
    memory: unsigned(1)
    """The stack has a region in memory."""
    checks_calls: unsigned(1)
    """The API call depth is limited."""


TokenWord = data.StructLayout({"bits": WARP_THREADS, "note": 4})
"""Half of a token: ``bits`` is its mask and ``note`` its kind; or ``bits`` is its pc and ``note``
whether it is ``counted``."""


class BlockWords:
    """A memory in block RAM. The word that was read is held until the next read.

    Attributes
    ----------
    memory : Memory
        To be added as a submodule.
    read_enable, read_address, read_data
        The word is in ``read_data`` from the next cycle on. A word that is written in the cycle of
        its read returns its old value.
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
        """Registers the word that is read."""
        with m.If(self.read_enable):
            m.d.sync += Value.cast(self.read_data).eq(Value.cast(self._read.data))
