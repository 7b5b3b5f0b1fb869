"""Starts the warps of a CTA, one at a time."""

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
"""Low bits of a size of a thread's local memory, without which it is the size of the warp's in CRS
granules."""


class WarpStarter(Component):
    """Starts the warps of one CTA, one at a time, in the order of their threads. A state machine::

        IDLE --> PICK --> LAUNCH --> FILL --> BEGIN --> NEXT --> IDLE (done)
                  ^                                      |
                  '--------------------------------------'  another warp

    ======  ===================================================================  =================
    state   what happens                                                         cycles
    ======  ===================================================================  =================
    PICK    takes the lowest free warp slot, and requests its place              1
    LAUNCH  when the place is found, announces the warp to the units:            1, or more in a
            ``launch`` in the last cycle                                         walked plan
    FILL    sends the indices of its threads, one a cycle; meanwhile requests    33, or more
            its registers to be cleared, a row a cycle; waits until both are
            done and the CTA's shared memory is clear
    BEGIN   hands the warp to the flow unit: its threads run                     1, or more
    NEXT    tests whether that was the last warp                                 1
    ======  ===================================================================  =================

    The CTA's shared memory is cleared once, while its first warp is started. The request is made as
    soon as the plan has the address of that memory: with a :class:`~.plan.StoredGridPlan` in the
    cycle after ``begin``, with a :class:`~.plan.WalkedGridPlan` in the cycle after the first
    ``lookup.found``.

    Parameters
    ----------
    places_are_found_late : bool
        Whether ``lookup.shared_base`` is valid only from ``lookup.found`` on, as in a
        :class:`~.plan.WalkedGridPlan`.

    Members
    -------
    begin, index, cta : In(1), In(x, y, z), In
        ``begin`` starts the CTA with this index in the grid, in this CTA slot. ``index`` and
        ``cta`` hold from ``begin`` to ``done``. No ``begin`` before ``done`` of the CTA before.
    grid, planned, shared_bytes : In(GridConfiguration), In(planned_grid), In
        The grid and its plan; they hold while the grid runs.
    taking : Out(SlotTaking)
    lookup : Out(PlaceLookup)
        Looks up the warp slot that was taken, and the CTA slot.
    done : Out(1)
        For one cycle: all warps of the CTA have started.
    launch, thread : Out(Event of warp_launch), Out(Event of thread_index)
        A warp is started; the indices of its threads, in the 32 cycles after that.
    clear_rows : Out(stream of rows of the register file)
        Rows that have to become 0: the registers of the warp, from R0 on.
    clear : Out(stream of shared_clear)
        The shared memory of the CTA, if it has some. The receiver accepts the request when the
        memory is clear; its ``ready`` is 0 while it has no request.
    flow : Out(stream of flow_launch)
        The warp that is ready to run, and those of its threads that the block has.
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
        """Number in the CTA of the warp that is being started."""
        self._clears_registers = Signal()
        """Registers of the warp are not clear yet."""
        self._clears_shared = Signal()
        """Shared memory of the CTA is not clear yet."""

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
        """Assigns the payloads that announce a warp: ``launch`` and ``flow``."""
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
        """Sends the indices of the warp's threads."""
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
        """Requests every register of the warp to be cleared."""
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
        """Requests the CTA's shared memory to be cleared."""
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
    """Walks through the threads of a block, one a cycle: x is counted first, then y, then z. It
    pauses after each 32 threads, which are a warp.

    The last warp may have more threads than the rest of the block. Those have an index too, outside
    of the block, but are not in ``created``.

    Members
    -------
    begin, block, threads : In(1), In(x, y, z), In
        ``begin`` returns to the first thread of this block, which has this many threads. Never
        while ``active``. ``block`` holds during the walk.
    start_warp : In(1)
        Starts the walk through the next 32 threads. Never while ``active``.
    active : Out(1)
        ``lane``, ``x``, ``y`` and ``z`` are those of a thread: for 32 cycles, from the one after
        ``start_warp`` on.
    lane, x, y, z : Out
        A thread's number in its warp (no lane of the hardware), and its index in the block.
    created : Out(32)
        Valid when not ``active``: the threads of the warp that the block has.
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
