"""The streaming multiprocessor: the units joined, nothing else."""

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.core import Core
from rtl.host import HostPort
from rtl.launch import Distributor
from rtl.layouts import HostBus, MemoryPort, Policy
from rtl.memory_arbiter import MemoryArbiter
from rtl.params import SmParams
from rtl.retire import RetirementPort

__all__ = ["Sm"]


class Sm(Component):
    """A Maxwell streaming multiprocessor with its work distributor, behind a register bus and a memory port.

    Members
    -------
    host : In(HostBus)
        The registers of :mod:`rtl.isa.registers`.
    interrupt : Out(1)
        An error, a trap or BPT.INT that the host has not cleared.
    busy : Out(1)
        A grid runs.
    policy : In(Policy)
        Which warp issues first.
    memory : Out(MemoryPort)
        Everything else: descriptors, programs, constants, data, stacks.
    retired : Out(RetirementPort)
        For checks; a board leaves it open.
    """

    def __init__(self, params: SmParams) -> None:
        self.core = core = Core(params)
        self.distributor = distributor = Distributor(params)
        self.registers = HostPort(params)
        self._ports = (core.unit_memory, core.stack_memory, core.fetch_memory, distributor.port)
        self.arbiter = MemoryArbiter([len(port.request.payload.tag) for port in self._ports])
        self.tag_bits = len(self.arbiter.port.request.payload.tag)
        """Width of the memory port's tags."""
        super().__init__({
            "host": In(HostBus()), "interrupt": Out(1), "busy": Out(1), "policy": In(Policy),
            "memory": Out(MemoryPort(self.tag_bits)), "retired": Out(RetirementPort(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.registers = registers = self.registers
        m.submodules.distributor = distributor = self.distributor
        m.submodules.core = core = self.core
        m.submodules.arbiter = arbiter = self.arbiter

        # Host -> work distributor -> core.
        connect(m, flipped(self.host), registers.bus)
        connect(m, registers.error_status, core.error_status)
        connect(m, registers.start, distributor.start)
        connect(m, distributor.clear_rows, core.clear_rows)
        connect(m, distributor.clear, core.clear)
        connect(m, distributor.flow, core.flow_launch)
        m.d.comb += [
            distributor.settings.eq(registers.settings), distributor.halt.eq(core.trapping),
            core.command.eq(registers.command), core.policy.eq(self.policy),
            core.grid.eq(distributor.grid), core.launch.eq(distributor.launch), core.thread.eq(distributor.thread),
            core.invalidate.eq(distributor.invalidate | registers.invalidate), core.starting.eq(distributor.starting)]

        # Core -> work distributor -> host.
        m.d.comb += [
            distributor.exit.eq(core.exit), distributor.drained.eq(core.drained),
            distributor.fetch_busy.eq(core.fetch_busy), distributor.reference_number.eq(registers.reference_number),
            distributor.reference_set.eq(registers.reference_set),
            distributor.reference_value.eq(registers.reference_value),
            registers.reference_count.eq(distributor.reference_count), registers.busy.eq(distributor.busy),
            registers.done.eq(distributor.done), registers.rejection.eq(distributor.rejection),
            registers.valid.eq(distributor.running), registers.state.eq(core.trap_state),
            self.interrupt.eq(core.interrupt), self.busy.eq(distributor.busy)]
        self._count(m)

        # All of them -> memory; what happens -> whoever looks on.
        for port, client in zip(self._ports, arbiter.clients, strict=True):
            connect(m, port, client)
        connect(m, arbiter.port, flipped(self.memory))
        connect(m, core.retired, flipped(self.retired))
        return m

    def _count(self, m: Module) -> None:
        """What the counters count."""
        events, core, distributor = self.registers.events, self.core, self.distributor
        issue, stack, memory = core.issue_events, core.stack_events, core.memory_events
        m.d.comb += [
            events.cycles.eq(distributor.busy), events.instructions.eq(issue.issued),
            events.lane_operations.eq(issue.operation), events.idle.eq(issue.idle & distributor.busy),
            events.wait_stall.eq(issue.stall), events.wait_scoreboard.eq(issue.scoreboard),
            events.wait_lanes.eq(issue.lanes), events.wait_unit.eq(issue.unit), events.wait_fetch.eq(issue.fetch),
            events.wait_held.eq(issue.held), events.ctas.eq(distributor.cta_started),
            events.warps.eq(distributor.warp_started), events.divergences.eq(core.diverged),
            events.pushes.eq(stack.push), events.hits.eq(stack.hit), events.misses.eq(stack.miss),
            events.spills.eq(stack.spill), events.fills.eq(stack.fill), events.memory_lines.eq(memory.line),
            events.memory_writes.eq(memory.write), events.shared_accesses.eq(memory.shared),
            events.atomics.eq(memory.atomic)]
