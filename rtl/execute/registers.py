"""The register file."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import GATHER_REGISTERS
from rtl.params import SmParams
from rtl.wires import IN_BLOCKS

from .slots import beat_write

__all__ = ["RegisterFile"]


class RegisterFile(Component):
    """Registers of all warps, in rows: a row is a register of a warp's 32 threads. A beat of a row is reached at once.

    Each lane has a block memory of its own for every operand, all with the same content. What is read in the cycle of
    a write is what was there before in simulation; block RAM does not promise it, and code that keeps its distances
    does not ask.

    A row that is cleared is only marked: what is in it counts for nothing, and the first instruction that writes to it
    writes all lanes of all its beats, with zeros where threads do not execute it.

    Members
    -------
    rows, beat : In
        What is read: a row for each operand, one beat.
    values : Out(32 bits for each lane, for each operand)
        What was there, a cycle later.
    blank : Out(1 bit for each operand)
        Then, too: the row was cleared, and had not been written when its first beat was read.
    row : In
        What will be written to in the next cycle.
    write : In(beat_write)
        ``values`` are 0 in lanes that do not write.
    clear : In(stream of rows)
        Nothing of the warp whose row this will be is under way.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        row = params.row_bits
        super().__init__({
            "rows": In(data.ArrayLayout(row, GATHER_REGISTERS)), "beat": In(range(params.beats)),
            "values": Out(data.ArrayLayout(data.ArrayLayout(32, params.lanes), GATHER_REGISTERS)),
            "blank": Out(GATHER_REGISTERS), "row": In(row), "write": In(beat_write(params)),
            "clear": In(stream.Signature(row))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, written = self._params, self.write
        enable = Signal(params.lanes)
        m.d.comb += enable.eq(written.registers | self._mark(m).replicate(params.lanes))
        for operand in range(GATHER_REGISTERS):
            for lane in range(params.lanes):
                words = memory.Memory(
                    shape=32, depth=params.registers * params.beats, init=[], attrs=IN_BLOCKS)
                m.submodules[f"operand{operand}_lane{lane}"] = words
                read, write = words.read_port(domain="comb"), words.write_port()
                m.d.sync += self.values[operand][lane].eq(read.data)
                m.d.comb += [
                    read.addr.eq(Cat(self.beat, self.rows[operand])),
                    write.addr.eq(Cat(written.place.beat, written.row)), write.en.eq(enable[lane]),
                    write.data.eq(written["values"][lane])]
        return m

    def _mark(self, m: Module) -> Signal:
        """Which rows are blank; tells whether the beat that is written is all of what will be there."""
        written, all_lanes, was_blank = self.write, Signal(), Signal()
        m.submodules.blanks = blanks = memory.Memory(
            shape=1, depth=self._params.registers, init=[], attrs=IN_BLOCKS)
        write, found, bypassed, mark = blanks.write_port(), blanks.read_port(), Signal(), Signal()

        # Of what is written. A row is blank for all beats of the instruction that finds it so. One whose mark changes
        # while it is read has the new one; both of what may be written are compared, since it is known late which is.
        fills, clears = self.row == written.row, (self.row == self.clear.payload) & self.clear.valid
        m.d.sync += [bypassed.eq(Mux(all_lanes, fills, clears)), mark.eq(~all_lanes)]
        m.d.comb += [
            found.addr.eq(self.row), all_lanes.eq(written.fills & Mux(
                written.place.beat == 0, Mux(bypassed, mark, found.data), was_blank)),
            self.clear.ready.eq(~all_lanes), write.en.eq(all_lanes | self.clear.valid),
            write.addr.eq(Mux(all_lanes, written.row, self.clear.payload)), write.data.eq(~all_lanes)]
        with m.If(written.fills):
            m.d.sync += was_blank.eq(all_lanes)

        # Of what is read, likewise: behind its first beat the memory is not read again.
        for row, blank in zip(self.rows, self.blank, strict=True):
            read = blanks.read_port()
            m.d.comb += [read.addr.eq(row), read.en.eq(self.beat == 0), blank.eq(read.data)]
        return all_lanes
