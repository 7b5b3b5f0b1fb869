"""The work distributor, joined: the course of a grid."""

from typing import Any, NamedTuple

from amaranth.hdl import Assert, Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.qmd import QMD_BYTES
from rtl.isa.tokens import CRS_GRANULE
from rtl.layouts import (
    CONSTANT_BANKS,
    Event,
    GridConfiguration,
    GridControl,
    LaunchRejection,
    LaunchSettings,
    described_bank,
    flow_launch,
    shared_clear,
    thread_index,
    warp_exit,
    warp_launch,
)
from rtl.params import SmParams
from rtl.sweep import Sweep

from .descriptor import (
    LAUNCH_TAG_BITS,
    DescriptorMemory,
    LineDescriptorMemory,
)
from .plan import GridPlan, StoredGridPlan
from .references import ReferenceCounters, SlowReferenceCounters
from .slots import SlotKeeper
from .starter import WarpStarter

__all__ = ["LAUNCH_TAG_BITS", "Distributor", "DistributorParts"]

_GRANULE_BITS = CRS_GRANULE.bit_length() - 1
_DESCRIPTOR_BITS = QMD_BYTES.bit_length() - 1
"""Bits of a descriptor's address that are 0."""


class DistributorParts(NamedTuple):
    """The parts that are of two forms."""

    memory: DescriptorMemory
    plan: GridPlan
    starter: WarpStarter
    references: ReferenceCounters | SlowReferenceCounters


class Distributor(Component):
    """Runs one grid after the other. A state machine::

                 start        read          fits          both caches are empty
        IDLE ----------> READ ------> PLAN -------> FETCH ------------------------+
          ^               |             |                                         |
          |       done    |             |                                         v
          +<--------------+-------------+                      BEGIN <--------- NEXT
          ^                                                      |  room, allowed  ^  |
          |                                                      v                 |  |
          |                                                    START --------------'  |
          |              written                            all warps have started    |
          +<------------------------- RELEASE <---------------------------------------+
          '<--------------------------------------------------  all CTAs are over

    ``done`` comes with each way back to IDLE, with a reason if it is not the last one.

    Members
    -------
    control : In(GridControl)
    halt : In(1)
        No CTA starts. One that is being started goes on as far as the lanes let it.
    port : Out(MemoryPort)
    invalidate, fetch_busy : Out(1), In(1)
        For one cycle at each grid's start: the caches hold nothing of use; they are not ready yet,
        from the cycle after that on.
    grid : Out(GridConfiguration)
        Of the grid that runs, or was the last to run.
    launch, thread : Out(Event of warp_launch), Out(Event of thread_index)
    clear_rows : Out(stream of rows of the register file)
        The registers of a warp that is being launched.
    clear : Out(stream of shared_clear)
        Shared memory is to be cleared, once for each CTA that has some. A transfer tells that it is
        clear.
    flow : Out(stream of flow_launch)
    exit : In(Event of warp_exit)
    drained : In(warps)
        Nothing of these warps is under way.
    occupied, running : Out(warps), Out(warps)
        Slots that are not free; those with a warp that has not ended.
    starting : Out(1)
        A CTA is being started: warps of it will live that do not yet.
    cta_started, warp_started : Out(1), Out(1)
        For one cycle: a CTA takes the slots that are free in this cycle; a warp of it is launched.

    Attributes
    ----------
    sweep : Sweep
        As long as it is active, so are the sweeps of units: no CTA begins.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        parts = self.make_parts(params)
        self.memory = parts.memory
        self.plan = parts.plan
        self.slots = SlotKeeper(params)
        self.starter = parts.starter
        self.references = parts.references
        self.sweep = Sweep(params.warps)
        members: dict[str, Any] = {
            "control": In(GridControl()),
            "halt": In(1),
            "port": Out(self.memory.memory_port(LAUNCH_TAG_BITS)),
            "invalidate": Out(1),
            "fetch_busy": In(1),
            "grid": Out(GridConfiguration),
            "launch": Out(Event(warp_launch(params))),
            "thread": Out(Event(thread_index(params))),
            "clear_rows": Out(stream.Signature(params.row_bits)),
            "clear": Out(stream.Signature(shared_clear(params))),
            "flow": Out(stream.Signature(flow_launch(params))),
            "exit": In(Event(warp_exit(params))),
            "drained": In(params.warps),
            "occupied": Out(params.warps),
            "running": Out(params.warps),
            "starting": Out(1),
            "cta_started": Out(1),
            "warp_started": Out(1),
        }
        if self.memory.streams_banks:
            members["bank"] = Out(Event(described_bank()))
        super().__init__(members)
        self._settings: Any = Signal(LaunchSettings)
        """Of the grid, as they were when it started."""
        self._index: Any = Signal(warp_launch(params)["index"].shape)
        """The place in the grid of the next CTA, or of the one that is being started."""
        self._cta = Signal(params.warp_bits)
        """Its CTA slot."""
        self._all_started = Signal()
        self._begin = Signal()
        """A CTA begins."""

    def make_parts(self, params: SmParams) -> DistributorParts:
        """The parts that are of two forms."""
        return DistributorParts(
            LineDescriptorMemory(params), StoredGridPlan(params),
            WarpStarter(params, places_are_found_late=False), ReferenceCounters())

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = self.memory
        m.submodules.plan = self.plan
        m.submodules.slots = self.slots
        m.submodules.starter = self.starter
        m.submodules.references = self.references
        m.submodules.sweep = self.sweep
        self._connect_ports(m)
        self._configure_grid(m)
        self._configure_banks(m)
        self._connect_plan(m)
        self._connect_slots(m)
        self._connect_starter(m)
        self._count_references(m)
        self._run(m)
        self._go_to_next_cta(m)
        m.d.sync += Assert(~(self._begin & self.halt), "a CTA starts while the machine halts")
        return m

    def _connect_ports(self, m: Module) -> None:
        """Ports that are those of a part."""
        slots = self.slots
        starter = self.starter
        connect(m, self.memory.port, flipped(self.port))
        connect(m, flipped(self.control.references), self.references.host)
        connect(m, flipped(self.exit), slots.exit)
        m.d.comb += slots.drained.eq(self.drained)
        m.d.comb += self.occupied.eq(slots.occupied)
        m.d.comb += self.running.eq(slots.running)
        connect(m, starter.launch, flipped(self.launch))
        connect(m, starter.thread, flipped(self.thread))
        connect(m, starter.clear_rows, flipped(self.clear_rows))
        connect(m, starter.clear, flipped(self.clear))
        connect(m, starter.flow, flipped(self.flow))
        m.d.comb += self.cta_started.eq(self._begin)
        m.d.comb += self.warp_started.eq(starter.launch.valid)

    def _configure_grid(self, m: Module) -> None:
        """What all units hear of the grid, from the descriptor's fields."""
        fields = self.memory.fields
        grid = self.grid
        local_low = fields["SHADER_LOCAL_MEMORY_LOW_SIZE"]
        local_high = fields["SHADER_LOCAL_MEMORY_HIGH_SIZE"]
        m.d.comb += grid.program.eq(self._settings.program)
        m.d.comb += grid.entry.eq(fields["PROGRAM_OFFSET"])
        m.d.comb += grid.registers.eq(fields["REGISTER_COUNT"])
        m.d.comb += grid.barriers.eq(fields["BARRIER_COUNT"])
        m.d.comb += grid.shared.eq(fields["SHARED_MEMORY_SIZE"])
        m.d.comb += grid.local.eq(local_low + local_high)
        m.d.comb += grid.stack.eq(fields["SHADER_LOCAL_MEMORY_CRS_SIZE"] >> _GRANULE_BITS)
        m.d.comb += grid.check_calls.eq(~fields["API_VISIBLE_CALL_LIMIT"])
        m.d.comb += grid.grid.x.eq(fields["CTA_RASTER_WIDTH"])
        m.d.comb += grid.grid.y.eq(fields["CTA_RASTER_HEIGHT"])
        m.d.comb += grid.grid.z.eq(fields["CTA_RASTER_DEPTH"])
        m.d.comb += grid.block.x.eq(fields["CTA_THREAD_DIMENSION0"])
        m.d.comb += grid.block.y.eq(fields["CTA_THREAD_DIMENSION1"])
        m.d.comb += grid.block.z.eq(fields["CTA_THREAD_DIMENSION2"])

    def _configure_banks(self, m: Module) -> None:
        """The grid's constant banks: all at once, or as they are read."""
        if self.memory.streams_banks:
            connect(m, self.memory.bank, flipped(self.bank))
            return
        fields = self.memory.fields
        for number in range(CONSTANT_BANKS):
            bank = self.grid.banks[number]
            lower = fields["CONSTANT_BUFFER_ADDR_LOWER"][number]
            upper = fields["CONSTANT_BUFFER_ADDR_UPPER"][number]
            m.d.comb += bank.valid.eq(fields["CONSTANT_BUFFER_VALID"][number])
            m.d.comb += bank.address.eq(Cat(lower, upper))
            m.d.comb += bank.size.eq(fields["CONSTANT_BUFFER_SIZE"][number])

    def _connect_plan(self, m: Module) -> None:
        """What is planned, and whose place is asked for."""
        plan = self.plan
        m.d.comb += plan.fields.eq(self.memory.fields)
        m.d.comb += plan.local.eq(self._settings.local[_GRANULE_BITS:])
        m.d.comb += plan.find.eq(self.starter.take)
        m.d.comb += plan.slot.eq(self.starter.taken)
        m.d.comb += plan.cta.eq(self._cta)

    def _connect_slots(self, m: Module) -> None:
        """What takes slots."""
        slots = self.slots
        m.d.comb += slots.slots.eq(self.plan.slots)
        m.d.comb += slots.ctas.eq(self.plan.ctas)
        m.d.comb += slots.wanted.eq(self.plan.warps)
        m.d.comb += slots.begin.eq(self._begin)
        m.d.comb += slots.take.eq(self.starter.take)
        m.d.comb += slots.complete.eq(self.starter.done)
        with m.If(self._begin):
            m.d.sync += self._cta.eq(slots.cta)

    def _connect_starter(self, m: Module) -> None:
        """What is started."""
        starter = self.starter
        plan = self.plan
        m.d.comb += starter.index.eq(self._index)
        m.d.comb += starter.cta.eq(self._cta)
        m.d.comb += starter.grid.eq(self.grid)
        m.d.comb += starter.threads.eq(plan.threads)
        m.d.comb += starter.warps.eq(plan.warps)
        m.d.comb += starter.shared_base.eq(plan.shared_base)
        m.d.comb += starter.shared_bytes.eq(plan.shared_bytes)
        m.d.comb += starter.slot.eq(self.slots.slot)
        m.d.comb += starter.place.eq(plan.place)
        m.d.comb += starter.found.eq(plan.found)

    def _count_references(self, m: Module) -> None:
        """CTAs that begin add to the grid's reference counter, those that are over take from it."""
        fields = self.memory.fields
        references = self.references
        slots = self.slots
        m.d.comb += references.number.eq(fields["CWD_REFERENCE_COUNT_ID"])
        m.d.comb += references.delta.eq(fields["CWD_REFERENCE_COUNT_DELTA_MINUS_ONE"] + 1)
        m.d.comb += references.add.eq(self._begin & fields["CWD_REFERENCE_COUNT_INCR_ENABLE"])
        m.d.comb += references.take.eq(
            slots.over & ~slots.kept & fields["CWD_REFERENCE_COUNT_DECR_ENABLE"])

    def _run(self, m: Module) -> None:
        """From the descriptor's address to the release."""
        memory = self.memory
        plan = self.plan
        slots = self.slots
        starter = self.starter
        control = self.control
        start = control.start
        fields = memory.fields
        is_misaligned = start.payload[:_DESCRIPTOR_BITS].any()
        is_allowed = self.references.allows | ~fields["CWD_REFERENCE_COUNT_INCR_ENABLE"]
        can_begin = ~self._all_started & slots.has_room & is_allowed & ~self.halt
        m.d.comb += memory.address.eq(start.payload)
        m.d.comb += control.busy.eq(1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += start.ready.eq(1)
                m.d.comb += control.busy.eq(0)
                m.d.sync += self._settings.eq(control.settings)
                m.d.sync += self._all_started.eq(0)
                with m.If(start.valid & is_misaligned):
                    self._end(m, LaunchRejection.ADDRESS)
                with m.Elif(start.valid):
                    m.d.comb += memory.read.eq(1)
                    m.next = "READ"
            with m.State("READ"), m.If(memory.done):
                with m.If(memory.failed):
                    self._end(m, LaunchRejection.MEMORY)
                with m.Else():
                    m.d.comb += plan.make.eq(1)
                    m.next = "PLAN"
            with m.State("PLAN"), m.If(plan.done):
                with m.If(plan.rejection != LaunchRejection.NONE):
                    self._end(m, plan.rejection)
                with m.Else():
                    m.d.comb += self.invalidate.eq(1)
                    m.next = "FETCH"
            with m.State("FETCH"), m.If(~self.fetch_busy & ~self.sweep.active):
                m.next = "NEXT"
            with m.State("NEXT"):
                with m.If(self._all_started & ~slots.active.any()):
                    with m.If(fields["SEMAPHORE_RELEASE_ENABLE0"]):
                        m.d.comb += memory.release.eq(1)
                        m.next = "RELEASE"
                    with m.Else():
                        self._end(m, LaunchRejection.NONE)
                with m.Elif(can_begin):
                    m.d.comb += self._begin.eq(1)
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += starter.begin.eq(1)
                m.d.comb += self.starting.eq(1)
                m.next = "START"
            with m.State("START"):
                m.d.comb += self.starting.eq(1)
                with m.If(starter.done):
                    m.next = "NEXT"
            with m.State("RELEASE"), m.If(memory.done):
                with m.If(memory.failed):
                    self._end(m, LaunchRejection.MEMORY)
                with m.Else():
                    self._end(m, LaunchRejection.NONE)

    def _end(self, m: Module, rejection: Any) -> None:
        """The grid is over."""
        m.d.comb += self.control.done.eq(1)
        m.d.comb += self.control.rejection.eq(rejection)
        m.next = "IDLE"

    def _go_to_next_cta(self, m: Module) -> None:
        """The next CTA's place in the grid."""
        index = self._index
        grid = self.grid.grid
        with m.If(self.plan.make):
            m.d.sync += index.eq(0)
        with m.If(self.starter.done):
            with m.If(index.x + 1 != grid.x):
                m.d.sync += index.x.eq(index.x + 1)
            with m.Else():
                m.d.sync += index.x.eq(0)
                with m.If(index.y + 1 != grid.y):
                    m.d.sync += index.y.eq(index.y + 1)
                with m.Else():
                    m.d.sync += index.y.eq(0)
                    m.d.sync += index.z.eq(index.z + 1)
                    m.d.sync += self._all_started.eq(index.z + 1 == grid.z)
