"""Operations of the lanes that units request: which are granted, and when."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Member, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import (
    GATHERING,
    Event,
    LaneClient,
    delayed,
    offered_operation,
    register_gather,
    register_write,
)
from rtl.one_hot import chosen_of
from rtl.params import SmParams
from rtl.structs import struct_value

from .order import Order

__all__ = ["OperationArbiter", "operation_streams"]

_GATHER_PATIENCE = 2
_WRITE_PATIENCE = 7
"""How often an instruction has precedence over a gather without a write, or a write without a
gather: the other may be offered meanwhile, and both pass the lanes together. A write waits longer,
since there are more gathers than writes. Counted by ``OperationArbiter.overtaken``."""


def operation_streams(params: SmParams) -> dict[str, Member]:
    """The members with the operations that units offer: ``gather_offers`` and ``write_offers``, see
    OperationArbiter."""
    gather = stream.Signature(register_gather(params))
    write = stream.Signature(register_write(params))
    return {
        "gather_offers": In(gather).array(len(GATHERING)),
        "write_offers": In(write).array(len(LaneClient)),
    }


class OperationArbiter(Component):
    """Chooses, a cycle before, which operations may pass the lanes.

    A gather only reads registers, and what a write writes is there already: one of each passes the
    lanes at a time. They alternate with instructions, so that neither starves; a gather or write
    alone has priority after some more instructions. When no instruction is ready, operations are
    granted at once.

    Members
    -------
    gather_offers : In(array of streams of register_gather)
        The gathers that units offer, one stream for each of GATHERING.
    write_offers : In(array of streams of register_write)
        The writes that units offer, one stream for each LaneClient.
    has_room : In(1)
        What passes the lanes may send events.
    is_due, is_pending : Out(1)
        Operations have priority over every instruction; they are granted if no instruction is
        ready.
    granted, was_granted : In(1), Out(1)
        The operations are granted; they were, a cycle ago.
    instruction_passes : In(1)
        The lanes are free, and some warp may be ready: instructions have precedence in this cycle.
        Nothing need pass the lanes: it may be a branch or an ENTER, or be revoked.
    gather, write : Out(Event of offered_operation)
        Two cycles after the grant.

    Attributes
    ----------
    overtaken : Signal
        Cycles with ``instruction_passes`` and an operation offered, since operations were granted
        last; not counted further than _WRITE_PATIENCE.
    """

    def __init__(self, params: SmParams) -> None:
        gather = register_gather(params)
        write = register_write(params)
        super().__init__(operation_streams(params) | {
            "has_room": In(1),
            "is_due": Out(1),
            "is_pending": Out(1),
            "granted": In(1),
            "was_granted": Out(1),
            "instruction_passes": In(1),
            "gather": Out(Event(offered_operation(gather))),
            "write": Out(Event(offered_operation(write))),
        })
        self.gathers = ClientArbiter("gather", gather, GATHERING)
        self.writes = ClientArbiter("write", write, list(LaneClient))
        self.overtaken = Signal(range(_WRITE_PATIENCE + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.gathers = self.gathers
        m.submodules.writes = self.writes
        m.d.comb += self.gathers.granted.eq(self.granted)
        m.d.comb += self.writes.granted.eq(self.granted)
        for outer, inner in zip(self.gather_offers, self.gathers.offers, strict=True):
            connect(m, flipped(outer), inner)
        for outer, inner in zip(self.write_offers, self.writes.offers, strict=True):
            connect(m, flipped(outer), inner)
        connect(m, self.gathers.chosen, flipped(self.gather))
        connect(m, self.writes.chosen, flipped(self.write))
        self._decide(m)
        return m

    def _decide(self, m: Module) -> None:
        """Whether operations have priority, or are granted only if no instruction is ready. Known a
        cycle before."""
        has_gather = self.gathers.is_offered
        has_write = self.writes.is_offered
        overtaken = self.overtaken
        one_more = Signal(range(_WRITE_PATIENCE + 2))
        m.d.comb += one_more.eq(overtaken + 1)
        m.d.sync += self.was_granted.eq(self.granted)
        m.d.sync += self.is_pending.eq(
            self.has_room & (self.gathers.remains_offered | self.writes.remains_offered))

        with m.If(self.granted):
            m.d.sync += self.is_due.eq(0)
        with m.Elif(self.instruction_passes):
            m.d.sync += self.is_due.eq(self.has_room & self._are_due(one_more))
        with m.Else():
            m.d.sync += self.is_due.eq(self.has_room & self._are_due(overtaken))

        counts = self.instruction_passes & (has_gather | has_write)
        with m.If(self.granted):
            m.d.sync += overtaken.eq(0)
        with m.Elif(counts & (one_more <= _WRITE_PATIENCE)):
            m.d.sync += overtaken.eq(one_more)

    def _are_due(self, instructions: Value) -> Value:
        """Whether operations have priority, by the cycles in which instructions had precedence."""
        has_gather = self.gathers.is_offered
        has_write = self.writes.is_offered
        return ((has_gather & (instructions >= _GATHER_PATIENCE))
                | (has_write & (instructions >= _WRITE_PATIENCE))
                | (has_gather & has_write & instructions.any()))


class ClientArbiter(Component):
    """Chooses one client's operation, round robin; it is sent when operations are granted. There is
    one arbiter for gathers and one for writes.

    Members
    -------
    offers : In(array of streams of operations), by client
    granted : In(1)
    is_offered, remains_offered : Out(1)
        There is one; there will be one in the next cycle.
    chosen : Out(Event of offered_operation)
        Two cycles after the grant.
    """

    def __init__(
            self, name: str, operation: data.StructLayout, clients: Sequence[LaneClient]) -> None:
        self._name = name
        self._clients = clients
        super().__init__({
            "offers": In(stream.Signature(operation)).array(len(clients)),
            "granted": In(1),
            "is_offered": Out(1),
            "remains_offered": Out(1),
            "chosen": Out(Event(offered_operation(operation))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = len(self._clients)
        order = Order(count, self._name)
        next_ = Signal(count)
        taken = Signal(count)
        offered = Signal(count)
        remaining = Signal(count)
        m.d.comb += offered.eq(Cat(each.valid for each in self.offers))
        with m.If(self.granted):
            m.d.comb += taken.eq(next_)
        m.d.comb += remaining.eq(offered & ~taken)
        m.d.comb += self.is_offered.eq(offered.any())
        m.d.comb += self.remains_offered.eq(remaining.any())
        for each, is_taken in zip(self.offers, taken, strict=True):
            m.d.comb += each.ready.eq(is_taken)
        m.d.sync += next_.eq(order.first(remaining))
        order.update(m, taken)

        selected: Any = self.chosen.signature.create(path=("selected",))
        m.d.sync += selected.valid.eq(taken.any())
        m.d.sync += selected.payload.eq(struct_value(
            selected.payload.shape(),
            client=chosen_of(next_, [client.value for client in self._clients]),
            operation=chosen_of(next_, [each.payload.as_value() for each in self.offers])))
        connect(m, delayed(m, selected), flipped(self.chosen))
        return m
