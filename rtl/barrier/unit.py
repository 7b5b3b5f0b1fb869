"""The barrier unit: one task after the other, a step a cycle."""

from typing import Any

from amaranth.hdl import Assert, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.barriers import BARRIERS, SYNCALL_BARRIER, BarrierState
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BarrierMode, BarrierRead, BarrierReduction
from rtl.isa.syntax import PT, RZ
from rtl.layouts import (
    Event,
    ExecutionUnit,
    LaneWriterPort,
    error_event,
    operands_read,
    reported,
    warp_launch,
)
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.structs import common_fields, struct_value
from rtl.sweep import Sweep
from rtl.wires import IN_BLOCKS
from rtl.words import Words

from .queue import BarrierQueue
from .stages import (
    BARRIERS_OF_CTA,
    BarrierTask,
    WaitChange,
    arrival,
    barrier_address,
    barrier_row,
    barrier_work,
)

__all__ = ["BarrierUnit"]

_BLOCKS = {36: 512, 18: 1024, 9: 2048}
"""Words of a block RAM by their width."""


class BarrierUnit(Component):
    """Executes BAR, B2R and R2B, one in six cycles, and keeps the barriers of all CTAs.

    One state machine, a method a step; each step leaves its result in ``work`` (a
    :func:`~rtl.barrier.stages.barrier_work`) for the next one::

        dispatch --> queue --> SELECT
                                 |
             instruction         |  withdrawal      a warp has terminated
            +--------------------+--------+------------------+
            v                             v                  v
          CHECK                        LOCATE             SETTLE
            |                             v                  v
            |                           FETCH <-------- SETTLE_NEXT <--+
            v                             |             (none: SELECT) |
          READ <--------------------------+                            |
            v                                                          |
          UPDATE --> DECIDE --> ACT --+--> SELECT, or, when settling, -+
                                      +--> RESULTS --> the same
                                      +--> SEND --> SELECT

    ===========  ===================================================================
    step         what is known at its end
    ===========  ===================================================================
    SELECT       the task
    CHECK        of an instruction: its error, its CTA and barrier
    LOCATE       of a withdrawal: the barrier at which the warp waits
    SETTLE       the barriers that the CTA uses
    SETTLE_NEXT  the lowest one of these that was not checked yet
    FETCH        nothing more: block RAM reads the barrier's row
    READ         the row
    UPDATE       the row as it will be; an arrival is recorded. B2R's result is read
    DECIDE       whether enough warps have arrived
    ACT          the row is written, the instruction complete, the barrier released
    RESULTS      each warp that was released has the result of its reduction
    SEND         the lanes have taken B2R's write
    ===========  ===================================================================

    Last arrival: in ACT all that wait at the barrier, this warp among them, are released, which
    clears the barrier; ``resume`` has them in the next cycle. Their results, one a cycle, follow.

    An arrival that must wait: complete in ACT, so that nothing of the warp is under way (ours). The
    warp has a bit in the row and in ``waiting``, and continues by ``resume`` alone. BAR.ARV counts
    as an arrival, and its warp continues.

    Error: found in CHECK. The instruction does nothing and is complete in ACT; if the error is
    reported, ``error`` has it, and the warp is not resumed.

    Trap: ``withdraw`` takes a warp from its barrier, as if it had not arrived. That never completes
    a barrier. A warp that its barrier releases before that continues, and is not withdrawn.

    Simultaneous events: SELECT prefers a CTA that has lost a warp, the lowest first, then a
    withdrawal, then an instruction. UPDATE, ACT and RESULTS wait in the cycle of a launch, which
    writes the same memories. An instruction takes a termination into account if it arrives before
    UPDATE; the settling that follows it does so in any case. A termination that arrives when a
    settling of its CTA begins causes another settling.

    Members
    -------
    dispatch : In(Event of dispatched)
        An instruction of kind BARRIER, BARRIER_INDEXED or BARRIER_READ.
    room : Out(1)
        The unit will have room for an instruction that issue selects in this cycle.
    launch : In(Event of warp_launch)
        A warp is announced; its threads begin later. A CTA's barriers are reset with its warp
        number 0, and expect all its warps from then on.
    terminated : In(Event of a warp)
        A warp has terminated: its CTA's barriers no longer expect it.
    barriers : In
        The number of barriers of a CTA in this grid; an instruction on another one has the error
        ILLEGAL_INSTR_PARAM2.
    report_mask : In(32)
        Bit n: errors of code n are reported; an instruction with another error does nothing.
    inside : In(warps)
        The warps in the trap handler; BAR.SYNCALL of other warps has the error
        ILLEGAL_INSTR_ENCODING.
    withdraw : In(Event of a warp)
        Requests to withdraw the arrival of this warp. The request stays until ``withdrawn`` answers
        or the warp's bit of ``waiting`` falls. If the barrier has released the warp before, there
        is no answer.
    withdrawn : Out(Event of a warp)
        For one cycle: the arrival of this warp is withdrawn. ``waiting`` falls in the next cycle.
        The barrier is as if the warp had not arrived. Counts that R2B has set remain, unless the
        barrier has no arrival left (ours).
    resume : Out(warps)
        For one cycle: these warps continue. After every BAR and R2B, at once or when the barrier
        releases the warp.
    port, operands_read : Out(LaneWriterPort), Out(Event of operands_read)
        For B2R, which reads no register.
    completion, error : Out(Event of completion), Out(Event of error_event)
    waiting : Out(warps)
        Warps that wait at a barrier.
    meeting : Out(warps)
        Warps that wait at BAR.SYNCALL.

    Attributes
    ----------
    work : barrier_work
        The task under way.
    unsettled : warps
        CTA slots that have lost a warp, and whose barriers were not checked since.
    unchecked : barriers of a CTA
        Of the CTA that is settled: used barriers that are still to be checked.
    rows : list of Words
        All barriers, by number and CTA slot, in parts of their bits.
    used : Words
        Of each CTA slot: the barriers that are used.
    ctas : Words
        Of each warp: its CTA slot.
    terminations, totals : Words
        Of each CTA slot: the number of warps that have terminated in it since the reset, and what
        that number will be when its present CTA is over. The difference is its live warps.
    arrivals, results : Words
        Of each warp: its last arrival; its result for B2R.
    view : dict
        For waveforms and proofs: the barrier that is worked on.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps = params.warps
        bits = params.warp_bits
        count = range(warps + 1)
        super().__init__({
            **ExecutionUnit(params).members,
            "launch": In(Event(warp_launch(params))),
            "terminated": In(Event(bits)),
            "barriers": In(range(BARRIERS + 1)),
            "inside": In(warps),
            "withdraw": In(Event(bits)),
            "withdrawn": Out(Event(bits)),
            "resume": Out(warps),
            "port": Out(LaneWriterPort(params)),
            "operands_read": Out(Event(operands_read(params))),
            "waiting": Out(warps),
            "meeting": Out(warps),
        })
        self.queue = self.make_queue(params)
        self.work: Any = Signal(barrier_work(params, self.queue.layout))
        self.unsettled = Signal(warps)
        self.unchecked = Signal(BARRIERS_OF_CTA)

        # Memories.
        self.sweep = Sweep(warps)
        self.ctas = Words(bits, warps)
        self.terminations = Words(count, warps, self.sweep)
        self.totals = Words(count, warps)
        self.arrivals = Words(arrival(params), warps)
        self.results = Words(32, warps)
        self.make_presence(params)
        # Block RAMs are as wide as they can be that deep: others would need multiplexers behind
        # them.
        depth = warps * BARRIERS_OF_CTA
        size = barrier_row(params).size
        width = next(width for width, words in _BLOCKS.items() if words >= depth)
        self.rows = [
            Words(min(width, size - first), depth, **IN_BLOCKS) for first in range(0, size, width)]

        # The memories' address: the task's barrier, except in CHECK.
        self.lookup: Any = Signal(barrier_address(params))
        # What they answer. In the same cycle: the barriers that the CTA uses, its live warps; of
        # the request's warp its CTA, last arrival and result. A cycle later: whether the barrier is
        # used, and its row.
        self.in_use = Signal(BARRIERS_OF_CTA)
        self.live_warps = Signal(count)
        self.warp_cta = Signal(bits)
        self.last_arrival: Any = Signal(arrival(params))
        self.result = Signal(32)
        self.is_present = Signal()
        self.row_read = Signal(size)
        # The CTA slot of the warp that terminates in this cycle.
        self.terminated_cta = Signal(bits)

        # What is written: the row; the arrival of the request's warp, with WaitChange.JOIN; a
        # result. The warp is the request's, or in RESULTS the lowest one that waits.
        self.writes_row = Signal()
        self.wait_change = Signal(WaitChange)
        self.changed_warp = Signal(bits)
        self.writes_result = Signal()
        self.new_result = Signal(32)
        # What ACT does: the barrier is released, the instruction is complete.
        self.release = Signal()
        self.is_complete = Signal()

        # The lowest warp that waits at the barrier, from ACT on; the lowest CTA slot that was not
        # settled a cycle ago; whether its settling begins.
        self.has_waiting = Signal()
        self.lowest_waiting = Signal(bits)
        self.has_unsettled = Signal()
        self.lowest_unsettled = Signal(bits)
        self.starts_settling = Signal()

        self.view = {
            "cta": self.work.barrier.cta,
            "number": self.work.barrier.number,
            "write": self.writes_row,
            "state": self.work.row.state,
            "live": self.live_warps,
            "release": self.release,
        }

    def make_queue(self, params: SmParams) -> BarrierQueue:
        """The queue of instructions."""
        return BarrierQueue(params)

    def make_presence(self, params: SmParams) -> None:
        """The memory of used barriers."""
        self.used = Words(BARRIERS_OF_CTA, params.warps)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request = self.work.request
        m.submodules.queue = self.queue
        connect(m, flipped(self.dispatch), self.queue.dispatch)
        m.d.comb += self.room.eq(self.queue.room)
        m.d.comb += self.changed_warp.eq(request.warp)
        m.d.comb += self.lookup.eq(self.work.barrier)
        m.d.comb += self.withdrawn.payload.eq(request.warp)
        with m.FSM():
            self._select(m)
            self._check(m)
            self._locate(m)
            self.settle(m)
            self._fetch_and_read(m)
            self._update(m)
            self._decide(m)
            self._act(m)
            self._give_results(m)
            self._send(m)
        self._report(m)
        self._search(m)
        self._keep_live_warps(m)
        self._keep_rows(m)
        self.keep_presence(m)
        self._keep_unsettled(m)
        self._keep_waiting(m)
        self._keep_arrivals(m)
        self._write_registers(m)
        self._promise(m)
        return m

    # The steps.

    def _select(self, m: Module) -> None:
        """SELECT: the next task."""
        with m.State("SELECT"):
            self.select_task(m)

    def select_task(self, m: Module) -> None:
        """The next task: a CTA that has lost a warp, then a withdrawal, then an instruction."""
        work = self.work
        queue = self.queue.request
        withdrawn_warp = self.withdraw.payload
        can_withdraw = self.withdraw.valid & self.waiting.bit_select(withdrawn_warp, 1)
        with m.If(self.has_unsettled):
            m.d.comb += self.starts_settling.eq(1)
            m.d.sync += work.task.eq(BarrierTask.SETTLE)
            m.d.sync += work.barrier.cta.eq(self.lowest_unsettled)
            m.next = "SETTLE"
        with m.Elif(can_withdraw):
            m.d.sync += work.task.eq(BarrierTask.WITHDRAW)
            m.d.sync += work.request.warp.eq(withdrawn_warp)
            m.next = "LOCATE"
        with m.Elif(queue.valid):
            m.d.comb += queue.ready.eq(1)
            m.d.sync += work.request.eq(queue.payload)
            m.next = "CHECK"

    def _check(self, m: Module) -> None:
        """CHECK: an instruction's errors. One that no thread executes has none, but BAR.SYNCALL."""
        work = self.work
        request = work.request
        error = Signal(WarpError)
        is_bar = request.operation == BarrierTask.ARRIVE
        names_barrier = is_bar | (request.selection == BarrierRead.BARRIER)
        is_syncall = request.mode == BarrierMode.SYNCALL
        is_inside = self.inside.bit_select(request.warp, 1)
        is_checked = request.executes & ~is_syncall
        has_no_barrier = is_checked & names_barrier & (request.number >= self.barriers)
        has_wrong_count = is_checked & is_bar & request.count_is_wrong
        is_executed = request.executes & (error == WarpError.NONE)
        with m.State("CHECK"):
            m.d.comb += self.lookup.eq(struct_value(
                barrier_address(self._params), cta=self.warp_cta, number=request.number))
            with m.If(is_syncall & ~is_inside):
                m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_ENCODING)
            with m.Elif(has_no_barrier):
                m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_PARAM2)
            with m.Elif(has_wrong_count):
                m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_PARAM)

            m.d.sync += work.barrier.eq(self.lookup)
            m.d.sync += work.task.eq(Mux(is_executed, request.operation, BarrierTask.NOTHING))
            m.d.sync += work.error.eq(
                Mux(reported(self.report_mask, error), error, WarpError.NONE))
            m.next = "READ"

    def _locate(self, m: Module) -> None:
        """LOCATE: where the warp waits that is withdrawn."""
        with m.State("LOCATE"):
            m.d.sync += self.work.barrier.eq(struct_value(
                barrier_address(self._params),
                cta=self.warp_cta,
                number=self.last_arrival.number))
            m.next = "FETCH"

    def settle(self, m: Module) -> None:
        """SETTLE, SETTLE_NEXT: the used barriers of a CTA, one at a time."""
        unchecked = self.unchecked
        with m.State("SETTLE"):
            m.d.sync += unchecked.eq(self.in_use)
            m.next = "SETTLE_NEXT"
        with m.State("SETTLE_NEXT"):
            m.d.sync += self.work.barrier.number.eq(lowest(unchecked))
            m.d.sync += unchecked.eq(unchecked & (unchecked - 1))
            with m.If(unchecked.any()):
                m.next = "FETCH"
            with m.Else():
                m.next = "SELECT"

    def _fetch_and_read(self, m: Module) -> None:
        """FETCH, READ: the barrier's row. A barrier that is not used counts as zeros."""
        row = self.work.row
        with m.State("FETCH"):
            m.next = "READ"
        with m.State("READ"):
            with m.If(self.is_present):
                m.d.sync += row.eq(self.row_read)
            with m.Else():
                m.d.sync += row.eq(0)
            m.next = "UPDATE"

    def _update(self, m: Module) -> None:
        """UPDATE: what becomes of the barrier."""
        with m.State("UPDATE"), m.If(~self.launch.valid):
            with m.Switch(self.work.task):
                with m.Case(BarrierTask.ARRIVE):
                    self._arrive(m)
                with m.Case(BarrierTask.WRITE):
                    self._write(m)
                with m.Case(BarrierTask.WITHDRAW):
                    self._withdraw(m)
            m.next = "DECIDE"

    def _arrive(self, m: Module) -> None:
        """BAR. It contributes nothing to a reduction unless it takes part in one; the result of
        BAR.SCAN is the old population."""
        request = self.work.request
        row = self.work.row
        state = row.state
        is_reduction = request.mode == BarrierMode.RED
        is_scan = request.mode == BarrierMode.SCAN
        with m.If(request.mode != BarrierMode.ARV):
            m.d.comb += self.wait_change.eq(WaitChange.JOIN)
        m.d.comb += self.writes_result.eq(is_scan)
        m.d.comb += self.new_result.eq(state.population)
        m.d.sync += state.arrived.eq(state.arrived + 1)
        m.d.sync += state.expected.eq(request.count)
        with m.If(is_reduction | is_scan):
            m.d.sync += state.population.eq(state.population + request.population)
            m.d.sync += state.some_false.eq(state.some_false | request.some_false)
            m.d.sync += state.some_true.eq(state.some_true | request.some_true)
            m.d.sync += row.has_reduction.eq(row.has_reduction | is_reduction)
            m.d.sync += row.false_warps.eq(row.false_warps + request.some_false)
            m.d.sync += row.true_warps.eq(row.true_warps + request.some_true)

    def _write(self, m: Module) -> None:
        """R2B."""
        request = self.work.request
        m.d.comb += self.writes_result.eq(request.selection == BarrierRead.RESULT)
        m.d.comb += self.new_result.eq(request.content)
        with m.If(request.selection == BarrierRead.BARRIER):
            m.d.sync += self.work.row.state.eq(request.content[:BarrierState.as_shape().size])

    def _withdraw(self, m: Module) -> None:
        """A withdrawal: what the warp has contributed is taken back. R2B may have set the number of
        arrivals to 0 meanwhile."""
        row = self.work.row
        state = row.state
        withdrawn = self.last_arrival
        false_warps = row.false_warps - withdrawn.some_false
        true_warps = row.true_warps - withdrawn.some_true
        m.d.comb += self.wait_change.eq(WaitChange.LEAVE)
        m.d.sync += state.arrived.eq(state.arrived - state.arrived.any())
        m.d.sync += state.population.eq(state.population - withdrawn.population)
        m.d.sync += state.some_false.eq(false_warps.any())
        m.d.sync += state.some_true.eq(true_warps.any())
        m.d.sync += row.false_warps.eq(false_warps)
        m.d.sync += row.true_warps.eq(true_warps)

    def _decide(self, m: Module) -> None:
        """DECIDE: whether enough warps have arrived: as many as the last arrival named, or all live
        warps of the CTA, counted in UPDATE. A withdrawal completes nothing."""
        work = self.work
        state = work.row.state
        is_withdrawal = work.task == BarrierTask.WITHDRAW
        live = Signal.like(self.live_warps)
        m.d.sync += live.eq(self.live_warps)
        quorum = Mux(state.expected.any(), state.expected, live)
        with m.State("DECIDE"):
            with m.If(is_withdrawal):
                m.d.sync += work.completes.eq(0)
                with m.If(~state.arrived.any()):
                    m.d.sync += state.eq(0)
            with m.Else():
                m.d.sync += work.completes.eq(state.arrived >= quorum)
            m.next = "ACT"

    def _act(self, m: Module) -> None:
        """ACT: writes the barrier, and releases it if it is complete."""
        work = self.work
        request = work.request
        destination = request.destination
        writes_register = (destination.register != RZ) | (destination.predicate != PT)
        sends = Signal()
        with m.State("ACT"), m.If(~self.launch.valid):
            with m.Switch(work.task):
                with m.Case(BarrierTask.ARRIVE):
                    m.d.comb += self.is_complete.eq(1)
                    m.d.comb += self.writes_row.eq(1)
                with m.Case(BarrierTask.READ):
                    m.d.comb += self.is_complete.eq(~writes_register)
                    m.d.comb += sends.eq(writes_register)
                with m.Case(BarrierTask.WRITE):
                    m.d.comb += self.is_complete.eq(1)
                    m.d.comb += self.writes_row.eq(request.selection == BarrierRead.BARRIER)
                with m.Case(BarrierTask.SETTLE):
                    m.d.comb += self.writes_row.eq(work.completes)
                with m.Case(BarrierTask.WITHDRAW):
                    m.d.comb += self.writes_row.eq(1)
                    m.d.comb += self.withdrawn.valid.eq(1)
                with m.Default():       # NOTHING
                    m.d.comb += self.is_complete.eq(1)
            m.d.comb += self.release.eq(self.writes_row & work.completes)

            with m.If(self.release & work.row.has_reduction):
                m.next = "RESULTS"
            with m.Elif(self.release):
                self.end_release(m)
            with m.Elif(work.task == BarrierTask.SETTLE):
                m.next = "SETTLE_NEXT"
            with m.Elif(sends):
                m.next = "SEND"
            with m.Else():
                m.next = "SELECT"

    def _give_results(self, m: Module) -> None:
        """RESULTS: each warp that the barrier has released gets the result of its own reduction,
        the lowest warp first."""
        state = self.work.row.state
        released = self.arrivals.read(m, self.lowest_waiting)
        with m.State("RESULTS"):
            with m.If(~self.has_waiting):
                self.end_release(m)
            with m.Elif(~self.launch.valid):
                m.d.comb += self.changed_warp.eq(self.lowest_waiting)
                m.d.comb += self.wait_change.eq(WaitChange.LEAVE)
                m.d.comb += self.writes_result.eq(released.is_reduction)
                with m.Switch(released.reduction):
                    with m.Case(BarrierReduction.POPC):
                        m.d.comb += self.new_result.eq(state.population)
                    with m.Case(BarrierReduction.AND):
                        m.d.comb += self.new_result.eq(~state.some_false)
                    with m.Case(BarrierReduction.OR):
                        m.d.comb += self.new_result.eq(state.some_true)

    def end_release(self, m: Module) -> None:
        """The step after a release."""
        with m.If(self.work.task == BarrierTask.SETTLE):
            m.next = "SETTLE_NEXT"
        with m.Else():
            m.next = "SELECT"

    def _send(self, m: Module) -> None:
        """SEND: B2R's write, until the lanes take it."""
        with m.State("SEND"):
            m.d.comb += self.port.write.valid.eq(1)
            with m.If(self.port.write.ready):
                m.next = "SELECT"

    def _report(self, m: Module) -> None:
        """What ACT sends to other units. A warp whose instruction is complete continues in the next
        cycle, unless it waits now, has an error, or is not held for its instruction: B2R's."""
        work = self.work
        request = work.request
        has_error = work.error != WarpError.NONE
        must_wait = (work.task == BarrierTask.ARRIVE) & (request.mode != BarrierMode.ARV)
        is_read = request.operation == BarrierTask.READ
        m.d.comb += self.completion.valid.eq(self.is_complete)
        m.d.comb += common_fields(self.completion.payload, request)
        m.d.comb += self.error.valid.eq(self.is_complete & has_error)
        m.d.comb += self.error.payload.eq(struct_value(
            error_event(self._params), warp=request.warp, pc=request.pc, error=work.error))

        resumes = self.is_complete & ~(must_wait | is_read | has_error)
        resumed = one_hot(request.warp, self._params.warps, resumes)
        released = Mux(self.release, work.row.waiting, 0)
        m.d.sync += self.resume.eq(released | resumed)

    def _search(self, m: Module) -> None:
        """The lowest ones. A search is over a cycle before its result is used: it leaves out the
        one that is served in this cycle."""
        warps = self._params.warps
        leaves = self.wait_change == WaitChange.LEAVE
        waiting = self.work.row.waiting & ~one_hot(self.lowest_waiting, warps, leaves)
        m.d.sync += self.has_waiting.eq(waiting.any())
        m.d.sync += self.lowest_waiting.eq(lowest(waiting))
        settled = one_hot(self.lowest_unsettled, warps, self.starts_settling)
        unsettled = self.unsettled & ~settled
        m.d.sync += self.has_unsettled.eq(unsettled.any())
        m.d.sync += self.lowest_unsettled.eq(lowest(unsettled))

    # What is kept.

    def _keep_live_warps(self, m: Module) -> None:
        """The CTA of each warp, the live warps of each CTA. A warp that terminates is counted in
        its CTA's slot, and so is the count at which the CTA has ended: neither is ever reset, and
        each has one writer."""
        launch = self.launch.payload
        terminations = self.terminations
        totals = self.totals
        m.submodules.sweep = self.sweep
        m.submodules.ctas = self.ctas
        m.submodules.terminations = terminations
        m.submodules.totals = totals
        m.d.comb += self.terminated_cta.eq(self.ctas.read(m, self.terminated.payload))
        begins = self.launch.valid & (launch.number == 0)
        self.ctas.write(m, self.launch.valid, launch.warp, launch.cta)
        terminations.write(
            m, self.terminated.valid, self.terminated_cta,
            terminations.read(m, self.terminated_cta) + 1)
        totals.write(
            m, begins, launch.cta, terminations.read(m, launch.cta) + launch.cta_warps)
        m.d.comb += self.warp_cta.eq(self.ctas.read(m, self.work.request.warp))
        total = totals.read(m, self.lookup.cta)
        m.d.comb += self.live_warps.eq(total - terminations.read(m, self.lookup.cta))

    def _keep_rows(self, m: Module) -> None:
        """The rows of all barriers: read a cycle after they are looked up."""
        place = self.lookup.as_value()
        row = self.work.row.as_value()
        first = 0
        for index, words in enumerate(self.rows):
            m.submodules[f"rows{index}"] = words
            part = slice(first, first + Shape.cast(words.shape).width)
            words.write(m, self.row_is_written(), place, row[part])
            m.d.sync += self.row_read[part].eq(words.read(m, place))
            first = part.stop

    def row_is_written(self) -> Value:
        """Whether the barrier's row is written in this cycle."""
        return self.writes_row

    def keep_presence(self, m: Module) -> None:
        """Updates which barriers each CTA uses: none when the CTA begins. A barrier is used from
        its first write until it is released, or until a write leaves it empty."""
        used = self.used
        launch = self.launch.payload
        row = self.work.row
        m.submodules.used = used
        begins = self.launch.valid & (launch.number == 0)
        barrier = Signal(BARRIERS_OF_CTA)
        next_used = Signal(BARRIERS_OF_CTA)
        is_empty = ~row.state.as_value().any() & ~row.waiting.any()
        m.d.comb += barrier.eq(Const(1) << self.lookup.number)
        m.d.comb += self.in_use.eq(used.read(m, self.lookup.cta))
        with m.If(begins):
            m.d.comb += next_used.eq(0)
        with m.Elif(self.work.completes | is_empty):
            m.d.comb += next_used.eq(self.in_use & ~barrier)
        with m.Else():
            m.d.comb += next_used.eq(self.in_use | barrier)
        written_cta = Mux(begins, launch.cta, self.lookup.cta)
        used.write(m, begins | self.writes_row, written_cta, next_used)
        m.d.sync += self.is_present.eq((self.in_use & barrier).any())

    def _keep_unsettled(self, m: Module) -> None:
        """CTAs whose barriers are still to be checked, since a warp has terminated. One that
        terminates when the settling begins makes the CTA be settled again."""
        warps = self._params.warps
        settled = one_hot(self.lowest_unsettled, warps, self.starts_settling)
        terminated = one_hot(self.terminated_cta, warps, self.terminated.valid)
        for cta in range(warps):
            with m.If(terminated[cta]):
                m.d.sync += self.unsettled[cta].eq(1)
            with m.Elif(settled[cta]):
                m.d.sync += self.unsettled[cta].eq(0)

    def _keep_waiting(self, m: Module) -> None:
        """The waiting warps: in the barrier's row, and for all barriers in ``waiting`` and
        ``meeting``. Results are given after a release, so that LEAVE changes the row alone."""
        warps = self._params.warps
        row = self.work.row
        joins = self.wait_change == WaitChange.JOIN
        leaves = self.wait_change == WaitChange.LEAVE
        is_syncall = self.work.barrier.number == SYNCALL_BARRIER
        changed = one_hot(self.changed_warp, warps, joins | leaves)
        joined = one_hot(self.changed_warp, warps, joins)
        withdrawn = one_hot(self.changed_warp, warps, self.withdrawn.valid)
        for warp in range(warps):
            with m.If(changed[warp]):
                m.d.sync += row.waiting[warp].eq(joins)
            with m.If(joined[warp]):
                m.d.sync += self.waiting[warp].eq(~is_syncall)
                m.d.sync += self.meeting[warp].eq(is_syncall)
            with m.Elif(withdrawn[warp] | (self.release & row.waiting[warp])):
                m.d.sync += self.waiting[warp].eq(0)
                m.d.sync += self.meeting[warp].eq(0)

    def _keep_arrivals(self, m: Module) -> None:
        """The barrier at which each warp has last waited, and the result that B2R reads: 0 from the
        launch on, later BAR.SCAN's, BAR.RED's or R2B's."""
        work = self.work
        request = work.request
        arrivals = self.arrivals
        results = self.results
        launch = self.launch
        m.submodules.arrivals = arrivals
        m.submodules.results = results
        is_reduction = request.mode == BarrierMode.RED
        contributes = is_reduction | (request.mode == BarrierMode.SCAN)
        arrivals.write(m, self.wait_change == WaitChange.JOIN, request.warp, {
            "number": work.barrier.number,
            "is_reduction": is_reduction,
            "reduction": request.reduction,
            "population": Mux(contributes, request.population, 0),
            "some_false": request.some_false & contributes,
            "some_true": request.some_true & contributes,
        })
        m.d.comb += self.last_arrival.eq(arrivals.read(m, request.warp))

        written_warp = Mux(launch.valid, launch.payload.warp, self.changed_warp)
        written_result = Mux(launch.valid, 0, self.new_result)
        results.write(m, launch.valid | self.writes_result, written_warp, written_result)
        m.d.comb += self.result.eq(results.read(m, request.warp))

    def _write_registers(self, m: Module) -> None:
        """B2R's write: the request to the lanes, and its value, the same for all threads, when the
        lanes request it. With ``.WARP`` that is 0: a warp that executes waits at no barrier (ours).
        Nothing has to be read: the scoreboard for that is lowered when the write is sent."""
        request = self.work.request
        port = self.port
        write = port.write.payload
        value = Signal(32)
        wanted = Signal(32)
        index = Signal.like(write.index)
        is_sent = port.write.valid & port.write.ready
        m.d.comb += common_fields(write, request)
        m.d.comb += common_fields(write, request.destination)
        m.d.comb += write.threads.eq(self.reading_threads())
        m.d.comb += write.index.eq(index)
        m.d.comb += write.last.eq(1)
        m.d.comb += write.barrier.eq(request.write_barrier)
        m.d.comb += self.operands_read.valid.eq(is_sent)
        m.d.comb += self.operands_read.payload.eq(struct_value(
            operands_read(self._params), warp=request.warp, barrier=request.read_barrier))

        with m.Switch(request.selection):
            with m.Case(BarrierRead.BARRIER):
                m.d.comb += value.eq(self.work.row.state)
            with m.Case(BarrierRead.RESULT):
                m.d.comb += value.eq(self.result)
        self.keep_value(m, value, wanted, index)
        data = port.data
        m.d.comb += data.flags.eq(wanted.any().replicate(len(data.flags)))
        for lane in data.values:
            m.d.comb += lane.eq(wanted)

    def reading_threads(self) -> Value:
        """The threads that execute B2R."""
        return self.work.request.content

    def keep_value(self, m: Module, value: Signal, wanted: Signal, index: Signal) -> None:
        """Keeps the ``value`` of a write until the lanes have all its beats, and outputs it as
        ``wanted`` a cycle after they request a beat. Several writes may be under way, by
        ``index``."""
        port = self.port
        is_sent = port.write.valid & port.write.ready
        m.submodules.values = values = Words(32, 1 << len(index))
        values.write(m, port.write.valid, index, value)
        m.d.sync += index.eq(index + is_sent)
        m.d.sync += wanted.eq(values.read(m, port.data.wanted.payload.index))

    def _promise(self, m: Module) -> None:
        """What the unit promises, and what others promise it."""
        row = self.work.row
        anywhere = self.waiting | self.meeting
        changed = one_hot(self.changed_warp, self._params.warps)
        joins = self.wait_change == WaitChange.JOIN
        waits_already = (changed & anywhere).any()
        is_withdrawable = (changed & self.waiting).any()
        m.d.sync += Assert(
            ~(self.launch.valid & self.writes_result),
            "a result is written in the cycle of a launch")
        m.d.sync += Assert(~(joins & waits_already), "a warp arrives that waits")
        m.d.sync += Assert(
            ~(self.release & (row.waiting & ~anywhere).any()),
            "a warp is released that does not wait")
        m.d.sync += Assert(
            ~(self.withdrawn.valid & ~is_withdrawable), "a warp is withdrawn that does not wait")
        m.d.sync += Assert(
            ~(self.waiting & self.meeting).any(), "a warp waits at two barriers")
        m.d.sync += Assert(
            ~(self.release & self.withdrawn.valid), "a withdrawal releases a barrier")
        m.d.sync += Assert(
            ~self.error.valid | self.completion.valid, "an error of an instruction that continues")
