"""The register file of a serial machine: a single copy with one read port."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import WARP_THREADS, SmParams
from rtl.wires import IN_BLOCKS
from rtl.words import Words

__all__ = ["SerialRegisters"]

_LAST_THREAD = WARP_THREADS - 1


class SerialRegisters(Component):
    """The registers of all warps. A row is a register of a warp's 32 threads; one thread's word is
    read or written in a cycle.

    Writes take precedence over clearing: the write port is reserved a cycle ahead with
    ``may_write_next``, and clears in all other cycles.

    Members
    -------
    row, thread : In, In(5)
        The word that is read, or written.
    read : Out(32)
        Its content, a cycle later.
    may_write_next, result : In(1), In(32)
        Reserves the write port for the next cycle, and the word that may be written then.
    write, written : In(1), Out(32)
        In that cycle: the word is written to ``row`` and ``thread``.
    clear : In(stream of rows)
        All words of the row become 0. The row's future warp has nothing in flight.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "row": In(params.row_bits),
            "thread": In(range(WARP_THREADS)),
            "read": Out(32),
            "may_write_next": In(1),
            "result": In(32),
            "write": In(1),
            "written": Out(32),
            "clear": In(stream.Signature(params.row_bits)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = words = Words(
            32, self._params.registers * WARP_THREADS, **IN_BLOCKS)
        write = words.write_port()
        address = Cat(self.thread, self.row)
        m.d.sync += self.read.eq(words.read(m, address))

        is_reserved = Signal()
        cleared_thread = Signal(range(WARP_THREADS))
        # The word is 0 where no result is written, so that clearing needs no multiplexer.
        m.d.sync += is_reserved.eq(self.may_write_next)
        m.d.sync += self.written.eq(Mux(self.may_write_next, self.result, 0))
        m.d.comb += write.data.eq(self.written)
        with m.If(is_reserved):
            m.d.comb += write.addr.eq(address)
            m.d.comb += write.en.eq(self.write)
        with m.Else():
            m.d.comb += write.addr.eq(Cat(cleared_thread, self.clear.payload))
            m.d.comb += write.en.eq(self.clear.valid)
            m.d.comb += self.clear.ready.eq(cleared_thread == _LAST_THREAD)
            with m.If(self.clear.valid):
                m.d.sync += cleared_thread.eq(cleared_thread + 1)
        m.d.sync += Assert(~self.write | is_reserved, "a register is written without time for it")
        return m
