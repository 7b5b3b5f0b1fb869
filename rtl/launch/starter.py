"""A CTA's start, warp by warp."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import CRS_GRANULE
from rtl.layouts import (
    Event,
    GridConfiguration,
    flow_launch,
    shared_clear,
    thread_index,
    warp_launch,
)
from rtl.params import WARP_THREADS, SmParams

from .plan import warp_place

__all__ = ["BlockWalk", "WarpStarter"]

_LOCAL_UNIT_BITS = (CRS_GRANULE // WARP_THREADS).bit_length() - 1
"""A thread's local memory is told in units of a granule of its warp's."""


class WarpStarter(Component):
    """Starts the warps of one CTA after the other. A state machine::

        IDLE --> PICK --> LAUNCH --> FILL --> BEGIN --> NEXT --> IDLE (done)
                  ^                                      |
                  '--------------------------------------'  another warp

    ======  ==========================================================================
    state   what happens
    ======  ==========================================================================
    PICK    the lowest free slot is taken
    LAUNCH  when its place is found, the units hear of the warp (``launch``)
    FILL    the places of its threads, one a cycle, and meanwhile its registers are
            cleared, a row a cycle; waits also until the CTA's shared memory is clear
    BEGIN   the flow unit takes the warp: its threads begin
    ======  ==========================================================================

    Shared memory is cleared once for each CTA, from when its place is known.

    Parameters
    ----------
    places_are_found_late : bool
        ``place`` and ``shared_base`` are there some time after ``take``, with ``found``; else at
        once.

    Members
    -------
    begin, index, cta, shared_base : In(1), In(x, y, z), In, In
        Starts the CTA of this place in the grid, in a CTA slot; all but ``begin`` stay until it is
        over.
    grid, threads, warps, shared_bytes : In(GridConfiguration), In, In, In
        What the plan says of every CTA.
    slot, place : In, In(warp_place)
        The lowest free warp slot, and what belongs to ``taken``.
    take, taken : Out(1), Out
        The slot is taken.
    found : In(1)
        ``place`` and ``shared_base`` are there, at the earliest in the cycle after ``take``.
    done : Out(1)
        All warps have started.
    launch, thread : Out(Event of warp_launch), Out(Event of thread_index)
    clear_rows : Out(stream of rows of the register file)
        The registers of the warp, one after the other.
    clear : Out(stream of shared_clear)
        Shared memory, if the CTA has some. A transfer tells that it is clear.
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
            "shared_base": In(params.shared_bits),
            "grid": In(GridConfiguration),
            "threads": In(_thread_count(params)),
            "warps": In(7),
            "shared_bytes": In(params.shared_bits + 1),
            "slot": In(bits),
            "place": In(warp_place(params)),
            "take": Out(1),
            "taken": Out(bits),
            "found": In(1),
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
        is_filled = ~self.walk.active & ~self._clears_registers & ~self._clears_shared
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += self._number.eq(0)
                with m.If(self.begin):
                    m.next = "PICK"
            with m.State("PICK"):
                m.d.comb += self.take.eq(1)
                m.d.sync += self.taken.eq(self.slot)
                m.next = "LAUNCH"
            with m.State("LAUNCH"), m.If(self.found):
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
                with m.If(self._number == self.warps):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"

    def _describe_warp(self, m: Module) -> None:
        """What the units hear of a warp."""
        launch = self.launch.payload
        flow = self.flow.payload
        grid = self.grid
        m.d.comb += launch.warp.eq(self.taken)
        m.d.comb += launch.number.eq(self._number)
        m.d.comb += launch.cta.eq(self.cta)
        m.d.comb += launch.cta_warps.eq(self.warps)
        m.d.comb += launch.index.eq(self.index)
        m.d.comb += launch.first_row.eq(self.place.first_row)
        m.d.comb += launch.shared_base.eq(self.shared_base)
        m.d.comb += launch.local_base.eq(self.place.local_base)
        m.d.comb += flow.warp.eq(self.taken)
        m.d.comb += flow.threads.eq(self.walk.created)
        m.d.comb += flow.pc.eq(grid.entry)
        m.d.comb += flow.stack.base.eq(self.place.local_base)
        m.d.comb += flow.stack.local.eq(grid.local >> _LOCAL_UNIT_BITS)
        m.d.comb += flow.stack.size.eq(grid.stack)
        m.d.comb += flow.stack.check_calls.eq(grid.check_calls)

    def _walk_block(self, m: Module) -> None:
        """The places of the warp's threads."""
        walk = self.walk
        thread = self.thread.payload
        m.d.comb += walk.begin.eq(self.begin)
        m.d.comb += walk.block.eq(self.grid.block)
        m.d.comb += walk.threads.eq(self.threads)
        m.d.comb += walk.start_warp.eq(self.launch.valid)
        m.d.comb += self.thread.valid.eq(walk.active)
        m.d.comb += thread.warp.eq(self.taken)
        m.d.comb += thread.thread.eq(walk.lane)
        m.d.comb += thread.x.eq(walk.x)
        m.d.comb += thread.y.eq(walk.y)
        m.d.comb += thread.z.eq(walk.z)

    def _clear_registers(self, m: Module) -> None:
        """Every register of the warp."""
        register = Signal(8)
        m.d.comb += self.clear_rows.valid.eq(self._clears_registers)
        m.d.comb += self.clear_rows.payload.eq(self.place.first_row + register)
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
        m.d.comb += clear.payload.base.eq(self.shared_base)
        m.d.comb += clear.payload.bytes.eq(self.shared_bytes)
        if self._places_are_found_late:
            was_found = Signal()
            with m.If(self.begin | self.take):
                m.d.sync += was_found.eq(0)
            with m.Elif(self.found):
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
            "threads": In(_thread_count(params)),
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


def _thread_count(params: SmParams) -> range:
    """Threads of a CTA, or what has been found to be too many."""
    return range(2 * params.warps * WARP_THREADS + 1)
