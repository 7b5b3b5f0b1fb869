"""Memory instructions on their way to the memory unit."""

from amaranth.hdl import Module
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.layouts import BLOCK_ADDRESS_BITS, dispatched
from rtl.params import SmParams

from .instruction import queued

__all__ = ["MemoryQueue"]


class MemoryQueue(Component):
    """Keeps what was dispatched to the memory unit, and hands it on in order.

    Members
    -------
    dispatch : In(valid and dispatched)
        A memory instruction.
    room : Out(1)
        There is room for it whenever it comes, if it is selected now.
    local_base : In(BLOCK_ADDRESS_BITS)
        Of the warp that the instruction is of.
    head : Out(stream of queued)
    """

    def __init__(self, params: SmParams) -> None:
        self._layout = queued(params)
        super().__init__({
            "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})), "room": Out(1),
            "local_base": In(BLOCK_ADDRESS_BITS),
            "head": Out(stream.Signature(self._layout))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.places = places = DispatchQueue(self._layout)
        arriving, taken = self.dispatch.payload, places.arriving.payload
        m.d.comb += [
            places.arriving.valid.eq(self.dispatch.valid), taken.warp.eq(arriving.warp),
            taken.serial.eq(arriving.serial), taken.pc.eq(arriving.pc), taken.word.eq(arriving.word),
            taken.threads.eq(arriving.active & arriving.guard), taken.write_barrier.eq(arriving.write_barrier),
            taken.read_barrier.eq(arriving.read_barrier), taken.local_base.eq(self.local_base),
            self.room.eq(places.room)]
        connect(m, places.head, flipped(self.head))
        return m
