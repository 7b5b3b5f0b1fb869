"""Everything that executes instructions: fetch, issue, and the units."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect

from rtl.component import Component, members_of, pass_on, ports
from rtl.constant_arbiter import ConstantArbiter
from rtl.convert import conversion_unit
from rtl.execute import IndexedTargets, execute_unit
from rtl.fetch import fetch_unit
from rtl.layouts import LaneClient, shared_clear, warp_exit
from rtl.memory import memory_unit
from rtl.params import SmParams
from rtl.retire import COMPLETION_SOURCES, RetirementPort

from .front_end import FrontEnd, give

__all__ = ["SerialCore"]

_PORTS = {
    "front_end": ports("policy", "command", "starting", "flow_launch", "error_status", "interrupt", "stack_memory",
                       "drained", "trap_state", "stack_events", "issue_events", "diverged", "waiting"),
    "execute": ports("grid", "launch", "thread", "clear_rows"),
    "fetch": ports("invalidate", fetch_memory="memory", fetch_busy="busy"),
    "memory": ports(unit_memory="memory", memory_events="events"),
    "targets": {}, "conversion": {}}
"""Parts, and ports that are theirs, by their names there."""


class SerialCore(Component):
    """A streaming multiprocessor without its work distributor and its host.

    Members
    -------
    policy .. waiting, invalidate, fetch_busy, fetch_memory, unit_memory, memory_events
        See the part that has them.
    grid : In(GridConfiguration)
        What runs; does not change while a warp lives.
    bank : In(EventLayout of described_bank)
        Of a serial machine: a constant bank of the grid, before it runs.
    launch, thread, clear, clear_rows : In
        What starts a warp: it is announced, the places of its threads are told, shared memory and registers become
        zeros, and then its threads begin.
    exit, trapping, retired : Out(warp_exit), Out(1), Out(RetirementPort)
        Trapping: no CTA may start.
    """

    def __init__(self, params: SmParams) -> None:
        self.fetch: Any = fetch_unit(params)
        self.front_end = FrontEnd(params)
        self.execute = execute_unit(params)
        self.targets = IndexedTargets(params)
        self.memory = memory_unit(params)
        self.conversion: Any = conversion_unit(params)
        self._params, self._serial = params, params.serial
        self.issue, self.barrier, self.trap = self.front_end.issue, self.front_end.barrier, self.front_end.trap
        self.flow, self.stack = self.front_end.control_flow.flow, self.front_end.control_flow.stack
        self.reasons = self.issue.reasons
        """For whoever looks on: why each warp does not issue."""
        super().__init__({
            "clear": In(stream.Signature(shared_clear(params))), "exit": Out(warp_exit(params)), "trapping": Out(1),
            "retired": Out(RetirementPort(params)),
            **{own: member for part, names in _PORTS.items()
               for own, member in members_of(getattr(self, part), **names).items()},
            **(members_of(self.fetch, "bank") if params.serial else {})})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name, names in _PORTS.items():
            m.submodules[name] = getattr(self, name)
            self.join(m, getattr(self, name), **names)
        self._connect(m)
        self._grid(m)
        self._constants(m)
        self._registers(m)
        self._retire(m)
        return m

    def _connect(self, m: Module) -> None:
        """Fetch, issue, the lanes, and what these do not execute to its unit; how warps begin and go on; what programs
        learn of traps and errors."""
        fetch, front, execute, memory, targets = self.fetch, self.front_end, self.execute, self.memory, self.targets
        for sender, receiver in (
                (front.redirect, fetch.redirect), (fetch.claimed, front.claimed), (fetch.group, front.group),
                (front.instruction, execute.instruction), (front.gather, execute.gather), (front.write, execute.write),
                (execute.passed, front.lanes), (execute.gathered, front.gathered),
                (targets.passed, front.dispatch)):
            connect(m, sender, receiver)
        units, result, begins = {"memory": memory, "conversion": self.conversion}, front.result, self.clear
        give(m, targets.passed, **units)
        for sender, receiver, *names in (
                (self, fetch, "grid"), (self, memory, "launch"), (self, front, "launch"),
                (self.grid, front, "barriers"), (front, fetch, "room"), (front, memory, "local_base"),
                (front, execute, "warp_status", "all_status"), (execute, front, "status_warp", "clear_status"),
                *((front, unit, "report_mask") for unit in (execute, targets, *units.values())),
                (execute.dispatch, targets.dispatch, "valid", "payload"), (front.trap_state, self, "trapping"),
                (result, self.exit, "valid"), (result.payload, self.exit, "warp", "terminated", "kept"),
                (begins, memory.clear, "valid"), (memory.clear, begins, "ready"),
                (begins.payload, memory.clear.payload, "bytes")):
            pass_on(m, sender, receiver, *names)
        m.d.comb += [getattr(front, f"{name}_{what}").eq(getattr(unit, what))
                     for name, unit in units.items() for what in ("room", "error", "completion")]
        m.d.comb += [
            front.collecting.eq(execute.collecting | targets.busy), front.lanes_error.eq(execute.error),
            execute.flow_result_valid.eq(result.valid), execute.flow_result.eq(result.payload),
            memory.clear.payload.shared_base.eq(begins.payload.base)]

    def _grid(self, m: Module) -> None:
        """What the memory unit is told of the grid. A serial machine has constant banks in fetch alone, which tells it
        the bank that its instruction names, in the place of all."""
        m.d.comb += self.memory.grid.eq(self.grid)
        if self._serial:
            self.join(m, self.fetch, "bank")
            m.d.comb += [bank.eq(self.fetch.named) for bank in self.memory.grid.banks]

    def _constants(self, m: Module) -> None:
        """Words of constant banks that units ask for, beside what fetch reads for all: one at a time."""
        m.submodules.constants = constants = ConstantArbiter()
        for number, unit in enumerate((self.targets, self.conversion)):
            connect(m, unit.indexed, constants.requests[number])
            connect(m, constants.responses[number], unit.value)
        connect(m, constants.request, self.fetch.indexed)
        connect(m, self.fetch.value, constants.response)

    def _registers(self, m: Module) -> None:
        """The units' way to registers: operations by way of issue, data by the lanes."""
        execute, front = self.execute, self.front_end
        for client, unit, lanes in ((LaneClient.MEMORY, self.memory.port, execute.memory),
                                    (LaneClient.CONVERSION, self.conversion.port, execute.conversion)):
            for name in ("gather", "write"):
                connect(m, getattr(unit, name), getattr(front, f"{name}_{client.value}"))
            pass_on(m, lanes, unit, "gathered")
        for unit, lanes in ((self.memory.port, execute.memory), (self.conversion.port, execute.conversion),
                            (front, execute.barrier)):
            pass_on(m, lanes, unit, "wanted")
            pass_on(m, unit, lanes, "values", "flags", "conditions")
        connect(m, execute.write_flow, getattr(front, f"write_{LaneClient.FLOW.value}"))

    def _retire(self, m: Module) -> None:
        """What happens, for those who look on."""
        retired, front, execute = self.retired, self.front_end, self.execute
        completions: dict[str, Any] = {
            "issue": front.completion, "barrier": front.barrier_completion, "trap": front.trap_completion,
            **{name: getattr(self, part).completion for name, part in (
                ("lanes", "execute"), ("memory", "memory"), ("conversion", "conversion"))}}
        m.d.comb += [completed.eq(completions[source])
                     for completed, source in zip(list(retired.completed), COMPLETION_SOURCES, strict=True)]
        pass_on(m, front, retired, "errors", "withdrawn")
        pass_on(m, execute, retired, "written")
        m.d.comb += retired.launched.eq(self.launch)
        pass_on(m, front.instruction, retired.issued, "valid", "payload")
        pass_on(m, front.result, retired.flow, "valid", "payload")
