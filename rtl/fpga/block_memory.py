"""Memory on the chip, for boards without another, and for the first steps on one."""

from amaranth.hdl import Module
from amaranth.lib import memory
from amaranth.lib.wiring import In
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import MemoryPort

__all__ = ["BlockMemory", "check_size"]


def check_size(size: int) -> int:
    """A size of a BlockMemory; ValueError for what is none."""
    if size < 2 * LINE_BYTES or size & size - 1:
        raise ValueError(f"a block memory has a power of two of bytes, at least {2 * LINE_BYTES}, not {size}")
    return size


class BlockMemory(Component):
    """Block RAM behind a memory port. It answers a request in the next cycle, and takes one in each cycle.

    Parameters
    ----------
    tag_bits : int
        Of the port.
    size : int
        Bytes: a power of two from two lines on. Behind them there is nothing: a request there is answered with
        ``error``.

    Members
    -------
    port : In(MemoryPort)
    """

    def __init__(self, tag_bits: int, size: int = 1 << 16) -> None:
        self.size = check_size(size)
        """In bytes."""
        super().__init__({"port": In(MemoryPort(tag_bits))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, response = self.port.request, self.port.response
        lines = self.size // LINE_BYTES
        m.submodules.lines = store = memory.Memory(shape=8 * LINE_BYTES, depth=lines, init=[])
        reading, writing = store.read_port(), store.write_port(granularity=8)
        address, inside = request.payload.address, request.payload.address[ceil_log2(lines):] == 0
        taken = request.valid & request.ready
        m.d.comb += [
            request.ready.eq(~response.valid | response.ready), reading.addr.eq(address), reading.en.eq(taken),
            writing.addr.eq(address), writing.data.eq(request.payload.data), response.payload.data.eq(reading.data),
            writing.en.eq(request.payload.mask & (taken & inside & request.payload.write).replicate(LINE_BYTES))]
        with m.If(request.ready):
            m.d.sync += response.valid.eq(request.valid)
        with m.If(taken):
            m.d.sync += [
                response.payload.write.eq(request.payload.write), response.payload.tag.eq(request.payload.tag),
                response.payload.error.eq(~inside)]
        return m
