"""What other units ask of the lanes."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
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
_GATHER_PATIENCE, _WRITE_PATIENCE = 2, 7
"""Instructions that go before an operation that is alone: one of the other kind may come and pass the lanes beside it.
A write waits longer, since there are more gathers than writes."""


def operation_streams(params: SmParams) -> dict[str, Any]:
    """Members for them."""
    shapes = {"gather": register_gather(params), "write": register_write(params)}
    return {name: In(stream.Signature(shapes[name.split("_")[0]])) for name in OPERATIONS}


class OperationChooser(Component):
    """Chooses, a cycle before, which operations may go.

    A gather only reads registers, and what a write brings is there already: one of each passes the lanes at a time.
    They alternate with instructions, so that nobody waits for ever; what is alone lets some more go first. When no
    instruction is ready, operations go at once.

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
        An instruction goes, and operations could.
    gather, write : Out(Event of offered_operation)
        Two cycles after they have gone.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__(operation_streams(params) | {
            "room": In(1), "first": Out(1), "wants": Out(1), "goes": In(1), "went": Out(1), "passes": In(1),
            "gather": Out(Event(offered_operation(register_gather(params)))),
            "write": Out(Event(offered_operation(register_write(params))))})
        self._passed = Signal(range(_WRITE_PATIENCE + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        (reads, gathers), (writes, others) = (
            self._choose(m, "gather", list(GATHERING)), self._choose(m, "write", list(LaneClient)))
        passed, more = self._passed, Signal(range(_WRITE_PATIENCE + 2))

        def due(instructions: Value) -> Value:
            """Whether operations go first after so many instructions, if none go now."""
            return (reads & (instructions >= _GATHER_PATIENCE) | writes & (instructions >= _WRITE_PATIENCE)
                    | reads & writes & instructions.any())

        m.d.comb += more.eq(passed + 1)
        m.d.sync += [
            self.went.eq(self.goes), self.wants.eq(self.room & (gathers | others)),
            self.first.eq(self.room & ~self.goes & Mux(self.passes, due(more), due(passed)))]
        with m.If(self.goes):
            m.d.sync += passed.eq(0)
        with m.Elif(self.passes & (reads | writes) & (more <= _WRITE_PATIENCE)):
            m.d.sync += passed.eq(more)
        return m

    def _choose(self, m: Module, kind: str, clients: list[LaneClient]) -> tuple[Value, Value]:
        """One of a kind, in turn, which goes when operations do. Returns whether there is one, and whether there will
        be one in the next cycle."""
        streams = [getattr(self, f"{kind}_{client.value}") for client in clients]
        order, count, out = Order(len(clients), kind), len(clients), getattr(self, kind)
        chosen, taken, wanting = (Signal(count, name=f"{kind}_{what}") for what in ("chosen", "taken", "wanting"))
        offered, went, selected = Signal(count, name=f"{kind}_offered"), Signal(name=f"{kind}_went"), Signal.like(
            out.payload)
        m.d.comb += [
            taken.eq(chosen & self.goes.replicate(count)), offered.eq(Cat(source.valid for source in streams)),
            wanting.eq(offered & ~taken)]
        m.d.comb += [source.ready.eq(mine) for source, mine in zip(streams, taken, strict=True)]
        m.d.sync += [
            chosen.eq(order.first(wanting)), went.eq(taken.any()), out.valid.eq(went), out.payload.eq(selected),
            selected.client.as_value().eq(chosen_of(chosen, [client.value for client in clients])),
            selected.operation.as_value().eq(chosen_of(chosen, [each.payload.as_value() for each in streams]))]
        order.update(m, taken)
        return offered.any(), wanting.any()
