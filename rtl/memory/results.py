"""Writes an instruction's results to registers through the lanes."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.syntax import PT, RZ
from rtl.layouts import lane_operation
from rtl.params import WARP_THREADS, SmParams

from .instruction import WORDS, MemoryInstruction, queued

__all__ = ["ResultWriter"]


class ResultWriter(Component):
    """Asks for one write for each result register, and gives the data when they are wanted.

    Members
    -------
    start : In(1)
    job, instruction : In(queued), In(MemoryInstruction)
    inside : In(32)
        What goes to the predicate.
    operation : Out(stream of lane_operation)
    loaded : In(32)
        The threads that have results; for others 0 is written.
    wanted : In(valid, index, beat)
    beat, word, words : Out, Out, In
        What is wanted, and these words of the beat's threads in the same cycle.
    values, flags : Out
        What is written, in the cycle after ``wanted``.
    done : Out(1)
        The last beat's data are wanted.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "start": In(1), "job": In(queued(params)), "instruction": In(MemoryInstruction),
            "inside": In(WARP_THREADS), "loaded": In(WARP_THREADS),
            "operation": Out(stream.Signature(lane_operation(params))),
            "wanted": In(data.StructLayout({"valid": 1, "index": 4, "beat": range(params.beats)})),
            "beat": Out(range(params.beats)), "word": Out(range(WORDS)),
            "words": In(data.ArrayLayout(32, params.lanes)),
            "values": Out(data.ArrayLayout(32, params.lanes)), "flags": Out(params.lanes), "done": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, instruction, operation = self._params, self.instruction, self.operation.payload
        asking, index = Signal(), Signal(range(WORDS))
        last = index == instruction.results - 1
        m.d.comb += [
            self.operation.valid.eq(asking), operation.warp.eq(self.job.warp), operation.serial.eq(self.job.serial),
            operation.registers[0].eq(Mux(
                instruction.destination == RZ, RZ, instruction.destination + index)),
            operation.registers[1].eq(RZ), operation.registers[2].eq(RZ),
            operation.predicate.eq(Mux(last, instruction.predicate, PT)), operation.threads.eq(self.job.threads),
            operation.index.eq(index), operation.last.eq(last), operation.barrier.eq(self.job.write_barrier)]
        with m.If(self.start):
            m.d.sync += [asking.eq(1), index.eq(0)]
        with m.Elif(asking & self.operation.ready):
            m.d.sync += [index.eq(index + 1), asking.eq(~last)]

        wanted = self.wanted
        m.d.comb += [
            self.beat.eq(wanted.beat), self.word.eq(wanted.index),
            self.done.eq(wanted.valid & (wanted.beat == params.beats - 1) & (wanted.index == instruction.results - 1))]
        loaded = self.loaded.word_select(wanted.beat, params.lanes)
        m.d.sync += self.flags.eq(self.inside.word_select(wanted.beat, params.lanes))
        for lane, value in enumerate(self.values):
            m.d.sync += value.eq(Mux(loaded[lane], self.words[lane], 0))
        return m
