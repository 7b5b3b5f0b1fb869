"""The barrier unit, joined: one instruction after the other."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.barriers import BARRIERS, SYNCALL_BARRIER, BarrierState
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BarrierMode, BarrierRead
from rtl.layouts import LaneClientPort, completion, dispatched, error_event, operands_read, warp_launch
from rtl.params import SmParams

from .request import BarrierOperation, BarrierQueue, barrier_request
from .store import BarrierStore
from .waiting import WaitingWarps
from .write import RegisterWrites

__all__ = ["BarrierUnit"]


class BarrierUnit(Component):
    """Executes BAR, B2R and R2B, one in six cycles.

    An instruction is complete when it has arrived, not when its warp goes on (ours): a warp that waits has nothing
    under way, and only ``resume`` lets it go. B2R is complete with its last write. With a reported error the
    instruction is complete, too, but its warp is not let go.

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
        bits, numbers = params.warp_bits, range(SYNCALL_BARRIER + 1)
        one_warp = data.StructLayout({"valid": 1, "warp": bits})
        super().__init__({
            "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})), "room": Out(1),
            "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)})),
            "terminated": In(1), "terminated_warp": In(bits), "barriers": In(range(BARRIERS + 1)),
            "report_mask": In(32), "inside": In(params.warps), "withdraw": In(one_warp), "withdrawn": Out(one_warp),
            "resume": Out(params.warps), "port": Out(LaneClientPort(params)),
            "operands_read": Out(operands_read(params)), "completion": Out(completion(params)),
            "error": Out(error_event(params)), "waiting": Out(params.warps), "meeting": Out(params.warps)})
        self.queue = BarrierQueue(params)
        self.store = BarrierStore(params)
        self.warps = WaitingWarps(params)
        self.writes = RegisterWrites(params)
        # What the unit works on: an instruction, a barrier of a CTA that has lost a warp, or a warp to be taken back.
        self._request: Any = Signal(barrier_request(params))
        self.lost = Signal(params.warps)
        """CTA slots that have lost a warp, and whose barriers were not looked at since."""
        self._settling, self._withdrawing = Signal(), Signal()
        self._cta, self._number = Signal(bits), Signal(numbers)
        self._error, self._acts = Signal(WarpError), Signal()
        self._state: Any = Signal(BarrierState)
        self._others = Signal(params.warps)
        """Warps that wait at the barrier, but for that of the request."""
        self._waiting = Signal(params.warps)
        """Those that wait there, when the request has been served."""
        self._completes = Signal()
        self._over = Signal()
        """The instruction is complete, but for what the lanes write."""
        # What the request's fields mean.
        self._arrives, self._waits, self._reduces, self._sets = Signal(), Signal(), Signal(), Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue, m.submodules.store = queue, store = self.queue, self.store
        m.submodules.warps, m.submodules.writes = warps, writes = self.warps, self.writes
        connect(m, flipped(self.port), writes.port)
        m.d.comb += [
            queue.dispatch.eq(self.dispatch), self.room.eq(queue.room), store.launch.valid.eq(self.launch.valid),
            store.launch.payload.eq(self.launch.payload), store.ended.valid.eq(self.terminated),
            store.ended.payload.eq(self.terminated_warp), store.warp.eq(self._request.warp),
            store.cta.eq(self._cta), store.number.eq(self._number),
            warps.begin.valid.eq(self.launch.valid), warps.begin.payload.eq(self.launch.payload.warp),
            warps.warp.eq(self._request.warp), warps.others.eq(self._others), warps.state.eq(self._state),
            self.waiting.eq(warps.waiting), self.meeting.eq(warps.meeting), self.withdrawn.warp.eq(self._request.warp),
            writes.request.eq(self._request), self.operands_read.eq(writes.operands_read)]
        self._meaning(m)
        with m.FSM():
            self._next(m)
            self._look(m)
            self._compute(m)
            self._act(m)
        with m.If(self.terminated):
            m.d.sync += self.lost.bit_select(store.ended_cta, 1).eq(1)
        self._outcome(m)
        return m

    def _meaning(self, m: Module) -> None:
        """What the request asks for, if it acts."""
        request, acts, arrival = self._request, self._acts, self.warps.arrival
        arrives = acts & (request.operation == BarrierOperation.ARRIVE)
        combines = (request.mode == BarrierMode.RED) | (request.mode == BarrierMode.SCAN)
        m.d.comb += [
            self._arrives.eq(arrives), self._waits.eq(arrives & (request.mode != BarrierMode.ARV)),
            self._reduces.eq(arrives & combines),
            self._sets.eq(acts & (request.operation == BarrierOperation.WRITE)),
            arrival.number.eq(self._number), arrival.reduces.eq(request.mode == BarrierMode.RED),
            arrival.reduction.eq(request.reduction), arrival.population.eq(Mux(self._reduces, request.population, 0)),
            arrival.some_false.eq(self._reduces & request.some_false),
            arrival.some_true.eq(self._reduces & request.some_true)]

    def _next(self, m: Module) -> None:
        """Looks for something to do: CTAs that have lost a warp go first, then warps that are taken back."""
        lost, left, queue = self.lost, Signal.like(self.store.used), self.queue
        withdraws = self.withdraw.valid & self.waiting.bit_select(self.withdraw.warp, 1)
        with m.State("NEXT"):
            m.d.sync += [
                self._settling.eq(lost.any()), self._withdrawing.eq(withdraws & ~lost.any()), self._acts.eq(0)]
            with m.If(lost.any()):
                m.d.sync += [self._cta.eq(lowest(lost)), lost.bit_select(lowest(lost), 1).eq(0)]
                m.next = "USED"
            with m.Elif(withdraws):
                m.d.sync += self._request.warp.eq(self.withdraw.warp)
                m.next = "FIND"
            with m.Elif(queue.request.valid):
                m.d.comb += queue.request.ready.eq(1)
                m.d.sync += self._request.eq(queue.request.payload)
                m.next = "LOOK"
        with m.State("FIND"):
            m.d.sync += [self._cta.eq(self.store.warp_cta), self._number.eq(self.warps.place)]
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
        place = request.place == BarrierRead.BARRIER
        with m.State("LOOK"):
            m.d.comb += [self.store.cta.eq(self.store.warp_cta), self.store.number.eq(request.number)]
            with m.If(request.mode == BarrierMode.SYNCALL):
                inside = self.inside.bit_select(request.warp, 1)
                m.d.comb += error.eq(Mux(inside, WarpError.NONE, WarpError.ILLEGAL_INSTR_ENCODING))
            with m.Elif(~request.executes):
                m.d.comb += error.eq(WarpError.NONE)
            with m.Elif(((request.operation == BarrierOperation.ARRIVE) | place) & (request.number >= self.barriers)):
                m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_PARAM2)
            with m.Elif((request.operation == BarrierOperation.ARRIVE) & request.wrong):
                m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_PARAM)
            reported = self.report_mask.bit_select(error.as_value()[:5], 1)
            m.d.sync += [
                self._cta.eq(self.store.warp_cta), self._number.eq(request.number),
                self._error.eq(Mux(reported, error, WarpError.NONE)),
                self._acts.eq(request.executes & (error == WarpError.NONE))]
            m.next = "READ"

    def _compute(self, m: Module) -> None:
        """What becomes of the barrier."""
        request, state, store, warps = self._request, self._state, self.store, self.warps
        live = Signal.like(store.live)
        with m.State("READ"):
            one: Any = Const(1, self._params.warps) << request.warp
            m.d.sync += [state.eq(store.row.state), self._others.eq(store.row.waiting & ~Mux(self._settling, 0, one))]
            m.next = "UPDATE"
        with m.State("UPDATE"):
            m.d.sync += live.eq(store.live)
            with m.If(self._arrives):
                m.d.comb += warps.wait.eq(self._waits)
                m.d.sync += [state.arrived.eq(state.arrived + 1), state.expected.eq(request.count)]
            with m.If(self._reduces):
                m.d.sync += [
                    state.population.eq(state.population + request.population),
                    state.some_false.eq(state.some_false | request.some_false),
                    state.some_true.eq(state.some_true | request.some_true)]
                with m.If(request.mode == BarrierMode.SCAN):
                    m.d.comb += [warps.note.eq(1), warps.noted.eq(state.population)]
            with m.If(self._sets & (request.place == BarrierRead.BARRIER)):
                m.d.sync += state.eq(request.content[:BarrierState.as_shape().size])
            with m.If(self._sets & (request.place == BarrierRead.RESULT)):
                m.d.comb += [warps.note.eq(1), warps.noted.eq(request.content)]
            with m.If(self._withdrawing):
                m.d.sync += [
                    state.arrived.eq(state.arrived - state.arrived.any()),
                    state.population.eq(state.population - warps.given),
                    state.some_false.eq(warps.others_false), state.some_true.eq(warps.others_true)]
            m.next = "DECIDE"
        with m.State("DECIDE"):
            wanted = Mux(state.expected.any(), state.expected, live)
            m.d.sync += self._completes.eq((state.arrived >= wanted) & ~self._withdrawing)
            m.next = "ACT"

    def _act(self, m: Module) -> None:
        """Writes the barrier, lets warps go, and tells what became of the instruction."""
        request, warps, writes = self._request, self.warps, self.writes
        reads = request.operation == BarrierOperation.READ
        with m.State("ACT"):
            sets = self._sets & (request.place == BarrierRead.BARRIER)
            m.d.comb += [
                self.store.write.eq(self._arrives | sets | self._withdrawing | (self._settling & self._completes)),
                warps.release.eq(self.store.write & self._completes), warps.withdraw.eq(self._withdrawing),
                warps.released.eq(self._waiting),
                self.withdrawn.valid.eq(self._withdrawing), self._over.eq(~self._settling & ~self._withdrawing)]
            m.next = "NEXT"
            with m.If(warps.release):
                m.next = "NOTE"
            with m.Elif(self._settling):
                m.next = "PICK"
            with m.Elif(self._acts & reads & writes.wanted):
                m.d.comb += self._over.eq(0)
                m.next = "SEND"
        with m.State("NOTE"), m.If(~warps.busy):
            m.next = "NEXT"
            with m.If(self._settling):
                m.next = "PICK"
        with m.State("SEND"):
            m.d.comb += writes.send.eq(1)
            with m.If(writes.sent):
                m.next = "NEXT"

    def _outcome(self, m: Module) -> None:
        """What the barrier becomes, and what is told of an instruction that is over."""
        request, store, warps, error = self._request, self.store, self.warps, self.error
        held = self._waits | (request.operation == BarrierOperation.READ) | (self._error != WarpError.NONE)
        empty = self._withdrawing & ~self._state.arrived.any()
        m.d.comb += [
            self._waiting.eq(self._others | (self._waits << request.warp)),
            store.new.state.eq(Mux(empty, 0, self._state.as_value())), store.new.waiting.eq(self._waiting),
            store.keep.eq(~self._completes & store.new.as_value().any()),
            self.writes.state.eq(self._state), self.writes.result.eq(warps.result),
            self.completion.valid.eq(self._over), error.valid.eq(self._over & (self._error != WarpError.NONE)),
            error.error.eq(self._error), error.warp.eq(request.warp), error.pc.eq(request.pc)]
        m.d.comb += [self.completion[name].eq(request[name])
                     for name in ("warp", "serial", "write_barrier", "read_barrier")]
        m.d.sync += self.resume.eq(Mux(warps.release, self._waiting, 0) | ((self._over & ~held) << request.warp))
