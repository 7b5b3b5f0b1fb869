"""The register file."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import GATHER_REGISTERS
from rtl.params import SmParams

from .slots import beat_write

__all__ = ["RegisterFile"]


class RegisterFile(Component):
    """Registers of all warps, in rows: a row is a register of a warp's 32 threads. A beat of a row is reached at once.

    Each lane has a block memory of its own for every operand, all with the same content. What is read in the cycle of
    a write is what was there before.

    Members
    -------
    rows, beat : In
        What is read: a row for each operand, one beat.
    values : Out(32 bits for each lane, for each operand)
        What was there, a cycle later.
    write : In(beat_write)
    """

    def __init__(self, params: SmParams) -> None:
        self._depth = params.registers * params.beats
        self._lanes = params.lanes
        super().__init__({
            "rows": In(data.ArrayLayout(params.row_bits, GATHER_REGISTERS)), "beat": In(range(params.beats)),
            "values": Out(data.ArrayLayout(data.ArrayLayout(32, params.lanes), GATHER_REGISTERS)),
            "write": In(beat_write(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for operand in range(GATHER_REGISTERS):
            for lane in range(self._lanes):
                words = memory.Memory(shape=32, depth=self._depth, init=[])
                m.submodules[f"operand{operand}_lane{lane}"] = words
                read, write = words.read_port(), words.write_port()
                m.d.comb += [
                    read.addr.eq(Cat(self.beat, self.rows[operand])), self.values[operand][lane].eq(read.data),
                    write.addr.eq(Cat(self.write.place.beat, self.write.row)), write.en.eq(self.write.registers[lane]),
                    write.data.eq(self.write["values"][lane])]
        return m
