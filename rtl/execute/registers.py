"""The register file."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, stream
from amaranth.lib.wiring import In

from rtl.component import Component
from rtl.layouts import GATHER_REGISTERS
from rtl.params import SmParams
from rtl.wires import IN_BLOCKS

from .reads import RegisterRead
from .writes import RegisterWrite

__all__ = ["RegisterFile"]


class RegisterFile(Component):
    """Registers of all warps, in rows: a row is a register of a warp's 32 threads. A beat of a row
    is read or written at once.

    Each lane has a block RAM for each of the three operands, all with the same content. The outcome
    of a read in the cycle of a write of the same word is undefined (in simulation it is the old
    value); code whose stall counts and scoreboards are right does not depend on it.

    Clearing a row only marks it as blank. Reads report the mark, and the reader takes 0 for the
    values. The first instruction that writes to a blank row writes all lanes of all its beats, with
    zeros for threads that do not execute it.

    Members
    -------
    read : In(RegisterRead)
        ``blank`` is read with beat 0, and holds for all beats of the slot.
    write : In(RegisterWrite)
    clear : In(stream of rows)
        Marks a row as blank. The warp that is being launched has nothing in flight. Not ready in a
        cycle in which a write removes a mark: the write has priority.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "read": In(RegisterRead(params)),
            "write": In(RegisterWrite(params)),
            "clear": In(stream.Signature(params.row_bits)),
        })
        self._blanks = memory.Memory(shape=1, depth=params.registers, init=[], attrs=IN_BLOCKS)
        self._fills_blank = Signal(name="fills_blank")
        """The beat that is written belongs to a blank row: all of its lanes are written."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.blanks = self._blanks
        for operand in range(GATHER_REGISTERS):
            for lane in range(self._params.lanes):
                self._add_memory(m, operand, lane)
        self._find_blank(m)
        self._mark(m)
        self._read_marks(m)
        return m

    def _add_memory(self, m: Module, operand: int, lane: int) -> None:
        """The registers of a lane's threads, for one operand."""
        params = self._params
        written = self.write
        words = memory.Memory(
            shape=32, depth=params.registers * params.beats, init=[], attrs=IN_BLOCKS)
        m.submodules[f"operand{operand}_lane{lane}"] = words
        stored = words.read_port(domain="comb")
        m.d.comb += stored.addr.eq(Cat(self.read.beat, self.read.rows[operand]))
        m.d.sync += self.read.values[operand][lane].eq(stored.data)

        write = words.write_port()
        m.d.comb += write.addr.eq(Cat(written.beat, written.row))
        m.d.comb += write.data.eq(written.values[lane])
        m.d.comb += write.en.eq(written.lanes[lane] | self._fills_blank)

    def _find_blank(self, m: Module) -> None:
        """Whether the row that is written is blank. The first beat determines it for all beats of
        the instruction.

        The mark is read a cycle before the write. A mark that changes in that cycle is forwarded.
        The row of the write and the row of ``clear`` are both compared, for timing: which of them
        changes is late in the cycle."""
        written = self.write
        mark = self._blanks.read_port()
        m.d.comb += mark.addr.eq(written.next_row)
        filled = written.next_row == written.row
        cleared = self.clear.valid & (written.next_row == self.clear.payload)
        has_changed = Signal()
        changed_mark = Signal()
        m.d.sync += has_changed.eq(Mux(self._fills_blank, filled, cleared))
        m.d.sync += changed_mark.eq(~self._fills_blank)

        was_blank = Signal()
        is_blank = Mux(
            written.beat == 0, Mux(has_changed, changed_mark, mark.data), was_blank)
        m.d.comb += self._fills_blank.eq(written.is_valid & is_blank)
        with m.If(written.is_valid):
            m.d.sync += was_blank.eq(self._fills_blank)

    def _mark(self, m: Module) -> None:
        """A write to a blank row removes its mark, with priority over ``clear``."""
        write = self._blanks.write_port()
        m.d.comb += self.clear.ready.eq(~self._fills_blank)
        with m.If(self._fills_blank):
            m.d.comb += write.en.eq(1)
            m.d.comb += write.addr.eq(self.write.row)
            m.d.comb += write.data.eq(0)
        with m.Else():
            m.d.comb += write.en.eq(self.clear.valid)
            m.d.comb += write.addr.eq(self.clear.payload)
            m.d.comb += write.data.eq(1)

    def _read_marks(self, m: Module) -> None:
        """The marks of the rows that are read: read with beat 0, and held for the other beats."""
        for row, blank in zip(self.read.rows, self.read.blank, strict=True):
            mark = self._blanks.read_port()
            m.d.comb += mark.addr.eq(row)
            m.d.comb += mark.en.eq(self.read.beat == 0)
            m.d.comb += blank.eq(mark.data)
