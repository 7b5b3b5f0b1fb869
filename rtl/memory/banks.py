"""Shared memory itself, in banks of words."""


from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import SmParams
from rtl.wires import IN_BLOCKS

from .instruction import BeatKind, bank_read, bank_write, row_bits

__all__ = ["SharedBanks", "clear_request"]


def clear_request(params: SmParams) -> data.StructLayout:
    """Shared memory to fill with zeros: ``bytes`` from ``shared_base`` on, which must be at the begin of a row."""
    return data.StructLayout({"shared_base": params.shared_bits, "bytes": params.shared_bits + 1})


class SharedBanks(Component):
    """One read of each bank in a cycle, and one write. Word w is in bank w modulo the number of banks.

    Members
    -------
    read, values : In(bank_read), Out(a word for each bank)
        What was read a cycle ago; 0 if it was something else.
    write : In(bank_write)
    clear : In(stream of clear_request)
        Whole rows are cleared, one in each cycle in which nobody writes, here or to a line:
        then the values are 0. A transfer tells that it is done.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "read": In(bank_read(params)), "write": In(bank_write(params)),
            "values": Out(data.ArrayLayout(32, params.lanes)), "clear": In(stream.Signature(clear_request(params)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, bits = self._params, row_bits(self._params)
        clear, row_bytes = self.clear.payload, 4 * params.lanes
        row, left, clearing = Signal(bits), Signal(bits + 1), Signal()
        clears = clearing & ~self.write.used & left.any()
        m.d.comb += self.clear.ready.eq(clearing & ~left.any())
        m.d.sync += Assert(self.write.used | ~Cat(Cat(bank.bytes, bank.value) for bank in self.write.banks).any(),
                           "what nobody writes is not 0")
        with m.If(~clearing & self.clear.valid):
            m.d.sync += [
                clearing.eq(1), row.eq(clear.shared_base // row_bytes),
                left.eq((clear.bytes + row_bytes - 1) // row_bytes)]
        with m.Elif(clears):
            m.d.sync += [row.eq(row + 1), left.eq(left - 1)]
        with m.Elif(self.clear.ready):
            m.d.sync += clearing.eq(0)

        # The register and its reset become the block RAM's own; nobody wants what is read where something is written.
        for bank, access in enumerate(self.write.banks):
            m.submodules[f"bank_{bank}"] = words = memory.Memory(shape=32, depth=1 << bits, init=[], attrs=IN_BLOCKS)
            read, write = words.read_port(domain="comb"), words.write_port(granularity=8)
            m.d.sync += self.values[bank].eq(Mux(self.read.kind == BeatKind.SHARED, read.data, 0))
            m.d.comb += [
                read.addr.eq(self.read.rows[bank]), write.addr.eq(Mux(clears, row, access.row)),
                write.data.eq(access.value), write.en.eq(
                    clears.replicate(4) | Mux(self.write.line, 0, access.bytes))]
        return m
