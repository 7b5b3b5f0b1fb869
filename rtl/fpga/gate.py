"""A way to memory that can be closed."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import ends_answer, ends_request
from rtl.machines import units_of
from rtl.params import SmParams

__all__ = ["MemoryGate"]

_COUNT_BITS = 12


class MemoryGate(Component):
    """Between a machine that can be reset at any time and a memory that answers whatever it was asked.

    While ``close`` is 1, no new request passes, and answers that the machine does not take are dropped. Once ``empty``
    is 1, memory owes nothing.

    Members
    -------
    machine : In(MemoryPort or BeatPort)
    memory : Out(MemoryPort or BeatPort)
    close : In(1)
    empty : Out(1)
    """

    def __init__(self, params: SmParams, tag_bits: int) -> None:
        port = units_of(params).memory_port(tag_bits)
        super().__init__({"machine": In(port), "memory": Out(port), "close": In(1), "empty": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        machine, memory = self.machine, self.memory
        connect(m, flipped(machine), flipped(memory))
        owed, offered = Signal(_COUNT_BITS), Signal()
        passes = ~self.close | offered      # what was offered to memory stays so until all of it is taken
        taken = memory.request.valid & memory.request.ready
        asks, answers = ends_request(memory.request.payload), ends_answer(memory.response.payload)
        asked = taken & asks
        answered = memory.response.valid & memory.response.ready & answers
        m.d.comb += [
            memory.request.valid.eq(machine.request.valid & passes),
            machine.request.ready.eq(memory.request.ready & passes),
            memory.response.ready.eq(machine.response.ready | self.close), self.empty.eq((owed == 0) & ~offered)]
        m.d.sync += [
            offered.eq((memory.request.valid | offered) & ~asked), owed.eq(owed + asked - answered),
            Assert(~answered | (owed != 0), "memory answers what it was not asked"),
            Assert(~asked | ~owed.all(), "memory owes more than can be counted")]
        return m
