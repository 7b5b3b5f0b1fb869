"""The barrier unit: one instruction after the other."""

from typing import Any, cast

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component, members_of, pass_on
from rtl.isa.barriers import BARRIERS, SYNCALL_BARRIER, BarrierState
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BarrierMode, BarrierRead, BarrierReduction
from rtl.isa.syntax import PT, RZ
from rtl.layouts import (
    REPORT_BITS,
    EventLayout,
    LaneWriterPort,
    completion,
    error_event,
    operands_read,
    reported,
    warp_launch,
)
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams
from rtl.sweep import Sweep
from rtl.wires import IN_BLOCKS
from rtl.words import Words

from .request import BarrierQueue, BarrierTask, barrier_request

__all__ = ["BarrierUnit"]


_PLACES = SYNCALL_BARRIER + 1
_BLOCKS = {36: 512, 18: 1024, 9: 2048}
"""Words of a block RAM by their width."""
_GIVEN = {"some_false": "gave_false", "some_true": "gave_true"}
"""Flags of a barrier, and what counts the warps that gave them."""


class BarrierUnit(Component):
    """Executes BAR, B2R and R2B, one in six cycles: look, read, update, decide, act, and the choice of the next.

    Barriers are in block RAM, by number and CTA slot, with a bit for each warp that waits there; one that is not used
    counts as zeros. An instruction is complete when it has arrived, not when its warp goes on (ours): a warp that waits
    has nothing under way, and only ``resume`` lets it go. B2R is complete with its last write. With a reported error
    the instruction is complete, too, but its warp is not let go. The unit waits in the cycle of a launch, which writes
    the same memories.

    In a machine of one lane nobody knows which barriers are used: all of a CTA become zeros when it begins, each does
    when it is complete, and all are looked at when a warp has ended.

    Members
    -------
    dispatch, room : In(EventLayout of dispatched), Out(1)
        Kinds BARRIER, BARRIER_INDEXED and BARRIER_READ. There is room for an instruction whenever it comes, if it is
        selected now.
    launch : In(EventLayout of warp_launch)
        A CTA's barriers are reset with its warp number 0, and count on all its warps from then on.
    terminated, terminated_warp : In(1), In
        A warp has ended: its CTA's barriers wait for it no longer.
    barriers, report_mask, inside : In, In(32), In(warps)
        Barriers of a CTA of this grid; others: ILLEGAL_INSTR_PARAM2. Bit n: errors of code n are reported; one that is
        not makes the instruction do nothing. Who executes the trap handler; BAR.SYNCALL of others:
        ILLEGAL_INSTR_ENCODING.
    withdraw : In(valid and warp)
        This warp shall wait no longer. It stays until ``withdrawn`` answers or the warp's bit of ``waiting`` falls: a
        warp that does not wait, because its barrier has let it go before, gets no answer.
    withdrawn : Out(valid and warp)
        For one cycle: the arrival of this warp has been taken back. ``waiting`` falls with the end of the cycle. The
        barrier is as if the warp had not come; what R2B has set stays, unless nobody has arrived any more (ours).
    resume : Out(warps)
        For one cycle: these warps go on. After every BAR and R2B, at once or when the barrier lets the warp go.
    port, operands_read : Out(LaneWriterPort), Out(operands_read)
        For B2R, which reads no register.
    completion, error : Out(completion), Out(error_event)
    waiting, meeting : Out(warps), Out(warps)
        Who waits at a barrier, and who at BAR.SYNCALL.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, bits = params.warps, params.warp_bits
        one_warp, count = data.StructLayout({"valid": 1, "warp": bits}), range(warps + 1)
        self.queue = BarrierQueue(params)
        super().__init__({
            **members_of(self.queue, "dispatch", "room"), "launch": In(EventLayout(warp_launch(params))),
            "terminated": In(1), "terminated_warp": In(bits), "barriers": In(range(BARRIERS + 1)),
            "report_mask": In(REPORT_BITS), "inside": In(warps), "withdraw": In(one_warp), "withdrawn": Out(one_warp),
            "resume": Out(warps), "port": Out(LaneWriterPort(params)), "operands_read": Out(operands_read(params)),
            "completion": Out(completion(params)), "error": Out(error_event(params)), "waiting": Out(warps),
            "meeting": Out(warps)})
        self.lost = Signal(warps)
        """CTA slots that have lost a warp, and whose barriers were not looked at since."""
        self.arrivals = Words(data.StructLayout({
            "number": range(_PLACES), "reduces": 1, "reduction": BarrierReduction,
            "population": range(WARP_THREADS + 1), "some_false": 1, "some_true": 1}), warps)
        """What each warp came for last, and what it gave to that: so its arrival can be taken back."""
        self.sweep = Sweep(warps)
        self.ctas, self.gone, self.whole = Words(bits, warps), Words(count, warps, self.sweep), Words(count, warps)
        if not params.serial:
            self.used = Words(_PLACES, warps)
        """The CTA slot of each warp. Of each CTA slot: the barriers that are used; warps that it has lost, and as many
        as it will ever have lost when its last CTA is over."""
        # What the unit works on. Of the barrier: its state, who waits there, whether one of them wants a result, how
        # many of them gave what to a reduction.
        self._task, self._request = Signal(BarrierTask), Signal(barrier_request(params))
        self._error, self._completes = Signal(WarpError), Signal()
        self._cta, self._number = Signal(bits), Signal(range(_PLACES))
        self._row: Any = Signal(data.StructLayout({
            "state": BarrierState, "waiting": warps, "reduces": 1, "gave_false": count, "gave_true": count}))
        # Block RAMs are as wide as they can be that deep: others would need multiplexers behind them.
        depth, size = warps * _PLACES, self._row.shape().size
        width = next(width for width, words in _BLOCKS.items() if words >= depth)
        self.rows = [Words(min(width, size - first), depth, **IN_BLOCKS) for first in range(0, size, width)]
        """All barriers, by number and CTA slot, in parts of their bits."""
        self.left = Signal(_PLACES)
        """Barriers of the CTA that has lost a warp, which are still to be looked at."""
        # Of the barrier that is asked for: whether it is used, and what it is then, a cycle later; those that its CTA
        # uses, live warps of that.
        self._asked_cta, self._asked = Signal(bits), Signal(range(_PLACES))
        self._present, self._read = Signal(), Signal.like(self._row.as_value())
        self._in_use, self._live, self._writes = Signal(_PLACES), Signal(count), Signal()
        # The request's warp, its CTA, and what it came for. It, or the lowest one that waits, begins to wait, waits no
        # longer, or gets a result; who waits at the barrier is let go.
        self._warp, self._warp_cta, self._came = Signal(bits), Signal(bits), cast(Any, Signal(self.arrivals.shape))
        self._waits, self._leaves, self._release, self._notes = Signal(), Signal(), Signal(), Signal()
        self._noted, self._result = Signal(32), Signal(32)
        # The lowest warp that waits at the barrier, from ACT on; the lowest CTA that had lost one a cycle ago.
        self._some_waiting, self._lowest_waiting = Signal(), Signal(bits)
        self._some_lost, self._lowest_lost, self._settles = Signal(), Signal(bits), Signal()
        # In a machine of one lane: CTA slots of CTAs that have begun, whose barriers are not zeros yet; the lowest one.
        # A barrier becomes zeros.
        self._begun, self._some_begun, self._lowest_begun = Signal(warps), Signal(), Signal(bits)
        self._resets, self._wipes = Signal(), Signal()
        self.view = {"cta": self._cta, "number": self._number, "write": self._writes, "state": self._row.state,
                     "live": self._live, "release": self._release}
        """For whoever looks on: the barrier that is worked on."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = self.queue
        self.join(m, self.queue, "dispatch", "room")
        m.d.comb += [
            self._warp.eq(self._request.warp), self._asked_cta.eq(self._cta), self._asked.eq(self._number),
            self.withdrawn.warp.eq(self._request.warp)]
        with m.FSM():
            self._find(m)
            self._update(m)
            self._act(m)
        # The search is over a cycle before its result is used: it leaves out who is served in this one.
        for some, first, searched, serves in (
                (self._some_waiting, self._lowest_waiting, self._row.waiting, self._leaves),
                (self._some_lost, self._lowest_lost, self.lost, self._settles)):
            left = searched & ~one_hot(first, self._params.warps, serves)
            m.d.sync += [some.eq(left.any()), first.eq(lowest(left))]
        if self._params.serial:
            m.d.comb += [self._some_begun.eq(self._begun.any()), self._lowest_begun.eq(lowest(self._begun))]
        self._keep_barriers(m)
        self._keep_warps(m)
        self._write_registers(m)
        return m

    def _find(self, m: Module) -> None:
        """Looks for something to do: CTAs that have lost a warp go first, then warps that are taken back. Finds the
        barrier: of an instruction, and what is wrong with that; of a warp that is taken back; the used ones of a CTA,
        one after the other."""
        queue, number, request, error, left = (
            self.queue.request, self.withdraw.warp, self._request, Signal(WarpError), self.left)
        arrives, place = request.operation == BarrierTask.ARRIVE, request.place == BarrierRead.BARRIER
        with m.State("NEXT"):
            with m.If(self._some_begun):
                m.d.comb += self._resets.eq(1)
                m.d.sync += [self._cta.eq(self._lowest_begun), self._number.eq(0), self._row.eq(0)]
                if self._params.serial:
                    m.next = "RESET"
            with m.Elif(self._some_lost):
                m.d.comb += self._settles.eq(1)
                m.d.sync += [self._task.eq(BarrierTask.SETTLE), self._cta.eq(self._lowest_lost)]
                m.next = "USED"
            with m.Elif(self.withdraw.valid & self.waiting.bit_select(number, 1)):
                m.d.sync += [self._task.eq(BarrierTask.WITHDRAW), self._request.warp.eq(number)]
                m.next = "FIND"
            with m.Elif(queue.valid):
                m.d.comb += queue.ready.eq(1)
                m.d.sync += self._request.eq(queue.payload)
                m.next = "LOOK"
        with m.State("LOOK"):
            m.d.comb += [self._asked_cta.eq(self._warp_cta), self._asked.eq(request.number)]
            with m.If(request.mode == BarrierMode.SYNCALL), m.If(~self.inside.bit_select(request.warp, 1)):
                m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_ENCODING)
            with m.Elif(request.executes & (arrives | place) & (request.number >= self.barriers)):
                m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_PARAM2)
            with m.Elif(request.executes & arrives & request.wrong):
                m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_PARAM)
            acts = request.executes & (error == WarpError.NONE)
            m.d.sync += [
                self._cta.eq(self._warp_cta), self._number.eq(request.number),
                self._task.eq(Mux(acts, request.operation, BarrierTask.NOTHING)),
                self._error.eq(Mux(reported(self.report_mask, error), error, WarpError.NONE))]
            m.next = "READ"
        with m.State("FIND"):
            m.d.sync += [self._cta.eq(self._warp_cta), self._number.eq(self._came.number)]
            m.next = "FETCH"
        if self._params.serial:
            self._go_through(m)
        else:
            with m.State("USED"):
                m.d.sync += left.eq(self._in_use)
                m.next = "PICK"
            with m.State("PICK"):
                m.d.sync += [self._number.eq(lowest(left)), left.eq(left & (left - 1))]
                m.next = "NEXT"
                with m.If(left.any()):
                    m.next = "FETCH"
        with m.State("FETCH"):
            m.next = "READ"

    def _go_through(self, m: Module) -> None:
        """All barriers of a CTA: they become zeros, or are looked at; one does, when it was complete."""
        last = self._number == _PLACES - 1
        with m.State("USED"):
            m.d.sync += self._number.eq(0)
            m.next = "FETCH"
        with m.State("PICK"):
            m.d.sync += self._number.eq(self._number + 1)
            m.next = "FETCH"
            with m.If(last):
                m.next = "NEXT"
        with m.State("RESET"):
            m.d.comb += self._wipes.eq(1)
            m.d.sync += self._number.eq(self._number + 1)
            with m.If(last):
                m.next = "NEXT"
        with m.State("EMPTY"):
            m.d.sync += self._row.eq(0)
            m.next = "WIPE"
        with m.State("WIPE"):
            m.d.comb += self._wipes.eq(1)
            m.next = "NEXT"
            with m.If(self._task == BarrierTask.SETTLE):
                m.next = "PICK"

    def _update(self, m: Module) -> None:
        """What becomes of the barrier. An arrival gives nothing to a reduction unless it takes part in one."""
        request, row, came, live = self._request, self._row, self._came, Signal.like(self._live)
        state, scans, wants = row.state, request.mode == BarrierMode.SCAN, request.mode == BarrierMode.RED
        withdrawing = self._task == BarrierTask.WITHDRAW
        self.arrivals.write(m, self._waits, request.warp, {
            "number": self._number, "reduces": wants, "reduction": request.reduction,
            **{name: Mux(wants | scans, request[name], 0) for name in ("population", *_GIVEN)}})
        with m.State("READ"):
            m.d.sync += row.eq(0)
            with m.If(self._present):
                m.d.sync += row.eq(self._read)
            m.next = "UPDATE"
        with m.State("UPDATE"), m.If(~self.launch.valid):
            m.next = "DECIDE"
            m.d.sync += live.eq(self._live)
            with m.Switch(self._task):
                with m.Case(BarrierTask.ARRIVE):
                    m.d.comb += [
                        self._waits.eq(request.mode != BarrierMode.ARV), self._notes.eq(scans),
                        self._noted.eq(state.population)]
                    m.d.sync += [state.arrived.eq(state.arrived + 1), state.expected.eq(request.count)]
                    with m.If(wants | scans):
                        m.d.sync += [state.population.eq(state.population + request.population),
                                     row.reduces.eq(row.reduces | wants)]
                        for flag, gave in _GIVEN.items():
                            m.d.sync += [state[flag].eq(state[flag] | request[flag]),
                                         row[gave].eq(row[gave] + request[flag])]
                with m.Case(BarrierTask.WRITE):
                    m.d.comb += [
                        self._notes.eq(request.place == BarrierRead.RESULT), self._noted.eq(request.content)]
                    with m.If(request.place == BarrierRead.BARRIER):
                        m.d.sync += state.eq(request.content[:BarrierState.as_shape().size])
                with m.Case(BarrierTask.WITHDRAW):
                    m.d.comb += self._leaves.eq(1)
                    m.d.sync += [state.arrived.eq(state.arrived - state.arrived.any()),
                                 state.population.eq(state.population - came.population)]
                    for flag, gave in _GIVEN.items():
                        left = row[gave] - came[flag]
                        m.d.sync += [state[flag].eq(left.any()), row[gave].eq(left)]
        with m.State("DECIDE"):
            m.next = "ACT"
            wanted = Mux(state.expected.any(), state.expected, live)
            m.d.sync += self._completes.eq((state.arrived >= wanted) & ~withdrawing)
            with m.If(withdrawing & ~state.arrived.any()):
                m.d.sync += state.eq(0)

    def _act(self, m: Module) -> None:
        """Writes the barrier, lets warps go, and notes their results."""
        request, row, over, completes = self._request, self._row, Signal(), self._completes
        arrives, reads, writes, settles, withdraws = (self._task == task for task in (
            BarrierTask.ARRIVE, BarrierTask.READ, BarrierTask.WRITE, BarrierTask.SETTLE, BarrierTask.WITHDRAW))
        sends = reads & ((request.register != RZ) | (request.predicate != PT))
        owing = self.arrivals.read(m, self._lowest_waiting)
        with m.State("ACT"), m.If(~self.launch.valid):
            m.d.comb += [
                over.eq(~(sends | settles | withdraws)), self.withdrawn.valid.eq(withdraws),
                self._writes.eq(arrives | (writes & (request.place == BarrierRead.BARRIER)) | (settles & completes)
                                | withdraws), self._release.eq(self._writes & completes)]
            m.next = "NEXT"
            with m.If(self._release & row.reduces):
                m.next = "NOTE"
            if self._params.serial:
                with m.Elif(self._release):
                    m.next = "EMPTY"
            with m.Elif(settles):
                m.next = "PICK"
            with m.Elif(sends):
                m.next = "SEND"
        with m.State("NOTE"):
            with m.If(~self._some_waiting & settles):
                m.next = "EMPTY" if self._params.serial else "PICK"
            with m.Elif(~self._some_waiting):
                m.next = "EMPTY" if self._params.serial else "NEXT"
            with m.Elif(~self.launch.valid):
                m.d.comb += [self._warp.eq(self._lowest_waiting), self._leaves.eq(1), self._notes.eq(owing.reduces)]
                with m.Switch(owing.reduction):
                    for reduction, value in ((BarrierReduction.POPC, row.state.population),
                                             (BarrierReduction.AND, ~row.state.some_false),
                                             (BarrierReduction.OR, row.state.some_true)):
                        with m.Case(reduction):
                            m.d.comb += self._noted.eq(value)
        with m.State("SEND"):
            m.d.comb += self.port.write.valid.eq(1)
            with m.If(self.port.write.ready):
                m.next = "NEXT"

        fails, waits = self._error != WarpError.NONE, arrives & (request.mode != BarrierMode.ARV)
        stays = waits | (request.operation == BarrierTask.READ) | fails
        m.d.comb += [
            self.completion.valid.eq(over), self.error.valid.eq(over & fails), self.error.error.eq(self._error)]
        pass_on(m, request, self.completion, "warp", "serial", "write_barrier", "read_barrier")
        pass_on(m, request, self.error, "warp", "pc")
        m.d.sync += self.resume.eq(
            Mux(self._release, row.waiting, 0) | one_hot(request.warp, self._params.warps, over & ~stays))

    def _keep_barriers(self, m: Module) -> None:
        """All barriers; which of them each CTA uses, and how many live warps it has: as many as it will ever have lost
        in this slot, less those that it has lost."""
        warps, begun, cta = self._params.warps, self.launch.payload, self._asked_cta
        ctas, gone, whole = self.ctas, self.gone, self.whole
        m.submodules.sweep = self.sweep
        m.submodules.ctas, m.submodules.gone, m.submodules.whole = ctas, gone, whole
        begins, terminated_cta = self.launch.valid & (begun.number == 0), ctas.read(m, self.terminated_warp)
        ctas.write(m, self.launch.valid, begun.warp, begun.cta)
        gone.write(m, self.terminated, terminated_cta, gone.read(m, terminated_cta) + 1)
        whole.write(m, begins, begun.cta, gone.read(m, begun.cta) + begun.cta_warps)
        m.d.comb += [
            self._warp_cta.eq(ctas.read(m, self._request.warp)), self._live.eq(whole.read(m, cta) - gone.read(m, cta))]
        if self._params.serial:
            m.d.comb += self._present.eq(1)
            m.d.sync += self._begun.eq(self._begun & ~one_hot(self._lowest_begun, warps, self._resets)
                                       | one_hot(begun.cta, warps, begins))
        else:
            self._keep_used(m, begins)

        place, row, first = Cat(cta, self._asked), Value.cast(self._row), 0
        for number, words in enumerate(self.rows):
            m.submodules[f"rows{number}"] = words
            part = slice(first, first := first + Shape.cast(words.shape).width)
            words.write(m, self._writes | self._wipes, place, row[part])
            m.d.sync += self._read[part].eq(words.read(m, place))

        settled, ended = (one_hot(slot, warps, when) for slot, when in (
            (self._lowest_lost, self._settles), (terminated_cta, self.terminated)))
        for slot in range(warps):
            with m.If(settled[slot] | ended[slot]):
                m.d.sync += self.lost[slot].eq(ended[slot])

    def _keep_used(self, m: Module, begins: Value) -> None:
        """Which barriers each CTA uses."""
        masks, begun, cta, one, keeps = self.used, self.launch.payload, self._asked_cta, Signal(_PLACES), Signal()
        m.submodules.used = masks
        m.d.comb += [
            one.eq(Const(1) << self._asked), self._in_use.eq(masks.read(m, cta)),
            keeps.eq(~self._completes & (self._row.state.as_value().any() | self._row.waiting.any()))]
        masks.write(m, begins | self._writes, Mux(begins, begun.cta, cta),
                    Mux(begins, 0, Mux(keeps, self._in_use | one, self._in_use & ~one)))
        m.d.sync += self._present.eq((self._in_use & one).any())

    def _keep_warps(self, m: Module) -> None:
        """Who waits, and what each came for and got."""
        row, launch, warps, waits = self._row.waiting, self.launch, self._params.warps, self._waits
        m.submodules.arrivals, m.submodules.results = arrivals, results = self.arrivals, Words(32, warps)
        results.write(m, launch.valid | self._notes, Mux(launch.valid, launch.payload.warp, self._warp),
                      Mux(launch.valid, 0, self._noted))
        m.d.comb += [
            self._came.eq(arrivals.read(m, self._request.warp)), self._result.eq(results.read(m, self._request.warp))]
        meets, here = self._number == SYNCALL_BARRIER, one_hot(self._warp, warps)
        changes, told = (one_hot(self._warp, warps, waits | leaves) for leaves in (self._leaves, self.withdrawn.valid))
        for warp in range(warps):
            with m.If(changes[warp]):
                m.d.sync += row[warp].eq(waits)
            with m.If(told[warp] | (self._release & row[warp])):
                m.d.sync += [self.waiting[warp].eq(waits & ~meets), self.meeting[warp].eq(waits & meets)]
        anywhere = self.waiting | self.meeting
        m.d.sync += [
            Assert(~(launch.valid & self._notes), "a result is noted beside that of a new warp"),
            Assert(~(waits & (here & anywhere).any()), "a warp arrives that waits"),
            Assert(~(self._release & (row & ~anywhere).any()), "a warp is let go that does not wait"),
            Assert(~(self.withdrawn.valid & ~(here & self.waiting).any()), "a warp is withdrawn that does not wait")]

    def _write_registers(self, m: Module) -> None:
        """What B2R asks the lanes for, and its value, which all threads get when the lanes want it. With ``.WARP`` that
        is 0: a warp that executes waits at no barrier (ours). Nothing has to be read: the scoreboard for that goes down
        when the write is sent."""
        request, port, asked, value = self._request, self.port, self.port.write.payload, Signal(32)
        mark, sent = Signal.like(asked.index), port.write.valid & port.write.ready
        wanted = Signal.like(value)
        pass_on(m, request, asked, "warp", "serial", "register", "predicate")
        m.d.comb += [
            asked.threads.eq(request.threads if self._params.serial else request.content), asked.index.eq(mark),
            asked.last.eq(1),
            asked.barrier.eq(request.write_barrier), self.operands_read.valid.eq(sent),
            self.operands_read.warp.eq(request.warp), self.operands_read.barrier.eq(request.read_barrier)]
        with m.Switch(request.place):
            for place, content in ((BarrierRead.BARRIER, self._row.state), (BarrierRead.RESULT, self._result)):
                with m.Case(place):
                    m.d.comb += value.eq(content)
        if self._params.serial:
            # Its beats have passed before there is another one.
            with m.If(sent):
                m.d.sync += wanted.eq(value)
        else:
            m.submodules.values = values = Words(32, 1 << len(mark))
            values.write(m, port.write.valid, mark, value)
            m.d.sync += [mark.eq(mark + sent), wanted.eq(values.read(m, port.wanted.index))]
        m.d.comb += [port.flags.eq(wanted.any().replicate(len(port.flags))), *(lane.eq(wanted) for lane in port.values)]
