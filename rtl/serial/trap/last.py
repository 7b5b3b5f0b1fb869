"""Where a warp comes back to in a machine with one instruction in flight."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import In

from rtl.isa.errors import WarpError
from rtl.isa.kinds import ReturnFromTrapMode
from rtl.layouts import Event, InstructionKind, issued
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.trap.decode import return_mode
from rtl.trap.returns import ReturnPoints
from rtl.wires import IN_BLOCKS
from rtl.words import Words

from ..errors import of_instruction, of_stack

__all__ = ["LastInstructions"]

_ALIGNED_BITS = 3
"""Bits of an instruction's address that are 0."""
_CODE_BITS = max(error.value for error in WarpError).bit_length()


class LastInstructions(ReturnPoints):
    """Keeps each warp's last instruction, in block RAM, and what was wrong with it.

    What has failed, or was withdrawn from its barrier, is the last instruction of its warp: nothing
    has issued behind it. When the warp leaves, its last instruction is the RTT. The last
    instruction is read with ``issued``, for the ENTER or LEAVE that issues, before that is
    dispatched.

    Members
    -------
    issued : In(Event of issued)
        The one instruction in flight, in any cycle before its dispatch.

    The others are the same as in ReturnPoints. An error of a line of a stack, which belongs to no
    instruction, waits for a cycle without an instruction's error, and is kept only if the warp has
    no other one.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__(params, issued=In(Event(issued(params))))
        self._count = params.warps
        self._returns_to_last = Signal(params.warps, name="returns_to_last")
        """Warps that come back to their last instruction."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        error = of_instruction(m, self.errors)
        failed = error.payload
        counts = Signal()
        m.d.comb += counts.eq(error.valid & ~self.warps.state.inside.bit_select(failed.warp, 1))
        self._keep_instruction(m)
        self._keep_whether_to_return(m, failed, counts)
        self._keep_error(m, failed, counts)
        return m

    def _keep_instruction(self, m: Module) -> None:
        """The last instruction's address, and its mode if it is RTT. An error that the warp will
        return to is kept."""
        instruction = self.issued.payload
        last: Any = data.StructLayout({"place": 32 - _ALIGNED_BITS, "mode": ReturnFromTrapMode})
        m.submodules.last = words = memory.Memory(
            shape=last, depth=self._count, init=[], attrs=IN_BLOCKS)
        read = words.read_port()
        write = words.write_port()
        is_injected = (instruction.kind == InstructionKind.ENTER) | (
            instruction.kind == InstructionKind.LEAVE)
        keeps_last = self._returns_to_last.bit_select(instruction.warp, 1)
        m.d.comb += read.addr.eq(instruction.warp)
        m.d.comb += read.en.eq(self.issued.valid)
        m.d.comb += write.addr.eq(instruction.warp)
        m.d.comb += write.en.eq(self.issued.valid & ~is_injected & ~keeps_last)
        m.d.comb += write.data.place.eq(instruction.pc[_ALIGNED_BITS:])
        m.d.comb += write.data.mode.eq(return_mode(instruction.word))

        m.d.comb += self.mode.eq(read.data.mode)
        with m.If(self._returns_to_last.bit_select(self.dispatch.payload.warp, 1)):
            m.d.comb += self.pc[_ALIGNED_BITS:].eq(read.data.place)
        with m.Else():
            m.d.comb += self.pc.eq(self.dispatch.payload.pc)

    def _keep_whether_to_return(self, m: Module, failed: Any, counts: Value) -> None:
        """Which warps come back to their last instruction, until they enter, or end."""
        warps = self._count
        returns = self._returns_to_last
        sets = one_hot(failed.warp, warps, counts) | one_hot(
            self.withdrawn.payload, warps, self.withdrawn.valid)
        clears = self.warps.changes.entered | self.warps.changes.ended
        m.d.sync += returns.eq((returns | sets) & ~clears)
        m.d.sync += Assert(
            ~(counts & returns.bit_select(failed.warp, 1)),
            "a warp's last instruction fails twice")

    def _keep_error(self, m: Module, failed: Any, counts: Value) -> None:
        """Why a warp failed."""
        stack = of_stack(self.errors)
        waiting = stack.signature.create(path=("waiting",))
        m.submodules.errors = errors = Words(_CODE_BITS, self._count, ram_style="distributed")
        m.d.comb += self.error.as_value().eq(errors.read(m, self.status_warp))
        errors.write(
            m, counts | waiting.valid, Mux(counts, failed.warp, waiting.payload.warp),
            Mux(counts, failed.error.as_value(), waiting.payload.error.as_value()))
        has_other_error = (self.warps.state.inside | self.warps.state.failed).bit_select(
            stack.payload.warp, 1) | (counts & (failed.warp == stack.payload.warp))
        with m.If(~counts):
            m.d.sync += waiting.valid.eq(0)
        with m.If(stack.valid):
            m.d.sync += waiting.valid.eq(~has_other_error)
            m.d.sync += waiting.payload.eq(stack.payload)
