"""The request for a line of a stack, waiting for memory to take it."""

from typing import Any

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import CRS_GRANULE, LINE_BYTES, TOKENS_PER_LINE
from rtl.layouts import BLOCK_ADDRESS_BITS, LINE_BITS, StackConfiguration, TokenLine, memory_request
from rtl.params import SmParams

from .lines import TokensOfLine

__all__ = ["LineRequest"]

_LINES_PER_GRANULE_BITS = (CRS_GRANULE // LINE_BYTES - 1).bit_length()


class LineRequest(Component):
    """Knows where each warp's stack lies, and holds one line's request until memory takes it.

    Members
    -------
    launch, set_base, launch_warp, configuration : In
        Where the stack of ``launch_warp`` lies from now on; with ``set_base`` only the block's base is set.
    free : Out(1)
        ``take`` is allowed.
    take, write, warp, number, valid : In
        Ask for line ``number`` of a warp's stack, or write it; a token that is not valid is written as zeros,
        which is NONE.
    line : In(TokensOfLine)
        What to write, a cycle after ``take``.
    base : Out(BLOCK_ADDRESS_BITS)
        Where the local memory of ``launch_warp`` begins.
    request : Out(stream of memory_request)
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        bits = params.warp_bits
        super().__init__({
            "launch": In(1), "set_base": In(1), "launch_warp": In(bits), "configuration": In(StackConfiguration),
            "base": Out(BLOCK_ADDRESS_BITS),
            "free": Out(1), "take": In(1), "write": In(1), "warp": In(bits), "number": In(LINE_BITS),
            "line": In(TokensOfLine), "valid": In(TOKENS_PER_LINE),
            "request": Out(stream.Signature(memory_request(bits)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bases = bases = memory.Memory(shape=BLOCK_ADDRESS_BITS, depth=self._warps, init=[])
        m.submodules.sizes = sizes = memory.Memory(shape=BLOCK_ADDRESS_BITS, depth=self._warps, init=[])
        for table, enable, value in ((bases, self.launch | self.set_base, self.configuration.base),
                                     (sizes, self.launch, self.configuration.local)):
            write = table.write_port()
            m.d.comb += [write.en.eq(enable), write.addr.eq(self.launch_warp), write.data.eq(value)]
        base, size = bases.read_port(domain="comb"), sizes.read_port(domain="comb")
        asked = bases.read_port(domain="comb")
        m.d.comb += [base.addr.eq(self.warp), size.addr.eq(self.warp), asked.addr.eq(self.launch_warp),
                     self.base.eq(asked.data)]

        region, number, valid, taken = Signal(BLOCK_ADDRESS_BITS), Signal(LINE_BITS), Signal(TOKENS_PER_LINE), Signal()
        request = self.request.payload
        m.d.comb += [
            self.free.eq(~taken & ~self.request.valid),
            request.address.eq((region << _LINES_PER_GRANULE_BITS) + number),
            request.mask.eq(Const(~0, LINE_BYTES))]
        with m.If(self.free):
            m.d.sync += [
                taken.eq(self.take), request.write.eq(self.write), request.tag.eq(self.warp),
                region.eq(base.data + size.data), number.eq(self.number), valid.eq(self.valid)]
        with m.Elif(taken):
            m.d.sync += [taken.eq(0), self.request.valid.eq(1)]
        with m.Elif(self.request.ready):
            m.d.sync += self.request.valid.eq(0)
        line: Any = data.View(TokenLine, request.data)
        for index, kept in enumerate(line):
            token = self.line[index]
            with m.If(taken):
                m.d.sync += [kept.pc.eq(token.pc), kept.mask.eq(token.mask), kept.kind.eq(token.kind),
                             kept.counted.eq(token.counted)]
            # Outside of the enable, so that this becomes the registers' own reset.
            clear = Signal(name=f"clear{index}")
            m.d.comb += clear.eq(taken & ~valid[index])
            with m.If(clear):
                m.d.sync += kept.eq(0)
        return m
