"""Shared memory itself, in banks of words."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import shared_clear
from rtl.params import SmParams
from rtl.wires import IN_BLOCKS

from .instruction import BeatKind, bank_read, bank_write, row_bits

__all__ = ["SharedBanks"]


class SharedBanks(Component):
    """One read of each bank in a cycle, and one write. Word w is in bank w modulo the number of
    banks, which is the number of lanes; a *row* is one word of each bank.

    Priority: a write has priority over a clear, which waits for a cycle without a write.

    Members
    -------
    read, values : In(bank_read), Out(a word for each bank)
        What was read a cycle ago; 0 if it was something else.
    write : In(bank_write)
        What is not written is 0.
    clear : In(stream of shared_clear)
        From the begin of a row on. Whole rows are cleared, one in each cycle without a write, here
        or to a line. The transfer acknowledges the clear.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "read": In(bank_read(params)),
            "write": In(bank_write(params)),
            "values": Out(data.ArrayLayout(32, params.lanes)),
            "clear": In(stream.Signature(shared_clear(params))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._cleared_row = Signal(row_bits(self._params))
        self._clears_row = Signal()
        self._clear(m)
        for number, access in enumerate(self.write.banks):
            self._add_bank(m, number, access)
        values = Cat(Cat(bank.bytes, bank.value) for bank in self.write.banks)
        m.d.sync += Assert(self.write.used | ~values.any(), "an unwritten value is not 0")
        return m

    def _clear(self, m: Module) -> None:
        """The rows of a request are cleared one by one."""
        request = self.clear.payload
        row = self._cleared_row
        row_bytes = 4 * self._params.lanes
        is_busy = Signal()
        pending_rows = Signal(len(row) + 1)
        m.d.comb += self._clears_row.eq(is_busy & pending_rows.any() & ~self.write.used)
        m.d.comb += self.clear.ready.eq(is_busy & ~pending_rows.any())
        with m.If(self.clear.valid & ~is_busy):
            m.d.sync += is_busy.eq(1)
            m.d.sync += row.eq(request.base // row_bytes)
            m.d.sync += pending_rows.eq((request.bytes + row_bytes - 1) // row_bytes)
        with m.Elif(self._clears_row):
            m.d.sync += row.eq(row + 1)
            m.d.sync += pending_rows.eq(pending_rows - 1)
        with m.Elif(self.clear.ready):
            m.d.sync += is_busy.eq(0)

    def _add_bank(self, m: Module, number: int, access: Any) -> None:
        """A bank. The register behind it, with its reset, becomes the block RAM's own. The
        value of a word that is read in the cycle of a write to it is not used."""
        value = self.values[number]
        words = memory.Memory(
            shape=32, depth=1 << len(self._cleared_row), init=[], attrs=IN_BLOCKS)
        m.submodules[f"bank_{number}"] = words
        read = words.read_port(domain="comb")
        m.d.comb += read.addr.eq(self.read.rows[number])
        m.d.sync += value.eq(Mux(self.read.kind == BeatKind.SHARED, read.data, 0))

        # What is not written is 0, which is what a clear writes.
        write = words.write_port(granularity=8)
        m.d.comb += write.data.eq(access.value)
        with m.If(self._clears_row):
            m.d.comb += write.addr.eq(self._cleared_row)
            m.d.comb += write.en.eq(~0)
        with m.Else():
            m.d.comb += write.addr.eq(access.row)
            m.d.comb += write.en.eq(Mux(self.write.line, 0, access.bytes))
