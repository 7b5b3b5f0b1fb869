"""The one port to memory outside, shared by all units that need it."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Out, Signature
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.layouts import MemoryPort, memory_request, memory_response
from rtl.structs import struct_value

__all__ = ["MemoryArbiter", "PortArbiter"]


class PortArbiter(Component):
    """What arbiters of ports share: round robin among clients, and answers back to the client of
    the request.

    A request's tag outside is its client's number in the upper bits, and the client's tag below.

    Parameters
    ----------
    tag_bits : sequence of int
        Width of each client's tags.
    signature : Callable[[int], Signature]
        A port with so many bits of tags: a stream ``request``, and one ``response`` whose payload
        has a ``tag``.

    Members
    -------
    client_0.. : In(port) each; directions are the client's
    port : Out(port)

    Attributes
    ----------
    client_tag_bits : int
        Width of the client's part of a tag outside.
    turn : Signal
        The client that is granted: a register, since the requests are known late.
    clients : list
        The clients' ports.
    """

    def __init__(self, tag_bits: Sequence[int], signature: Callable[[int], Signature]) -> None:
        self.client_tag_bits = max(tag_bits)
        self._tag_bits = tag_bits
        self._outside_tag_bits = ceil_log2(len(tag_bits)) + self.client_tag_bits
        self.turn = Signal(range(len(tag_bits)))
        clients = {f"client_{number}": In(signature(width))
                   for number, width in enumerate(tag_bits)}
        super().__init__(clients | {"port": Out(signature(self._outside_tag_bits))})
        self.clients = [getattr(self, name) for name in clients]

    def _take_turns(self, m: Module, has_request: Any, may_move: Any) -> None:
        """Drives ``has_request``: the client whose turn it is has a request. When ``may_move`` is
        1, the turn moves to the next other client that has one; if none has, it stays."""
        count = len(self.clients)
        requesting = Signal(count)
        others = Signal(count)
        later = Signal(count)
        m.d.comb += requesting.eq(Cat(client.request.valid for client in self.clients))
        m.d.comb += has_request.eq(requesting.bit_select(self.turn, 1))
        m.d.comb += others.eq(requesting & Cat(self.turn != number for number in range(count)))
        m.d.comb += later.eq(requesting & Cat(self.turn < number for number in range(count)))
        with m.If(may_move & later.any()):
            m.d.sync += self.turn.eq(lowest(later))
        with m.Elif(may_move & others.any()):
            m.d.sync += self.turn.eq(lowest(others))

    @abstractmethod
    def _outside_request(self, request: Any, number: int) -> Any:
        """A client's request with the tag that it has outside."""

    @abstractmethod
    def _client_response(self, response: Any, number: int) -> Any:
        """A response from outside as a client gets it: with the client's own tag."""

    def _outside_tag(self, request: Any, number: int) -> Value:
        """The tag outside of a client's request."""
        return request.tag | number << self.client_tag_bits

    def _answer(self, m: Module, answers: Any) -> None:
        """Hands each answer, of a stream like the port's, to its client."""
        answered_client = answers.payload.tag[self.client_tag_bits:]
        for number, client in enumerate(self.clients):
            response = client.response
            m.d.comb += response.payload.eq(self._client_response(answers.payload, number))
            with m.If(answered_client == number):
                m.d.comb += response.valid.eq(answers.valid)
                m.d.comb += answers.ready.eq(client.response.ready)


class MemoryArbiter(PortArbiter):
    """Passes requests of several ports to one, a cycle later, and answers back at once.

    The client that was served last keeps its turn until another one has a request. A request of a
    client whose turn it is not is taken a cycle later.

    Two requests of one client with one tag stay in order, as
    :func:`~rtl.layouts.memory_request` promises.

    Parameters
    ----------
    tag_bits : sequence of int
        Width of each client's tags.

    Members
    -------
    client_0.. : In(MemoryPort) each; directions are the client's
        A unit that accesses memory; its tags are independent of other clients'.
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
        """One register to the port, which takes a request of the granted client."""
        out = self.port.request
        is_free = Signal()
        has_request = Signal()
        m.d.comb += is_free.eq(~out.valid | out.ready)
        self._take_turns(m, has_request, is_free | ~has_request)
        with m.If(is_free):
            m.d.sync += out.valid.eq(has_request)
        for number, client in enumerate(self.clients):
            request = client.request
            with m.If(is_free & (self.turn == number)):
                m.d.comb += request.ready.eq(1)
                m.d.sync += out.payload.eq(self._outside_request(request.payload, number))

    def _outside_request(self, request: Any, number: int) -> Any:
        return struct_value(
            memory_request(self._outside_tag_bits),
            write=request.write,
            tag=self._outside_tag(request, number),
            address=request.address,
            data=request.data,
            mask=request.mask)

    def _client_response(self, response: Any, number: int) -> Any:
        return struct_value(
            memory_response(self._tag_bits[number]),
            write=response.write,
            tag=response.tag,
            error=response.error,
            data=response.data)
