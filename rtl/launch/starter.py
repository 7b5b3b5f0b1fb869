"""A CTA's start, warp by warp."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import CRS_GRANULE
from rtl.layouts import (
    Event,
    GridConfiguration,
    StackConfiguration,
    flow_launch,
    shared_clear,
    thread_index,
    warp_launch,
)
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import struct_value

from .plan import PlaceLookup, planned_grid, thread_count
from .slots import SlotTaking

__all__ = ["BlockWalk", "WarpStarter"]

_LOCAL_UNIT_BITS = (CRS_GRANULE // WARP_THREADS).bit_length() - 1
"""A thread's local memory counts in units of a granule of its warp's."""


class WarpStarter(Component):
    """Starts the warps of one CTA after the other. A state machine::

        IDLE --> PICK --> LAUNCH --> FILL --> BEGIN --> NEXT --> IDLE (done)
                  ^                                      |
                  '--------------------------------------'  another warp

    ======  ==========================================================================
    state   what happens
    ======  ==========================================================================
    PICK    the lowest free slot is taken
    LAUNCH  when its place is found, the warp is announced to the units (``launch``)
    FILL    the places of its threads, one a cycle, and meanwhile its registers are
            cleared, a row a cycle; waits also until the CTA's shared memory is clear
    BEGIN   the flow unit takes the warp: its threads begin
    ======  ==========================================================================

    Shared memory is cleared once for each CTA, from when its place is known.

    Parameters
    ----------
    places_are_found_late : bool
        What ``lookup`` finds is there some time after ``find``, with ``found``; else at once.

    Members
    -------
    begin, index, cta : In(1), In(x, y, z), In
        Starts the CTA of this place in the grid, in a CTA slot; all but ``begin`` stay until it is
        over.
    grid, planned, shared_bytes : In(GridConfiguration), In(planned_grid), In
        What the plan says of every CTA.
    taking : Out(SlotTaking)
        Takes the lowest free warp slot.
    lookup : Out(PlaceLookup)
        What belongs to that slot and to the CTA's.
    done : Out(1)
        All warps have started.
    launch, thread : Out(Event of warp_launch), Out(Event of thread_index)
    clear_rows : Out(stream of rows of the register file)
        The registers of the warp, one after the other.
    clear : Out(stream of shared_clear)
        Shared memory, if the CTA has some. With a transfer it is clear.
    flow : Out(stream of flow_launch)
    """

    def __init__(self, params: SmParams, *, places_are_found_late: bool) -> None:
        self._params = params
        self._places_are_found_late = places_are_found_late
        launch = warp_launch(params)
        bits = params.warp_bits
        super().__init__({
            "begin": In(1),
            "index": In(launch["index"].shape),
            "cta": In(bits),
            "grid": In(GridConfiguration),
            "planned": In(planned_grid(params)),
            "shared_bytes": In(params.shared_bits + 1),
            "taking": Out(SlotTaking(params)),
            "lookup": Out(PlaceLookup(params)),
            "done": Out(1),
            "launch": Out(Event(launch)),
            "thread": Out(Event(thread_index(params))),
            "clear_rows": Out(stream.Signature(params.row_bits)),
            "clear": Out(stream.Signature(shared_clear(params))),
            "flow": Out(stream.Signature(flow_launch(params))),
        })
        self.walk = BlockWalk(params)
        self._number = Signal(7)
        """Of the warp in its CTA."""
        self._clears_registers = Signal()
        self._clears_shared = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.walk = self.walk
        self._start_warps(m)
        self._describe_warp(m)
        self._walk_block(m)
        self._clear_registers(m)
        self._clear_shared(m)
        return m

    def _start_warps(self, m: Module) -> None:
        """The state machine."""
        lookup = self.lookup
        m.d.comb += lookup.find.eq(self.taking.take)
        m.d.comb += lookup.cta.eq(self.cta)
        is_filled = ~self.walk.active & ~self._clears_registers & ~self._clears_shared
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += self._number.eq(0)
                with m.If(self.begin):
                    m.next = "PICK"
            with m.State("PICK"):
                m.d.comb += self.taking.take.eq(1)
                m.d.sync += lookup.slot.eq(self.taking.slot)
                m.next = "LAUNCH"
            with m.State("LAUNCH"), m.If(lookup.found):
                m.d.comb += self.launch.valid.eq(1)
                m.next = "FILL"
            with m.State("FILL"), m.If(is_filled):
                m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += self.flow.valid.eq(1)
                with m.If(self.flow.ready):
                    m.d.sync += self._number.eq(self._number + 1)
                    m.next = "NEXT"
            with m.State("NEXT"):
                m.next = "PICK"
                with m.If(self._number == self.planned.warps):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"

    def _describe_warp(self, m: Module) -> None:
        """What is announced to the units of a warp."""
        lookup = self.lookup
        grid = self.grid
        m.d.comb += self.launch.payload.eq(struct_value(
            warp_launch(self._params),
            warp=lookup.slot,
            number=self._number,
            cta=self.cta,
            cta_warps=self.planned.warps,
            index=self.index,
            first_row=lookup.place.first_row,
            shared_base=lookup.shared_base,
            local_base=lookup.place.local_base))
        stack = struct_value(
            StackConfiguration,
            base=lookup.place.local_base,
            local=grid.local >> _LOCAL_UNIT_BITS,
            size=grid.stack,
            check_calls=grid.check_calls)
        m.d.comb += self.flow.payload.eq(struct_value(
            flow_launch(self._params),
            warp=lookup.slot,
            threads=self.walk.created,
            pc=grid.entry,
            stack=stack))

    def _walk_block(self, m: Module) -> None:
        """The places of the warp's threads."""
        walk = self.walk
        m.d.comb += walk.begin.eq(self.begin)
        m.d.comb += walk.block.eq(self.grid.block)
        m.d.comb += walk.threads.eq(self.planned.threads)
        m.d.comb += walk.start_warp.eq(self.launch.valid)
        m.d.comb += self.thread.valid.eq(walk.active)
        m.d.comb += self.thread.payload.eq(struct_value(
            thread_index(self._params),
            warp=self.lookup.slot,
            thread=walk.lane,
            x=walk.x,
            y=walk.y,
            z=walk.z))

    def _clear_registers(self, m: Module) -> None:
        """Every register of the warp."""
        register = Signal(8)
        m.d.comb += self.clear_rows.valid.eq(self._clears_registers)
        m.d.comb += self.clear_rows.payload.eq(self.lookup.place.first_row + register)
        with m.If(self.launch.valid):
            m.d.sync += self._clears_registers.eq(self.grid.registers.any())
        with m.If(self._clears_registers & self.clear_rows.ready):
            m.d.sync += register.eq(register + 1)
            with m.If(register + 1 == self.grid.registers):
                m.d.sync += register.eq(0)
                m.d.sync += self._clears_registers.eq(0)

    def _clear_shared(self, m: Module) -> None:
        """The CTA's shared memory."""
        clear = self.clear
        with m.If(self.begin):
            m.d.sync += self._clears_shared.eq(self.shared_bytes.any())
        with m.Elif(clear.ready):
            m.d.sync += self._clears_shared.eq(0)
        m.d.comb += clear.payload.eq(struct_value(
            shared_clear(self._params),
            base=self.lookup.shared_base,
            bytes=self.shared_bytes))
        if self._places_are_found_late:
            was_found = Signal()
            with m.If(self.begin | self.lookup.find):
                m.d.sync += was_found.eq(0)
            with m.Elif(self.lookup.found):
                m.d.sync += was_found.eq(1)
            m.d.comb += clear.valid.eq(self._clears_shared & was_found)
        else:
            m.d.comb += clear.valid.eq(self._clears_shared)


class BlockWalk(Component):
    """Walks through a block, a thread a cycle, a warp at a time: x first, then y, then z. The last
    warp's threads for which the block has no places get some, too, but are not created.

    Members
    -------
    begin, block, threads : In(1), In(x, y, z), In
        A CTA begins: this block, of so many threads.
    start_warp : In(1)
        The walk goes on, through the next 32 threads.
    active : Out(1)
    lane, x, y, z : Out
        A thread's number in its warp, and its place in the block.
    created : Out(32)
        Behind the walk through a warp: its threads that are in the block.
    """

    def __init__(self, params: SmParams) -> None:
        # No side of a block is longer than the block has threads.
        side = range(params.warps * WARP_THREADS)
        super().__init__({
            "begin": In(1),
            "block": In(GridConfiguration.as_shape()["block"].shape),
            "threads": In(thread_count(params)),
            "start_warp": In(1),
            "active": Out(1),
            "lane": Out(range(WARP_THREADS)),
            "x": Out(side),
            "y": Out(side),
            "z": Out(side),
            "created": Out(WARP_THREADS),
        })
        self._side = side

    def elaborate(self, platform: object) -> Module:
        m = Module()
        block = self.block
        threads_left = Signal.like(self.threads)
        x_left = Signal(self._side)
        y_left = Signal(self._side)
        x_ends = ~x_left.any()
        y_ends = ~y_left.any()
        is_created = threads_left.any()
        with m.If(self.start_warp):
            m.d.sync += self.active.eq(1)
        with m.If(self.begin):
            m.d.sync += self.x.eq(0)
            m.d.sync += self.y.eq(0)
            m.d.sync += self.z.eq(0)
            m.d.sync += x_left.eq(block.x - 1)
            m.d.sync += y_left.eq(block.y - 1)
            m.d.sync += threads_left.eq(self.threads)
        with m.If(self.active):
            m.d.sync += self.lane.eq(self.lane + 1)
            m.d.sync += self.created.eq(self.created[1:])
            m.d.sync += self.created[-1].eq(is_created)
            with m.If(is_created):
                m.d.sync += threads_left.eq(threads_left - 1)
            with m.If(~x_ends):
                m.d.sync += self.x.eq(self.x + 1)
                m.d.sync += x_left.eq(x_left - 1)
            with m.Else():
                m.d.sync += self.x.eq(0)
                m.d.sync += x_left.eq(block.x - 1)
                with m.If(~y_ends):
                    m.d.sync += self.y.eq(self.y + 1)
                    m.d.sync += y_left.eq(y_left - 1)
                with m.Else():
                    m.d.sync += self.y.eq(0)
                    m.d.sync += y_left.eq(block.y - 1)
                    m.d.sync += self.z.eq(self.z + 1)
            with m.If(self.lane == WARP_THREADS - 1):
                m.d.sync += self.active.eq(0)
        m.d.sync += Assert(~(self.begin & self.active), "a CTA begins while another one starts")
        return m
