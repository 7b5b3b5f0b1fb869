"""A gate in the path to memory, which drains the path before the machine is reset."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import ends_answer, ends_request
from rtl.machines import units_of
from rtl.params import SmParams

__all__ = ["MemoryGate"]

_COUNT_BITS = 12


class MemoryGate(Component):
    """A gate between the machine and memory, which is not reset with the machine.

    All paths are combinational. While ``close`` is 1:

    - no new request is forwarded;
    - a request that was already offered to memory (``valid`` was 1) still is, until memory has
      accepted it, with all beats of its burst: a stream must not withdraw its payload;
    - all answers are accepted from memory; answers for which the machine is not ready are lost.

    The machine can be reset when ``close`` and ``empty`` are 1. ``close`` has to be 1 until the
    reset ends.

    Members
    -------
    machine : In(MemoryPort or BeatPort)
    memory : Out(MemoryPort or BeatPort)
    close : In(1)
    empty : Out(1)
        No request is pending or outstanding.
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
        is_pending = Signal()           # a request was offered, and is not accepted completely
        connect(m, flipped(self.machine), flipped(self.memory))
        is_open = ~self.close | is_pending
        m.d.comb += request.valid.eq(self.machine.request.valid & is_open)
        m.d.comb += self.machine.request.ready.eq(request.ready & is_open)
        m.d.comb += response.ready.eq(self.machine.response.ready | self.close)
        m.d.comb += self.empty.eq((outstanding == 0) & ~is_pending)

        is_requested = Signal()
        is_answered = Signal()
        m.d.comb += is_requested.eq(
            request.valid & request.ready & ends_request(request.payload))
        m.d.comb += is_answered.eq(
            response.valid & response.ready & ends_answer(response.payload))
        m.d.sync += is_pending.eq((request.valid | is_pending) & ~is_requested)
        m.d.sync += outstanding.eq(outstanding + is_requested - is_answered)
        m.d.sync += Assert(
            ~is_answered | (outstanding != 0), "memory answers without a request")
        m.d.sync += Assert(
            ~is_requested | ~outstanding.all(), "more requests are outstanding than are counted")
        return m
