"""What each warp did last, in a machine with one instruction under way."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.kinds import ReturnFromTrapMode
from rtl.isa.table import BY_NAME
from rtl.layouts import EventLayout, InstructionKind, error_event, issued
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.wires import IN_BLOCKS
from rtl.word import field_of
from rtl.words import Words

__all__ = ["LastInstructions"]

(_RTT,) = BY_NAME["RTT"]
_ALIGNED = 3
"""Bits of an instruction's address that are 0."""
_ERROR_BITS = max(error.value for error in WarpError).bit_length()


class LastInstructions(Component):
    """Keeps each warp's last instruction, in block RAM, and what was wrong with it.

    A warp that enters the trap comes back to it if it has failed, or is a BAR of which the arrival was taken back:
    nothing has issued behind it, or nothing that counts. When the warp leaves, its last instruction is the RTT.

    Members
    -------
    issued : In(EventLayout of issued)
    failed, stack : In(error_event), In(error_event)
        Of the instruction that is under way; and of a line of a stack, which is of no instruction.
    withdrawn : In(valid and warp)
    inside, failing, entered, ended : In(warps)
        See WarpTraps: inside the trap; had an error outside, before this cycle; enters; begins, or ends.
    warp, again, pc, mode : In, Out(1), Out(32), Out(ReturnFromTrapMode)
        A warp that enters or leaves, its instruction being the one that was issued last: whether it comes back to its
        last one, that one's address, and how it leaves if that is RTT.
    status_warp, error : In, Out(WarpError)
        The error that a warp entered the trap with; if it failed.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, warp = params.warps, params.warp_bits
        super().__init__({
            "issued": In(EventLayout(issued(params))), "failed": In(error_event(params)),
            "stack": In(error_event(params)), "withdrawn": In(data.StructLayout({"valid": 1, "warp": warp})),
            **dict.fromkeys(("inside", "failing", "entered", "ended"), In(warps)), "warp": In(warp), "again": Out(1),
            "pc": Out(32), "mode": Out(ReturnFromTrapMode), "status_warp": In(warp), "error": Out(WarpError)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warps, came, failed, stack = self._params.warps, self.issued.payload, self.failed, self.stack
        last: Any = data.StructLayout({"place": 32 - _ALIGNED, "mode": ReturnFromTrapMode})
        m.submodules.last = words = memory.Memory(shape=last, depth=warps, init=[], attrs=IN_BLOCKS)
        read, write, returns = words.read_port(), words.write_port(), Signal(warps)
        injected = (came.kind == InstructionKind.ENTER) | (came.kind == InstructionKind.LEAVE)
        m.d.comb += [
            read.addr.eq(came.warp), read.en.eq(self.issued.valid), write.addr.eq(came.warp),
            write.en.eq(self.issued.valid & ~injected & ~returns.bit_select(came.warp, 1)),
            write.data.place.eq(came.pc[_ALIGNED:]), write.data.mode.eq(field_of(came.word, _RTT.fields["mode"])),
            self.pc[_ALIGNED:].eq(read.data.place), self.mode.eq(read.data.mode),
            self.again.eq(returns.bit_select(self.warp, 1))]

        # Whether it comes back to it.
        counts = failed.valid & ~self.inside.bit_select(failed.warp, 1)
        comes = one_hot(failed.warp, warps, counts) | one_hot(self.withdrawn.warp, warps, self.withdrawn.valid)
        m.d.sync += returns.eq((returns | comes) & ~(self.entered | self.ended))

        # Why it failed. A line of a stack waits for a cycle without an instruction's error, and says nothing of a warp
        # that has another one.
        m.submodules.errors = errors = Words(_ERROR_BITS, warps, ram_style="distributed")
        waits, code = Signal(error_event(self._params)), Signal(_ERROR_BITS)
        m.d.comb += self.error.as_value().eq(code)
        m.d.comb += code.eq(errors.read(m, self.status_warp))
        errors.write(m, counts | waits.valid, Mux(counts, failed.warp, waits.warp),
                     Mux(counts, failed.error.as_value(), waits.error.as_value()))
        with m.If(~counts):
            m.d.sync += waits.valid.eq(0)
        with m.If(stack.valid):
            m.d.sync += [
                waits.eq(stack),
                waits.valid.eq(~((self.inside | self.failing).bit_select(stack.warp, 1)
                                 | (counts & (failed.warp == stack.warp))))]
        m.d.sync += Assert(~(counts & returns.bit_select(failed.warp, 1)), "a warp's last instruction fails twice")
        return m
