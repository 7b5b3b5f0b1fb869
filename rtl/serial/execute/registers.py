"""The register file, which is there once."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import memory, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import WARP_THREADS, SmParams
from rtl.wires import IN_BLOCKS

__all__ = ["SerialRegisters"]


class SerialRegisters(Component):
    """Registers of all warps, in rows: a row is a register of a warp's 32 threads. One thread's is read or written.

    Members
    -------
    row, thread : In, In(5)
        What is read, or written.
    read : Out(32)
        What was there, a cycle later.
    loads, result : In(1), In(32)
        What may be written in the next cycle, which is no other's.
    write, written : In(1), Out(32)
        It is written, then.
    clear : In(stream of rows)
        All of the row becomes 0, in the cycles that are left. Nothing of the warp whose row this will be is under way.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "row": In(params.row_bits), "thread": In(range(WARP_THREADS)), "read": Out(32), "loads": In(1),
            "result": In(32), "write": In(1), "written": Out(32), "clear": In(stream.Signature(params.row_bits))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = words = memory.Memory(
            shape=32, depth=self._params.registers * WARP_THREADS, init=[], attrs=IN_BLOCKS)
        read, write, occupied, cleared = (
            words.read_port(domain="comb"), words.write_port(), Signal(), Signal(range(WARP_THREADS)))
        place, clear = Cat(self.thread, self.row), self.clear
        m.d.sync += [
            self.read.eq(read.data), occupied.eq(self.loads), self.written.eq(Mux(self.loads, self.result, 0)),
            Assert(~self.write | occupied, "a register is written without time for it")]
        m.d.comb += [
            read.addr.eq(place), write.data.eq(self.written), write.en.eq(Mux(occupied, self.write, clear.valid)),
            write.addr.eq(Mux(occupied, place, Cat(cleared, clear.payload))),
            clear.ready.eq(~occupied & (cleared == WARP_THREADS - 1))]
        with m.If(clear.valid & ~occupied):
            m.d.sync += cleared.eq(cleared + 1)
        return m
