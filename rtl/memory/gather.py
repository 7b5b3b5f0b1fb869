"""Reads an instruction's registers through the lanes."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.syntax import PT
from rtl.layouts import lane_operation
from rtl.params import WARP_THREADS, SmParams
from rtl.pick import pick

from .instruction import MemoryInstruction, queued

__all__ = ["RegisterGather"]


class RegisterGather(Component):
    """Asks for the one or two gathers of an instruction, which come back in the order of their ``index``.

    Members
    -------
    start : In(1)
        The instruction is there from now on.
    job, instruction : In(queued), In(MemoryInstruction)
    operation : Out(stream of lane_operation)
    arrived : In(1)
        The last beat of a gather has come.
    done : Out(1)
        All of them have come.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "start": In(1), "job": In(queued(params)), "instruction": In(MemoryInstruction),
            "operation": Out(stream.Signature(lane_operation(params))), "arrived": In(1), "done": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        asking, index, missing = Signal(), Signal(), Signal(2)
        operation, second = self.operation.payload, self.instruction.second
        last = index == second
        m.d.comb += [
            self.operation.valid.eq(asking), operation.gather.eq(1), operation.warp.eq(self.job.warp),
            operation.serial.eq(self.job.serial), operation.registers.eq(pick(self.instruction.gathers, index)),
            operation.predicate.eq(PT), operation.threads.eq((1 << WARP_THREADS) - 1), operation.index.eq(index),
            operation.last.eq(last), operation.barrier.eq(self.job.read_barrier), self.done.eq(missing == 0)]
        with m.If(self.start):
            m.d.sync += [asking.eq(1), index.eq(0), missing.eq(Mux(second, 2, 1))]
        with m.Elif(asking & self.operation.ready):
            m.d.sync += [index.eq(1), asking.eq(~last)]
        with m.If(self.arrived):
            m.d.sync += missing.eq(missing - 1)
        return m
