"""The debugger's registers: the state of warps, and what the host makes them do."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.registers import SM_REGISTERS
from rtl.layouts import RegisterAccess, TrapStatus, place_of
from rtl.params import SmParams

__all__ = ["DebuggerRegisters"]

_CONTROL = SM_REGISTERS["DBGR_CONTROL0"]


class DebuggerRegisters(Component):
    """The debugger's part of the SM block.

    Members
    -------
    access : RegisterAccess
    valid : In(warps)
        Warp slots with a warp that has not ended.
    state : In(TrapStatus)
    stop, step : Out(1), Out(1)
        As the host has set them.
    wake : Out(warps)
        For one cycle: warps that the host wakes.
    invalidate : Out(1)
        For one cycle: the caches become empty.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "access": Out(RegisterAccess()),
            "valid": In(params.warps),
            "state": In(TrapStatus(params)),
            "stop": Out(1),
            "step": Out(1),
            "wake": Out(params.warps),
            "invalidate": Out(1),
        })
        self._control = Signal(32, init=_CONTROL.reset, name="control")
        """DBGR_CONTROL0, but for RUN_TRIGGER, which reads as 0."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._read(m)
        self._write_control(m)
        self._wake_warps(m)
        return m

    def _is_written(self, name: str) -> Any:
        return self.access.write & (self.access.place == place_of(SM_REGISTERS[name]))

    def _read(self, m: Module) -> None:
        """What the host reads. A mask of more than 32 warps has two registers."""
        state = self.state
        status = Signal(32)
        fields = SM_REGISTERS["DBGR_STATUS0"].fields
        m.d.comb += status[fields["SM_IN_TRAP_MODE"][0]].eq(state.trapping)
        m.d.comb += status[fields["LOCKED_DOWN"][0]].eq(state.locked_down)
        masks = {
            "WARP_VALID_MASK": self.valid,
            "BPT_PAUSE_MASK": state.paused,
            "BPT_TRAP_MASK": state.trapped,
        }
        contents = {"DBGR_STATUS0": status, "DBGR_CONTROL0": self._control}
        for name, warps in masks.items():
            contents[name] = warps[:32]
            contents[f"{name}_1"] = warps[32:]
        with m.Switch(self.access.place):
            for name, content in contents.items():
                with m.Case(place_of(SM_REGISTERS[name])):
                    m.d.comb += self.access.value.eq(content)

    def _write_control(self, m: Module) -> None:
        """Stop, single step, and the invalidation of caches."""
        data = self.access.data
        fields = _CONTROL.fields
        control = self._control
        with m.If(self._is_written("DBGR_CONTROL0")):
            m.d.sync += control.eq(data)
            m.d.sync += control[fields["RUN_TRIGGER"][0]].eq(0)
        m.d.comb += self.stop.eq(control[fields["STOP_TRIGGER"][0]])
        m.d.comb += self.step.eq(control[fields["SINGLE_STEP_MODE"][0]])
        invalidate = SM_REGISTERS["CACHE_CONTROL"].fields["INVALIDATE"][0]
        m.d.sync += self.invalidate.eq(self._is_written("CACHE_CONTROL") & data[invalidate])

    def _wake_warps(self, m: Module) -> None:
        """Wakes all warps by RUN_TRIGGER, or those whose bit the host clears in the mask of paused
        ones."""
        data = self.access.data
        run = _CONTROL.fields["RUN_TRIGGER"][0]
        m.d.sync += self.wake.eq(0)
        with m.If(self._is_written("DBGR_CONTROL0") & data[run]):
            m.d.sync += self.wake.eq(~0)
        with m.If(self._is_written("BPT_PAUSE_MASK")):
            m.d.sync += self.wake[:32].eq(~data)
        if len(self.wake) > 32:
            with m.If(self._is_written("BPT_PAUSE_MASK_1")):
                m.d.sync += self.wake[32:].eq(~data)
