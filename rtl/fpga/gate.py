"""A path to memory that can be closed."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import ends_answer, ends_request
from rtl.machines import units_of
from rtl.params import SmParams

__all__ = ["MemoryGate"]

_COUNT_BITS = 12


class MemoryGate(Component):
    """Between a machine that can be reset at any time and a memory that answers every request.

    While ``close`` is 1, no new request passes, and answers that the machine does not take are
    dropped. A request that memory has seen, and the beats that belong to it, still pass: memory
    relies on it that a request stays until it is taken.

    Members
    -------
    machine : In(MemoryPort or BeatPort)
    memory : Out(MemoryPort or BeatPort)
    close : In(1)
    empty : Out(1)
        No request is outstanding.
    """

    def __init__(self, params: SmParams, tag_bits: int) -> None:
        port = units_of(params).memory_port(tag_bits)
        super().__init__({
            "machine": In(port),
            "memory": Out(port),
            "close": In(1),
            "empty": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request = self.memory.request
        response = self.memory.response
        outstanding = Signal(_COUNT_BITS)
        is_offered = Signal()           # memory has seen a part of a request, and not taken it all
        connect(m, flipped(self.machine), flipped(self.memory))
        is_open = ~self.close | is_offered
        m.d.comb += request.valid.eq(self.machine.request.valid & is_open)
        m.d.comb += self.machine.request.ready.eq(request.ready & is_open)
        m.d.comb += response.ready.eq(self.machine.response.ready | self.close)
        m.d.comb += self.empty.eq((outstanding == 0) & ~is_offered)

        is_requested = Signal()
        is_answered = Signal()
        m.d.comb += is_requested.eq(
            request.valid & request.ready & ends_request(request.payload))
        m.d.comb += is_answered.eq(
            response.valid & response.ready & ends_answer(response.payload))
        m.d.sync += is_offered.eq((request.valid | is_offered) & ~is_requested)
        m.d.sync += outstanding.eq(outstanding + is_requested - is_answered)
        m.d.sync += Assert(
            ~is_answered | (outstanding != 0), "memory answers without a request")
        m.d.sync += Assert(
            ~is_requested | ~outstanding.all(), "more requests are outstanding than are counted")
        return m
