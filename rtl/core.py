"""Everything that executes instructions: fetch, issue, and the units."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect

from rtl.component import Component, members_of, pass_on
from rtl.convert import ConversionUnit
from rtl.execute import ExecuteUnit
from rtl.fetch import FetchUnit
from rtl.flow import IndexedTargets
from rtl.front_end import FrontEnd, give
from rtl.layouts import LaneClient, shared_clear, warp_exit
from rtl.memory import MemoryUnit
from rtl.params import SmParams
from rtl.retire import COMPLETION_SOURCES, RetirementPort

__all__ = ["Core"]

_OF_FRONT_END = ("policy", "command", "starting", "flow_launch", "error_status", "interrupt", "stack_memory", "drained",
                 "trap_state", "stack_events", "issue_events", "diverged", "waiting")


class Core(Component):
    """A streaming multiprocessor without its work distributor and its host.

    Members
    -------
    policy, command, starting, flow_launch, error_status, interrupt, stack_memory, drained, trap_state, stack_events,
    issue_events, diverged, waiting
        See FrontEnd.
    grid : In(GridConfiguration)
        What runs; does not change while a warp lives.
    launch, thread, clear, clear_rows : In
        What starts a warp: it is announced, the places of its threads are told, shared memory and registers become
        zeros, and then its threads begin.
    invalidate, fetch_busy : In(1), Out(1)
        The caches of instructions and constants become empty; see FetchUnit.
    fetch_memory, unit_memory : Out(MemoryPort)
    exit : Out(warp_exit)
    trapping : Out(1)
        No CTA may start.
    memory_events : Out
        For counters.
    retired : Out(RetirementPort)
    """

    def __init__(self, params: SmParams) -> None:
        self.fetch = fetch = FetchUnit(params)
        self.front_end = front = FrontEnd(params)
        self.execute = execute = ExecuteUnit(params)
        self.targets = IndexedTargets(params)
        self.memory = memory = MemoryUnit(params)
        self.conversion = ConversionUnit(params)
        self.reasons = front.issue.reasons
        """For whoever looks on: why each warp does not issue."""
        super().__init__({
            **members_of(front, *_OF_FRONT_END),
            **members_of(execute, "grid", "launch", "thread", "clear_rows"),
            **members_of(fetch, "invalidate", fetch_memory="memory", fetch_busy="busy"),
            **members_of(memory, unit_memory="memory", memory_events="events"),
            "clear": In(stream.Signature(shared_clear(params))), "exit": Out(warp_exit(params)), "trapping": Out(1),
            "retired": Out(RetirementPort(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ("fetch", "front_end", "execute", "targets", "memory", "conversion"):
            m.submodules[name] = getattr(self, name)
        self.join(m, self.front_end, *_OF_FRONT_END)
        self.join(m, self.execute, "grid", "launch", "thread", "clear_rows")
        self.join(m, self.fetch, "invalidate", fetch_memory="memory", fetch_busy="busy")
        self.join(m, self.memory, unit_memory="memory", memory_events="events")
        self._issue(m)
        self._dispatch(m)
        self._registers(m)
        self._launch(m)
        self._retire(m)
        return m

    def _issue(self, m: Module) -> None:
        """Fetch, issue, and the lanes; how warps go on; what programs learn of traps and errors."""
        fetch, front, execute = self.fetch, self.front_end, self.execute
        for sender, receiver in ((front.redirect, fetch.redirect), (fetch.claimed, front.claimed),
                                 (fetch.group, front.group), (front.instruction, execute.instruction),
                                 (front.gather, execute.gather), (front.write, execute.write),
                                 (execute.passed, front.lanes), (execute.gathered, front.gathered)):
            connect(m, sender, receiver)
        result = front.result
        pass_on(m, front, execute, "warp_status", "all_status")
        pass_on(m, execute, front, "status_warp", "clear_status")
        pass_on(m, result.payload, self.exit, "warp", "terminated", "kept")
        m.d.comb += [
            fetch.grid.eq(self.grid), fetch.room.eq(front.room), execute.flow_result_valid.eq(result.valid),
            execute.flow_result.eq(result.payload), self.exit.valid.eq(result.valid),
            self.trapping.eq(front.trap_state.trapping)]

    def _dispatch(self, m: Module) -> None:
        """What the lanes do not execute, to its unit."""
        front, execute, targets = self.front_end, self.execute, self.targets
        units = {"memory": self.memory, "conversion": self.conversion}
        connect(m, targets.indexed, self.fetch.indexed)
        connect(m, self.fetch.value, targets.value)
        connect(m, targets.passed, front.dispatch)
        give(m, targets.passed, **units)
        m.d.comb += [getattr(front, f"{name}_{what}").eq(getattr(unit, what))
                     for name, unit in units.items() for what in ("room", "error", "completion")]
        pass_on(m, execute.dispatch, targets.dispatch, "valid", "payload")
        m.d.comb += [
            front.collecting.eq(execute.collecting | targets.busy), front.lanes_error.eq(execute.error),
            front.barriers.eq(self.grid.barriers), self.memory.grid.eq(self.grid),
            self.memory.local_base.eq(front.local_base)]
        m.d.comb += [unit.report_mask.eq(front.report_mask) for unit in (execute, targets, *units.values())]

    def _registers(self, m: Module) -> None:
        """The units' way to registers: operations by way of issue, data by the lanes."""
        execute, front = self.execute, self.front_end
        for client, unit, lanes in ((LaneClient.MEMORY, self.memory.port, execute.memory),
                                    (LaneClient.CONVERSION, self.conversion.port, execute.conversion),
                                    (LaneClient.BARRIER, front, execute.barrier)):
            if unit is not front:
                for name in ("gather", "write"):
                    connect(m, getattr(unit, name), getattr(front, f"{name}_{client.value}"))
                pass_on(m, lanes, unit, "gathered")
            pass_on(m, lanes, unit, "wanted")
            pass_on(m, unit, lanes, "values", "flags", "conditions")
        connect(m, execute.write_flow, getattr(front, f"write_{LaneClient.FLOW.value}"))

    def _launch(self, m: Module) -> None:
        """New warps."""
        cleared = self.memory.clear
        m.d.comb += [
            self.memory.launch.eq(self.launch), self.front_end.launch.eq(self.launch),
            cleared.valid.eq(self.clear.valid), self.clear.ready.eq(cleared.ready),
            cleared.payload.shared_base.eq(self.clear.payload.base),
            cleared.payload.bytes.eq(self.clear.payload.bytes)]

    def _retire(self, m: Module) -> None:
        """What happens, for those who look on."""
        retired, front = self.retired, self.front_end
        completions: dict[str, Any] = {
            "issue": front.completion, "lanes": self.execute.completion, "memory": self.memory.completion,
            "conversion": self.conversion.completion, "barrier": front.barrier_completion,
            "trap": front.trap_completion}
        m.d.comb += [completed.eq(completions[source])
                     for completed, source in zip(list(retired.completed), COMPLETION_SOURCES, strict=True)]
        m.d.comb += [
            retired.errors.eq(front.errors), retired.launched.eq(self.launch), retired.withdrawn.eq(front.withdrawn),
            retired.written.eq(self.execute.written)]
        pass_on(m, front.instruction, retired.issued, "valid", "payload")
        pass_on(m, front.result, retired.flow, "valid", "payload")
