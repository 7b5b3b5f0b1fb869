"""The control of the serial execute unit: phases, the threads of a phase, the steps of a thread."""

from amaranth.hdl import Assert, Module, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.params import WARP_THREADS

from ..lane import BYTE_LANE_CYCLES
from .stages import Accepted, InstructionClass

__all__ = ["Phases", "Sequencer", "ThreadStep"]


class Phases(data.Struct):
    """What the unit does: one of these. SCAN, COLLECT, COMPUTE, GATHER and WRITE handle one thread
    after another."""

    idle: unsigned(1)
    decode: unsigned(1)
    start: unsigned(1)
    scan: unsigned(1)
    """Determines which threads execute the instruction, and the value that is the same in all of
    them."""
    collect: unsigned(1)
    """The same, and reads the registers of the lowest thread that executes the instruction."""
    compute: unsigned(1)
    """Reads, computes and writes."""
    gather: unsigned(1)
    """Reads three registers of each thread for a unit."""
    write: unsigned(1)
    """Writes a unit's values."""
    dispatch: unsigned(1)
    """Dispatches the instruction with the results of the scan, or reports an error."""
    await_flow: unsigned(1)
    """Waits for the flow unit's value."""
    offer_write: unsigned(1)
    """Offers that value to issue, which makes a write of it."""
    complete: unsigned(1)


class ThreadStep:
    """The steps of a thread.

    A register that is requested in one step arrives in the next: in C, B and A the registers of
    operands c, b and a. In a write by a unit, the data are requested in FIRST, arrive in C, and are
    written in A.
    """

    FIRST = 0
    C = 1
    B = 2
    A = 3
    OPERANDS = 4
    """All operands are in their registers."""
    RESULTS = OPERANDS + BYTE_LANE_CYCLES
    WRITE = RESULTS + 1


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
    accepted : In(Accepted)
        Only in IDLE.
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
    phase : Out(Phases)
    thread, step : Out
    thread_ends, phase_ends : Out(1)
        The last step of a thread; of the last thread.
    may_write_next : Out(1)
        The next cycle is a step that writes.
    writes : Out(1)
        The thread's results are written.
    """

    accepted: In(Accepted)
    instruction_class: In(InstructionClass)
    can_start: In(1)
    has_flow_result: In(1)
    write_accepted: In(1)
    is_last_write: In(1)
    write_is_blocked: In(1)
    phase: Out(Phases)
    thread: Out(range(WARP_THREADS))
    step: Out(range(ThreadStep.WRITE + 1))
    thread_ends: Out(1)
    phase_ends: Out(1)
    may_write_next: Out(1)
    writes: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.FSM():
            self._begin(m)
            self._scan(m)
            self._compute(m)
            self._execute_operation(m)
            self._await_flow_value(m)
        m.d.sync += Assert(
            self.phase.idle | ~self.accepted.as_value().any(),
            "two instructions or operations")
        return m

    def _count_steps(self, m: Module, last_step: int) -> None:
        """The steps of a thread up to this one, of one thread after another."""
        m.d.comb += self.thread_ends.eq(self.step == last_step)
        self._advance(m, self.step != last_step)

    def _count_steps_and_write(self, m: Module, last_step: int) -> None:
        """The same; in its last step, which is repeated while writes are blocked, a thread's
        results are written."""
        is_last_step = self.step == last_step
        repeats = is_last_step & self.write_is_blocked
        m.d.comb += self.writes.eq(is_last_step & ~self.write_is_blocked)
        m.d.comb += self.thread_ends.eq(self.writes)
        m.d.comb += self.may_write_next.eq((self.step == last_step - 1) | repeats)
        self._advance(m, ~is_last_step)

    def _advance(self, m: Module, has_next_step: Value) -> None:
        """To the next thread, or to the next step."""
        is_last_thread = self.thread == WARP_THREADS - 1
        m.d.comb += self.phase_ends.eq(self.thread_ends & is_last_thread)
        with m.If(self.thread_ends):
            m.d.sync += self.step.eq(0)
            m.d.sync += self.thread.eq(self.thread + 1)
        with m.Elif(has_next_step):
            m.d.sync += self.step.eq(self.step + 1)

    def _begin(self, m: Module) -> None:
        """An instruction or an operation."""
        kind = self.instruction_class
        with m.State("IDLE"):
            m.d.comb += self.phase.idle.eq(1)
            with m.If(self.accepted.write):
                m.next = "WRITE"
            with m.Elif(self.accepted.gather):
                m.next = "GATHER"
            with m.Elif(self.accepted.instruction):
                m.next = "DECODE"
        with m.State("DECODE"):
            m.d.comb += self.phase.decode.eq(1)
            m.next = "START"
        with m.State("START"):
            m.d.comb += self.phase.start.eq(1)
            with m.If(self.can_start):
                with m.If(kind.is_lane_instruction & ~kind.needs_scan):
                    m.next = "COMPUTE"
                with m.Elif(kind.is_collected):
                    m.next = "COLLECT"
                with m.Elif(kind.is_refused):
                    m.next = "COMPLETE"
                with m.Else():
                    m.next = "SCAN"

    def _scan(self, m: Module) -> None:
        """The results of the scan, before an instruction is dispatched or the lanes execute it."""
        kind = self.instruction_class
        with m.State("SCAN"):
            m.d.comb += self.phase.scan.eq(1)
            self._count_steps(m, ThreadStep.C)
            with m.If(self.phase_ends):
                m.next = "DISPATCH"
        with m.State("COLLECT"):
            m.d.comb += self.phase.collect.eq(1)
            self._count_steps(m, ThreadStep.OPERANDS)
            with m.If(self.phase_ends):
                m.next = "DISPATCH"
        with m.State("DISPATCH"):
            m.d.comb += self.phase.dispatch.eq(1)
            with m.If(kind.is_flow_read):
                m.next = "AWAIT_FLOW"
            with m.Elif(kind.is_lane_instruction):
                m.next = "COMPUTE"
            with m.Else():
                m.next = "IDLE"

    def _compute(self, m: Module) -> None:
        """The lanes execute an instruction."""
        with m.State("COMPUTE"):
            m.d.comb += self.phase.compute.eq(1)
            self._count_steps_and_write(m, ThreadStep.WRITE)
            with m.If(self.phase_ends):
                m.next = "COMPLETE"
        with m.State("COMPLETE"):
            m.d.comb += self.phase.complete.eq(1)
            m.next = "IDLE"

    def _execute_operation(self, m: Module) -> None:
        """A gather or a write of a unit."""
        with m.State("GATHER"):
            m.d.comb += self.phase.gather.eq(1)
            self._count_steps(m, ThreadStep.OPERANDS)
            with m.If(self.phase_ends):
                m.next = "IDLE"
        with m.State("WRITE"):
            m.d.comb += self.phase.write.eq(1)
            self._count_steps_and_write(m, ThreadStep.A)
            with m.If(self.phase_ends & self.is_last_write):
                m.next = "COMPLETE"
            with m.Elif(self.phase_ends):
                m.next = "IDLE"

    def _await_flow_value(self, m: Module) -> None:
        """The flow unit's value arrives, and is offered as a write."""
        with m.State("AWAIT_FLOW"):
            m.d.comb += self.phase.await_flow.eq(1)
            with m.If(self.has_flow_result):
                m.next = "OFFER_WRITE"
        with m.State("OFFER_WRITE"):
            m.d.comb += self.phase.offer_write.eq(1)
            with m.If(self.write_accepted):
                m.next = "IDLE"
