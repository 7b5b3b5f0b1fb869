"""The work distributor, joined: the course of a grid."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component, pass_on
from rtl.isa.qmd import QMD_BYTES
from rtl.isa.tokens import CRS_GRANULE
from rtl.layouts import (
    CONSTANT_BANKS,
    EventLayout,
    GridConfiguration,
    GridControl,
    LaunchRejection,
    LaunchSettings,
    MemoryPort,
    flow_launch,
    shared_clear,
    thread_index,
    warp_exit,
    warp_launch,
)
from rtl.params import SmParams
from rtl.sweep import Sweep

from .descriptor import LAUNCH_TAG_BITS, DescriptorMemory
from .plan import GridPlan
from .references import ReferenceCounters
from .slots import SlotKeeper
from .starter import WarpStarter

__all__ = ["LAUNCH_TAG_BITS", "Distributor"]

_GRANULE_BITS = CRS_GRANULE.bit_length() - 1


class Distributor(Component):
    """Runs one grid after the other.

    Members
    -------
    control : In(GridControl)
    halt : In(1)
        No CTA starts. One that is being started goes on as far as the lanes let it.
    port : Out(MemoryPort)
    invalidate, fetch_busy : Out(1), In(1)
        For one cycle at each grid's start: the caches hold nothing of use; they are not ready yet, from the cycle
        after that on.
    grid : Out(GridConfiguration)
        Of the grid that runs, or was the last to run.
    launch, thread : Out(EventLayout of warp_launch), Out(EventLayout of thread_index)
    clear_rows : Out(stream of rows of the register file)
        The registers of a warp that is being launched.
    clear : Out(stream of shared_clear)
        Shared memory is to be cleared, once for each CTA that has some. A transfer tells that it is clear.
    flow : Out(stream of flow_launch)
    exit : In(warp_exit)
    drained : In(warps)
        Nothing of these warps is under way.
    occupied, running : Out(warps), Out(warps)
        Slots that are not free; those with a warp that has not ended.
    starting : Out(1)
        A CTA is being started: warps of it will live that do not yet.
    cta_started, warp_started : Out(1), Out(1)
        For one cycle: a CTA takes the slots that are free in this cycle; a warp of it is launched.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self.memory: Any = self.make_memory(params)
        super().__init__({
            "control": In(GridControl()), "halt": In(1), "port": Out(MemoryPort(LAUNCH_TAG_BITS)),
            "invalidate": Out(1), "fetch_busy": In(1), "grid": Out(GridConfiguration),
            "launch": Out(EventLayout(warp_launch(params))), "thread": Out(EventLayout(thread_index(params))),
            "clear_rows": Out(stream.Signature(params.row_bits)),
            "clear": Out(stream.Signature(shared_clear(params))),
            "flow": Out(stream.Signature(flow_launch(params))), "exit": In(warp_exit(params)),
            "drained": In(params.warps), "occupied": Out(params.warps), "running": Out(params.warps),
            "starting": Out(1), "cta_started": Out(1), "warp_started": Out(1), **self.more_ports()})
        self.plan: Any = self.make_plan(params)
        self.slots = SlotKeeper(params)
        self.starter: Any = self.make_starter(params)
        self.references: Any = self.make_references(params)
        self._settings: Any = Signal(LaunchSettings)
        self._index: Any = Signal(warp_launch(params)["index"].shape)
        self._cta = Signal(params.warp_bits)
        self._all_started = Signal()
        self._begin = Signal()
        self.sweep = Sweep(params.warps)
        """As long as it is active, so are the sweeps of units: no CTA begins."""

    def more_ports(self) -> dict[str, Any]:
        """Ports that are otherwise, or that others have not."""
        return {}

    def make_memory(self, params: SmParams) -> Component:
        """What reads the descriptor."""
        return DescriptorMemory()

    def make_plan(self, params: SmParams) -> Component:
        """What divides the machine."""
        return GridPlan(params)

    def make_starter(self, params: SmParams) -> Component:
        """What starts warps."""
        return WarpStarter(params)

    def make_references(self, params: SmParams) -> Component:
        """The reference counters."""
        return ReferenceCounters()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory, m.submodules.plan, m.submodules.slots = self.memory, self.plan, self.slots
        m.submodules.starter, m.submodules.references = self.starter, self.references
        m.submodules.sweep = self.sweep
        self.join(m, self.memory, "port")
        self.join(m, self.slots, "exit", "drained", "occupied", "running")
        self.join(m, self.starter, "launch", "thread", "clear_rows", "clear", "flow")
        connect(m, flipped(self.control.references), self.references.host)
        self._configure(m)
        self._join(m)
        self._count_references(m)
        self._course(m)
        self._walk(m)
        return m

    def _configure(self, m: Module) -> None:
        """What all units are told of the grid, from the descriptor's fields."""
        fields, grid = self.memory.fields, self.grid
        m.d.comb += [
            grid.program.eq(self._settings.program), grid.entry.eq(fields["PROGRAM_OFFSET"]),
            grid.registers.eq(fields["REGISTER_COUNT"]), grid.barriers.eq(fields["BARRIER_COUNT"]),
            grid.shared.eq(fields["SHARED_MEMORY_SIZE"]),
            grid.local.eq(fields["SHADER_LOCAL_MEMORY_LOW_SIZE"] + fields["SHADER_LOCAL_MEMORY_HIGH_SIZE"]),
            grid.stack.eq(fields["SHADER_LOCAL_MEMORY_CRS_SIZE"] >> _GRANULE_BITS),
            grid.check_calls.eq(~fields["API_VISIBLE_CALL_LIMIT"]), grid.grid.x.eq(fields["CTA_RASTER_WIDTH"]),
            grid.grid.y.eq(fields["CTA_RASTER_HEIGHT"]), grid.grid.z.eq(fields["CTA_RASTER_DEPTH"]),
            grid.block.x.eq(fields["CTA_THREAD_DIMENSION0"]), grid.block.y.eq(fields["CTA_THREAD_DIMENSION1"]),
            grid.block.z.eq(fields["CTA_THREAD_DIMENSION2"])]
        self.configure_banks(m)

    def configure_banks(self, m: Module) -> None:
        """The constant banks, likewise."""
        fields, grid = self.memory.fields, self.grid
        for bank in range(CONSTANT_BANKS):
            m.d.comb += [
                grid.banks[bank].valid.eq(fields["CONSTANT_BUFFER_VALID"][bank]),
                grid.banks[bank].address.eq(Cat(
                    fields["CONSTANT_BUFFER_ADDR_LOWER"][bank], fields["CONSTANT_BUFFER_ADDR_UPPER"][bank])),
                grid.banks[bank].size.eq(fields["CONSTANT_BUFFER_SIZE"][bank])]

    def _join(self, m: Module) -> None:
        """Plan, slots and starter."""
        plan, slots, starter = self.plan, self.slots, self.starter
        m.d.comb += [
            plan.local.eq(self._settings.local[_GRANULE_BITS:]), plan.slot.eq(starter.taken), plan.cta.eq(self._cta),
            plan.find.eq(starter.take),
            slots.wanted.eq(plan.warps), slots.begin.eq(self._begin), slots.complete.eq(starter.over),
            starter.index.eq(self._index), starter.cta.eq(self._cta), self.cta_started.eq(self._begin),
            self.warp_started.eq(starter.launch.valid)]
        pass_on(m, self.memory, plan, "fields")
        pass_on(m, plan, slots, "slots", "ctas")
        pass_on(m, plan, starter, "threads", "warps", "shared_base", "shared_bytes", "place", "found")
        pass_on(m, self, starter, "grid")
        pass_on(m, starter, slots, "take")
        pass_on(m, slots, starter, "slot")
        with m.If(self._begin):
            m.d.sync += self._cta.eq(slots.cta)

    def _count_references(self, m: Module) -> None:
        fields, references, slots = self.memory.fields, self.references, self.slots
        m.d.comb += [
            references.number.eq(fields["CWD_REFERENCE_COUNT_ID"]),
            references.delta.eq(fields["CWD_REFERENCE_COUNT_DELTA_MINUS_ONE"] + 1),
            references.add.eq(self._begin & fields["CWD_REFERENCE_COUNT_INCR_ENABLE"]),
            references.take.eq(slots.over & ~slots.kept & fields["CWD_REFERENCE_COUNT_DECR_ENABLE"])]

    def _course(self, m: Module) -> None:
        """From the descriptor's address to the release."""
        memory, plan, slots, starter, control = self.memory, self.plan, self.slots, self.starter, self.control
        start = control.start
        fields = memory.fields
        m.d.comb += [memory.address.eq(start.payload), control.busy.eq(1)]
        allowed = self.references.allows | ~fields["CWD_REFERENCE_COUNT_INCR_ENABLE"]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [start.ready.eq(1), control.busy.eq(0)]
                m.d.sync += [self._settings.eq(control.settings), self._all_started.eq(0)]
                with m.If(start.valid & start.payload[:QMD_BYTES.bit_length() - 1].any()):
                    self._end(m, LaunchRejection.ADDRESS)
                with m.Elif(start.valid):
                    m.d.comb += memory.read.eq(1)
                    m.next = "READ"
            with m.State("READ"), m.If(memory.over):
                m.d.comb += plan.make.eq(~memory.failed)
                m.next = "PLAN"
                with m.If(memory.failed):
                    self._end(m, LaunchRejection.MEMORY)
            with m.State("PLAN"), m.If(plan.over):
                m.d.comb += self.invalidate.eq(plan.rejection == LaunchRejection.NONE)
                m.next = "FETCH"
                with m.If(plan.rejection != LaunchRejection.NONE):
                    self._end(m, plan.rejection)
            with m.State("FETCH"), m.If(~self.fetch_busy & ~self.sweep.active):
                m.next = "NEXT"
            with m.State("NEXT"):
                with m.If(self._all_started & ~slots.active.any()):
                    m.d.comb += memory.release.eq(fields["SEMAPHORE_RELEASE_ENABLE0"])
                    m.next = "RELEASE"
                    with m.If(~fields["SEMAPHORE_RELEASE_ENABLE0"]):
                        self._end(m, LaunchRejection.NONE)
                with m.Elif(~self._all_started & slots.enough & allowed & ~self.halt):
                    m.d.comb += self._begin.eq(1)
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += [starter.begin.eq(1), self.starting.eq(1)]
                m.next = "START"
            with m.State("START"):
                m.d.comb += self.starting.eq(1)
                with m.If(starter.over):
                    m.next = "NEXT"
            with m.State("RELEASE"), m.If(memory.over):
                self._end(m, LaunchRejection.NONE)
                with m.If(memory.failed):
                    m.d.comb += control.rejection.eq(LaunchRejection.MEMORY)

    def _end(self, m: Module, rejection: Any) -> None:
        m.d.comb += [self.control.done.eq(1), self.control.rejection.eq(rejection)]
        m.next = "IDLE"

    def _walk(self, m: Module) -> None:
        """The next CTA's place in the grid."""
        index, grid = self._index, self.grid.grid
        end_x, end_y, end_z = index.x + 1 == grid.x, index.y + 1 == grid.y, index.z + 1 == grid.z
        with m.If(self.plan.make):
            m.d.sync += [index.x.eq(0), index.y.eq(0), index.z.eq(0)]
        with m.If(self.starter.over):
            m.d.sync += index.x.eq(index.x + 1)
            with m.If(end_x):
                m.d.sync += [index.x.eq(0), index.y.eq(index.y + 1)]
                with m.If(end_y):
                    m.d.sync += [index.y.eq(0), index.z.eq(index.z + 1), self._all_started.eq(end_z)]
