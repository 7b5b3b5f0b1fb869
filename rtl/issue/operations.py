"""What other units ask of the lanes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event, LaneClient, lane_operation, offered_operation
from rtl.one_hot import chosen_of, number_of
from rtl.params import SmParams

from .order import Order

__all__ = ["OPERATIONS", "OperationChooser"]

OPERATIONS = tuple(f"operation_{client.value}" for client in LaneClient)
"""Names of the ports, by client."""


class OperationChooser(Component):
    """Chooses, a cycle before, which operation may go.

    Operations that write go before everything: what they complete lets warps go on. Reads alternate with what passes
    the lanes.

    Members
    -------
    operation_0.. : In(stream of lane_operation), one for each LaneClient
    room : In(1)
        What passes the lanes may send an event.
    first, wants : Out(1)
        An operation goes before any instruction; one goes if no instruction is ready.
    goes, went : In(1), Out(1)
        It does; it did, a cycle ago.
    passes : In(1)
        An instruction passes the lanes, or could.
    operation : Out(Event of offered_operation)
        Two cycles after it has gone.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__(dict.fromkeys(OPERATIONS, In(stream.Signature(lane_operation(params)))) | {
            "room": In(1), "first": Out(1), "wants": Out(1), "goes": In(1), "went": Out(1), "passes": In(1),
            "operation": Out(Event(offered_operation(params)))})
        self.operations = [getattr(self, name) for name in OPERATIONS]
        """The streams, by client."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        order = Order(len(LaneClient), "client")
        chosen, taken = Signal(len(LaneClient)), Signal(len(LaneClient))
        reads, turn, due = Signal(), Signal(), Signal()     # the chosen one reads; it is the turn of one that does
        m.d.comb += taken.eq(chosen & self.goes.replicate(len(chosen)))

        # Who may go in the next cycle.
        wanting = Cat(source.valid for source in self.operations) & ~taken
        gathers = Cat(source.payload.gather for source in self.operations)
        writing, reading = wanting & ~gathers, wanting & gathers
        writes, any_read = writing.any(), reading.any()
        m.d.comb += due.eq(Mux(self.goes & reads, 0, turn | self.passes & any_read))
        m.d.sync += [
            chosen.eq(order.first(Mux(writes, writing, reading))), reads.eq(~writes & any_read), turn.eq(due),
            self.first.eq(self.room & (writes | any_read & due)), self.wants.eq(self.room & (writes | any_read))]
        order.update(m, taken)

        # It goes, and leaves two cycles later.
        selected = Signal(offered_operation(self._params))
        m.d.comb += [source.ready.eq(taken[index]) for index, source in enumerate(self.operations)]
        m.d.sync += [
            self.went.eq(self.goes), self.operation.valid.eq(self.went), self.operation.payload.eq(selected),
            selected.client.as_value().eq(number_of(chosen)),
            selected.operation.as_value().eq(chosen_of(chosen, [each.payload.as_value() for each in self.operations]))]
        return m
