"""Connects the parts of the work distributor; the state machine of a grid."""

from typing import Any, NamedTuple

from amaranth.hdl import Assert, Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.qmd import QMD_BYTES
from rtl.isa.tokens import CRS_GRANULE
from rtl.layouts import (
    CONSTANT_BANKS,
    ConstantBank,
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
from rtl.structs import struct_value
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
"""Low bits of an address or size in bytes, without which it is in CRS granules."""
_DESCRIPTOR_BITS = QMD_BYTES.bit_length() - 1
"""Low bits of a descriptor's address, which must be 0."""


class DistributorParts(NamedTuple):
    """The parts that have another form in the serial machine."""

    memory: DescriptorMemory
    plan: GridPlan
    starter: WarpStarter
    references: ReferenceCounters | SlowReferenceCounters


class Distributor(Component):
    """Runs one grid after the other. A state machine::

               start         read         fits          caches are empty
        IDLE --------> READ ------> PLAN ------> FETCH ------------------> NEXT

               a CTA may start              all its warps have started
        NEXT -----------------> BEGIN --> START -----------------------> NEXT

               all CTAs are finished               written
        NEXT ------------------------> RELEASE ------------> IDLE
        NEXT ------------------------------------------> IDLE
               all CTAs are finished, and there is no release

    Errors also lead back to IDLE: from IDLE itself (the descriptor's address), READ and RELEASE
    (memory), and PLAN (the grid does not fit). ``control.done`` is 1 in the last cycle before IDLE,
    however the grid ends; ``control.rejection`` is then the error, or NONE.

    A request in ``control.start`` is accepted in IDLE, and waits in every other state. A reset in
    any state leads to IDLE without ``control.done``; memory must not answer a request from before
    the reset after it.

    Members
    -------
    control : In(GridControl)
    halt : In(1)
        No CTA starts. A CTA that is already being started continues.
    port : Out(MemoryPort)
    invalidate : Out(1)
        1 while a grid's descriptor is read: the caches of instructions and constants become empty.
    fetch_busy : In(1)
        1 from the cycle after ``invalidate`` rises until the caches are empty and ``invalidate`` is
        0. Then fetch requests the kernel's first lines, whose address is in ``grid``.
    grid : Out(GridConfiguration)
        The descriptor that was read last, whether its grid runs or was rejected; it changes while
        a descriptor is read. ``program`` follows the host's setting while no grid runs.
    launch, thread : Out(Event of warp_launch), Out(Event of thread_index)
    clear_rows : Out(stream of rows of the register file)
        Rows that have to become 0: the registers of a warp that is being started.
    clear : Out(stream of shared_clear)
        A piece of shared memory that has to become 0; one request for each CTA with shared memory.
        The receiver accepts the request when the piece is clear.
    flow : Out(stream of flow_launch)
    exit : In(Event of warp_exit)
    drained : In(warps)
        Nothing of these warps is in flight.
    occupied : Out(warps)
        Warp slots that are not free, including that of the warp that is being started, from the
        cycle after it has taken its slot.
    running : Out(warps)
        Warp slots with a warp that has not terminated, including the warp that is being started, as
        in ``occupied``.
    starting : Out(1)
        A CTA is being started: some of its warps may not run yet.
    cta_started : Out(1)
        An event that the host counts: a CTA is selected to start. Its warps will take the lowest of
        the slots that are free in this cycle.
    warp_started : Out(1)
        An event that the host counts: a warp is announced by ``launch``.

    Attributes
    ----------
    sweep : Sweep
        Takes the time of the longest sweep of warps of any unit. No CTA starts while it is active.
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
        """The host's settings in the cycle in which the grid was accepted."""
        self._index: Any = Signal(warp_launch(params)["index"].shape)
        """Index in the grid of the CTA that is being started, or starts next."""
        self._cta = Signal(params.warp_bits)
        """CTA slot of the CTA that is being started."""
        self._all_started = Signal()
        """All CTAs of the grid have all their warps."""
        self._begin = Signal()
        """For one cycle, in NEXT: a CTA is selected to start."""

    def make_parts(self, params: SmParams) -> DistributorParts:
        """The parts that have another form in the serial machine."""
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
        self._connect_parts(m)
        self._count_references(m)
        self._run(m)
        self._go_to_next_cta(m)
        m.d.sync += Assert(~(self._begin & self.halt), "a CTA starts while the machine halts")
        return m

    def _connect_ports(self, m: Module) -> None:
        """Ports that belong to one part."""
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
        """Assigns ``grid`` from the descriptor's fields."""
        fields = self.memory.fields
        layout = GridConfiguration.as_shape()
        local_low = fields["SHADER_LOCAL_MEMORY_LOW_SIZE"]
        local_high = fields["SHADER_LOCAL_MEMORY_HIGH_SIZE"]
        grid = struct_value(
            layout["grid"].shape,
            x=fields["CTA_RASTER_WIDTH"],
            y=fields["CTA_RASTER_HEIGHT"],
            z=fields["CTA_RASTER_DEPTH"])
        block = struct_value(
            layout["block"].shape,
            x=fields["CTA_THREAD_DIMENSION0"],
            y=fields["CTA_THREAD_DIMENSION1"],
            z=fields["CTA_THREAD_DIMENSION2"])
        m.d.comb += self.grid.eq(struct_value(
            GridConfiguration,
            program=self._settings.program,
            entry=fields["PROGRAM_OFFSET"],
            registers=fields["REGISTER_COUNT"],
            barriers=fields["BARRIER_COUNT"],
            shared=fields["SHARED_MEMORY_SIZE"],
            local=local_low + local_high,
            stack=fields["SHADER_LOCAL_MEMORY_CRS_SIZE"] >> _GRANULE_BITS,
            check_calls=~fields["API_VISIBLE_CALL_LIMIT"],
            grid=grid,
            block=block,
            banks=Cat(self._banks())))
        if self.memory.streams_banks:
            connect(m, self.memory.bank, flipped(self.bank))

    def _banks(self) -> list[Any]:
        """The grid's constant banks; an empty list if ``bank`` streams them."""
        if self.memory.streams_banks:
            return []
        fields = self.memory.fields
        lower = fields["CONSTANT_BUFFER_ADDR_LOWER"]
        upper = fields["CONSTANT_BUFFER_ADDR_UPPER"]
        return [
            struct_value(
                ConstantBank,
                valid=fields["CONSTANT_BUFFER_VALID"][number],
                address=Cat(lower[number], upper[number]),
                size=fields["CONSTANT_BUFFER_SIZE"][number])
            for number in range(CONSTANT_BANKS)]

    def _connect_parts(self, m: Module) -> None:
        """Connects plan, slots and starter. The starter takes warp slots of the slots, and looks up
        their places in the plan."""
        plan = self.plan
        slots = self.slots
        starter = self.starter
        m.d.comb += plan.fields.eq(self.memory.fields)
        m.d.comb += plan.local.eq(self._settings.local[_GRANULE_BITS:])
        connect(m, starter.taking, slots.taking)
        connect(m, starter.lookup, plan.lookup)

        m.d.comb += slots.planned.eq(plan.planned)
        m.d.comb += slots.begin.eq(self._begin)
        m.d.comb += slots.complete.eq(starter.done)
        with m.If(self._begin):
            m.d.sync += self._cta.eq(slots.cta)

        m.d.comb += starter.planned.eq(plan.planned)
        m.d.comb += starter.shared_bytes.eq(plan.shared_bytes)
        m.d.comb += starter.grid.eq(self.grid)
        m.d.comb += starter.index.eq(self._index)
        m.d.comb += starter.cta.eq(self._cta)

    def _count_references(self, m: Module) -> None:
        """A CTA that starts adds to the grid's reference counter; a CTA that is finished subtracts
        from it."""
        fields = self.memory.fields
        references = self.references
        slots = self.slots
        m.d.comb += references.number.eq(fields["CWD_REFERENCE_COUNT_ID"])
        m.d.comb += references.delta.eq(fields["CWD_REFERENCE_COUNT_DELTA_MINUS_ONE"] + 1)
        m.d.comb += references.add.eq(self._begin & fields["CWD_REFERENCE_COUNT_INCR_ENABLE"])
        m.d.comb += references.take.eq(
            slots.over & ~slots.kept & fields["CWD_REFERENCE_COUNT_DECR_ENABLE"])

    def _run(self, m: Module) -> None:
        """The state machine."""
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
            with m.State("READ"):
                m.d.comb += self.invalidate.eq(1)
                with m.If(memory.done & memory.failed):
                    self._end(m, LaunchRejection.MEMORY)
                with m.Elif(memory.done):
                    m.d.comb += plan.make.eq(1)
                    m.next = "PLAN"
            with m.State("PLAN"), m.If(plan.done):
                with m.If(plan.rejection != LaunchRejection.NONE):
                    self._end(m, plan.rejection)
                with m.Else():
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
        """Reports the end of the grid."""
        m.d.comb += self.control.done.eq(1)
        m.d.comb += self.control.rejection.eq(rejection)
        m.next = "IDLE"

    def _go_to_next_cta(self, m: Module) -> None:
        """Advances the index to that of the next CTA."""
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
