"""The one port to memory outside, shared by all who need it."""

from collections.abc import Callable, Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out, Signature
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component, pass_on
from rtl.layouts import MemoryPort, memory_request

__all__ = ["MemoryArbiter", "PortArbiter"]


class PortArbiter(Component):
    """What arbiters of ports share: whose turn it is, and answers back to whom they belong.

    A request's tag outside is its client's number in the upper bits, and the client's own tag below.

    Parameters
    ----------
    tag_bits : sequence of int
        Width of each client's tags.
    signature : Callable[[int], Signature]
        A port of so many bits of tags: a stream ``request``, and one ``response`` whose payload has a ``tag``.

    Members
    -------
    client_0.. : In(port) each, seen from the client
    port : Out(port)
    """

    def __init__(self, tag_bits: Sequence[int], signature: Callable[[int], Signature]) -> None:
        self.own_bits = max(tag_bits)
        """Width of the client's part of a tag outside."""
        self.turn = Signal(range(len(tag_bits)))
        """Whose request is taken next: a register, since it is known late who has a request."""
        clients = {f"client_{index}": In(signature(width)) for index, width in enumerate(tag_bits)}
        super().__init__(clients | {"port": Out(signature(ceil_log2(len(tag_bits)) + self.own_bits))})
        self.clients = [getattr(self, name) for name in clients]

    def _take_turns(self, m: Module, wants: Any, moves: Any) -> None:
        """Makes ``wants`` tell whether the one whose turn it is has a request. When ``moves`` is 1, it is the turn of
        the next other one that has; if none has, it stays."""
        count, turn = len(self.clients), self.turn
        wanting, others, later = Signal(count), Signal(count), Signal(count)
        m.d.comb += [
            wanting.eq(Cat(client.request.valid for client in self.clients)), wants.eq(wanting.bit_select(turn, 1)),
            others.eq(wanting & Cat(turn != index for index in range(count))),
            later.eq(wanting & Cat(turn < index for index in range(count)))]
        with m.If(moves & others.any()):
            m.d.sync += turn.eq(Mux(later.any(), lowest(later), lowest(others)))

    def _answer(self, m: Module, answer: Any) -> None:
        """Gives each answer of a stream like the port's to its client."""
        whose = answer.payload.tag[self.own_bits:]
        for index, client in enumerate(self.clients):
            pass_on(m, answer.payload, client.response.payload, *(name for name, _ in answer.payload.shape()))
            with m.If(whose == index):
                m.d.comb += [client.response.valid.eq(answer.valid), answer.ready.eq(client.response.ready)]


class MemoryArbiter(PortArbiter):
    """Passes requests of several ports to one, in turn, a cycle later, and answers back to whom they belong at once. A
    client's request is taken a cycle later than that if the last one was another's.

    What one client says with one tag stays in order, as :func:`~rtl.layouts.memory_request` promises.

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
        super().__init__(tag_bits, MemoryPort)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._request(m)
        self._answer(m, self.port.response)
        return m

    def _request(self, m: Module) -> None:
        """Takes requests of the client whose turn it is: that of the one that was served last, until another one has
        one."""
        out, full, wants = self.port.request, Signal(), Signal()
        kept: Any = Signal(memory_request(len(out.payload.tag)))
        free = ~full | out.ready
        self._take_turns(m, wants, free | ~wants)
        with m.If(free):
            m.d.sync += full.eq(wants)
        for index, client in enumerate(self.clients):
            request = client.request
            with m.If(free & (self.turn == index)):
                m.d.comb += request.ready.eq(1)
                pass_on(m, request.payload, kept, "write", "address", "data", "mask", domain="sync")
                m.d.sync += kept.tag.eq(request.payload.tag | index << self.own_bits)
        m.d.comb += [out.valid.eq(full), out.payload.eq(kept)]
