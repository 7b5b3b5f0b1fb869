"""Registers of instructions that are not the lanes': of all threads, the lowest one's."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.layouts import dispatched
from rtl.params import WARP_THREADS, SmParams
from rtl.pick import pick

from .slots import beat_stage
from .stages import Operands

__all__ = ["Collector"]

_OPERANDS = 2


class Collector(Component):
    """Holds one instruction while its registers pass the lanes.

    Members
    -------
    start, record : In(1), In(dispatched)
        An instruction, in S3; only when ``busy`` is 0.
    valid, stage, operands : In
        S5: the beats that pass, and the Operands of each lane.
    busy : Out(1)
        From S4 on until ``taken``.
    ready, complete : Out(1), Out(dispatched)
        The instruction with its operands.
    taken : In(1)
        It goes, if it is ready.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "start": In(1), "record": In(dispatched(params)), "valid": In(1), "stage": In(beat_stage(params)),
            "operands": In(data.ArrayLayout(Operands, params.lanes)), "busy": Out(1), "ready": Out(1),
            "complete": Out(dispatched(params)), "taken": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, stage = self._params.lanes, self.stage
        waiting, words = Signal(dispatched(self._params)), [lane.a for lane in self.operands]
        operands, found = Signal(data.ArrayLayout(32, _OPERANDS)), Signal()
        same = Signal(WARP_THREADS)

        # S5: the lowest thread.
        passes, first = Signal(), Signal(range(lanes))
        m.d.comb += [passes.eq(self.valid & stage.collects), first.eq(lowest(stage.threads))]
        with m.If(passes & ~found):
            m.d.sync += [found.eq(stage.threads.any()), operands[0].eq(pick(words, first)),
                         operands[1].eq(pick([lane.b for lane in self.operands], first))]

        # S6: who has the same. Threads of earlier beats do not execute the instruction.
        passed, ends, values, threads = Signal(), Signal(), Signal(data.ArrayLayout(32, lanes)), Signal(lanes)
        m.d.sync += [
            passed.eq(passes), ends.eq(stage.place.beat == self._params.beats - 1), values.eq(Cat(words)),
            threads.eq(stage.threads)]
        alike = Cat(value == operands[0] for value in values) & threads
        with m.If(passed):
            m.d.sync += [same.eq(Cat(same, alike)[lanes:]), self.ready.eq(ends)]

        with m.If(self.start):
            m.d.sync += [waiting.eq(self.record), self.busy.eq(1), found.eq(0)]
        with m.Elif(self.ready & self.taken):
            m.d.sync += [self.busy.eq(0), self.ready.eq(0)]
        m.d.comb += [self.complete.eq(waiting), self.complete.operands.eq(operands), self.complete.same.eq(same)]
        return m
