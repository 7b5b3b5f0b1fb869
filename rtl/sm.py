"""The streaming multiprocessor: the units joined, nothing else."""

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component, pass_on
from rtl.layouts import HostBus, Policy
from rtl.machines import units_of
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
    memory : Out(MemoryPort, or BeatPort in the serial machine)
        Everything else: descriptors, programs, constants, data, stacks.
    retired : Out(RetirementPort)
        For checks; a board leaves it open.
    """

    def __init__(self, params: SmParams) -> None:
        self._units = units = units_of(params)
        self.core = core = units.core(params)
        self.distributor = distributor = units.distributor(params)
        self.registers = units.host(params)
        self._ports = (core.unit_memory, core.stack_memory, core.fetch_memory, distributor.port)
        self.arbiter = units.memory_arbiter([len(port.request.payload.tag) for port in self._ports])
        self.tag_bits = len(self.arbiter.port.request.payload.tag)
        """Width of the memory port's tags."""
        super().__init__({
            "host": In(HostBus()), "interrupt": Out(1), "busy": Out(1), "policy": In(Policy),
            "memory": Out(units.memory_port(self.tag_bits)), "retired": Out(RetirementPort(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.registers = registers = self.registers
        m.submodules.distributor = distributor = self.distributor
        m.submodules.core = core = self.core
        m.submodules.arbiter = arbiter = self.arbiter

        # Host -> work distributor -> core.
        connect(m, flipped(self.host), registers.bus)
        connect(m, registers.error_status, core.error_status)
        connect(m, registers.grids, distributor.control)
        connect(m, distributor.clear_rows, core.clear_rows)
        connect(m, distributor.clear, core.clear)
        connect(m, distributor.flow, core.flow_launch)
        self.join(m, core, "policy", "interrupt", "retired")
        pass_on(m, registers, core, "command")
        pass_on(m, distributor, core, "grid", "launch", "thread", "starting")
        self._units.connect_banks(m, distributor, core)
        m.d.comb += core.invalidate.eq(distributor.invalidate | registers.invalidate)

        # Core -> work distributor -> host.
        pass_on(m, core, distributor, "exit", "drained", "fetch_busy")
        m.d.comb += [
            distributor.halt.eq(core.trap_state.trapping), registers.valid.eq(distributor.running),
            registers.state.eq(core.trap_state), self.busy.eq(distributor.control.busy)]
        self._count(m)

        # All of them -> memory.
        for port, client in zip(self._ports, arbiter.clients, strict=True):
            connect(m, port, client)
        self.join(m, arbiter, memory="port")
        return m

    def _count(self, m: Module) -> None:
        """What the counters count."""
        core, distributor, busy = self.core, self.distributor, self.distributor.control.busy
        issue, stack, memory = core.issue_events, core.stack_events, core.memory_events
        events = {
            "cycles": busy, "instructions": issue.issued, "lane_operations": issue.operation,
            "idle": issue.idle & busy, "wait_stall": issue.stall, "wait_scoreboard": issue.scoreboard,
            "wait_lanes": issue.lanes, "wait_unit": issue.unit, "wait_fetch": issue.fetch, "wait_held": issue.held,
            "ctas": distributor.cta_started, "warps": distributor.warp_started, "divergences": core.diverged,
            "pushes": stack.push, "hits": stack.hit, "misses": stack.miss, "spills": stack.spill,
            "fills": stack.fill, "memory_lines": memory.line, "memory_writes": memory.write,
            "shared_accesses": memory.shared, "atomics": memory.atomic}
        m.d.comb += [self.registers.events[name].eq(event) for name, event in events.items()]
