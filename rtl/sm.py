"""The streaming multiprocessor: connects its units, and has no logic beside them."""

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import HostBus, Policy
from rtl.machines import units_of
from rtl.params import SmParams
from rtl.retire import RetirementPort

__all__ = ["Sm"]


class Sm(Component):
    """A Maxwell streaming multiprocessor with its work distributor, behind a register bus and a
    memory port::

        host --> registers --> distributor --> core
                                   |             |
                                   +-> arbiter <-+
                                          |
                                          v
                                       memory

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
        Launch descriptors, programs, constants, data and call/return stacks are all read and
        written through it.
    retired : Out(RetirementPort)
        For checks; not connected on a board.
    """

    def __init__(self, params: SmParams) -> None:
        self._units = units = units_of(params)
        self.core = units.core(params)
        self.distributor = units.distributor(params)
        self.registers = units.host(params)
        self._ports = (
            self.core.unit_memory,
            self.core.stack_memory,
            self.core.fetch_memory,
            self.distributor.port,
        )
        """The units that access memory, in the order of the arbiter's ports."""
        self.arbiter = units.memory_arbiter([len(port.request.payload.tag) for port in self._ports])
        self.tag_bits = len(self.arbiter.port.request.payload.tag)
        """Width of the memory port's tags."""
        super().__init__({
            "host": In(HostBus()),
            "interrupt": Out(1),
            "busy": Out(1),
            "policy": In(Policy),
            "memory": Out(units.memory_port(self.tag_bits)),
            "retired": Out(RetirementPort(params)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.registers = self.registers
        m.submodules.distributor = self.distributor
        m.submodules.core = self.core
        m.submodules.arbiter = self.arbiter
        self._connect_host(m)
        self._connect_launch(m)
        self._connect_memory(m)
        self._count_events(m)
        connect(m, flipped(self.retired), self.core.retired)
        return m

    def _connect_host(self, m: Module) -> None:
        """The registers with the core and the work distributor."""
        registers = self.registers
        distributor = self.distributor
        core = self.core
        connect(m, flipped(self.host), registers.bus)
        connect(m, registers.error_status, core.error_status)
        connect(m, registers.grids, distributor.control)
        # Commands, down to the core.
        m.d.comb += core.command.eq(registers.command)
        m.d.comb += core.invalidate.eq(distributor.invalidate | registers.invalidate)
        m.d.comb += core.policy.eq(self.policy)
        # State, up to the host.
        m.d.comb += registers.valid.eq(distributor.running)
        m.d.comb += registers.state.eq(core.trap_state)
        m.d.comb += self.interrupt.eq(core.interrupt)
        m.d.comb += self.busy.eq(distributor.control.busy)

    def _connect_launch(self, m: Module) -> None:
        """The work distributor with the core: it starts warps, the core reports how they end."""
        distributor = self.distributor
        core = self.core
        connect(m, distributor.clear_rows, core.clear_rows)
        connect(m, distributor.clear, core.clear)
        connect(m, distributor.flow, core.flow_launch)
        self._units.connect_banks(m, distributor, core)
        # The grid's configuration and the warps that start.
        m.d.comb += core.grid.eq(distributor.grid)
        connect(m, distributor.launch, core.launch)
        connect(m, distributor.thread, core.thread)
        m.d.comb += core.starting.eq(distributor.starting)
        # The warps that end.
        connect(m, core.exit, distributor.exit)
        m.d.comb += distributor.drained.eq(core.drained)
        m.d.comb += distributor.fetch_busy.eq(core.fetch_busy)
        m.d.comb += distributor.halt.eq(core.trap_state.trapping)

    def _connect_memory(self, m: Module) -> None:
        """Every unit that accesses memory with the arbiter, and that with the outside."""
        for port, client in zip(self._ports, self.arbiter.clients, strict=True):
            connect(m, port, client)
        connect(m, flipped(self.memory), self.arbiter.port)

    def _count_events(self, m: Module) -> None:
        """The events of a cycle, for the performance counters. A register separates the paths of the
        units from those of the counters, which are far apart on a chip."""
        core = self.core
        distributor = self.distributor
        issue = core.issue_events
        stack = core.stack_events
        memory = core.memory_events
        busy = distributor.control.busy
        events = {
            "cycles": busy,
            "instructions": issue.issued,
            "lane_operations": issue.operation,
            "idle": issue.idle & busy,
            "wait_stall": issue.stall,
            "wait_scoreboard": issue.scoreboard,
            "wait_lanes": issue.lanes,
            "wait_unit": issue.unit,
            "wait_fetch": issue.fetch,
            "wait_held": issue.held,
            "ctas": distributor.cta_started,
            "warps": distributor.warp_started,
            "divergences": core.diverged,
            "pushes": stack.push,
            "hits": stack.hit,
            "misses": stack.miss,
            "spills": stack.spill,
            "fills": stack.fill,
            "memory_lines": memory.line,
            "memory_writes": memory.write,
            "shared_accesses": memory.shared,
            "atomics": memory.atomic,
        }
        for name, event in events.items():
            m.d.sync += self.registers.events[name].eq(event)
