"""What the trap unit does otherwise in a machine that has one instruction under way."""

from collections.abc import Mapping
from typing import Any, ClassVar

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.wiring import In

from rtl.layouts import EventLayout, issued
from rtl.params import SmParams
from rtl.trap import TrapUnit
from rtl.trap.machine import WarpTraps

from ..errors import of_instruction, of_stack, simultaneous_errors
from .last import LastInstructions

__all__ = ["SerialTrapUnit"]


class SerialWarpTraps(WarpTraps):
    """One flow result is under way: a register tells whether it is that of an ENTER."""

    kept: ClassVar[Mapping[str, Any]] = {}

    def make_turns(self, params: SmParams) -> None:
        """No memories are needed."""

    def simultaneous(self) -> list[Any]:
        return simultaneous_errors(self.errors)

    def answers_entry(self, m: Module, enters: Value) -> Value:
        """No other warp that is inside has a result meanwhile."""
        entering = Signal()
        is_inside = self.inside.bit_select(self.result.payload.warp, 1)
        with m.If(enters):
            m.d.sync += entering.eq(1)
        with m.Elif(self.result.valid & is_inside):
            m.d.sync += entering.eq(0)
        return entering & is_inside


class SerialTrapUnit(TrapUnit):
    """Knows what was issued.

    Members
    -------
    issued : In(EventLayout of issued)
        The instruction under way, in any cycle before its dispatch.

    All others are as TrapUnit describes them.
    """

    def more_ports(self, params: SmParams) -> dict[str, Any]:
        return {"issued": In(EventLayout(issued(params)))}

    def make_warps(self, params: SmParams) -> WarpTraps:
        return SerialWarpTraps(params)

    def move(self, m: Module) -> None:
        """From ENTER and LEAVE to what the flow unit does. A warp that enters comes back to the
        instruction that it issued last if that failed, or is a BAR whose arrival was withdrawn."""
        m.submodules.last = last = LastInstructions(self._params)
        moved = self.dispatch.payload
        m.d.comb += last.issued.eq(self.issued)
        m.d.comb += last.withdrawn.eq(self.withdrawn)
        m.d.comb += last.status_warp.eq(self.status_warp)
        m.d.comb += last.inside.eq(self.warps.inside)
        m.d.comb += last.entered.eq(self.warps.entered)
        m.d.comb += last.ended.eq(self.warps.ended)
        m.d.comb += last.failing.eq(self.warps.failed)
        m.d.comb += last.failed.eq(of_instruction(self.errors))
        m.d.comb += last.stack.eq(of_stack(self.errors))
        m.d.comb += last.warp.eq(moved.warp)

        saved = Signal(32)
        error = Mux(self.status.failed, last.error.as_value(), 0)
        m.d.comb += saved.eq(Mux(last.again, last.pc, moved.pc))
        m.d.comb += self.status.error.as_value().eq(error)
        self.tell_flow(m, saved, last.mode)
