"""A way to memory that can be closed."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import MemoryPort

__all__ = ["MemoryGate"]

_COUNT_BITS = 12


class MemoryGate(Component):
    """Between a machine that can be reset at any time and a memory that answers whatever it was asked.

    While ``close`` is 1, no new request passes, and answers that the machine does not take are dropped. Once ``empty``
    is 1, memory owes nothing.

    Members
    -------
    machine : In(MemoryPort)
    memory : Out(MemoryPort)
    close : In(1)
    empty : Out(1)
    """

    def __init__(self, tag_bits: int) -> None:
        super().__init__({
            "machine": In(MemoryPort(tag_bits)), "memory": Out(MemoryPort(tag_bits)), "close": In(1), "empty": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        machine, memory = self.machine, self.memory
        connect(m, flipped(machine), flipped(memory))
        owed, offered = Signal(_COUNT_BITS), Signal()
        passes = ~self.close | offered      # what was offered to memory stays so until it is taken
        asked = memory.request.valid & memory.request.ready
        answered = memory.response.valid & memory.response.ready
        m.d.comb += [
            memory.request.valid.eq(machine.request.valid & passes),
            machine.request.ready.eq(memory.request.ready & passes),
            memory.response.ready.eq(machine.response.ready | self.close), self.empty.eq((owed == 0) & ~offered)]
        m.d.sync += [
            offered.eq(memory.request.valid & ~memory.request.ready), owed.eq(owed + asked - answered),
            Assert(~answered | (owed != 0), "memory answers what it was not asked"),
            Assert(~asked | ~owed.all(), "memory owes more than can be counted")]
        return m
