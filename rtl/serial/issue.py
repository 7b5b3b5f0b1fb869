"""The issue unit of the serial machine: one instruction in flight in the whole machine."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES, NO_BARRIER
from rtl.issue.ports import unit_ports
from rtl.layouts import (
    GATHERING,
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
"""Number of low bits of a pc that are always 0."""
_PC_BITS = 32
_CLIENTS = {
    LaneClient.MEMORY: "memory",
    LaneClient.CONVERSION: "conversion",
    LaneClient.BARRIER: "barrier",
    LaneClient.FLOW: "flow",
}
"""The unit of each client of the lanes, as named by the rules of instruction kinds."""


class SerialIssue(Component):
    """Issues one warp's next instruction when no instruction of any warp is in flight. While one is
    in flight, forwards the lane operations of its unit to the lanes. ::

        next warp
         +----+
         |    v
        SELECT_WARP --> FETCH --> AWAIT_GROUP --> BUSY --> NEXT --> SELECT_WARP
         |    ^                    |     |         ^         ^
         |    '---- cannot issue --'     '---------|---------'
         |                                         |  NOTHING, DEPENDENCY
         '-------------> INJECT -------------------'
                trap enter, leave

    ===========  =============  ===============================================================
    state        cycles         action
    ===========  =============  ===============================================================
    SELECT_WARP  1 a warp       decides whether the warp issues, is injected into, or is skipped
    FETCH        1              sends the warp's pc to fetch, as a redirect
    AWAIT_GROUP  until group    issues the instruction in the cycle of ``group``, or drops it
    INJECT       1              issues a trap enter or leave
    BUSY         until the end  forwards lane operations
    NEXT         1              increments the sequence number; selects the next warp
    ===========  =============  ===============================================================

    A NOTHING or DEPENDENCY instruction ends in the cycle in which it is issued. PUSH, FLOW,
    FLOW_INDEXED, ENTER and LEAVE end with their flow result, all others with their completion. At
    that time all effects of the instruction are complete and all its registers are read, so control
    codes are ignored: no stall count, scoreboard or wait mask has an effect. A BARRIER or TRAP
    instruction suspends its warp until ``resume``. A suspended warp has no instruction in flight,
    and other warps issue.

    Warps are selected in ascending order. In SELECT_WARP a warp that cannot issue is skipped. While
    a unit has no room, no warp is skipped and none issues. The warp changes after each instruction
    (ROUND_ROBIN), or after each instruction that ends with a flow result (GREEDY_THEN_OLDEST), so
    that a loop does not starve other warps.

    A hold, or a trap that a warp is to enter or leave, does not affect the instruction in flight.
    A trap enter or leave has priority over the warp's next instruction. In AWAIT_GROUP the
    instruction is dropped, and fetched again later, in two cases: the warp can no longer issue
    (hold, trap enter or leave, no room); or a flow result arrives in the same cycle. Such a flow
    result belongs to a launch of another warp, and uses the only write port of the pcs.

    After a reset no warp is live. A warp's pc is undefined until the flow result of its launch.

    Members
    -------
    group, redirect
        See SerialFetch.
    claimed, room
        Not used; ``room`` is 0. Fetch delivers only groups that were requested by ``redirect``.
    collecting : In(1)
        The execute unit processes an instruction or operation: 1 from the cycle after its arrival
        to its last cycle. Until then no operation is accepted.
    launched, result, lanes, gathered, units, resume, rooms, control, policy
        See IssueUnit.
    completion, drained, events
        See IssueUnit.
    gather_offers, write_offers, gather, write
        See IssueUnit. ``gather`` or ``write`` is valid two cycles after the operation was accepted.
    instruction : Out(Event of issued)
        Valid in the cycle of ``group``, or in INJECT. Its scoreboards are NO_BARRIER.

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
        """One bit a warp: set by the flow result of its launch, cleared when it terminates."""
        self._suspended = Signal(warps)
        """One bit a warp: set when a BARRIER or TRAP instruction issues, cleared by ``resume`` or a
        flow result."""
        self._warp = Signal(params.warp_bits)
        """The selected warp. It does not change while its instruction is in flight."""
        self._sequence_number = Signal(SEQUENCE_BITS, name="sequence")
        """The sequence number of the instruction in flight, or of the next one."""
        self._pc = Signal(_PC_BITS)
        """The address of the selected warp's next instruction: valid one cycle after a change of
        the warp, two cycles after a write of its pc."""
        self._kind = Signal(InstructionKind)
        """The kind of the instruction in ``group``, or of the trap enter or leave in INJECT."""
        self._issued_kind = Signal(InstructionKind)
        """The kind of the instruction that was issued last."""
        self._ends_by_result = Signal()
        """The instruction that was issued last ends with a flow result, not with a completion."""
        self._has_room = Signal()
        """All units have room."""
        self._can_issue = Signal()
        """The selected warp can issue an instruction."""
        self._needs_injection = Signal()
        """The selected warp has to enter or leave the trap, and all units have room."""
        self._leaves_trap = Signal()
        """If it needs an injection: the warp leaves the trap."""
        self._is_selecting = Signal()
        """The state is SELECT_WARP."""
        self._is_busy = Signal()
        """The state is BUSY: an instruction is in flight."""
        self._issues = Signal()
        """An instruction is issued in this cycle."""
        self._injects = Signal()
        """A trap enter or leave is issued in this cycle."""
        super().__init__(unit_ports(params, fetched_instruction(params)))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sweep = self.sweep
        m.submodules.last = self.last
        m.submodules.pcs = self._pcs
        m.d.comb += self._ends_by_result.eq(
            is_kind(self._issued_kind, lambda rule: rule.silent and rule.unit is not None))
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
        """The states."""
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
        m.d.comb += self._is_selecting.eq(states.ongoing("SELECT_WARP"))

    def _ends(self) -> Value:
        """The instruction in flight ends: with the flow result of its warp, or with a completion of
        the lanes or of any unit. A flow result of another warp belongs to a launch."""
        result = self.result
        has_result = result.valid & (result.payload.warp == self._warp)
        events = (self.lanes, *self.units)
        completes = Cat(event.valid & event.payload.completes for event in events)
        return Mux(self._ends_by_result, has_result, completes.any())

    def _follow_warps(self, m: Module) -> None:
        """Which warps are live, running and suspended. For one warp, a flow result has priority
        over ``launched``; a flow result or ``resume`` has priority over suspension."""
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
        """Whether the selected warp can issue. All units must have room, since the kind of the
        instruction is not known before it is fetched."""
        warp = self._warp
        needs_injection = self._running & (self.control.enter | self.control.leave)
        can_issue = self._running & ~self._suspended & ~self.control.hold & ~needs_injection
        m.d.comb += self._has_room.eq(self.rooms.as_value().all())
        m.d.comb += self._needs_injection.eq(
            needs_injection.bit_select(warp, 1) & self._has_room)
        m.d.comb += self._can_issue.eq(can_issue.bit_select(warp, 1) & self._has_room)

    def _keep_pcs(self, m: Module) -> None:
        """Writes the warp's next pc: a flow result's, or the address after the issued instruction.
        A flow result has priority; no instruction issues in its cycle."""
        result = self.result
        read = self._pcs.read_port(domain="comb")
        stored = Signal(read.data.shape())
        m.d.comb += read.addr.eq(self._warp)
        m.d.sync += stored.eq(read.data)
        # A flow result may have the address of a group, whose first word is the control word.
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
        """Issues the fetched instruction, or a trap enter or leave."""
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
            m.d.sync += self._issued_kind.eq(self._kind)

    def _complete(self, m: Module) -> None:
        """Completes NOTHING and DEPENDENCY, which no unit executes, in the cycle of their issue."""
        has_no_unit = is_kind(self._kind, lambda rule: rule.silent and rule.unit is None)
        m.d.comb += self.completion.valid.eq(self._issues & has_no_unit)
        m.d.comb += self.completion.payload.eq(struct_value(
            completion(self._params), warp=self._warp, sequence=self._sequence_number,
            write_barrier=NO_BARRIER, read_barrier=NO_BARRIER))

    def _forward_operations(self, m: Module) -> None:
        """Forwards operations of the unit whose instruction is in flight. None is accepted while
        the execute unit is ``collecting``. A gather is accepted one cycle after it is first offered
        or later: its payload is valid from then on, see LaneClientPort."""
        client = Signal(LaneClient)
        for each, unit in _CLIENTS.items():
            with m.If(is_kind(self._issued_kind, lambda rule, unit=unit: rule.unit == unit)):
                m.d.comb += client.eq(each)

        gathers: dict[LaneClient, Any] = dict(zip(GATHERING, self.gather_offers, strict=True))
        writes: dict[LaneClient, Any] = dict(zip(LaneClient, self.write_offers, strict=True))
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
        """Forwards gathers or writes: an operation that is accepted from the client's stream is in
        a register in the next cycle, and ``output`` is valid in the cycle after that. Its warp and
        sequence number are taken from the instruction in flight."""
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
        """Events of the previous cycle, for counters."""
        is_operation = self.gather.valid | self.write.valid
        m.d.sync += self.events.eq(struct_value(
            IssueEvents, issued=self._issues, operation=is_operation,
            idle=~self._issues & ~is_operation, stall=0, scoreboard=0, lanes=0,
            unit=self._is_busy, fetch=~self._is_busy & ~self._is_selecting,
            held=self._is_selecting))

    def _give_reasons(self, m: Module) -> None:
        """For waveforms and tests: why each warp does not issue."""
        is_fetching = ~self._is_busy & ~self._is_selecting
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
        """Assertions about the inputs."""
        is_running = self._running.bit_select(self.launched.payload, 1)
        m.d.sync += Assert(
            ~(self.launched.valid & is_running), "a warp is launched that runs")
        m.d.sync += Assert(
            ~(self.control.enter & self.control.leave).any(),
            "a warp enters the trap and leaves it")
