"""What B2R writes, until the lanes want it."""

from amaranth.hdl import Module, Signal
from amaranth.lib import memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.barriers import BarrierState
from rtl.isa.kinds import BarrierRead
from rtl.isa.syntax import PT, RZ
from rtl.layouts import LaneClientPort, operands_read
from rtl.params import SmParams

from .request import barrier_request

__all__ = ["RegisterWrites"]


class RegisterWrites(Component):
    """Asks the lanes for one write, and gives the value to all threads when they want it.

    Members
    -------
    request, state, result : In(barrier_request), In(BarrierState), In(32)
        A B2R, its barrier's state and its warp's result. With ``.WARP`` it reads 0: a warp that executes waits at no
        barrier (ours).
    wanted : Out(1)
        It writes a register or a predicate.
    send, sent : In(1), Out(1)
        Asks for the write until that is ``sent``; all inputs stay until then.
    port : Out(LaneClientPort)
    operands_read : Out(operands_read)
        Nothing has to be read: the scoreboard for that goes down when the write is sent.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "request": In(barrier_request(params)), "state": In(BarrierState), "result": In(32), "wanted": Out(1),
            "send": In(1), "sent": Out(1), "port": Out(LaneClientPort(params)),
            "operands_read": Out(operands_read(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, operation = self.request, self.port.operation
        mark, some, value = Signal.like(operation.payload.index), Signal(), Signal(32)
        m.submodules.values = values = memory.Memory(shape=32, depth=1 << len(mark), init=[])
        write, read = values.write_port(), values.read_port()

        # Ask.
        asked = operation.payload
        m.d.comb += [
            self.wanted.eq((request.register != RZ) | (request.predicate != PT)), operation.valid.eq(self.send),
            self.sent.eq(self.send & operation.ready), asked.gather.eq(0), asked.warp.eq(request.warp),
            asked.serial.eq(request.serial), asked.registers[0].eq(request.register), asked.registers[1].eq(RZ),
            asked.registers[2].eq(RZ), asked.predicate.eq(request.predicate), asked.threads.eq(request.content),
            asked.index.eq(mark), asked.last.eq(1), asked.barrier.eq(request.write_barrier),
            self.operands_read.valid.eq(self.sent), self.operands_read.warp.eq(request.warp),
            self.operands_read.barrier.eq(request.read_barrier)]
        with m.Switch(request.place):
            with m.Case(BarrierRead.BARRIER):
                m.d.comb += value.eq(self.state)
            with m.Case(BarrierRead.RESULT):
                m.d.comb += value.eq(self.result)
        m.d.comb += [write.en.eq(self.send), write.addr.eq(mark), write.data.eq(value)]
        with m.If(self.sent):
            m.d.sync += mark.eq(mark + 1)

        # Give.
        m.d.comb += [read.addr.eq(self.port.wanted.index), some.eq(read.data.any())]
        m.d.comb += [lane.eq(read.data) for lane in self.port.values]
        m.d.comb += self.port.flags.eq(some.replicate(len(self.port.flags)))
        return m
