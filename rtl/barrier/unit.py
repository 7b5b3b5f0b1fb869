"""The barrier unit, joined: one instruction after the other."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.barriers import BARRIERS, SYNCALL_BARRIER, BarrierState
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BarrierMode, BarrierRead
from rtl.layouts import (
    REPORT_BITS,
    LaneClientPort,
    completion,
    dispatched,
    error_event,
    operands_read,
    reported,
    warp_launch,
)
from rtl.one_hot import one_hot
from rtl.params import SmParams

from .request import BarrierOperation, BarrierQueue, barrier_request
from .store import BarrierStore, barrier_row
from .waiting import WaitingWarps
from .write import RegisterWrites

__all__ = ["BarrierUnit"]


class BarrierUnit(Component):
    """Executes BAR, B2R and R2B, one in six cycles.

    An instruction is complete when it has arrived, not when its warp goes on (ours): a warp that waits has nothing
    under way, and only ``resume`` lets it go. B2R is complete with its last write. With a reported error the
    instruction is complete, too, but its warp is not let go.

    The unit waits in the cycle of a launch, which writes the same memories.

    The arrival of a warp that waits can be taken back, which takes six cycles: the barrier is then as if it had not
    come, and the warp waits no longer, but is not let go either. The barrier's flags are those of the warps that still
    wait there; whatever R2B has set besides stays, unless nobody has arrived any more (ours).

    Members
    -------
    dispatch : In(valid and dispatched)
        Kinds BARRIER, BARRIER_INDEXED and BARRIER_READ.
    room : Out(1)
        There is room for an instruction whenever it comes, if it is selected now.
    launch : In(valid and warp_launch)
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
        For one cycle: the arrival of this warp has been taken back. ``waiting`` falls with the end of the cycle.
    resume : Out(warps)
        For one cycle: these warps go on. After every BAR and R2B, at once or when the barrier lets the warp go.
    port : Out(LaneClientPort)
        For B2R.
    operands_read : Out(operands_read)
        Of B2R, which reads no register.
    completion : Out(completion)
    error : Out(error_event)
    waiting, meeting : Out(warps), Out(warps)
        Who waits at a barrier, and who at BAR.SYNCALL.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        bits = params.warp_bits
        one_warp = data.StructLayout({"valid": 1, "warp": bits})
        super().__init__({
            "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})), "room": Out(1),
            "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)})),
            "terminated": In(1), "terminated_warp": In(bits), "barriers": In(range(BARRIERS + 1)),
            "report_mask": In(REPORT_BITS), "inside": In(params.warps), "withdraw": In(one_warp),
            "withdrawn": Out(one_warp), "resume": Out(params.warps), "port": Out(LaneClientPort(params)),
            "operands_read": Out(operands_read(params)), "completion": Out(completion(params)),
            "error": Out(error_event(params)), "waiting": Out(params.warps), "meeting": Out(params.warps)})
        self.queue = BarrierQueue(params)
        self.store = BarrierStore(params)
        self.warps = WaitingWarps(params)
        self.writes = RegisterWrites(params)
        self.lost = Signal(params.warps)
        """CTA slots that have lost a warp, and whose barriers were not looked at since."""
        # What the unit works on: an instruction, a barrier of a CTA that has lost a warp, or a warp to be taken back.
        self._settling, self._withdrawing, self._acts = Signal(), Signal(), Signal()
        self._request: Any = Signal(barrier_request(params))
        self._cta, self._number = Signal(bits), Signal(range(SYNCALL_BARRIER + 1))
        self._error = Signal(WarpError)
        self._row: Any = Signal(barrier_row(params))
        """The barrier; who waits there is the group of WaitingWarps."""
        self._completes, self._over = Signal(), Signal()
        """The instruction is complete, but for what the lanes write."""
        # What the request's fields mean, if it acts.
        self._arrives, self._waits, self._reduces = Signal(), Signal(), Signal()
        self._sets_barrier, self._sets_result = Signal(), Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ("queue", "store", "warps", "writes"):
            m.submodules[name] = getattr(self, name)
        self._join(m)
        self._meaning(m)
        with m.FSM():
            self._next(m)
            self._settle(m)
            self._look(m)
            self._compute(m)
            self._act(m)
        self._outcome(m)
        return m

    def _join(self, m: Module) -> None:
        store, warps, writes, launch, warp = self.store, self.warps, self.writes, self.launch, self._request.warp
        connect(m, flipped(self.port), writes.port)
        m.d.comb += [
            self.queue.dispatch.eq(self.dispatch), self.room.eq(self.queue.room),
            store.launch.valid.eq(launch.valid), store.launch.payload.eq(launch.payload),
            store.ended.valid.eq(self.terminated), store.ended.payload.eq(self.terminated_warp),
            store.warp.eq(warp), store.cta.eq(self._cta), store.number.eq(self._number),
            warps.launch.valid.eq(launch.valid), warps.launch.payload.eq(launch.payload.warp), warps.warp.eq(warp),
            warps.state.eq(self._row.state), warps.fetched.eq(store.row.waiting),
            self.waiting.eq(warps.waiting), self.meeting.eq(warps.meeting), self.withdrawn.warp.eq(warp),
            writes.request.eq(self._request), writes.state.eq(self._row.state), writes.result.eq(warps.result),
            self.operands_read.eq(writes.operands_read)]

    def _meaning(self, m: Module) -> None:
        """What the request asks for."""
        request, acts, arrival = self._request, self._acts, self.warps.arrival
        sets = acts & (request.operation == BarrierOperation.WRITE)
        m.d.comb += [
            self._arrives.eq(acts & (request.operation == BarrierOperation.ARRIVE)),
            self._waits.eq(self._arrives & (request.mode != BarrierMode.ARV)),
            self._reduces.eq(self._arrives & (
                (request.mode == BarrierMode.RED) | (request.mode == BarrierMode.SCAN))),
            self._sets_barrier.eq(sets & (request.place == BarrierRead.BARRIER)),
            self._sets_result.eq(sets & (request.place == BarrierRead.RESULT)),
            arrival.number.eq(self._number), arrival.reduces.eq(request.mode == BarrierMode.RED),
            arrival.reduction.eq(request.reduction), arrival.population.eq(Mux(self._reduces, request.population, 0)),
            arrival.some_false.eq(self._reduces & request.some_false),
            arrival.some_true.eq(self._reduces & request.some_true)]

    def _next(self, m: Module) -> None:
        """Looks for something to do: CTAs that have lost a warp go first, then warps that are taken back."""
        lost, queue, taken = self.lost, self.queue.request, Signal()
        withdraws, cta = self.withdraw.valid & self.waiting.bit_select(self.withdraw.warp, 1), lowest(self.lost)
        with m.State("NEXT"):
            m.d.sync += [
                self._settling.eq(lost.any()), self._withdrawing.eq(withdraws & ~lost.any()), self._acts.eq(0)]
            with m.If(lost.any()):
                m.d.comb += taken.eq(1)
                m.d.sync += self._cta.eq(cta)
                m.next = "USED"
            with m.Elif(withdraws):
                m.d.sync += self._request.warp.eq(self.withdraw.warp)
                m.next = "FIND"
            with m.Elif(queue.valid):
                m.d.comb += queue.ready.eq(1)
                m.d.sync += self._request.eq(queue.payload)
                m.next = "LOOK"
        warps, ended = self._params.warps, self.store.ended_cta
        m.d.sync += lost.eq((lost & ~one_hot(cta, warps, taken)) | one_hot(ended, warps, self.terminated))

    def _settle(self, m: Module) -> None:
        """Finds the barrier of a warp that is taken back, and the used ones of a CTA, one after the other."""
        left = Signal.like(self.store.used)
        with m.State("FIND"):
            m.d.sync += [self._cta.eq(self.store.warp_cta), self._number.eq(self.warps.came.number)]
            m.next = "FETCH"
        with m.State("USED"):
            m.d.sync += left.eq(self.store.used)
            m.next = "PICK"
        with m.State("PICK"):
            m.d.sync += [self._number.eq(lowest(left)), left.eq(left & (left - 1))]
            m.next = "NEXT"
            with m.If(left.any()):
                m.next = "FETCH"
        with m.State("FETCH"):
            m.next = "READ"

    def _look(self, m: Module) -> None:
        """Finds the barrier of an instruction, and what is wrong with it."""
        request, error = self._request, Signal(WarpError)
        arrives, place = request.operation == BarrierOperation.ARRIVE, request.place == BarrierRead.BARRIER
        with m.State("LOOK"):
            m.d.comb += [self.store.cta.eq(self.store.warp_cta), self.store.number.eq(request.number)]
            with m.If(request.mode == BarrierMode.SYNCALL):
                inside = self.inside.bit_select(request.warp, 1)
                m.d.comb += error.eq(Mux(inside, WarpError.NONE, WarpError.ILLEGAL_INSTR_ENCODING))
            with m.Elif(request.executes & (arrives | place) & (request.number >= self.barriers)):
                m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_PARAM2)
            with m.Elif(request.executes & arrives & request.wrong):
                m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_PARAM)
            m.d.sync += [
                self._cta.eq(self.store.warp_cta), self._number.eq(request.number),
                self._error.eq(Mux(reported(self.report_mask, error), error, WarpError.NONE)),
                self._acts.eq(request.executes & (error == WarpError.NONE))]
            m.next = "READ"

    def _compute(self, m: Module) -> None:
        """What becomes of the barrier."""
        request, row, store, warps = self._request, self._row, self.store, self.warps
        state, gone, live = row.state, warps.came, Signal.like(store.live)
        false_left, true_left = row.gave_false - gone.some_false, row.gave_true - gone.some_true
        with m.State("READ"):
            m.d.comb += warps.fetch.eq(1)
            m.d.sync += row.eq(store.row)
            m.next = "UPDATE"
        with m.State("UPDATE"), m.If(~self.launch.valid):
            m.d.comb += [
                warps.wait.eq(self._waits), warps.drop.eq(self._withdrawing), warps.noted.eq(request.content),
                warps.note.eq(self._sets_result | (self._reduces & (request.mode == BarrierMode.SCAN)))]
            m.d.sync += live.eq(store.live)
            with m.If(self._arrives):
                m.d.sync += [state.arrived.eq(state.arrived + 1), state.expected.eq(request.count)]
            with m.If(self._reduces):
                m.d.comb += warps.noted.eq(state.population)
                m.d.sync += [
                    state.population.eq(state.population + request.population),
                    state.some_false.eq(state.some_false | request.some_false),
                    state.some_true.eq(state.some_true | request.some_true),
                    row.reduces.eq(row.reduces | warps.arrival.reduces),
                    row.gave_false.eq(row.gave_false + request.some_false),
                    row.gave_true.eq(row.gave_true + request.some_true)]
            with m.If(self._sets_barrier):
                m.d.sync += state.eq(request.content[:BarrierState.as_shape().size])
            with m.If(self._withdrawing):
                m.d.sync += [
                    state.arrived.eq(state.arrived - state.arrived.any()),
                    state.population.eq(state.population - gone.population),
                    state.some_false.eq(false_left.any()), state.some_true.eq(true_left.any()),
                    row.gave_false.eq(false_left), row.gave_true.eq(true_left)]
            m.next = "DECIDE"
        with m.State("DECIDE"):
            wanted = Mux(state.expected.any(), state.expected, live)
            m.d.sync += self._completes.eq((state.arrived >= wanted) & ~self._withdrawing)
            with m.If(self._withdrawing & ~state.arrived.any()):
                m.d.sync += state.eq(0)
            m.next = "ACT"

    def _act(self, m: Module) -> None:
        """Writes the barrier, lets warps go, and tells what became of the instruction."""
        warps, writes = self.warps, self.writes
        changes = self._arrives | self._sets_barrier | self._withdrawing | (self._settling & self._completes)
        reads = self._acts & (self._request.operation == BarrierOperation.READ)

        def goes_on() -> None:
            m.next = "NEXT"
            with m.If(self._settling):
                m.next = "PICK"

        with m.State("ACT"), m.If(~self.launch.valid):
            m.d.comb += [
                self.store.write.eq(changes), warps.release.eq(changes & self._completes),
                warps.withdraw.eq(self._withdrawing), self.withdrawn.valid.eq(self._withdrawing),
                self._over.eq(~self._settling & ~self._withdrawing)]
            goes_on()
            with m.If(warps.release & self._row.reduces):
                m.next = "NOTE"
            with m.If(reads & writes.wanted):
                m.d.comb += self._over.eq(0)
                m.next = "SEND"
        with m.State("NOTE"):
            m.d.comb += warps.settle.eq(warps.group.any() & ~self.launch.valid)
            with m.If(~warps.group.any()):
                goes_on()
        with m.State("SEND"):
            m.d.comb += writes.send.eq(1)
            with m.If(writes.sent):
                m.next = "NEXT"

    def _outcome(self, m: Module) -> None:
        """What the barrier becomes, and what is told of an instruction that is over."""
        request, store, warps, error = self._request, self.store, self.warps, self.error
        stays = self._waits | (request.operation == BarrierOperation.READ) | (self._error != WarpError.NONE)
        m.d.comb += [
            store.new.eq(self._row), store.new.waiting.eq(warps.group),
            store.keep.eq(~self._completes & (self._row.state.as_value().any() | warps.group.any())),
            self.completion.valid.eq(self._over), error.valid.eq(self._over & (self._error != WarpError.NONE)),
            error.error.eq(self._error), error.warp.eq(request.warp), error.pc.eq(request.pc)]
        m.d.comb += [self.completion[name].eq(request[name])
                     for name in ("warp", "serial", "write_barrier", "read_barrier")]
        m.d.sync += self.resume.eq(
            Mux(warps.release, warps.group, 0) | one_hot(request.warp, self._params.warps, self._over & ~stays))
