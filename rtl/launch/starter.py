"""A CTA's start, warp by warp."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import CRS_GRANULE
from rtl.layouts import EventLayout, GridConfiguration, flow_launch, shared_clear, thread_index, warp_launch
from rtl.params import WARP_THREADS, SmParams

from .plan import warp_place

__all__ = ["WarpStarter"]


class WarpStarter(Component):
    """Starts the warps of one CTA after the other.

    Members
    -------
    begin, index, cta, shared_base : In(1), In(x, y, z), In, In
        Starts the CTA of this place in the grid, in a CTA slot; all but ``begin`` stay until it is over.
    grid, threads, warps, shared_bytes : In(GridConfiguration), In, In, In
        What the plan says of every CTA.
    slot, place : In, In(warp_place)
        The lowest free warp slot, and what belongs to ``taken``.
    take, taken : Out(1), Out
        The slot is taken.
    found : In(1)
        ``place`` and ``shared_base`` are there, at the earliest in the cycle after ``take``.
    over : Out(1)
        All warps have started.
    launch, thread : Out(EventLayout of warp_launch), Out(EventLayout of thread_index)
    clear_rows : Out(stream of rows of the register file)
        The registers of the warp, one after the other.
    clear : Out(stream of shared_clear)
        Shared memory, if the CTA has some. A transfer tells that it is clear.
    flow : Out(stream of flow_launch)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        launch = warp_launch(params)
        bits = params.warp_bits
        super().__init__({
            "begin": In(1), "index": In(launch["index"].shape), "cta": In(bits), "shared_base": In(params.shared_bits),
            "grid": In(GridConfiguration), "threads": In(range(2 * params.warps * WARP_THREADS + 1)), "warps": In(7),
            "shared_bytes": In(params.shared_bits + 1), "slot": In(bits), "place": In(warp_place(params)),
            "take": Out(1), "taken": Out(bits), "found": In(1), "over": Out(1),
            "launch": Out(EventLayout(launch)), "thread": Out(EventLayout(thread_index(params))),
            "clear_rows": Out(stream.Signature(params.row_bits)),
            "clear": Out(stream.Signature(shared_clear(params))),
            "flow": Out(stream.Signature(flow_launch(params)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        number, created = Signal(7), Signal(WARP_THREADS)
        counting, clearing, asking = Signal(), Signal(), Signal()
        self._tell(m, number, created)
        self._count(m, counting, created)
        self._clear_registers(m, clearing)

        # Shared memory.
        m.d.comb += [
            self.clear.valid.eq(asking & self.is_placed(m)), self.clear.payload.base.eq(self.shared_base),
            self.clear.payload.bytes.eq(self.shared_bytes)]
        with m.If(self.clear.ready):
            m.d.sync += asking.eq(0)
        with m.If(self.begin):
            m.d.sync += asking.eq(self.shared_bytes.any())

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += number.eq(0)
                with m.If(self.begin):
                    m.next = "PICK"
            with m.State("PICK"):
                m.d.comb += self.take.eq(1)
                m.d.sync += self.taken.eq(self.slot)
                m.next = "TELL"
            with m.State("TELL"), m.If(self.found):
                m.d.comb += self.launch.valid.eq(1)
                m.d.sync += [counting.eq(1), clearing.eq(self.grid.registers.any())]
                m.next = "FILL"
            with m.State("FILL"), m.If(~counting & ~clearing & ~asking):
                m.next = "GO"
            with m.State("GO"):
                m.d.comb += self.flow.valid.eq(1)
                with m.If(self.flow.ready):
                    m.d.sync += number.eq(number + 1)
                    m.next = "NEXT"
            with m.State("NEXT"):
                m.next = "PICK"
                with m.If(number == self.warps):
                    m.d.comb += self.over.eq(1)
                    m.next = "IDLE"
        return m

    def is_placed(self, m: Module) -> Value:
        """Whether ``shared_base`` is that of the CTA."""
        return Const(1)

    def _tell(self, m: Module, number: Signal, created: Signal) -> None:
        """What the units are told of a warp."""
        launch, flow, grid = self.launch.payload, self.flow.payload, self.grid
        threads_per_granule = CRS_GRANULE // WARP_THREADS
        m.d.comb += [
            launch.warp.eq(self.taken), launch.number.eq(number), launch.cta.eq(self.cta),
            launch.cta_warps.eq(self.warps), launch.index.eq(self.index), launch.first_row.eq(self.place.first_row),
            launch.shared_base.eq(self.shared_base), launch.local_base.eq(self.place.local_base),
            flow.warp.eq(self.taken), flow.threads.eq(created), flow.pc.eq(grid.entry),
            flow.stack.base.eq(self.place.local_base),
            flow.stack.local.eq(grid.local >> threads_per_granule.bit_length() - 1), flow.stack.size.eq(grid.stack),
            flow.stack.check_calls.eq(grid.check_calls)]

    def _count(self, m: Module, counting: Signal, created: Signal) -> None:
        """Walks through the block, a thread a cycle; it goes on from one warp of the CTA to the next."""
        thread, block, lane, left = self.thread.payload, self.grid.block, Signal(range(WARP_THREADS)), Signal.like(
            self.threads)
        # No side of a block is longer than the block has threads.
        x, y, z, left_x, left_y = (
            Signal(range(self._params.warps * WARP_THREADS), name=name) for name in ("x", "y", "z", "left_x", "left_y"))
        end_x, end_y = ~left_x.any(), ~left_y.any()
        m.d.comb += [
            self.thread.valid.eq(counting), thread.warp.eq(self.taken), thread.thread.eq(lane), thread.x.eq(x),
            thread.y.eq(y), thread.z.eq(z)]
        with m.If(self.begin):
            m.d.sync += [
                x.eq(0), y.eq(0), z.eq(0), left.eq(self.threads), left_x.eq(block.x - 1), left_y.eq(block.y - 1)]
        with m.If(counting):
            m.d.sync += [
                lane.eq(lane + 1), x.eq(Mux(end_x, 0, x + 1)), left_x.eq(Mux(end_x, block.x, left_x) - 1),
                created.eq(created[1:]), created[-1].eq(left.any())]
            with m.If(left.any()):
                m.d.sync += left.eq(left - 1)
            with m.If(end_x):
                m.d.sync += [y.eq(Mux(end_y, 0, y + 1)), left_y.eq(Mux(end_y, block.y, left_y) - 1)]
                with m.If(end_y):
                    m.d.sync += z.eq(z + 1)
            with m.If(lane == WARP_THREADS - 1):
                m.d.sync += counting.eq(0)

    def _clear_registers(self, m: Module, clearing: Signal) -> None:
        """Every register of the warp."""
        register = Signal(8)
        m.d.comb += [
            self.clear_rows.valid.eq(clearing), self.clear_rows.payload.eq(self.place.first_row + register)]
        with m.If(clearing & self.clear_rows.ready):
            m.d.sync += register.eq(register + 1)
            with m.If(register + 1 == self.grid.registers):
                m.d.sync += [register.eq(0), clearing.eq(0)]
