"""What happens when: an instruction or operation, its threads, the steps of a thread."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from rtl.params import WARP_THREADS

from ..lane import BYTE_LANE_CYCLES

__all__ = ["Phase", "Sequencer", "Step"]


class Phase(enum.Enum, shape=4):
    """What the unit does. In the phases of LOOPS a thread comes after the other."""

    IDLE = 0
    DECODE = 1
    START = 2
    LOOK = 3
    """Finds out who executes the instruction, and what is the same in all threads."""
    COLLECT = 4
    """Likewise, and the registers of the lowest thread."""
    COMPUTE = 5
    GATHER = 6
    WRITE = 7
    TELL = 8
    """What was found out leaves for others."""
    AWAIT = 9
    """The flow unit's value."""
    OFFER = 10
    """That value, to be written."""
    COMPLETE = 11


class Step:
    """Steps of a thread. In three of them what the one before has asked for is there: registers c, b and a. In those of
    a write by a unit its data are there in C, and are written in A."""

    FIRST = 0
    C = 1
    B = 2
    A = 3
    OPERANDS = 4
    """Operands are there."""
    RESULTS = OPERANDS + BYTE_LANE_CYCLES
    WRITE = RESULTS + 1


LOOPS = {Phase.LOOK: Step.C, Phase.COLLECT: Step.OPERANDS, Phase.GATHER: Step.OPERANDS, Phase.WRITE: Step.A,
         Phase.COMPUTE: Step.WRITE}
"""The phases with threads, and the last step of each."""


class Sequencer(wiring.Component):
    """Goes from one phase to the next.

    Members
    -------
    instruction, gather, write : In(1)
        Something comes; only in IDLE.
    refused, computes, collects, looks, flow_read : In(1)
        Of an instruction, from START on: nobody executes it; the lanes do; its registers are collected; of one of the
        lanes, it has to LOOK first; the flow unit's value goes to a register.
    ready : In(1)
        In START: it may go on.
    result, taken : In(1)
        In AWAIT and OFFER: what is waited for.
    completes : In(1)
        In WRITE: the last write of an instruction.
    stays : In(1)
        There is no time for writing.
    phase, thread, step : Out
    ends, last : Out(1), Out(1)
        A thread ends; and it is the last one.
    loads, writes : Out(1), Out(1)
        The next cycle is one for writing; what the thread writes is written.
    """

    instruction: In(1)
    gather: In(1)
    write: In(1)
    refused: In(1)
    computes: In(1)
    collects: In(1)
    looks: In(1)
    flow_read: In(1)
    ready: In(1)
    result: In(1)
    taken: In(1)
    completes: In(1)
    stays: In(1)
    phase: Out(Phase)
    thread: Out(range(WARP_THREADS))
    step: Out(range(Step.WRITE + 1))
    ends: Out(1)
    last: Out(1)
    loads: Out(1)
    writes: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        phase, thread, step = self.phase, self.thread, self.step
        final, loops, writing = Signal(), Signal(), Signal()
        with m.Switch(phase):
            for loop, last in LOOPS.items():
                with m.Case(loop):
                    m.d.comb += [loops.eq(1), final.eq(step == last)]
        m.d.comb += [
            writing.eq(final & ((phase == Phase.COMPUTE) | (phase == Phase.WRITE))),
            self.ends.eq(final & ~(writing & self.stays)), self.writes.eq(writing & ~self.stays),
            self.loads.eq(Mux(phase == Phase.COMPUTE, step == LOOPS[Phase.COMPUTE] - 1,
                              (phase == Phase.WRITE) & (step == LOOPS[Phase.WRITE] - 1)) | (writing & self.stays)),
            self.last.eq(self.ends & (thread == WARP_THREADS - 1))]
        with m.If(self.ends):
            m.d.sync += [step.eq(0), thread.eq(thread + 1)]
        with m.Elif(loops & ~final):
            m.d.sync += step.eq(step + 1)

        with m.Switch(phase):
            with m.Case(Phase.IDLE):
                with m.If(self.instruction):
                    m.d.sync += phase.eq(Phase.DECODE)
                with m.If(self.gather):
                    m.d.sync += phase.eq(Phase.GATHER)
                with m.If(self.write):
                    m.d.sync += phase.eq(Phase.WRITE)
            with m.Case(Phase.DECODE):
                m.d.sync += phase.eq(Phase.START)
            with m.Case(Phase.START), m.If(self.ready):
                m.d.sync += phase.eq(Phase.LOOK)
                with m.If(self.refused):
                    m.d.sync += phase.eq(Phase.COMPLETE)
                with m.If(self.collects):
                    m.d.sync += phase.eq(Phase.COLLECT)
                with m.If(self.computes & ~self.looks):
                    m.d.sync += phase.eq(Phase.COMPUTE)
            with m.Case(Phase.LOOK, Phase.COLLECT), m.If(self.last):
                m.d.sync += phase.eq(Phase.TELL)
            with m.Case(Phase.TELL):
                m.d.sync += phase.eq(Phase.IDLE)
                with m.If(self.computes):
                    m.d.sync += phase.eq(Phase.COMPUTE)
                with m.If(self.flow_read):
                    m.d.sync += phase.eq(Phase.AWAIT)
            with m.Case(Phase.GATHER), m.If(self.last):
                m.d.sync += phase.eq(Phase.IDLE)
            with m.Case(Phase.COMPUTE), m.If(self.last):
                m.d.sync += phase.eq(Phase.COMPLETE)
            with m.Case(Phase.WRITE), m.If(self.last):
                m.d.sync += phase.eq(Mux(self.completes, Phase.COMPLETE, Phase.IDLE))
            with m.Case(Phase.AWAIT), m.If(self.result):
                m.d.sync += phase.eq(Phase.OFFER)
            with m.Case(Phase.OFFER), m.If(self.taken):
                m.d.sync += phase.eq(Phase.IDLE)
            with m.Case(Phase.COMPLETE):
                m.d.sync += phase.eq(Phase.IDLE)
        m.d.sync += Assert((phase == Phase.IDLE) | ~(self.instruction | self.gather | self.write),
                           "two instructions or operations")
        return m
