"""What other units ask of the lanes."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import GATHERING, Event, LaneClient, offered_operation, register_gather, register_write
from rtl.one_hot import chosen_of
from rtl.params import SmParams

from .order import Order

__all__ = ["OPERATIONS", "OperationChooser", "operation_streams"]

OPERATIONS = (*(f"gather_{client.value}" for client in GATHERING), *(f"write_{client.value}" for client in LaneClient))
"""The streams that a chooser chooses from."""


def operation_streams(params: SmParams) -> dict[str, Any]:
    """Members for them."""
    shapes = {"gather": register_gather(params), "write": register_write(params)}
    return {name: In(stream.Signature(shapes[name.split("_")[0]])) for name in OPERATIONS}


class OperationChooser(Component):
    """Chooses, a cycle before, which operations may go.

    A gather only reads registers, and a write brings what it writes: one of each passes the lanes at a time, if a pass
    takes several cycles. Writes go before everything: what they complete lets warps go on. Gathers without one
    alternate with what passes the lanes.

    Members
    -------
    gather_0.., write_0.. : In(stream of register_gather), In(stream of register_write)
        One for each of GATHERING, and for each LaneClient.
    room : In(1)
        What passes the lanes may send events.
    first, wants : Out(1)
        Operations go before any instruction; they go if no instruction is ready.
    goes, went : In(1), Out(1)
        They do; they did, a cycle ago.
    passes : In(1)
        An instruction passes the lanes, or could.
    gather, write : Out(Event of offered_operation)
        Two cycles after they have gone.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__(operation_streams(params) | {
            "room": In(1), "first": Out(1), "wants": Out(1), "goes": In(1), "went": Out(1), "passes": In(1),
            "gather": Out(Event(offered_operation(register_gather(params)))),
            "write": Out(Event(offered_operation(register_write(params))))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        reads, writes, turn, due = Signal(), Signal(), Signal(), Signal()   # some do; it is the turn of one that reads
        m.d.sync += self.went.eq(self.goes)
        next_write = self._choose(m, "write", list(LaneClient), self.write, writes)
        next_read = self._choose(m, "gather", list(GATHERING), self.gather, reads,
                                 ~next_write if self._params.beats == 1 else 1)
        m.d.comb += due.eq(Mux(self.goes & reads, 0, turn | self.passes & next_read))
        m.d.sync += [
            turn.eq(due), self.first.eq(self.room & (next_write | next_read & due)),
            self.wants.eq(self.room & (next_write | next_read))]
        return m

    def _choose(self, m: Module, name: str, clients: list[LaneClient], out: Any, chooses: Signal,
                allowed: Any = 1) -> Signal:
        """One of the streams of a kind goes with the next operations, and leaves two cycles later. ``chooses``: there
        is one. Returns whether there is one for the next cycle."""
        streams = [getattr(self, f"{name}_{client.value}") for client in clients]
        order, count = Order(len(clients), name), len(clients)
        chosen, taken, wanting = (Signal(count, name=f"{name}_{what}") for what in ("chosen", "taken", "wanting"))
        any_, some, went = (Signal(name=f"{name}_{what}") for what in ("any", "some", "went"))
        selected = Signal.like(out.payload)
        m.d.comb += [
            taken.eq(chosen & self.goes.replicate(count)),
            wanting.eq(Cat(source.valid for source in streams) & ~taken), any_.eq(wanting.any()),
            some.eq(any_ & allowed)]
        m.d.comb += [source.ready.eq(mine) for source, mine in zip(streams, taken, strict=True)]
        m.d.sync += [
            chosen.eq(order.first(wanting) & some.replicate(count)), chooses.eq(some), went.eq(self.goes & chooses),
            out.valid.eq(went), out.payload.eq(selected),
            selected.client.as_value().eq(chosen_of(chosen, [client.value for client in clients])),
            selected.operation.as_value().eq(chosen_of(chosen, [each.payload.as_value() for each in streams]))]
        order.update(m, taken)
        return any_
