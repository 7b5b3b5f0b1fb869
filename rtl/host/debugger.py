"""The debugger's registers: the state of warps, and commands to the trap unit."""

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
    """The debugger's registers of the SM block; the others are those of the error status. A command
    reaches its output in the cycle after the write.

    Members
    -------
    access : RegisterAccess
    valid : In(warps)
        Warp slots with a warp that has not terminated.
    state : In(TrapStatus)
    stop, step : Out(1), Out(1)
        STOP_TRIGGER and SINGLE_STEP_MODE, which hold until the host writes DBGR_CONTROL0 again.
    wake : Out(warps)
        For one cycle: the host wakes these warps. It has an effect on paused warps only, and only
        while the multiprocessor is trapped.
    invalidate : Out(1)
        For one cycle: the host empties the caches.
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
        """DBGR_CONTROL0. RUN_TRIGGER is 0 always: it is a command, not a setting."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._read(m)
        self._write_control(m)
        self._wake_warps(m)
        return m

    def _is_written(self, name: str) -> Any:
        return self.access.write & (self.access.place == place_of(SM_REGISTERS[name]))

    def _read(self, m: Module) -> None:
        """Reads a register. Each mask of warps has two: of warps 0 to 31, and of warps 32 to 63."""
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
        """Drives ``stop``, ``step`` and ``invalidate``."""
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
        """Drives ``wake``: all warps when RUN_TRIGGER is written as 1; of the 32 warps of a
        BPT_PAUSE_MASK register, those whose bit is written as 0."""
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
