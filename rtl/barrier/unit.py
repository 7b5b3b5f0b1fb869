"""The barrier unit: one instruction after the other."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
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
    LaneClientPort,
    completion,
    error_event,
    operands_read,
    reported,
)
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams
from rtl.words import Words

from .request import BarrierQueue, BarrierTask, barrier_request
from .store import BarrierStore, barrier_row

__all__ = ["BarrierUnit"]


class BarrierUnit(Component):
    """Executes BAR, B2R and R2B, one in six cycles: look, read, update, decide, act, and the choice of the next.

    An instruction is complete when it has arrived, not when its warp goes on (ours): a warp that waits has nothing
    under way, and only ``resume`` lets it go. B2R is complete with its last write. With a reported error the
    instruction is complete, too, but its warp is not let go. The unit waits in the cycle of a launch, which writes the
    same memories.

    Members
    -------
    dispatch, room : In(EventLayout of dispatched), Out(1)
        Kinds BARRIER, BARRIER_INDEXED and BARRIER_READ. There is room for an instruction whenever it comes, if it is
        selected now.
    launch : In(EventLayout of warp_launch)
        A CTA's barriers are reset with its warp number 0, and count on all its warps from then on.
    terminated, terminated_warp : In(1), In
        A warp has ended: its CTA's barriers wait for it no longer.
    barriers : In
        Barriers of a CTA of this grid, as the GridConfiguration says. Others: ILLEGAL_INSTR_PARAM2.
    report_mask : In(32)
        Bit n: errors of code n are reported. One that is not makes the instruction do nothing.
    inside : In(warps)
        Who executes the trap handler. BAR.SYNCALL of others: ILLEGAL_INSTR_ENCODING.
    withdraw : In(valid and warp)
        This warp shall wait no longer. It stays until ``withdrawn`` answers or the warp's bit of ``waiting`` falls: a
        warp that does not wait, because its barrier has let it go before, gets no answer.
    withdrawn : Out(valid and warp)
        For one cycle: the arrival of this warp has been taken back. ``waiting`` falls with the end of the cycle. The
        barrier is as if the warp had not come: its flags are those of the warps that still wait there; whatever R2B has
        set besides stays, unless nobody has arrived any more (ours). The warp is not let go.
    resume : Out(warps)
        For one cycle: these warps go on. After every BAR and R2B, at once or when the barrier lets the warp go.
    port, operands_read : Out(LaneClientPort), Out(operands_read)
        For B2R, which reads no register.
    completion, error : Out(completion), Out(error_event)
    waiting, meeting : Out(warps), Out(warps)
        Who waits at a barrier, and who at BAR.SYNCALL.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, bits = params.warps, params.warp_bits
        one_warp = data.StructLayout({"valid": 1, "warp": bits})
        self.queue = BarrierQueue(params)
        self.store = BarrierStore(params)
        super().__init__({
            **members_of(self.queue, "dispatch", "room"), **members_of(self.store, "launch", "terminated",
                                                                       "terminated_warp"),
            "barriers": In(range(BARRIERS + 1)), "report_mask": In(REPORT_BITS), "inside": In(warps),
            "withdraw": In(one_warp), "withdrawn": Out(one_warp), "resume": Out(warps),
            "port": Out(LaneClientPort(params)), "operands_read": Out(operands_read(params)),
            "completion": Out(completion(params)), "error": Out(error_event(params)), "waiting": Out(warps),
            "meeting": Out(warps)})
        self.lost = Signal(warps)
        """CTA slots that have lost a warp, and whose barriers were not looked at since."""
        self.arrivals = Words(data.StructLayout({
            "number": range(SYNCALL_BARRIER + 1), "reduces": 1, "reduction": BarrierReduction,
            "population": range(WARP_THREADS + 1), "some_false": 1, "some_true": 1}), warps)
        """What each warp came for last, and what it gave to that: so its arrival can be taken back."""
        # What the unit works on: its task, the instruction or the warp, the barrier and what becomes of that.
        self._task, self._request = Signal(BarrierTask), Signal(barrier_request(params))
        self._error = Signal(WarpError)
        self._cta, self._number = Signal(bits), Signal(range(SYNCALL_BARRIER + 1))
        self._row: Any = Signal(barrier_row(params))
        self._completes = Signal()
        # A warp: that of the request, or the lowest one that waits. It begins to wait, or waits no longer; who waits at
        # the barrier is let go; the warp gets a result.
        self._warp, self._came = Signal(bits), Signal(self.arrivals.shape)
        self._waits, self._leaves, self._release, self._notes = Signal(), Signal(), Signal(), Signal()
        self._noted, self._result = Signal(32), Signal(32)
        self._searched, self._lowest, self._settles = Signal(warps), Signal(bits), Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue, m.submodules.store, m.submodules.arrivals = self.queue, self.store, self.arrivals
        store, request = self.store, self._request
        self.join(m, self.queue, "dispatch", "room")
        self.join(m, store, "launch", "terminated", "terminated_warp")
        m.d.comb += [
            self._warp.eq(request.warp), store.warp.eq(request.warp), store.cta.eq(self._cta),
            store.number.eq(self._number), self.withdrawn.warp.eq(request.warp)]
        with m.FSM() as machine:
            self._choose(m)
            self._find(m)
            self._update(m)
            self._act(m)
        self._keep_warps(m)
        # One search, for the lowest warp that waits or the lowest CTA that has lost one.
        m.d.comb += [
            self._searched.eq(Mux(machine.ongoing("NOTE"), self._row.waiting, self.lost)),
            self._lowest.eq(lowest(self._searched))]
        self._write_registers(m)
        return m

    def _choose(self, m: Module) -> None:
        """Looks for something to do: CTAs that have lost a warp go first, then warps that are taken back."""
        queue, number = self.queue.request, self.withdraw.warp
        with m.State("NEXT"):
            with m.If(self._searched.any()):
                m.d.comb += self._settles.eq(1)
                m.d.sync += [self._task.eq(BarrierTask.SETTLE), self._cta.eq(self._lowest)]
                m.next = "USED"
            with m.Elif(self.withdraw.valid & self.waiting.bit_select(number, 1)):
                m.d.sync += [self._task.eq(BarrierTask.WITHDRAW), self._request.warp.eq(number)]
                m.next = "FIND"
            with m.Elif(queue.valid):
                m.d.comb += queue.ready.eq(1)
                m.d.sync += self._request.eq(queue.payload)
                m.next = "LOOK"

    def _find(self, m: Module) -> None:
        """Finds the barrier: of an instruction, and what is wrong with that; of a warp that is taken back; the used
        ones of a CTA, one after the other."""
        request, store, error, left = self._request, self.store, Signal(WarpError), Signal.like(self.store.used)
        arrives, place = request.operation == BarrierTask.ARRIVE, request.place == BarrierRead.BARRIER
        with m.State("LOOK"):
            m.d.comb += [store.cta.eq(store.warp_cta), store.number.eq(request.number)]
            with m.If(request.mode == BarrierMode.SYNCALL):
                inside = self.inside.bit_select(request.warp, 1)
                m.d.comb += error.eq(Mux(inside, WarpError.NONE, WarpError.ILLEGAL_INSTR_ENCODING))
            with m.Elif(request.executes & (arrives | place) & (request.number >= self.barriers)):
                m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_PARAM2)
            with m.Elif(request.executes & arrives & request.wrong):
                m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_PARAM)
            acts = request.executes & (error == WarpError.NONE)
            m.d.sync += [
                self._cta.eq(store.warp_cta), self._number.eq(request.number),
                self._task.eq(Mux(acts, request.operation, BarrierTask.NOTHING)),
                self._error.eq(Mux(reported(self.report_mask, error), error, WarpError.NONE))]
            m.next = "READ"
        with m.State("FIND"):
            m.d.sync += [self._cta.eq(store.warp_cta), self._number.eq(self._came.number)]
            m.next = "FETCH"
        with m.State("USED"):
            m.d.sync += left.eq(store.used)
            m.next = "PICK"
        with m.State("PICK"):
            m.d.sync += [self._number.eq(lowest(left)), left.eq(left & (left - 1))]
            m.next = "NEXT"
            with m.If(left.any()):
                m.next = "FETCH"
        with m.State("FETCH"):
            m.next = "READ"

    def _update(self, m: Module) -> None:
        """What becomes of the barrier. An arrival gives nothing to a reduction unless it takes part in one."""
        request, row, came, live = self._request, self._row, self._came, Signal.like(self.store.live)
        state, scans, wants = row.state, request.mode == BarrierMode.SCAN, request.mode == BarrierMode.RED
        withdrawing = self._task == BarrierTask.WITHDRAW
        self.arrivals.write(m, self._waits, request.warp, {
            "number": self._number, "reduces": wants, "reduction": request.reduction,
            **{name: Mux(wants | scans, request[name], 0) for name in ("population", "some_false", "some_true")}})
        with m.State("READ"):
            m.d.sync += row.eq(0)
            with m.If(self.store.present):
                m.d.sync += row.eq(self.store.row)
            m.next = "UPDATE"
        with m.State("UPDATE"), m.If(~self.launch.valid):
            m.d.sync += live.eq(self.store.live)
            with m.Switch(self._task):
                with m.Case(BarrierTask.ARRIVE):
                    m.d.comb += [
                        self._waits.eq(request.mode != BarrierMode.ARV), self._notes.eq(scans),
                        self._noted.eq(state.population)]
                    m.d.sync += [state.arrived.eq(state.arrived + 1), state.expected.eq(request.count)]
                    with m.If(wants | scans):
                        m.d.sync += [
                            state.population.eq(state.population + request.population),
                            state.some_false.eq(state.some_false | request.some_false),
                            state.some_true.eq(state.some_true | request.some_true),
                            row.gave_false.eq(row.gave_false + request.some_false),
                            row.gave_true.eq(row.gave_true + request.some_true), row.reduces.eq(row.reduces | wants)]
                with m.Case(BarrierTask.WRITE):
                    m.d.comb += [
                        self._notes.eq(request.place == BarrierRead.RESULT), self._noted.eq(request.content)]
                    with m.If(request.place == BarrierRead.BARRIER):
                        m.d.sync += state.eq(request.content[:BarrierState.as_shape().size])
                with m.Case(BarrierTask.WITHDRAW):
                    false_left, true_left = row.gave_false - came.some_false, row.gave_true - came.some_true
                    m.d.sync += [
                        state.arrived.eq(state.arrived - state.arrived.any()),
                        state.population.eq(state.population - came.population),
                        state.some_false.eq(false_left.any()), state.some_true.eq(true_left.any()),
                        row.gave_false.eq(false_left), row.gave_true.eq(true_left)]
                    m.d.comb += self._leaves.eq(1)
            m.next = "DECIDE"
        with m.State("DECIDE"):
            wanted = Mux(state.expected.any(), state.expected, live)
            m.d.sync += self._completes.eq((state.arrived >= wanted) & ~withdrawing)
            with m.If(withdrawing & ~state.arrived.any()):
                m.d.sync += state.eq(0)
            m.next = "ACT"

    def _act(self, m: Module) -> None:
        """Writes the barrier, lets warps go, and notes their results."""
        request, row, store, completes, over = self._request, self._row, self.store, self._completes, Signal()
        settling, withdraws = self._task == BarrierTask.SETTLE, self.withdrawn.valid
        with m.State("ACT"), m.If(~self.launch.valid):
            m.next = "NEXT"
            m.d.comb += [over.eq(1), self._release.eq(store.write & completes)]
            with m.Switch(self._task):
                with m.Case(BarrierTask.ARRIVE):
                    m.d.comb += store.write.eq(1)
                with m.Case(BarrierTask.WRITE):
                    m.d.comb += store.write.eq(request.place == BarrierRead.BARRIER)
                with m.Case(BarrierTask.READ), m.If((request.register != RZ) | (request.predicate != PT)):
                    m.d.comb += over.eq(0)
                    m.next = "SEND"
                with m.Case(BarrierTask.SETTLE):
                    m.d.comb += [over.eq(0), store.write.eq(completes)]
                    m.next = "PICK"
                with m.Case(BarrierTask.WITHDRAW):
                    m.d.comb += [over.eq(0), store.write.eq(1), withdraws.eq(1)]
            with m.If(self._release & row.reduces):
                m.next = "NOTE"
        with m.State("NOTE"):
            with m.If(~self._searched.any()):
                m.next = "NEXT"
                with m.If(settling):
                    m.next = "PICK"
            with m.Elif(~self.launch.valid):
                m.d.comb += [self._warp.eq(self._lowest), self._leaves.eq(1), self._notes.eq(self._came.reduces)]
                with m.Switch(self._came.reduction):
                    with m.Case(BarrierReduction.POPC):
                        m.d.comb += self._noted.eq(row.state.population)
                    with m.Case(BarrierReduction.AND):
                        m.d.comb += self._noted.eq(~row.state.some_false)
                    with m.Case(BarrierReduction.OR):
                        m.d.comb += self._noted.eq(row.state.some_true)
        with m.State("SEND"):
            m.d.comb += self.port.operation.valid.eq(1)
            with m.If(self.port.operation.ready):
                m.next = "NEXT"

        m.d.comb += [
            store.new.eq(row), store.keep.eq(~completes & (row.state.as_value().any() | row.waiting.any())),
            self.completion.valid.eq(over), self.error.valid.eq(over & (self._error != WarpError.NONE)),
            self.error.error.eq(self._error)]
        pass_on(m, request, self.completion, "warp", "serial", "write_barrier", "read_barrier")
        pass_on(m, request, self.error, "warp", "pc")
        waits = (self._task == BarrierTask.ARRIVE) & (request.mode != BarrierMode.ARV)
        stays = waits | (request.operation == BarrierTask.READ) | (self._error != WarpError.NONE)
        m.d.sync += self.resume.eq(
            Mux(self._release, row.waiting, 0) | one_hot(request.warp, self._params.warps, over & ~stays))

    def _keep_warps(self, m: Module) -> None:
        """Who waits, and what each came for and got."""
        row, launch, warps, waits = self._row.waiting, self.launch, self._params.warps, self._waits
        m.submodules.results = results = Words(32, warps)
        results.write(m, launch.valid | self._notes, Mux(launch.valid, launch.payload.warp, self._warp),
                      Mux(launch.valid, 0, self._noted))
        m.d.comb += [
            self._came.eq(self.arrivals.read(m, self._warp)), self._result.eq(results.read(m, self._request.warp))]
        meets, here = self._number == SYNCALL_BARRIER, one_hot(self._warp, warps)
        changes, told = (one_hot(self._warp, warps, waits | leaves) for leaves in (self._leaves, self.withdrawn.valid))
        settled = one_hot(self._lowest, warps, self._settles)
        ended = one_hot(self.store.terminated_cta, warps, self.terminated)
        for warp in range(warps):
            with m.If(settled[warp] | ended[warp]):
                m.d.sync += self.lost[warp].eq(ended[warp])
            with m.If(changes[warp]):
                m.d.sync += row[warp].eq(waits)
            with m.If(told[warp] | (self._release & row[warp])):
                m.d.sync += [self.waiting[warp].eq(waits & ~meets), self.meeting[warp].eq(waits & meets)]
        all_waiting = self.waiting | self.meeting
        m.d.sync += [
            Assert(~(launch.valid & self._notes), "a result is noted beside that of a new warp"),
            Assert(~(waits & (here & all_waiting).any()), "a warp arrives that waits"),
            Assert(~(self._release & (row & ~all_waiting).any()), "a warp is let go that does not wait"),
            Assert(~(self.withdrawn.valid & ~(here & self.waiting).any()), "a warp is withdrawn that does not wait")]

    def _write_registers(self, m: Module) -> None:
        """What B2R asks the lanes for, and its value, which all threads get when the lanes want it. With ``.WARP`` that
        is 0: a warp that executes waits at no barrier (ours). Nothing has to be read: the scoreboard for that goes down
        when the write is sent."""
        request, port, asked, value = self._request, self.port, self.port.operation.payload, Signal(32)
        mark, sent = Signal.like(asked.index), port.operation.valid & port.operation.ready
        m.submodules.values = values = Words(32, 1 << len(mark))
        values.write(m, port.operation.valid, mark, value)
        wanted = Signal.like(value)
        m.d.sync += wanted.eq(values.read(m, port.wanted.index))
        pass_on(m, request, asked, "warp", "serial", "predicate")
        m.d.comb += [
            asked.registers.eq(Cat(request.register, Const(RZ, 8), Const(RZ, 8))),
            asked.threads.eq(request.content), asked.index.eq(mark), asked.last.eq(1),
            asked.barrier.eq(request.write_barrier), self.operands_read.valid.eq(sent),
            self.operands_read.warp.eq(request.warp), self.operands_read.barrier.eq(request.read_barrier)]
        with m.Switch(request.place):
            with m.Case(BarrierRead.BARRIER):
                m.d.comb += value.eq(self._row.state)
            with m.Case(BarrierRead.RESULT):
                m.d.comb += value.eq(self._result)
        with m.If(sent):
            m.d.sync += mark.eq(mark + 1)
        m.d.comb += port.flags.eq(wanted.any().replicate(len(port.flags)))
        m.d.comb += [lane.eq(wanted) for lane in port.values]
