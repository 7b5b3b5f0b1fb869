"""The control of the serial execute unit: phases, the threads of a phase, the steps of a thread."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from rtl.params import WARP_THREADS

from ..lane import BYTE_LANE_CYCLES
from .stages import InstructionClass

__all__ = ["Phase", "Sequencer", "ThreadStep"]


class Phase(enum.Enum, shape=4):
    """What the unit does. The phases of ``_LAST_STEPS`` handle one thread after another."""

    IDLE = 0
    DECODE = 1
    START = 2
    SCAN = 3
    """Finds which threads execute the instruction, and the value that is the same in all of
    them."""
    COLLECT = 4
    """The same, and reads the registers of the lowest thread that executes the instruction."""
    COMPUTE = 5
    """Reads, computes and writes."""
    GATHER = 6
    """Reads three registers of each thread for a unit."""
    WRITE = 7
    """Writes a unit's values."""
    DISPATCH = 8
    """Sends to its unit what the scan has found, or reports an error."""
    AWAIT_FLOW = 9
    """Waits for the flow unit's value."""
    OFFER_WRITE = 10
    """Offers that value to issue, which makes a write of it."""
    COMPLETE = 11


class ThreadStep:
    """The steps of a thread.

    A register that is requested in one step arrives in the next: in C, B and A those of operands c,
    b and a. In a write by a unit, the data are requested in FIRST, arrive in C, and are written in
    A.
    """

    FIRST = 0
    C = 1
    B = 2
    A = 3
    OPERANDS = 4
    """All operands are in their registers."""
    RESULTS = OPERANDS + BYTE_LANE_CYCLES
    WRITE = RESULTS + 1


_LAST_STEPS = {
    Phase.SCAN: ThreadStep.C,
    Phase.COLLECT: ThreadStep.OPERANDS,
    Phase.GATHER: ThreadStep.OPERANDS,
    Phase.WRITE: ThreadStep.A,
    Phase.COMPUTE: ThreadStep.WRITE,
}
"""The phases with threads, and the last step of each."""
_WRITING_PHASES = (Phase.COMPUTE, Phase.WRITE)
"""Those in which a thread's last step writes."""


class Sequencer(wiring.Component):
    """Sequences phases, threads and steps. ::

        instruction             +-------- refused -------------------------> COMPLETE -> IDLE
        IDLE -> DECODE -> START-+-------- lanes, no scan ---> COMPUTE -----> COMPLETE
                                +-> SCAN or COLLECT -> DISPATCH
                                                         | lanes: COMPUTE -> COMPLETE
                                                         | read of the flow unit:
                                                         |   AWAIT_FLOW -> OFFER_WRITE -> IDLE
                                                         + others: IDLE
        gather      IDLE -> GATHER -> IDLE
        write       IDLE -> WRITE -> IDLE, after an instruction's last one COMPLETE

    Members
    -------
    instruction, gather, write : In(1)
        An instruction is issued, an operation accepted: one of them, and only in IDLE.
    instruction_class : In(InstructionClass)
        From START on.
    can_start : In(1)
        START ends.
    has_flow_result, write_accepted : In(1)
        AWAIT_FLOW and OFFER_WRITE end.
    is_last_write : In(1)
        In WRITE: the instruction has no further write.
    write_is_blocked : In(1)
        Nothing can be written in this cycle: a thread's last step is repeated.
    phase, thread, step : Out
    thread_ends, phase_ends : Out(1)
        The last step of a thread; of the last thread.
    may_write_next : Out(1)
        The next cycle is a step that writes.
    writes : Out(1)
        The thread's results are written.
    """

    instruction: In(1)
    gather: In(1)
    write: In(1)
    instruction_class: In(InstructionClass)
    can_start: In(1)
    has_flow_result: In(1)
    write_accepted: In(1)
    is_last_write: In(1)
    write_is_blocked: In(1)
    phase: Out(Phase)
    thread: Out(range(WARP_THREADS))
    step: Out(range(ThreadStep.WRITE + 1))
    thread_ends: Out(1)
    phase_ends: Out(1)
    may_write_next: Out(1)
    writes: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._count_steps(m)
        self._change_phase(m)
        m.d.sync += Assert(
            (self.phase == Phase.IDLE) | ~(self.instruction | self.gather | self.write),
            "two instructions or operations")
        return m

    def _count_steps(self, m: Module) -> None:
        """The steps of a thread, and the threads of a phase."""
        has_threads = Signal()
        is_last_step = Signal()
        is_write_step = Signal()
        precedes_write = Signal()
        with m.Switch(self.phase):
            for phase, last_step in _LAST_STEPS.items():
                with m.Case(phase):
                    m.d.comb += has_threads.eq(1)
                    m.d.comb += is_last_step.eq(self.step == last_step)
                    if phase in _WRITING_PHASES:
                        m.d.comb += is_write_step.eq(is_last_step)
                        m.d.comb += precedes_write.eq(self.step == last_step - 1)
        repeats = is_write_step & self.write_is_blocked
        m.d.comb += self.thread_ends.eq(is_last_step & ~repeats)
        m.d.comb += self.phase_ends.eq(self.thread_ends & (self.thread == WARP_THREADS - 1))
        m.d.comb += self.writes.eq(is_write_step & ~self.write_is_blocked)
        m.d.comb += self.may_write_next.eq(precedes_write | repeats)
        with m.If(self.thread_ends):
            m.d.sync += self.step.eq(0)
            m.d.sync += self.thread.eq(self.thread + 1)
        with m.Elif(has_threads & ~is_last_step):
            m.d.sync += self.step.eq(self.step + 1)

    def _change_phase(self, m: Module) -> None:
        phase = self.phase
        kind = self.instruction_class
        with m.Switch(phase):
            with m.Case(Phase.IDLE):
                with m.If(self.write):
                    m.d.sync += phase.eq(Phase.WRITE)
                with m.Elif(self.gather):
                    m.d.sync += phase.eq(Phase.GATHER)
                with m.Elif(self.instruction):
                    m.d.sync += phase.eq(Phase.DECODE)
            with m.Case(Phase.DECODE):
                m.d.sync += phase.eq(Phase.START)
            with m.Case(Phase.START), m.If(self.can_start):
                with m.If(kind.is_lane_instruction & ~kind.needs_scan):
                    m.d.sync += phase.eq(Phase.COMPUTE)
                with m.Elif(kind.is_collected):
                    m.d.sync += phase.eq(Phase.COLLECT)
                with m.Elif(kind.is_refused):
                    m.d.sync += phase.eq(Phase.COMPLETE)
                with m.Else():
                    m.d.sync += phase.eq(Phase.SCAN)
            with m.Case(Phase.SCAN, Phase.COLLECT), m.If(self.phase_ends):
                m.d.sync += phase.eq(Phase.DISPATCH)
            with m.Case(Phase.DISPATCH):
                with m.If(kind.is_flow_read):
                    m.d.sync += phase.eq(Phase.AWAIT_FLOW)
                with m.Elif(kind.is_lane_instruction):
                    m.d.sync += phase.eq(Phase.COMPUTE)
                with m.Else():
                    m.d.sync += phase.eq(Phase.IDLE)
            with m.Case(Phase.COMPUTE), m.If(self.phase_ends):
                m.d.sync += phase.eq(Phase.COMPLETE)
            with m.Case(Phase.GATHER), m.If(self.phase_ends):
                m.d.sync += phase.eq(Phase.IDLE)
            with m.Case(Phase.WRITE), m.If(self.phase_ends):
                with m.If(self.is_last_write):
                    m.d.sync += phase.eq(Phase.COMPLETE)
                with m.Else():
                    m.d.sync += phase.eq(Phase.IDLE)
            with m.Case(Phase.AWAIT_FLOW), m.If(self.has_flow_result):
                m.d.sync += phase.eq(Phase.OFFER_WRITE)
            with m.Case(Phase.OFFER_WRITE), m.If(self.write_accepted):
                m.d.sync += phase.eq(Phase.IDLE)
            with m.Case(Phase.COMPLETE):
                m.d.sync += phase.eq(Phase.IDLE)
