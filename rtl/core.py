"""Everything that executes instructions: fetch, issue, and the units."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.convert import ConversionUnit
from rtl.execute import ExecuteUnit
from rtl.fetch import TAG_BITS as FETCH_TAG_BITS
from rtl.fetch import FetchUnit
from rtl.flow import IndexedTargets
from rtl.front_end import FrontEnd, takes
from rtl.issue import IssueEvents, Policy, WaitReason
from rtl.layouts import (
    GridConfiguration,
    LaneClient,
    MemoryPort,
    RegisterAccess,
    StackEvents,
    TrapCommand,
    TrapStatus,
    flow_launch,
    lane_operation,
    shared_clear,
    thread_index,
    warp_exit,
    warp_launch,
)
from rtl.memory import MemoryUnit, memory_tag_bits
from rtl.memory.instruction import MemoryEvents
from rtl.params import SmParams
from rtl.retire import COMPLETION_SOURCES, RetirementPort

__all__ = ["Core"]


def _event(payload: Any) -> data.StructLayout:
    return data.StructLayout({"valid": 1, "payload": payload})


class Core(Component):
    """A streaming multiprocessor without its work distributor and its host.

    Members
    -------
    grid : In(GridConfiguration)
        What runs; does not change while a warp lives.
    launch, thread, clear, clear_registers, flow_launch : In
        What starts a warp: it is announced, the places of its threads are told, shared memory and registers become
        zeros, and then its threads begin.
    invalidate, fetch_busy : In(1), Out(1)
        The caches of instructions and constants become empty; see FetchUnit.
    command, policy : In
        What the host wants of warps; which one goes first.
    error_status, interrupt : Out(RegisterAccess), Out(1)
        See ErrorStatus.
    starting : In(1)
        A CTA is being started.
    fetch_memory, stack_memory, unit_memory : Out(MemoryPort)
    exit : Out(warp_exit)
    drained : Out(1 bit a warp)
        Nothing of the warp is in flight.
    trapping : Out(1)
        No CTA may start.
    trap_state : Out
        See TrapUnit.
    stack_events, memory_events, issue_events, diverged : Out
        For counters.
    waiting, reasons : Out
        Warps that wait at a barrier; why each warp does not issue.
    retired : Out(RetirementPort)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "grid": In(GridConfiguration), "launch": In(_event(warp_launch(params))),
            "thread": In(_event(thread_index(params))), "clear": In(stream.Signature(shared_clear(params))),
            "clear_registers": In(stream.Signature(lane_operation(params))),
            "flow_launch": In(stream.Signature(flow_launch(params))), "invalidate": In(1), "fetch_busy": Out(1),
            "error_status": Out(RegisterAccess()), "interrupt": Out(1), "command": In(TrapCommand(params)),
            "policy": In(Policy), "starting": In(1),
            "fetch_memory": Out(MemoryPort(FETCH_TAG_BITS)), "stack_memory": Out(MemoryPort(params.warp_bits)),
            "unit_memory": Out(MemoryPort(memory_tag_bits(params))), "exit": Out(warp_exit(params)),
            "drained": Out(params.warps), "trapping": Out(1), "trap_state": Out(TrapStatus(params)),
            "stack_events": Out(StackEvents),
            "memory_events": Out(MemoryEvents), "issue_events": Out(IssueEvents), "diverged": Out(1),
            "waiting": Out(params.warps), "reasons": Out(data.ArrayLayout(WaitReason, params.warps)),
            "retired": Out(RetirementPort(params))})
        self.fetch = FetchUnit(params)
        self.front_end = FrontEnd(params)
        self.execute = ExecuteUnit(params)
        self.targets = IndexedTargets(params)
        self.memory = MemoryUnit(params)
        self.conversion = ConversionUnit(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ("fetch", "front_end", "execute", "targets", "memory", "conversion"):
            m.submodules[name] = getattr(self, name)
        self._issue(m)
        self._dispatch(m)
        self._registers(m)
        self._launch(m)
        self._host(m)
        self._retire(m)
        return m

    def _issue(self, m: Module) -> None:
        """Fetch, issue, and the lanes; and how warps go on."""
        fetch, front, execute = self.fetch, self.front_end, self.execute
        connect(m, fetch.memory, flipped(self.fetch_memory))
        for sender, receiver in ((front.redirect, fetch.redirect), (fetch.claimed, front.claimed),
                                 (fetch.group, front.group), (front.instruction, execute.instruction),
                                 (front.operation, execute.operation), (execute.passed, front.lanes)):
            connect(m, sender, receiver)
        result, base = front.result.payload, front.local_base
        m.d.comb += [
            fetch.grid.eq(self.grid), fetch.room.eq(front.room), fetch.invalidate.eq(self.invalidate),
            self.fetch_busy.eq(fetch.busy), front.policy.eq(self.policy), execute.grid.eq(self.grid),
            execute.flow_result_valid.eq(front.result.valid), execute.flow_result.eq(result),
            self.exit.valid.eq(front.result.valid), self.exit.warp.eq(result.warp),
            self.exit.terminated.eq(result.terminated), self.exit.kept.eq(result.kept),
            self.memory.local_base.valid.eq(base.valid), self.memory.local_base.warp.eq(base.payload.warp),
            self.memory.local_base.base.eq(base.payload.base)]

    def _dispatch(self, m: Module) -> None:
        """What the lanes do not execute, to its unit."""
        front, dispatch = self.front_end, self.targets.passed
        m.d.comb += [
            self.targets.dispatch.eq(self.execute.dispatch), self.targets.report_mask.eq(front.report_mask),
            front.collecting.eq(self.execute.collecting | self.targets.busy),
            front.dispatch.valid.eq(dispatch.valid), front.dispatch.payload.eq(dispatch.payload),
            front.memory_room.eq(self.memory.room), front.conversion_room.eq(self.conversion.room),
            front.barriers.eq(self.grid.barriers), self.memory.grid.eq(self.grid)]
        connect(m, self.targets.indexed, self.fetch.indexed)
        connect(m, self.fetch.value, self.targets.value)
        for name, unit in (("memory", self.memory), ("conversion", self.conversion)):
            m.d.comb += [
                unit.dispatch.valid.eq(dispatch.valid & takes(name, dispatch.payload.kind)),
                unit.dispatch.payload.eq(dispatch.payload)]
        for unit in (self.execute, self.memory, self.conversion):
            m.d.comb += unit.report_mask.eq(front.report_mask)
        for unit, told in ((self.memory, front.memory_complete), (self.conversion, front.conversion_complete)):
            completed = unit.completion
            m.d.comb += [told.valid.eq(completed.valid), told.payload.completes.eq(completed.valid)]
            m.d.comb += [told.payload[name].eq(completed[name]) for name in ("warp", "write_barrier", "read_barrier")]

    def _registers(self, m: Module) -> None:
        """The units' way to registers: operations by way of issue, data by the lanes."""
        execute, front = self.execute, self.front_end
        for client, unit, lanes in ((LaneClient.MEMORY, self.memory, execute.memory),
                                    (LaneClient.CONVERSION, self.conversion, execute.conversion)):
            connect(m, unit.port.operation, getattr(front, f"operation_{client.value}"))
            self._lanes(m, unit.port, lanes)
        self._lanes(m, front, execute.barrier)
        connect(m, execute.operation_flow, getattr(front, f"operation_{LaneClient.FLOW.value}"))
        connect(m, flipped(self.clear_registers), getattr(front, f"operation_{LaneClient.LAUNCH.value}"))
        connect(m, self.memory.memory, flipped(self.unit_memory))
        connect(m, front.stack_memory, flipped(self.stack_memory))

    def _lanes(self, m: Module, port: Any, lanes: Any) -> None:
        """A unit's data."""
        m.d.comb += [
            port.gathered.eq(lanes.gathered), port.wanted.eq(lanes.wanted), lanes.values.eq(port.values),
            lanes.flags.eq(port.flags), lanes.conditions.eq(port.conditions)]

    def _launch(self, m: Module) -> None:
        """New warps."""
        for unit in (self.execute, self.memory):
            m.d.comb += unit.launch.eq(self.launch)
        front, cleared = self.front_end, self.memory.clear
        connect(m, flipped(self.flow_launch), front.flow_launch)
        m.d.comb += [
            front.launch.valid.eq(self.launch.valid), front.launch.payload.eq(self.launch.payload),
            cleared.valid.eq(self.clear.valid), self.clear.ready.eq(cleared.ready),
            cleared.payload.shared_base.eq(self.clear.payload.base), cleared.payload.bytes.eq(self.clear.payload.bytes),
            self.execute.thread.eq(self.thread), self.drained.eq(front.drained)]

    def _host(self, m: Module) -> None:
        """What the host wants, and what it and programs learn of errors and traps."""
        front, execute = self.front_end, self.execute
        connect(m, flipped(self.error_status), front.error_status)
        m.d.comb += [
            front.command.eq(self.command), front.starting.eq(self.starting), self.interrupt.eq(front.interrupt),
            front.status_warp.eq(execute.status_warp), execute.warp_status.eq(front.warp_status),
            execute.all_status.eq(front.all_status), front.forget.eq(execute.forget),
            front.forget_warp.eq(execute.forget_warp), self.trapping.eq(front.trap_state.trapping),
            self.trap_state.eq(front.trap_state), front.lanes_error.eq(execute.error),
            front.memory_error.eq(self.memory.error), front.conversion_error.eq(self.conversion.error)]

    def _retire(self, m: Module) -> None:
        """What happens, for those who look on."""
        retired, front = self.retired, self.front_end
        completions: dict[str, Any] = {
            "issue": front.completion, "lanes": self.execute.completion, "memory": self.memory.completion,
            "conversion": self.conversion.completion, "barrier": front.barrier_completion,
            "trap": front.trap_completion}
        for index, source in enumerate(COMPLETION_SOURCES):
            m.d.comb += retired.completed[index].eq(completions[source])
        m.d.comb += [
            retired.errors.eq(front.errors), retired.launched.eq(self.launch), retired.withdrawn.eq(front.withdrawn),
            retired.issued.valid.eq(front.instruction.valid), retired.issued.payload.eq(front.instruction.payload),
            retired.written.eq(self.execute.written), retired.flow.valid.eq(front.result.valid),
            retired.flow.payload.eq(front.result.payload), self.stack_events.eq(front.stack_events),
            self.diverged.eq(front.diverged), self.memory_events.eq(self.memory.events),
            self.issue_events.eq(front.issue_events), self.waiting.eq(front.waiting), self.reasons.eq(front.reasons)]
