"""The issue unit of a serial machine: one instruction at a time, of all warps together."""

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component, pass_on
from rtl.isa.control_code import INSTRUCTION_BYTES, NO_BARRIER
from rtl.issue.operations import operation_streams
from rtl.layouts import (
    COMPLETING,
    GATHERING,
    Event,
    InstructionKind,
    IssueEvents,
    LaneClient,
    Policy,
    WaitReason,
    completion,
    fetched_instruction,
    flow_result,
    is_kind,
    issued,
    offered_operation,
    operands_read,
    redirect,
    register_gather,
    register_write,
    scoreboard_event,
    unit_rooms,
)
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.wires import IN_BLOCKS
from rtl.word import instruction_address
from rtl.words import Words

__all__ = ["SerialIssue"]

_AT = ceil_log2(INSTRUCTION_BYTES)
_CLIENTS = {LaneClient.MEMORY: "memory", LaneClient.CONVERSION: "conversion", LaneClient.BARRIER: "barrier",
            LaneClient.FLOW: "flow"}
"""Units that ask for operations."""


class SerialIssue(Component):
    """Selects an instruction of some warp when the one before it has ended, and passes its operations on.

    An instruction has ended with its completion; one for the flow unit that has none, with its flow result; NOTHING
    and DEPENDENCY, at once. So all that a control code asks for holds anyway: what was before is complete, and has let
    go of all registers. A warp that waits until a unit lets it go has nothing under way; others go on meanwhile.

    One warp after the other is looked at. Whoever may issue has its next instruction brought, and issues that, if it
    still may. Its turn ends then (ROUND_ROBIN), or with its next flow result (GREEDY_THEN_OLDEST), so that a loop keeps
    nobody else waiting for ever; or as soon as it has to wait.

    Members
    -------
    group, redirect
        See SerialFetch.
    claimed, room
        Of IssueUnit: there is no room for what was not asked for.
    collecting : In(1)
        The lanes are at something, from the cycle after it came to its last one: no operation is taken.
    launched, result, lanes, gathered, units, resume, gather_0.., write_0.., rooms, hold, enter, leave, taken, policy,
    completion, gather, write, live, drained, events
        See IssueUnit. An operation leaves two cycles after it was taken.
    instruction : Out(Event of issued)
        In the cycle of its selection. It names no scoreboards.

    Attributes
    ----------
    last, reasons
        See IssueUnit.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps = params.warps
        self.sweep = Sweep(warps)
        self.last = Words(32, warps, self.sweep)
        self.reasons = [Signal(WaitReason, name=f"reason_{warp}") for warp in range(warps)]
        self._pcs = memory.Memory(shape=32 - _AT, depth=max(warps, 2), init=[], attrs=IN_BLOCKS)
        self._runs, self._waits = Signal(warps), Signal(warps)
        """Who has begun, and has not ended; whom a unit is to let go."""
        self._warp, self._serial = Signal(params.warp_bits), Signal.like(Signal(issued(params)).serial)
        self._kind, self._under_way = Signal(InstructionKind), Signal(InstructionKind)
        """Of what would be selected now, and of what was last."""
        self._room, self._may, self._moves, self._busy = Signal(), Signal(), Signal(), Signal()
        """All units have room. The warp may issue an instruction; it is to enter the trap
        or to leave it; something of it is under way."""
        self._selected, self._injected = Signal(), Signal()
        """An instruction is; something in the place of one."""
        super().__init__({
            "group": In(Event(fetched_instruction(params))), "claimed": In(Event(params.warp_bits)), "room": Out(warps),
            "redirect": Out(Event(redirect(params))), "launched": In(Event(params.warp_bits)),
            "result": In(Event(flow_result(params))), "lanes": In(Event(scoreboard_event(params))),
            "gathered": In(Event(operands_read(params))),
            "units": In(Event(scoreboard_event(params))).array(len(COMPLETING)),
            **operation_streams(params), "rooms": In(unit_rooms()), "collecting": In(1), "policy": In(Policy),
            "instruction": Out(Event(issued(params))), "completion": Out(completion(params)),
            "gather": Out(Event(offered_operation(register_gather(params)))),
            "write": Out(Event(offered_operation(register_write(params)))), "events": Out(IssueEvents),
            **{name: In(warps) for name in ("resume", "hold", "enter", "leave")},
            **{name: Out(warps) for name in ("taken", "live", "drained")}})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warp, by_result, leaves = self._warp, Signal(), Signal()
        m.d.comb += by_result.eq(is_kind(self._under_way, lambda rule: rule.silent and rule.unit is not None))
        self._follow_warps(m)
        m.submodules.sweep, m.submodules.last = self.sweep, self.last
        self._issue(m, self._keep_pcs(m), leaves)
        self._operate(m)

        with m.FSM() as states:
            with m.State("CHOOSE"):
                m.d.sync += leaves.eq(self.leave.bit_select(warp, 1))
                with m.If(self._moves):
                    m.next = "MOVE"
                with m.Elif(self._may):
                    m.next = "ASK"
                with m.Elif(self._room):
                    m.d.sync += warp.eq(warp + 1)
            with m.State("ASK"):
                m.d.comb += self.redirect.valid.eq(1)
                m.next = "AWAIT"
            with m.State("AWAIT"), m.If(self.group.valid):
                # The result of a launch writes a pc, too.
                m.d.comb += self._selected.eq(self._may & ~self.result.valid)
                m.next = "CHOOSE"
                with m.If(self._selected):
                    m.next = "BUSY"
                    with m.If(self.completion.valid):
                        m.next = "NEXT"
            with m.State("MOVE"):
                m.d.comb += self._injected.eq(1)
                m.next = "BUSY"
            with m.State("BUSY"):
                m.d.comb += self._busy.eq(1)
                with m.If(self._ends(by_result)):
                    m.next = "NEXT"
            with m.State("NEXT"):
                m.d.sync += self._serial.eq(self._serial + 1)
                m.next = "CHOOSE"
                with m.If(by_result | (self.policy == Policy.ROUND_ROBIN)):
                    m.d.sync += warp.eq(warp + 1)
        self._tell(m, states.ongoing("CHOOSE"))
        return m

    def _follow_warps(self, m: Module) -> None:
        """What becomes of each warp, and what the one that is looked at may do."""
        here, live, runs, waits = self._warp, self.live, self._runs, self._waits
        result, stops = self.result.payload, is_kind(self._kind, lambda rule: rule.after == "resumed")
        begun, told, stopped = (one_hot(number, self._params.warps, when) for number, when in (
            (self.launched.payload, self.launched.valid), (result.warp, self.result.valid),
            (here, self._selected & stops)))
        for warp in range(self._params.warps):
            with m.If(told[warp]):
                m.d.sync += [runs[warp].eq(~result.terminated), live[warp].eq(~result.terminated)]
            with m.Elif(begun[warp]):
                m.d.sync += live[warp].eq(1)
            with m.If(told[warp] | self.resume[warp]):
                m.d.sync += waits[warp].eq(0)
            with m.Elif(stopped[warp]):
                m.d.sync += waits[warp].eq(1)

        able, moves = runs & ~waits & ~self.hold, runs & (self.enter | self.leave)
        m.d.comb += [
            self._room.eq(self.rooms.as_value().all()),
            self._moves.eq(moves.bit_select(here, 1) & self._room),
            self._may.eq((able & ~moves).bit_select(here, 1) & self._room),
            self.taken.eq(one_hot(here, self._params.warps, self._selected)),
            self.drained.eq(~one_hot(here, self._params.warps, self._busy))]

    def _ends(self, by_result: Value) -> Value:
        """What is under way ends: with the flow result of its warp, others may begin, or when anybody tells so."""
        result, told = self.result, (self.lanes, *self.units)
        completes = Cat(event.valid & event.payload.completes for event in told).any()
        return Mux(by_result, result.valid & (result.payload.warp == self._warp), completes)

    def _keep_pcs(self, m: Module) -> Value:
        """The address of the next instruction of the warp that is looked at. A flow result says where it is."""
        m.submodules.pcs = pcs = self._pcs
        read, write, result, at = pcs.read_port(domain="comb"), pcs.write_port(), self.result.payload, _AT
        kept = Signal(read.data.shape())
        pc = instruction_address(Cat(Const(0, at), kept))
        m.d.sync += kept.eq(read.data)
        m.d.comb += [
            read.addr.eq(self._warp), write.en.eq(self.result.valid | self._selected),
            write.addr.eq(Mux(self.result.valid, result.warp, self._warp)),
            write.data.eq(Mux(self.result.valid, result.pc[at:], pc[at:] + 1)),
            self.redirect.payload.warp.eq(self._warp), self.redirect.payload.pc.eq(pc)]
        return pc

    def _issue(self, m: Module, pc: Value, leaves: Value) -> None:
        """What leaves: what was fetched, or something in its place."""
        left, done, kind = self.instruction.payload, self.completion, self._kind
        (fetched,), injected = self.group.payload.instructions, Mux(
            leaves, InstructionKind.LEAVE, InstructionKind.ENTER)
        m.d.comb += kind.eq(Mux(self._injected, injected, fetched.kind))
        pass_on(m, fetched, left, "word", "error", "constant", "constant_missing")
        for told in (left, done):
            m.d.comb += [told.warp.eq(self._warp), told.serial.eq(self._serial),
                         told.write_barrier.eq(NO_BARRIER), told.read_barrier.eq(NO_BARRIER)]
        m.d.comb += [
            self.instruction.valid.eq(self._selected | self._injected), left.kind.eq(kind), left.pc.eq(pc),
            left.quarter.eq(fetched.quarter & self._selected),
            done.valid.eq(self._selected & is_kind(kind, lambda rule: rule.silent and rule.unit is None))]
        self.last.write(m, self.instruction.valid, self._warp, pc)
        with m.If(self.instruction.valid):
            m.d.sync += self._under_way.eq(kind)
        m.d.sync += [
            Assert(~(self.launched.valid & self._runs.bit_select(self.launched.payload, 1)), "a warp begins that runs"),
            Assert(~(self.enter & self.leave).any(), "a warp enters the trap and leaves it")]

    def _operate(self, m: Module) -> None:
        """Operations of the instruction that is under way: of its unit alone. A gather is not taken in the first cycle
        in which it is offered, and nothing while the execute unit has one under way (``collecting``)."""
        client, offered, free = Signal(LaneClient), Signal(), Signal()
        for which, unit in _CLIENTS.items():
            with m.If(is_kind(self._under_way, lambda rule, unit=unit: rule.unit == unit)):
                m.d.comb += client.eq(which)
        m.d.comb += free.eq(self._busy & ~self.collecting)
        m.d.sync += offered.eq(~offered & free & Cat(
            getattr(self, f"gather_{which.value}").valid for which in GATHERING).any())
        for kind, out, those, takes in (
                ("gather", self.gather, GATHERING, offered & free), ("write", self.write, LaneClient, free)):
            chosen, taken, passes = out.payload, Signal(name=f"{kind}_taken"), Signal(name=f"{kind}_passes")
            kept = Signal.like(chosen.operation, name=f"{kind}_kept")
            m.d.sync += [passes.eq(taken), out.valid.eq(passes)]
            m.d.comb += [chosen.operation.eq(kept), chosen.client.eq(client), chosen.operation.warp.eq(self._warp),
                         chosen.operation.serial.eq(self._serial)]
            with m.Switch(client):
                for which in those:
                    stream = getattr(self, f"{kind}_{which.value}")
                    with m.Case(which):
                        m.d.comb += [stream.ready.eq(takes & ~(passes | out.valid)),
                                     taken.eq(stream.valid & stream.ready)]
                        with m.If(taken):
                            m.d.sync += kept.eq(stream.payload)

    def _tell(self, m: Module, choosing: Value) -> None:
        """What is counted, and for whoever looks on, why each warp does not issue."""
        happened, operates, busy = self.events, self.gather.valid | self.write.valid, self._busy
        m.d.sync += [
            happened.issued.eq(self._selected), happened.operation.eq(operates),
            happened.idle.eq(~self._selected & ~operates), happened.unit.eq(busy),
            happened.held.eq(choosing), happened.fetch.eq(~busy & ~choosing)]
        for warp, reason in enumerate(self.reasons):
            mine = self._warp == warp
            m.d.comb += reason.eq(WaitReason.READY)
            for holds, why in ((busy & ~mine, WaitReason.LANES), (busy & mine, WaitReason.DRAIN),
                               (~busy & mine & ~choosing, WaitReason.FETCH), (self.hold[warp], WaitReason.TRAP),
                               (self._waits[warp], WaitReason.RESUME), (~self._runs[warp], WaitReason.FLOW),
                               (~self.live[warp], WaitReason.NOT_LIVE)):
                with m.If(holds):
                    m.d.comb += reason.eq(why)
