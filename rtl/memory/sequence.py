"""The instruction that is under way: one at a time, from its addresses to its results."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.layouts import completion, error_event
from rtl.params import WARP_THREADS, SmParams

from .addresses import ThreadSpaces
from .instruction import WORDS, MemoryInstruction, MemoryOperation, access_job, queued

__all__ = ["MemorySequence"]

_WRITE_CYCLES = 8
"""Cycles in which the lanes still write what was wanted last."""


class MemorySequence(Component):
    """Starts one part of the unit after the other, for one instruction.

    Memory's lines go first, then each word in local memory, then shared memory. If the addresses hold an error, the
    threads below only read: one of them may have a fault, and then goes first.

    Members
    -------
    ready, take : In(1), Out(1)
        The next instruction is prepared; it is taken.
    job, instruction, idle, spaces, address_error, address_thread : In
        The instruction that was taken last; whether it does nothing; what came of its addresses.
    access : Out(access_job)
        What is to be done now.
    lines, lines_busy, fault : Out, In, In
    shared, shared_busy : Out, In
        Shared memory; without ``modify`` loads and stores.
    shuffle, shuffle_busy : Out, In
    results, results_done : Out, In
    report_mask : In(32)
    completion, error : Out
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "ready": In(1), "take": Out(1), "job": In(queued(params)), "instruction": In(MemoryInstruction),
            "idle": In(1), "spaces": In(ThreadSpaces),
            "address_error": In(WarpError), "address_thread": In(range(WARP_THREADS)), "access": Out(access_job()),
            "lines": Out(1), "lines_busy": In(1), "fault": In(1), "shared": Out(1), "shared_busy": In(1),
            "shuffle": Out(1), "shuffle_busy": In(1), "results": Out(1), "results_done": In(1),
            "report_mask": In(WARP_THREADS), "completion": Out(completion(params)), "error": Out(error_event(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction, job, spaces = self.instruction, self.job, self.spaces
        access, in_lines = self.access, Signal(init=1)
        wrong = Signal(WarpError)
        below, memory, local = Signal(WARP_THREADS), Signal(WARP_THREADS), Signal(WARP_THREADS)
        own, word = Signal(), Signal(range(WORDS))
        settling = Signal(range(_WRITE_CYCLES + 1))
        bad = self.address_error != WarpError.NONE
        m.d.comb += [
            below.eq(Mux(bad, (1 << self.address_thread) - 1, ~0)), memory.eq(spaces.memory & below),
            local.eq(spaces.local & below)]
        with m.If(settling.any()):
            m.d.sync += settling.eq(settling - 1)

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.take.eq(self.ready)
                m.d.sync += [wrong.eq(WarpError.NONE), own.eq(0), word.eq(0)]
                with m.If(self.ready):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.next = "MEMORY"
                with m.If(self.idle):
                    m.next = "COMPLETE"
                with m.Elif(instruction.operation == MemoryOperation.SHUFFLE):
                    m.d.comb += self.shuffle.eq(1)
                    m.next = "SHUFFLE"
            with m.State("SHUFFLE"), m.If(~self.shuffle_busy):
                m.next = "RESULTS"
            with m.State("MEMORY"):
                m.next = "SHARED"
                with m.If(Mux(own, local, memory).any()):
                    m.d.comb += self.lines.eq(1)
                    m.next = "LINES"
                with m.Elif(~own & local.any()):
                    m.d.sync += own.eq(1)
                    m.next = "MEMORY"
            with m.State("LINES"), m.If(~self.lines_busy):
                m.d.sync += own.eq(1)
                m.next = "MEMORY"
                with m.If(own):
                    m.d.sync += word.eq(word + 1)
                with m.If(self.fault | Mux(own, word == instruction.words - 1, ~local.any())):
                    m.next = "SHARED"
            with m.State("SHARED"):
                m.d.comb += in_lines.eq(0)
                m.next = "RESULTS"
                with m.If(self.fault):
                    m.d.sync += wrong.eq(WarpError.MMU_FAULT)
                    m.next = "COMPLETE"
                with m.Elif(bad):
                    m.d.sync += wrong.eq(self.address_error)
                    m.next = "COMPLETE"
                with m.Elif(spaces.shared.any()):
                    m.d.comb += self.shared.eq(1)
                    m.next = "SERVE"
            with m.State("SERVE"):
                m.d.comb += in_lines.eq(0)
                with m.If(~self.shared_busy):
                    m.next = "RESULTS"
            with m.State("RESULTS"):
                m.next = "COMPLETE"
                with m.If(instruction.results.any()):
                    m.d.comb += self.results.eq(1)
                    m.next = "WRITE"
            with m.State("WRITE"), m.If(self.results_done):
                m.d.sync += settling.eq(_WRITE_CYCLES)
                m.next = "IDLE"
            with m.State("COMPLETE"), m.If(~settling.any()):
                reported = (wrong != WarpError.NONE) & self.report_mask.bit_select(wrong.as_value(), 1)
                m.d.comb += [self.completion.valid.eq(1), self.error.valid.eq(reported)]
                m.next = "IDLE"

        m.d.comb += [
            access.threads.eq(Mux(in_lines, Mux(own, local, memory), spaces.shared)), access.line.eq(in_lines),
            access.local.eq(in_lines & own), access.word.eq(word),
            access.write.eq((instruction.operation == MemoryOperation.STORE) & ~bad),
            access.modify.eq((instruction.operation == MemoryOperation.ATOMIC) & ~bad),
            access.words.eq(instruction.words), access.size.eq(instruction.size),
            access.signed.eq(instruction.is_signed),
            self.completion.warp.eq(job.warp), self.completion.serial.eq(job.serial),
            self.completion.write_barrier.eq(job.write_barrier),
            self.completion.read_barrier.eq(Mux(self.idle, job.read_barrier, NO_BARRIER)),
            self.error.warp.eq(job.warp), self.error.pc.eq(job.pc), self.error.error.eq(wrong)]
        return m
