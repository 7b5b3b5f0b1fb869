"""The front end: what decides which instruction of which warp is next, and what becomes of errors and traps."""

from functools import partial
from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.barrier import BarrierUnit
from rtl.component import Component
from rtl.control_flow import ControlFlow
from rtl.error_status import ErrorStatus
from rtl.flow import FlowQueue
from rtl.isa.barriers import BARRIERS
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.trap_status import WarpStatus
from rtl.issue import COMPLETING, IssueEvents, IssueUnit
from rtl.layouts import (
    BLOCK_ADDRESS_BITS,
    ERROR_SOURCES,
    Event,
    FlowOperation,
    KindRule,
    LaneClient,
    LaneClientPort,
    MemoryPort,
    RegisterAccess,
    StackEvents,
    TrapCommand,
    TrapStatus,
    completion,
    dispatched,
    error_event,
    flow_launch,
    flow_result,
    is_kind,
    scoreboard_event,
    warp_launch,
)
from rtl.params import SmParams
from rtl.trap import TrapUnit

__all__ = ["FrontEnd", "takes"]

_OUTSIDE = ("lanes", "memory", "conversion")
"""Sources of errors that are no part of it."""
_OF_ISSUE = ("group", "claimed", "room", "redirect", "lanes", "collecting", "policy", "instruction", "operation",
             "completion", "drained", "reasons",
             *(f"operation_{client.value}" for client in LaneClient if client is not LaneClient.BARRIER))
_OF_BARRIER = ("gathered", "wanted", "values", "flags", "conditions")


def takes(unit: str, kind: Any) -> Any:
    """Whether a unit is given instructions of a kind."""
    def given(rule: KindRule, unit: str) -> bool:
        return rule.unit == unit or (rule.injected and unit == "trap")
    return is_kind(kind, partial(given, unit=unit))


class FrontEnd(Component):
    """Issue, flow unit, call/return stack, barriers, traps, and the error status.

    Members
    -------
    group, claimed, room, redirect, lanes, collecting, policy, instruction, operation, completion, drained, reasons,
    operation_0..
        See IssueUnit. The barrier unit's operations are inside.
    memory_complete, conversion_complete : In(Event of scoreboard_event)
        See IssueUnit's ``units``.
    memory_room, conversion_room : In(1)
        The units can take 5 instructions more than they were given.
    dispatch : In(Event of dispatched)
        Of flow unit, barrier unit and trap unit; what is for others is left alone.
    launch, flow_launch : In(Event of warp_launch), In(stream of flow_launch)
        A warp is started, and its threads begin.
    result : Out(Event of flow_result)
        How a warp goes on.
    local_base : Out(Event of warp and base)
        A SETLMEMBASE is executed.
    stack_memory : Out(MemoryPort)
    gathered, wanted, values, flags, conditions
        Of the barrier unit's LaneClientPort.
    barriers : In
        See BarrierUnit.
    waiting, withdrawn : Out(warps), Out(valid and warp)
        Warps at a barrier; a warp's arrival has been taken back.
    command, starting : In(TrapCommand), In(1)
        See TrapUnit.
    status_warp, warp_status, all_status, forget, forget_warp
        What S2R reads, see TrapUnit.
    trap_state : Out(TrapStatus)
    lanes_error, memory_error, conversion_error : In(error_event)
    errors : Out(array of error_event), by ERROR_SOURCES
    barrier_completion, trap_completion : Out(completion)
    report_mask, interrupt, error_status : Out(32), Out(1), Out(RegisterAccess)
        See ErrorStatus.
    issue_events, stack_events, diverged : Out
        For counters.
    """

    def __init__(self, params: SmParams) -> None:
        self.issue = issue = IssueUnit(params)
        self.queue = FlowQueue(params)
        self.control_flow = ControlFlow(params)
        self.barrier = BarrierUnit(params)
        self.trap = TrapUnit(params)
        self.status = ErrorStatus(params, len(ERROR_SOURCES))
        bits, members = params.warp_bits, issue.signature.members
        port: Any = LaneClientPort(params).members
        super().__init__({
            **{name: members[name] for name in _OF_ISSUE}, **{name: port[name] for name in _OF_BARRIER},
            **{f"{name}_error": In(error_event(params)) for name in _OUTSIDE},
            "memory_complete": In(Event(scoreboard_event(params))),
            "conversion_complete": In(Event(scoreboard_event(params))),
            "memory_room": In(1), "conversion_room": In(1), "dispatch": In(Event(dispatched(params))),
            "launch": In(Event(warp_launch(params))), "flow_launch": In(stream.Signature(flow_launch(params))),
            "result": Out(Event(flow_result(params))),
            "local_base": Out(Event(data.StructLayout({"warp": bits, "base": BLOCK_ADDRESS_BITS}))),
            "stack_memory": Out(MemoryPort(bits)), "barriers": In(range(BARRIERS + 1)), "waiting": Out(params.warps),
            "withdrawn": Out(data.StructLayout({"valid": 1, "warp": bits})), "command": In(TrapCommand(params)),
            "starting": In(1), "status_warp": In(bits), "warp_status": Out(WarpStatus), "all_status": Out(32),
            "forget": In(1), "forget_warp": In(bits), "trap_state": Out(TrapStatus(params)),
            "errors": Out(data.ArrayLayout(error_event(params), len(ERROR_SOURCES))),
            "barrier_completion": Out(completion(params)), "trap_completion": Out(completion(params)),
            "report_mask": Out(32), "interrupt": Out(1), "error_status": Out(RegisterAccess()),
            "issue_events": Out(IssueEvents), "stack_events": Out(StackEvents), "diverged": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ("issue", "queue", "control_flow", "barrier", "trap", "status"):
            m.submodules[name] = getattr(self, name)
        self._pass(m, self.issue, _OF_ISSUE)
        self._pass(m, self.barrier.port, _OF_BARRIER)
        self._dispatch(m)
        self._complete(m)
        self._flow(m)
        self._trap(m)
        self._errors(m)
        return m

    def _pass(self, m: Module, inner: Any, names: tuple[str, ...]) -> None:
        """Joins ports of the same names, here and inside."""
        for name in names:
            member, here, there = inner.signature.members[name], getattr(self, name), getattr(inner, name)
            if member.is_signature:
                connect(m, flipped(here), there)
            else:
                m.d.comb += there.eq(here) if member.flow is In else here.eq(there)

    def _dispatch(self, m: Module) -> None:
        """Instructions, to their units."""
        rooms, given = self.issue.rooms, self.dispatch
        for name, unit in (("flow", self.queue), ("barrier", self.barrier), ("trap", self.trap)):
            m.d.comb += [
                unit.dispatch.valid.eq(given.valid & takes(name, given.payload.kind)),
                unit.dispatch.payload.eq(given.payload), rooms[name].eq(unit.room)]
        m.d.comb += [rooms.memory.eq(self.memory_room), rooms.conversion.eq(self.conversion_room)]
        connect(m, self.barrier.port.operation, self.issue.operations[LaneClient.BARRIER.value])
        for unit in (self.barrier, self.trap):
            m.d.comb += [unit.launch.valid.eq(self.launch.valid), unit.launch.payload.eq(self.launch.payload)]

    def _complete(self, m: Module) -> None:
        """What lowers scoreboards, and what lets warps go on."""
        completed, read = self.barrier.completion, self.barrier.operands_read
        units = dict(zip(COMPLETING, self.issue.units, strict=True))
        connect(m, flipped(self.memory_complete), units["memory"])
        connect(m, flipped(self.conversion_complete), units["conversion"])
        event = units["barrier"].payload
        m.d.comb += [units["barrier"].valid.eq(completed.valid | read.valid), event.completes.eq(completed.valid)]
        m.d.comb += [event[name].eq(completed[name]) for name in ("warp", "write_barrier", "read_barrier")]
        with m.If(read.valid):
            m.d.comb += [
                event.warp.eq(read.warp), event.write_barrier.eq(NO_BARRIER), event.read_barrier.eq(read.barrier)]
        m.d.comb += [
            self.issue.resume.eq(self.barrier.resume | self.trap.resume),
            self.barrier_completion.eq(completed), self.trap_completion.eq(self.trap.completion),
            self.issue_events.eq(self.issue.events)]

    def _flow(self, m: Module) -> None:
        """Branches and stacks; what comes back says how a warp goes on."""
        flow, asked, launch = self.control_flow, self.queue.request, self.flow_launch
        connect(m, asked, flow.request)
        connect(m, flipped(launch), flow.launch)
        connect(m, flow.port, flipped(self.stack_memory))
        connect(m, flow.result, flipped(self.result))
        connect(m, flow.result, self.issue.result)
        sets = asked.payload.instruction.operation == FlowOperation.SET_BASE
        m.d.comb += [
            self.local_base.valid.eq(asked.valid & asked.ready & sets),
            self.local_base.payload.warp.eq(asked.payload.warp), self.local_base.payload.base.eq(asked.payload.operand),
            self.issue.launched.valid.eq(launch.valid & launch.ready),
            self.issue.launched.payload.eq(launch.payload.warp),
            self.barrier.terminated.eq(flow.result.valid & flow.result.payload.terminated),
            self.barrier.terminated_warp.eq(flow.result.payload.warp), self.barrier.barriers.eq(self.barriers),
            self.stack_events.eq(flow.events), self.diverged.eq(flow.diverged)]

    def _trap(self, m: Module) -> None:
        """Who traps, and what that means for the others."""
        trap, issue, barrier, result = self.trap, self.issue, self.barrier, self.control_flow.result
        self._pass(m, trap, ("command", "starting", "status_warp", "all_status", "forget", "forget_warp"))
        m.d.comb += [
            self.warp_status.eq(trap.status), self.trap_state.eq(trap.state), trap.live.eq(issue.live),
            trap.taken.eq(issue.taken), trap.drained.eq(issue.drained), trap.result_valid.eq(result.valid),
            trap.result_warp.eq(result.payload.warp), trap.result_error.eq(result.payload.error),
            trap.errors.eq(self.errors), self.queue.trap.eq(trap.flow), issue.hold.eq(trap.hold),
            issue.enter.eq(trap.enter), issue.leave.eq(trap.leave), trap.waiting.eq(barrier.waiting),
            barrier.withdraw.eq(trap.withdraw), trap.withdrawn.eq(barrier.withdrawn), barrier.inside.eq(trap.inside),
            self.withdrawn.eq(barrier.withdrawn), self.waiting.eq(barrier.waiting | barrier.meeting)]

    def _errors(self, m: Module) -> None:
        """All errors, to the trap unit and to the host."""
        flow, status, mask = self.control_flow, self.status, self.status.report_mask
        errors: dict[str, Any] = {name: getattr(self, f"{name}_error") for name in _OUTSIDE}
        errors |= {"barrier": self.barrier.error, "trap": self.trap.error}
        for name, error in zip(ERROR_SOURCES, list(self.errors), strict=True):
            if name == "stack":
                m.d.comb += [
                    error.valid.eq(flow.write_fault.valid & mask.bit_select(WarpError.MMU_FAULT.value, 1)),
                    error.warp.eq(flow.write_fault.payload), error.error.eq(WarpError.MMU_FAULT)]
            elif name == "flow":
                result = flow.result.payload
                m.d.comb += [error[each].eq(result[each]) for each in ("warp", "pc", "error")]
                m.d.comb += error.valid.eq(flow.result.valid & (result.error != WarpError.NONE))
            else:
                m.d.comb += error.eq(errors[name])
        for unit in (self.barrier, self.trap, flow):
            m.d.comb += unit.report_mask.eq(mask)
        connect(m, flipped(self.error_status), status.access)
        m.d.comb += [
            status.errors.eq(self.errors), status.report.eq(self.trap.report), status.events.eq(self.trap.events),
            self.report_mask.eq(mask), self.interrupt.eq(status.interrupt)]
