"""The one port to memory outside, shared by all who need it."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.layouts import MemoryPort, memory_request

__all__ = ["MemoryArbiter"]


class MemoryArbiter(Component):
    """Passes requests of several ports to one, in turn, and answers back to whom they belong, a cycle later each. A
    client's request is taken a cycle later than that if the last one was another's.

    A request's tag outside is its client's number in the upper bits, and the client's own tag below; so what one
    client says with one tag stays in order, as :func:`~rtl.layouts.memory_request` promises.

    Parameters
    ----------
    tag_bits : sequence of int
        Width of each client's tags.

    Members
    -------
    client_0.. : In(MemoryPort) each, seen from the client
        Whoever needs memory; tags are its own.
    port : Out(MemoryPort)
    """

    def __init__(self, tag_bits: Sequence[int]) -> None:
        self._tag_bits = tag_bits
        self.own_bits = max(tag_bits)
        """Width of the client's part of a tag outside."""
        self.turn = Signal(range(len(tag_bits)))
        """Whose request is taken next."""
        bits = ceil_log2(len(tag_bits)) + self.own_bits
        clients = {f"client_{index}": In(MemoryPort(width)) for index, width in enumerate(tag_bits)}
        super().__init__(clients | {"port": Out(MemoryPort(bits))})
        self.clients = [getattr(self, name) for name in clients]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._requests(m)
        self._responses(m)
        return m

    def _requests(self, m: Module) -> None:
        """Takes requests of the client whose turn it is: that of the one that was served last, until another one has
        one. Whose turn it is comes from a register: it is known late who has a request."""
        count, out = len(self.clients), self.port.request
        wanting, turn, wants = Signal(count), self.turn, Signal()
        kept: Any = Signal(stream.Signature(memory_request(len(out.payload.tag))).members["payload"].shape)
        full, later, others = Signal(), Signal(count), Signal(count)
        free = ~full | out.ready
        m.d.comb += [
            wanting.eq(Cat(client.request.valid for client in self.clients)), wants.eq(wanting.bit_select(turn, 1)),
            others.eq(wanting & Cat(turn != index for index in range(count))),
            later.eq(wanting & Cat(turn < index for index in range(count)))]
        with m.If(free):
            m.d.sync += full.eq(wants)
        with m.If((free | ~wants) & others.any()):
            m.d.sync += turn.eq(Mux(later.any(), lowest(later), lowest(others)))
        for index, client in enumerate(self.clients):
            request = client.request
            with m.If(free & (turn == index)):
                m.d.comb += request.ready.eq(1)
                m.d.sync += [
                    kept.write.eq(request.payload.write), kept.address.eq(request.payload.address),
                    kept.data.eq(request.payload.data), kept.mask.eq(request.payload.mask),
                    kept.tag.eq(request.payload.tag | index << self.own_bits)]
        m.d.comb += [out.valid.eq(full), out.payload.eq(kept)]

    def _responses(self, m: Module) -> None:
        """Gives each answer to its client: from registers, since where it comes from is far."""
        answer, came = Signal.like(self.port.response.payload), self.port.response
        full, taken = Signal(), Signal()
        who = answer.tag[self.own_bits:]
        m.d.comb += [taken.eq(Array(client.response.ready for client in self.clients)[who]),
                     came.ready.eq(~full | taken)]
        with m.If(came.ready):
            m.d.sync += [full.eq(came.valid), answer.eq(came.payload)]
        for index, client in enumerate(self.clients):
            response = client.response
            m.d.comb += [
                response.valid.eq(full & (who == index)), response.payload.write.eq(answer.write),
                response.payload.error.eq(answer.error), response.payload.data.eq(answer.data),
                response.payload.tag.eq(answer.tag)]
