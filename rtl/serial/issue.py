"""The issue unit of the serial machine: one instruction at a time, of all warps together."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES, NO_BARRIER
from rtl.issue.ports import unit_ports
from rtl.layouts import (
    SEQUENCE_BITS,
    InstructionKind,
    IssueEvents,
    LaneClient,
    Policy,
    WaitReason,
    completion,
    fetched_instruction,
    is_kind,
    issued,
    redirect,
)
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.structs import struct_value
from rtl.sweep import Sweep
from rtl.wires import IN_BLOCKS
from rtl.word import instruction_address
from rtl.words import Words

__all__ = ["SerialIssue"]

_ALIGNED_BITS = ceil_log2(INSTRUCTION_BYTES)
"""Lowest bits of a pc, which are 0."""
_PC_BITS = 32
_CLIENTS = {
    LaneClient.MEMORY: "memory",
    LaneClient.CONVERSION: "conversion",
    LaneClient.BARRIER: "barrier",
    LaneClient.FLOW: "flow",
}
"""The clients of the lanes, and the unit of each."""


class SerialIssue(Component):
    """Selects an instruction of some warp when the one before it has ended, and forwards the
    operations of its unit to the lanes. ::

        next warp
         +----+
         |    v
        SELECT_WARP --> FETCH --> AWAIT_GROUP --> BUSY --> NEXT --> SELECT_WARP
         |    ^                    |     |         ^         ^
         |    '---- cannot issue --'     '---------|---------'
         |                                         |  NOTHING, DEPENDENCY
         '-------------> INJECT -------------------'
                trap enter, leave

    An instruction has ended with its completion; one for the flow unit that has none, with its flow
    result; NOTHING and DEPENDENCY, in the cycle of their selection. So everything that a control
    code demands holds anyway: the instructions before are complete, and have released all
    registers. A warp that waits until a unit resumes it has nothing under way; others issue
    meanwhile.

    The warps are inspected one after the other. If a warp can issue, its next instruction is
    fetched, and is issued if the warp still can. The next warp follows after an instruction
    (ROUND_ROBIN), or after a flow result (GREEDY_THEN_OLDEST), so that a loop does not starve other
    warps; or as soon as the warp has to wait.

    Trap enter and leave are injected before the warp's next instruction. An instruction that has
    arrived is dropped, and fetched again later, if its warp can no longer issue, or in the cycle of
    a flow result: that of a launch is written to the pcs in the place of the warp's next pc.

    Members
    -------
    group, redirect
        See SerialFetch.
    claimed, room
        Of IssueUnit; 0 here: nothing is fetched that was not requested.
    collecting : In(1)
        The lanes process something, from the cycle after its arrival to its last one: no operation
        is accepted.
    launched, result, lanes, gathered, units, resume, rooms, control, policy
        See IssueUnit.
    completion, drained, events
        See IssueUnit.
    gather_0.., write_0.., gather, write
        See IssueUnit. An operation leaves two cycles after it was accepted.
    instruction : Out(Event of issued)
        In the cycle of its selection. It has no scoreboards.

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
        self._pcs = memory.Memory(
            shape=_PC_BITS - _ALIGNED_BITS, depth=max(warps, 2), init=[], attrs=IN_BLOCKS)
        """The address of each warp's next instruction."""
        self._running = Signal(warps)
        """Warps whose launch has its result, and that have not ended."""
        self._suspended = Signal(warps)
        """Warps that a unit is to resume."""
        self._warp = Signal(params.warp_bits)
        """The warp that is inspected, or that has an instruction under way."""
        self._sequence_number = Signal(SEQUENCE_BITS, name="sequence")
        self._pc = Signal(_PC_BITS)
        """The address of that warp's next instruction."""
        self._kind = Signal(InstructionKind)
        """Of what would be issued now."""
        self._kind_under_way = Signal(InstructionKind)
        """Of what was issued last."""
        self._ends_by_result = Signal()
        """That ends with a flow result."""
        self._has_room = Signal()
        """All units have."""
        self._can_issue = Signal()
        """The warp can issue an instruction."""
        self._needs_injection = Signal()
        """The warp has to enter the trap or to leave it."""
        self._leaves_trap = Signal()
        """Of these two, to leave it."""
        self._is_choosing = Signal()
        self._is_busy = Signal()
        """A warp is inspected; something is under way."""
        self._issues = Signal()
        """An instruction is issued."""
        self._injects = Signal()
        """A trap enter or leave is."""
        super().__init__(unit_ports(params, fetched_instruction(params)))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sweep = self.sweep
        m.submodules.last = self.last
        m.submodules.pcs = self._pcs
        m.d.comb += self._ends_by_result.eq(
            is_kind(self._kind_under_way, lambda rule: rule.silent and rule.unit is not None))
        self._follow_warps(m)
        self._inspect_warp(m)
        self._keep_pcs(m)
        self._issue(m)
        self._complete(m)
        self._forward_operations(m)
        self._sequence(m)
        self._count_events(m)
        self._give_reasons(m)
        self._promise(m)
        return m

    def _sequence(self, m: Module) -> None:
        """What happens when."""
        warp = self._warp
        with m.FSM() as states:
            with m.State("SELECT_WARP"):
                m.d.sync += self._leaves_trap.eq(self.control.leave.bit_select(warp, 1))
                with m.If(self._needs_injection):
                    m.next = "INJECT"
                with m.Elif(self._can_issue):
                    m.next = "FETCH"
                with m.Elif(self._has_room):
                    m.d.sync += warp.eq(warp + 1)
            with m.State("FETCH"):
                m.d.comb += self.redirect.valid.eq(1)
                m.next = "AWAIT_GROUP"
            with m.State("AWAIT_GROUP"), m.If(self.group.valid):
                m.d.comb += self._issues.eq(self._can_issue & ~self.result.valid)
                with m.If(~self._issues):
                    m.next = "SELECT_WARP"
                with m.Elif(self.completion.valid):
                    m.next = "NEXT"
                with m.Else():
                    m.next = "BUSY"
            with m.State("INJECT"):
                m.d.comb += self._injects.eq(1)
                m.next = "BUSY"
            with m.State("BUSY"):
                m.d.comb += self._is_busy.eq(1)
                with m.If(self._ends()):
                    m.next = "NEXT"
            with m.State("NEXT"):
                is_last_of_warp = self._ends_by_result | (self.policy == Policy.ROUND_ROBIN)
                m.d.sync += self._sequence_number.eq(self._sequence_number + 1)
                with m.If(is_last_of_warp):
                    m.d.sync += warp.eq(warp + 1)
                m.next = "SELECT_WARP"
        m.d.comb += self._is_choosing.eq(states.ongoing("SELECT_WARP"))

    def _ends(self) -> Value:
        """What is under way ends: with the flow result of its warp (there may be one of a launch of
        another warp), or with a completion, of whichever unit."""
        result = self.result
        has_result = result.valid & (result.payload.warp == self._warp)
        events = (self.lanes, *self.units)
        completes = Cat(event.valid & event.payload.completes for event in events)
        return Mux(self._ends_by_result, has_result, completes.any())

    def _follow_warps(self, m: Module) -> None:
        """Which warps live, run and wait. A flow result goes before all other events."""
        warps = self._params.warps
        result = self.result.payload
        is_suspending = is_kind(self._kind, lambda rule: rule.after == "resumed")
        launched = one_hot(self.launched.payload, warps, self.launched.valid)
        has_result = one_hot(result.warp, warps, self.result.valid)
        suspends = one_hot(self._warp, warps, self._issues & is_suspending)
        for warp in range(warps):
            with m.If(has_result[warp]):
                m.d.sync += self._running[warp].eq(~result.terminated)
                m.d.sync += self.control.live[warp].eq(~result.terminated)
            with m.Elif(launched[warp]):
                m.d.sync += self.control.live[warp].eq(1)
            with m.If(has_result[warp] | self.resume[warp]):
                m.d.sync += self._suspended[warp].eq(0)
            with m.Elif(suspends[warp]):
                m.d.sync += self._suspended[warp].eq(1)
        m.d.comb += self.control.taken.eq(one_hot(self._warp, warps, self._issues))
        m.d.comb += self.drained.eq(~one_hot(self._warp, warps, self._is_busy))

    def _inspect_warp(self, m: Module) -> None:
        """What the warp can do. All units need room, since it is not known yet which one executes
        the instruction."""
        warp = self._warp
        needs_injection = self._running & (self.control.enter | self.control.leave)
        can_issue = self._running & ~self._suspended & ~self.control.hold & ~needs_injection
        m.d.comb += self._has_room.eq(self.rooms.as_value().all())
        m.d.comb += self._needs_injection.eq(
            needs_injection.bit_select(warp, 1) & self._has_room)
        m.d.comb += self._can_issue.eq(can_issue.bit_select(warp, 1) & self._has_room)

    def _keep_pcs(self, m: Module) -> None:
        """The address of each warp's next instruction: a flow result's, or the one behind what was
        issued."""
        result = self.result
        read = self._pcs.read_port(domain="comb")
        stored = Signal(read.data.shape())
        m.d.comb += read.addr.eq(self._warp)
        m.d.sync += stored.eq(read.data)
        # What is stored may be the address of a group.
        m.d.comb += self._pc.eq(instruction_address(Cat(Const(0, _ALIGNED_BITS), stored)))
        m.d.comb += self.redirect.payload.eq(
            struct_value(redirect(self._params), warp=self._warp, pc=self._pc))

        write = self._pcs.write_port()
        with m.If(result.valid):
            m.d.comb += write.en.eq(1)
            m.d.comb += write.addr.eq(result.payload.warp)
            m.d.comb += write.data.eq(result.payload.pc[_ALIGNED_BITS:])
        with m.Else():
            m.d.comb += write.en.eq(self._issues)
            m.d.comb += write.addr.eq(self._warp)
            m.d.comb += write.data.eq(self._pc[_ALIGNED_BITS:] + 1)

    def _issue(self, m: Module) -> None:
        """The instruction that was fetched, or a trap enter or leave in its place."""
        fetched = self.group.payload.instructions[0]
        with m.If(~self._injects):
            m.d.comb += self._kind.eq(fetched.kind)
        with m.Elif(self._leaves_trap):
            m.d.comb += self._kind.eq(InstructionKind.LEAVE)
        with m.Else():
            m.d.comb += self._kind.eq(InstructionKind.ENTER)
        m.d.comb += self.instruction.valid.eq(self._issues | self._injects)
        m.d.comb += self.instruction.payload.eq(struct_value(
            issued(self._params), warp=self._warp, sequence=self._sequence_number, pc=self._pc,
            word=fetched.word, kind=self._kind, quarter=fetched.quarter & self._issues,
            error=fetched.error, constant=fetched.constant,
            constant_missing=fetched.constant_missing,
            write_barrier=NO_BARRIER, read_barrier=NO_BARRIER))
        self.last.write(m, self.instruction.valid, self._warp, self._pc)
        with m.If(self.instruction.valid):
            m.d.sync += self._kind_under_way.eq(self._kind)

    def _complete(self, m: Module) -> None:
        """NOTHING and DEPENDENCY, which no unit executes, are complete at once."""
        has_no_unit = is_kind(self._kind, lambda rule: rule.silent and rule.unit is None)
        m.d.comb += self.completion.valid.eq(self._issues & has_no_unit)
        m.d.comb += self.completion.payload.eq(struct_value(
            completion(self._params), warp=self._warp, sequence=self._sequence_number,
            write_barrier=NO_BARRIER, read_barrier=NO_BARRIER))

    def _forward_operations(self, m: Module) -> None:
        """Operations of the unit whose instruction is under way. None is accepted while the execute
        unit processes something, and a gather not in the first cycle in which it is offered."""
        client = Signal(LaneClient)
        for each, unit in _CLIENTS.items():
            with m.If(is_kind(self._kind_under_way, lambda rule, unit=unit: rule.unit == unit)):
                m.d.comb += client.eq(each)

        gathers = {
            LaneClient.MEMORY: self.gather_0,
            LaneClient.CONVERSION: self.gather_1,
        }
        writes = {
            LaneClient.MEMORY: self.write_0,
            LaneClient.CONVERSION: self.write_1,
            LaneClient.BARRIER: self.write_2,
            LaneClient.FLOW: self.write_3,
        }
        lanes_are_free = Signal()
        is_gather_offered = Cat(stream.valid for stream in gathers.values()).any()
        gather_was_offered = Signal()
        m.d.comb += lanes_are_free.eq(self._is_busy & ~self.collecting)
        m.d.sync += gather_was_offered.eq(
            ~gather_was_offered & lanes_are_free & is_gather_offered)
        m.d.comb += self.gather.payload.client.eq(client)
        m.d.comb += self.write.payload.client.eq(client)
        can_gather = gather_was_offered & lanes_are_free
        self._forward(m, "gather", client, gathers, can_gather, self.gather)
        self._forward(m, "write", client, writes, lanes_are_free, self.write)

    def _forward(self, m: Module, kind: str, client: Any, streams: dict[LaneClient, Any],
                 can_accept: Value, output: Any) -> None:
        """Operations of a kind: one is accepted from the client's stream, is in a register in the
        next cycle, and leaves in the one after that. Its warp and sequence number are those of the
        instruction under way."""
        operation = output.payload.operation
        accepts = Signal(name=f"accepts_{kind}")
        is_in_register = Signal(name=f"{kind}_is_in_register")
        register = Signal.like(operation, name=f"{kind}_register")
        has_room = ~(is_in_register | output.valid)
        m.d.sync += is_in_register.eq(accepts)
        m.d.sync += output.valid.eq(is_in_register)
        m.d.comb += operation.eq(register)
        m.d.comb += operation.warp.eq(self._warp)
        m.d.comb += operation.sequence.eq(self._sequence_number)
        with m.Switch(client):
            for each, stream in streams.items():
                with m.Case(each):
                    m.d.comb += stream.ready.eq(can_accept & has_room)
                    m.d.comb += accepts.eq(stream.valid & stream.ready)
                    with m.If(accepts):
                        m.d.sync += register.eq(stream.payload)

    def _count_events(self, m: Module) -> None:
        """What happened in the cycle before."""
        is_operation = self.gather.valid | self.write.valid
        m.d.sync += self.events.eq(struct_value(
            IssueEvents, issued=self._issues, operation=is_operation,
            idle=~self._issues & ~is_operation, stall=0, scoreboard=0, lanes=0,
            unit=self._is_busy, fetch=~self._is_busy & ~self._is_choosing,
            held=self._is_choosing))

    def _give_reasons(self, m: Module) -> None:
        """For observers: why each warp does not issue."""
        is_fetching = ~self._is_busy & ~self._is_choosing
        for warp, reason in enumerate(self.reasons):
            is_current = self._warp == warp
            with m.If(~self.control.live[warp]):
                m.d.comb += reason.eq(WaitReason.NOT_LIVE)
            with m.Elif(~self._running[warp]):
                m.d.comb += reason.eq(WaitReason.FLOW)
            with m.Elif(self._suspended[warp]):
                m.d.comb += reason.eq(WaitReason.RESUME)
            with m.Elif(self.control.hold[warp]):
                m.d.comb += reason.eq(WaitReason.TRAP)
            with m.Elif(is_current & is_fetching):
                m.d.comb += reason.eq(WaitReason.FETCH)
            with m.Elif(is_current & self._is_busy):
                m.d.comb += reason.eq(WaitReason.DRAIN)
            with m.Elif(self._is_busy):
                m.d.comb += reason.eq(WaitReason.LANES)
            with m.Else():
                m.d.comb += reason.eq(WaitReason.READY)

    def _promise(self, m: Module) -> None:
        """What the other units promise this one."""
        is_running = self._running.bit_select(self.launched.payload, 1)
        m.d.sync += Assert(
            ~(self.launched.valid & is_running), "a warp is launched that runs")
        m.d.sync += Assert(
            ~(self.control.enter & self.control.leave).any(),
            "a warp enters the trap and leaves it")
