"""The front end: what decides which instruction of which warp is next, and what becomes of errors and traps."""

from functools import partial
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect

from rtl.barrier import BarrierUnit
from rtl.component import Component, members_of, pass_on, ports
from rtl.error_status import ErrorStatus
from rtl.flow import FlowQueue
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.issue import OPERATIONS, issue_unit
from rtl.layouts import (
    BLOCK_ADDRESS_BITS,
    COMPLETING,
    ERROR_SOURCES,
    Event,
    FlowOperation,
    KindRule,
    LaneClient,
    LaneWriterPort,
    completion,
    dispatched,
    error_event,
    is_kind,
)
from rtl.params import SmParams
from rtl.trap import TrapUnit

from .control_flow import ControlFlow

__all__ = ["FrontEnd", "give"]

_OUTSIDE = ("lanes", "memory", "conversion")
"""Sources of errors that are no part of it."""
_UNITS = ("memory", "conversion")
"""Units that are no part of it."""
_LATE = ("flow", "barrier", "stack")
"""Sources that know of an error late in a cycle."""
_OF_LANES = ("wanted", "values", "flags", "conditions")
_BARRIER_WRITE = f"write_{LaneClient.BARRIER.value}"
_OPERATIONS = tuple(name for name in OPERATIONS if name != _BARRIER_WRITE)


_PORTS = {
    "issue": ports("group", "claimed", "room", "redirect", "lanes", "gathered", "collecting", "policy", "instruction",
                   "gather", "write", "completion", "drained", *_OPERATIONS, issue_events="events"),
    "control_flow": ports("result", "diverged", flow_launch="launch", stack_memory="port", stack_events="events"),
    "barrier": ports("launch", "barriers", "withdrawn", barrier_completion="completion"),
    "trap": ports("command", "status_warp", "all_status", "clear_status", warp_status="status", trap_state="state",
                  trap_completion="completion"),
    "status": ports("report_mask", "interrupt", error_status="access")}
"""Ports that are those of a part, by their names there."""


def takes(unit: str, kind: Any) -> Any:
    """Whether a unit is given instructions of a kind."""
    def given(rule: KindRule, unit: str) -> bool:
        return rule.unit == unit or (rule.injected and unit == "trap")
    return is_kind(kind, partial(given, unit=unit))


def give(m: Module, dispatch: Any, **units: Any) -> None:
    """Gives units, by name, what is dispatched to them."""
    for name, unit in units.items():
        m.d.comb += [unit.dispatch.valid.eq(dispatch.valid & takes(name, dispatch.payload.kind)),
                     unit.dispatch.payload.eq(dispatch.payload)]


class FrontEnd(Component):
    """Issue, flow unit, call/return stack, barriers, traps, and the error status.

    Members
    -------
    group, claimed, room, redirect, lanes, gathered, collecting, policy, instruction, gather, write, completion,
    drained, gather_0.., write_0..
        See IssueUnit. The barrier unit's writes are inside.
    wanted, values, flags, conditions
        Of the barrier unit's LaneWriterPort.
    command, starting, status_warp, warp_status, all_status, clear_status, trap_state
        See TrapUnit.
    error_status, report_mask, interrupt
        See ErrorStatus.
    barriers, withdrawn
        See BarrierUnit.
    memory_completion, conversion_completion : In(completion)
    barrier_completion, trap_completion : Out(completion)
    memory_room, conversion_room : In(1)
        The units can take 6 instructions more than they were given.
    dispatch : In(Event of dispatched)
        Of flow unit, barrier unit and trap unit; what is for others is left alone.
    launch, flow_launch : In(EventLayout of warp_launch), In(stream of flow_launch)
        A warp is started, and its threads begin.
    result : Out(Event of flow_result)
        How a warp goes on.
    local_base : Out(valid, warp and base)
        A SETLMEMBASE is executed.
    stack_memory : Out(memory_port)
    waiting : Out(warps)
        Warps at a barrier.
    lanes_error, memory_error, conversion_error : In(error_event)
    errors : Out(array of error_event), by ERROR_SOURCES
    issue_events, stack_events, diverged : Out
        For counters.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self.issue = issue_unit(params)
        self.queue = FlowQueue(params)
        self.control_flow = ControlFlow(params)
        self.barrier = BarrierUnit(params)
        self.trap = TrapUnit(params)
        self.status = ErrorStatus(params, len(ERROR_SOURCES))
        port: Any = LaneWriterPort(params).members
        super().__init__({
            **{own: member for part, names in _PORTS.items()
               for own, member in members_of(getattr(self, part), **names).items()},
            **members_of(self.trap, "starting"), **{name: port[name] for name in _OF_LANES},
            "waiting": Out(params.warps),
            **{f"{name}_error": In(error_event(params)) for name in _OUTSIDE},
            **{f"{name}_completion": In(completion(params)) for name in _UNITS},
            **{f"{name}_room": In(1) for name in _UNITS}, "dispatch": In(Event(dispatched(params))),
            "local_base": Out(data.StructLayout({"valid": 1, "warp": params.warp_bits, "base": BLOCK_ADDRESS_BITS})),
            "errors": Out(data.ArrayLayout(error_event(params), len(ERROR_SOURCES)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ("issue", "queue", "control_flow", "barrier", "trap", "status"):
            m.submodules[name] = getattr(self, name)
        for part, names in _PORTS.items():
            self.join(m, getattr(self, part), **names)
        port, rooms = self.barrier.port, self.issue.rooms
        pass_on(m, self, port, "wanted")
        pass_on(m, port, self, "values", "flags", "conditions")
        connect(m, port.write, getattr(self.issue, _BARRIER_WRITE))

        # Instructions, to their units.
        units = {"flow": self.queue, "barrier": self.barrier, "trap": self.trap}
        give(m, self.dispatch, **units)
        m.d.comb += [rooms[name].eq(unit.room) for name, unit in units.items()]
        m.d.comb += [rooms[name].eq(getattr(self, f"{name}_room")) for name in _UNITS]
        self._complete(m)
        self._flow(m)
        self._trap(m)
        self._errors(m)
        return m

    def _complete(self, m: Module) -> None:
        """What lowers scoreboards, and what lets warps go on."""
        events = dict(zip(COMPLETING, self.issue.units, strict=True))
        for name, event in events.items():
            completed = getattr(self, f"{name}_completion")
            m.d.comb += [event.valid.eq(completed.valid), event.payload.completes.eq(completed.valid)]
            pass_on(m, completed, event.payload, "warp", "write_barrier", "read_barrier")
        read, event = self.barrier.operands_read, events["barrier"]
        with m.If(read.valid):
            m.d.comb += [event.valid.eq(1), event.payload.warp.eq(read.warp),
                         event.payload.write_barrier.eq(NO_BARRIER), event.payload.read_barrier.eq(read.barrier)]
        m.d.comb += self.issue.resume.eq(self.barrier.resume | self.trap.resume)

    def _flow(self, m: Module) -> None:
        """Branches and stacks; what comes back says how a warp goes on."""
        asked, launch, result = self.queue.request, self.flow_launch, self.control_flow.result
        connect(m, asked, self.control_flow.request)
        connect(m, result, self.issue.result)
        sets = asked.payload.instruction.operation == FlowOperation.SET_BASE
        m.d.comb += [
            self.local_base.valid.eq(asked.valid & asked.ready & sets), self.local_base.warp.eq(asked.payload.warp),
            self.local_base.base.eq(asked.payload.operand),
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
        pass_on(m, issue, trap, "live", "taken")
        pass_on(m, trap, issue, "hold", "enter", "leave")
        pass_on(m, barrier, trap, "waiting", "withdrawn")
        pass_on(m, trap, barrier, "withdraw", "inside")
        if self._params.serial:
            pass_on(m, self.instruction, trap.issued, "valid", "payload")
        m.d.comb += [
            trap.launch.eq(self.launch), trap.starting.eq(self.starting | issue.launched.valid),
            self.queue.trap.eq(trap.flow), self.waiting.eq(barrier.waiting | barrier.meeting)]
        # That nothing is in flight may be known later, but never before an instruction is under way. The trap unit
        # hears of flow results when it hears of their errors.
        m.d.sync += [
            trap.drained.eq(issue.drained & ~issue.taken), trap.result.valid.eq(result.valid),
            trap.result.payload.eq(result.payload)]

    def _issued(self, m: Module) -> Any:
        """The instruction that is under way, where there is one: errors are its, whoever tells of them."""
        issued, (valid, payload) = Signal(data.StructLayout({"warp": self._params.warp_bits, "pc": 32})), (
            self.instruction.valid, self.instruction.payload)
        with m.If(valid):
            pass_on(m, payload, issued, "warp", "pc", domain="sync")
        return issued

    def _errors(self, m: Module) -> None:
        """All errors, to the trap unit and to the host. Some are told a cycle later: their warp is held anyway, or
        still on its way to where it goes on."""
        flow, status, layout = self.control_flow, self.status, error_event(self._params)
        failed, fault, result, written = Signal(layout), Signal(layout), flow.result, flow.write_fault
        pass_on(m, result.payload, failed, "warp", "error")
        m.d.comb += [
            failed.pc.eq(result.payload.own), failed.valid.eq(result.valid & (result.payload.error != WarpError.NONE)),
            fault.valid.eq(written.valid & status.report_mask[WarpError.MMU_FAULT.value]),
            fault.warp.eq(written.payload), fault.error.eq(WarpError.MMU_FAULT)]
        errors = {name: getattr(self, f"{name}_error") for name in _OUTSIDE} | {
            "barrier": self.barrier.error, "trap": self.trap.error, "flow": failed, "stack": fault}
        issued = self._issued(m) if self._params.serial else None
        for number, name in enumerate(ERROR_SOURCES):
            told = error = errors[name]
            if name in _LATE:
                told = Signal(layout, name=f"{name}_error_late")
                m.d.sync += told.eq(error)
            if issued is not None and name not in ("flow", "stack"):
                late, told = told, Signal(layout, name=f"{name}_error_told")
                m.d.comb += told.eq(late)
                pass_on(m, issued, told, "warp", "pc")
                error = error if name in _LATE else told
            m.d.comb += [
                self.errors[number].eq(error), self.trap.errors[number].eq(told), status.errors[number].eq(told)]
        for unit in (self.barrier, self.trap, flow):
            m.d.comb += unit.report_mask.eq(status.report_mask)
        m.d.comb += [status.report.eq(self.trap.report), status.events.eq(self.trap.events)]
