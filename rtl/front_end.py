"""The front end: what decides which instruction of which warp is next, and what becomes of errors and traps."""

from functools import partial
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.barrier import BarrierUnit
from rtl.component import Component, members_of
from rtl.control_flow import ControlFlow
from rtl.error_status import ErrorStatus
from rtl.flow import FlowQueue
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.issue import IssueUnit
from rtl.layouts import (
    BLOCK_ADDRESS_BITS,
    COMPLETING,
    ERROR_SOURCES,
    Event,
    FlowOperation,
    KindRule,
    LaneClient,
    LaneClientPort,
    completion,
    dispatched,
    error_event,
    is_kind,
    scoreboard_event,
    warp_launch,
)
from rtl.params import SmParams
from rtl.trap import TrapUnit

__all__ = ["FrontEnd", "takes"]

_OUTSIDE = ("lanes", "memory", "conversion")
"""Sources of errors that are no part of it."""
_LATE = ("flow", "barrier", "stack")
"""Sources that know of an error late in a cycle."""
_OF_ISSUE = ("group", "claimed", "room", "redirect", "lanes", "collecting", "policy", "instruction", "operation",
             "completion", "drained", "reasons",
             *(f"operation_{client.value}" for client in LaneClient if client is not LaneClient.BARRIER))
_OF_BARRIER = ("gathered", "wanted", "values", "flags", "conditions")
_OF_TRAP = ("command", "status_warp", "all_status", "forget", "forget_warp")
_OF_STATUS = ("report_mask", "interrupt")
_NAMED = {
    "issue": {"issue_events": "events"}, "trap": {"warp_status": "status", "trap_state": "state"},
    "status": {"error_status": "access"},
    "control_flow": {"flow_launch": "launch", "stack_memory": "port", "stack_events": "events"}}
"""Ports of parts that have another name there."""


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
    gathered, wanted, values, flags, conditions
        Of the barrier unit's LaneClientPort.
    command, starting, status_warp, warp_status, all_status, forget, forget_warp, trap_state
        See TrapUnit.
    error_status, report_mask, interrupt
        See ErrorStatus.
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
    barriers : In
        See BarrierUnit.
    waiting, withdrawn : Out(warps), Out(valid and warp)
        Warps at a barrier; a warp's arrival has been taken back.
    lanes_error, memory_error, conversion_error : In(error_event)
    errors : Out(array of error_event), by ERROR_SOURCES
    barrier_completion, trap_completion : Out(completion)
    issue_events, stack_events, diverged : Out
        For counters.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self.issue = IssueUnit(params)
        self.queue = FlowQueue(params)
        self.control_flow = ControlFlow(params)
        self.barrier = barrier = BarrierUnit(params)
        self.trap = TrapUnit(params)
        self.status = ErrorStatus(params, len(ERROR_SOURCES))
        port: Any = LaneClientPort(params).members
        base = data.StructLayout({"warp": params.warp_bits, "base": BLOCK_ADDRESS_BITS})
        super().__init__({
            **members_of(self.issue, *_OF_ISSUE), **members_of(self.trap, "starting", *_OF_TRAP),
            **members_of(self.status, *_OF_STATUS), **{name: port[name] for name in _OF_BARRIER},
            **members_of(barrier, "barriers", "waiting", "withdrawn"),
            **{f"{name}_error": In(error_event(params)) for name in _OUTSIDE},
            **{f"{name}_complete": In(Event(scoreboard_event(params))) for name in ("memory", "conversion")},
            **{f"{name}_room": In(1) for name in ("memory", "conversion")},
            **{f"{name}_completion": Out(completion(params)) for name in ("barrier", "trap")},
            **members_of(self.control_flow, "result", "diverged"),
            **{own: member for part, names in _NAMED.items()
               for own, member in members_of(getattr(self, part), **names).items()},
            "dispatch": In(Event(dispatched(params))), "launch": In(Event(warp_launch(params))),
            "local_base": Out(Event(base)),
            "errors": Out(data.ArrayLayout(error_event(params), len(ERROR_SOURCES)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ("issue", "queue", "control_flow", "barrier", "trap", "status"):
            m.submodules[name] = getattr(self, name)
        for part, names in _NAMED.items():
            self.join(m, getattr(self, part), **names)
        self.join(m, self.control_flow, "result", "diverged")
        self.join(m, self.issue, *_OF_ISSUE)
        self.join(m, self.trap, *_OF_TRAP)
        self.join(m, self.status, *_OF_STATUS)
        self.join(m, self.barrier, "barriers", "withdrawn")
        port = self.barrier.port
        m.d.comb += [port.gathered.eq(self.gathered), port.wanted.eq(self.wanted)]
        m.d.comb += [getattr(self, name).eq(getattr(port, name)) for name in ("values", "flags", "conditions")]
        connect(m, port.operation, self.issue.operations[LaneClient.BARRIER.value])
        self._dispatch(m)
        self._complete(m)
        self._flow(m)
        self._trap(m)
        self._errors(m)
        return m

    def _dispatch(self, m: Module) -> None:
        """Instructions, to their units."""
        rooms, given = self.issue.rooms, self.dispatch
        for name, unit in (("flow", self.queue), ("barrier", self.barrier), ("trap", self.trap)):
            m.d.comb += [
                unit.dispatch.valid.eq(given.valid & takes(name, given.payload.kind)),
                unit.dispatch.payload.eq(given.payload), rooms[name].eq(unit.room)]
        m.d.comb += [rooms.memory.eq(self.memory_room), rooms.conversion.eq(self.conversion_room)]
        for unit in (self.barrier, self.trap):
            m.d.comb += [unit.launch.valid.eq(self.launch.valid), unit.launch.payload.eq(self.launch.payload)]

    def _complete(self, m: Module) -> None:
        """What lowers scoreboards, and what lets warps go on."""
        completed, read = self.barrier.completion, self.barrier.operands_read
        units = dict(zip(COMPLETING, self.issue.units, strict=True))
        for name in ("memory", "conversion"):
            connect(m, flipped(getattr(self, f"{name}_complete")), units[name])
        event = units["barrier"].payload
        m.d.comb += [units["barrier"].valid.eq(completed.valid | read.valid), event.completes.eq(completed.valid)]
        m.d.comb += [event[name].eq(completed[name]) for name in ("warp", "write_barrier", "read_barrier")]
        with m.If(read.valid):
            m.d.comb += [
                event.warp.eq(read.warp), event.write_barrier.eq(NO_BARRIER), event.read_barrier.eq(read.barrier)]
        m.d.comb += [
            self.issue.resume.eq(self.barrier.resume | self.trap.resume), self.barrier_completion.eq(completed),
            self.trap_completion.eq(self.trap.completion)]

    def _flow(self, m: Module) -> None:
        """Branches and stacks; what comes back says how a warp goes on."""
        asked, launch, result = self.queue.request, self.flow_launch, self.control_flow.result
        connect(m, asked, self.control_flow.request)
        connect(m, result, self.issue.result)
        sets = asked.payload.instruction.operation == FlowOperation.SET_BASE
        m.d.comb += [
            self.local_base.valid.eq(asked.valid & asked.ready & sets),
            self.local_base.payload.warp.eq(asked.payload.warp), self.local_base.payload.base.eq(asked.payload.operand),
            self.barrier.terminated.eq(result.valid & result.payload.terminated),
            self.barrier.terminated_warp.eq(result.payload.warp)]
        # That a flow_launch was taken is known late in the cycle, and not needed before its result. So the warp lives a
        # cycle later.
        m.d.sync += [
            self.issue.launched.valid.eq(launch.valid & launch.ready),
            self.issue.launched.payload.eq(launch.payload.warp)]

    def _trap(self, m: Module) -> None:
        """Who traps, and what that means for the others."""
        trap, issue, barrier, result = self.trap, self.issue, self.barrier, self.control_flow.result
        m.d.comb += [
            trap.live.eq(issue.live), trap.taken.eq(issue.taken),
            trap.starting.eq(self.starting | issue.launched.valid),
            *(getattr(issue, name).eq(getattr(trap, name)) for name in ("hold", "enter", "leave")),
            self.queue.trap.eq(trap.flow), trap.waiting.eq(barrier.waiting),
            barrier.withdraw.eq(trap.withdraw), trap.withdrawn.eq(barrier.withdrawn), barrier.inside.eq(trap.inside),
            self.waiting.eq(barrier.waiting | barrier.meeting)]
        # That nothing is in flight may be known later, but never before an instruction is under way. The trap unit
        # hears of flow results when it hears of their errors.
        m.d.sync += [
            trap.drained.eq(issue.drained & ~issue.taken), trap.result.valid.eq(result.valid),
            trap.result.payload.eq(result.payload)]

    def _errors(self, m: Module) -> None:
        """All errors, to the trap unit and to the host. Some are told a cycle later: their warp is held anyway, or
        still on its way to where it goes on."""
        flow, status = self.control_flow, self.status
        errors: dict[str, Any] = {name: getattr(self, f"{name}_error") for name in _OUTSIDE}
        errors |= {"barrier": self.barrier.error, "trap": self.trap.error}
        for number, (name, error) in enumerate(zip(ERROR_SOURCES, list(self.errors), strict=True)):
            if name == "stack":
                m.d.comb += [
                    error.valid.eq(flow.write_fault.valid & status.report_mask[WarpError.MMU_FAULT.value]),
                    error.warp.eq(flow.write_fault.payload), error.error.eq(WarpError.MMU_FAULT)]
            elif name == "flow":
                result = flow.result.payload
                m.d.comb += [error[each].eq(result[each]) for each in ("warp", "pc", "error")]
                m.d.comb += error.valid.eq(flow.result.valid & (result.error != WarpError.NONE))
            else:
                m.d.comb += error.eq(errors[name])
            told = error
            if name in _LATE:
                told = Signal.like(error, name=f"{name}_error_late")
                m.d.sync += told.eq(error)
            m.d.comb += [self.trap.errors[number].eq(told), status.errors[number].eq(told)]
        for unit in (self.barrier, self.trap, flow):
            m.d.comb += unit.report_mask.eq(status.report_mask)
        m.d.comb += [status.report.eq(self.trap.report), status.events.eq(self.trap.events)]
