"""What other units ask of the lanes."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import LaneClient, lane_operation
from rtl.params import SmParams

__all__ = ["LAUNCH_PATIENCE", "OperationChooser", "offered_operation"]

LAUNCH_PATIENCE = 16
"""Cycles after which an operation of a launch goes before everything else."""
_RESULT, _GATHER, _LAUNCH = range(3)


def offered_operation(params: SmParams) -> data.StructLayout:
    """An operation, and whose it is."""
    return data.StructLayout({"valid": 1, "client": LaneClient, "payload": lane_operation(params)})


class OperationChooser(Component):
    """Holds one operation that writes, one that reads and one of the launch, and says which goes when.

    Operations that write go before everything: what they complete lets warps go on. Reads take turns with
    instructions; the launch goes when nobody else wants to, or has waited for LAUNCH_PATIENCE cycles.

    Members
    -------
    operations : In(stream of lane_operation), one for each LaneClient
        ``operation_0`` and so on.
    possible : In(1)
        The lanes are free.
    wanted : In(1)
        An instruction is ready.
    issues : In(1)
        It is selected.
    first, goes : Out(1)
        An operation goes before any instruction; one goes.
    operation : Out(offered_operation)
        The one that was selected a cycle ago.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({f"operation_{client.value}": In(stream.Signature(lane_operation(params)))
                          for client in LaneClient} | {
            "possible": In(1), "wanted": In(1), "issues": In(1), "first": Out(1), "goes": Out(1),
            "operation": Out(offered_operation(params))})
        self.operations = [getattr(self, f"operation_{client.value}") for client in LaneClient]
        """The streams, by client."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held = [Signal(offered_operation(self._params), name=name) for name in ("result", "gather", "launch")]
        usual = [client for client in LaneClient if client is not LaneClient.LAUNCH]
        for kind, slot in enumerate(held):
            clients = [LaneClient.LAUNCH] if kind == _LAUNCH else usual
            self._hold(m, slot, clients, None if kind == _LAUNCH else kind == _GATHER)

        waited, turn = Signal(range(LAUNCH_PATIENCE + 1)), Signal()     # the launch's patience; a read's turn
        late = held[_LAUNCH].valid & (waited == LAUNCH_PATIENCE)
        result, gather = held[_RESULT].valid, held[_GATHER].valid
        m.d.comb += [
            self.first.eq(self.possible & (late | result | gather & turn)),
            self.goes.eq(self.first | self.possible & ~self.wanted & (gather | held[_LAUNCH].valid))]
        chosen = [~late & result, ~late & ~result & gather, late | ~result & ~gather]
        taken = Signal(len(held))
        m.d.sync += taken.eq(Mux(self.goes, Cat(chosen), 0))
        for kind, slot in enumerate(held):
            with m.If(self.goes & chosen[kind]):
                m.d.sync += slot.valid.eq(0)
            with m.If(taken[kind]):
                m.d.comb += self.operation.eq(slot)
        m.d.comb += self.operation.valid.eq(taken.any())

        with m.If(self.goes & chosen[_LAUNCH]):
            m.d.sync += waited.eq(0)
        with m.Elif(held[_LAUNCH].valid & ~late):
            m.d.sync += waited.eq(waited + 1)
        with m.If(self.goes & chosen[_GATHER]):
            m.d.sync += turn.eq(0)
        with m.Elif(self.possible & self.issues):
            m.d.sync += turn.eq(gather)
        return m

    def _hold(self, m: Module, slot: Any, clients: list[LaneClient], gather: bool | None) -> None:
        """Fills an empty slot from these clients, in turn; with operations that read, or with those that write."""
        streams = [self.operations[client.value] for client in clients]
        wanting, last = Signal(len(clients)), Signal(range(len(clients)))
        m.d.comb += wanting.eq(Cat(
            source.valid & (1 if gather is None else source.payload.gather == gather) for source in streams))
        later = wanting & Cat((last < index) for index in range(len(clients)))
        chosen = Signal(len(clients))
        m.d.comb += chosen.eq(Mux(later.any(), later & (~later + 1), wanting & (~wanting + 1)))
        for index, (client, source) in enumerate(zip(clients, streams, strict=True)):
            with m.If(chosen[index] & ~slot.valid):
                m.d.comb += source.ready.eq(1)
                m.d.sync += [
                    slot.valid.eq(1), slot.client.eq(client), slot.payload.eq(source.payload), last.eq(index)]
