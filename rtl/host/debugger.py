"""The debugger's registers: what warps do, and what the host wants of them."""

from amaranth.hdl import Module, Mux, Signal
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
            "access": Out(RegisterAccess()), "valid": In(params.warps), "state": In(TrapStatus(params)),
            "stop": Out(1), "step": Out(1), "wake": Out(params.warps), "invalidate": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        access, state = self.access, self.state
        control = Signal(32, init=_CONTROL.reset)
        run, stop, step = (_CONTROL.fields[name][0] for name in ("RUN_TRIGGER", "STOP_TRIGGER", "SINGLE_STEP_MODE"))
        status = Signal(32)
        for name, bit in (("SM_IN_TRAP_MODE", state.trapping), ("LOCKED_DOWN", state.locked_down)):
            m.d.comb += status[SM_REGISTERS["DBGR_STATUS0"].fields[name][0]].eq(bit)

        # Reading and writing.
        contents = {"DBGR_STATUS0": status, "DBGR_CONTROL0": control}
        for name, warps in (("WARP_VALID_MASK", self.valid), ("BPT_PAUSE_MASK", state.paused),
                            ("BPT_TRAP_MASK", state.trapped)):
            contents |= {name: warps[:32], f"{name}_1": warps[32:]}
        with m.Switch(access.place):
            for name, content in contents.items():
                with m.Case(place_of(SM_REGISTERS[name])):
                    m.d.comb += access.value.eq(content)

        def written(name: str) -> Signal:
            return access.write & (access.place == place_of(SM_REGISTERS[name]))

        with m.If(written("DBGR_CONTROL0")):
            m.d.sync += [control.eq(access.data), control[run].eq(0)]
        m.d.comb += [self.stop.eq(control[stop]), self.step.eq(control[step])]
        invalidate, _ = SM_REGISTERS["CACHE_CONTROL"].fields["INVALIDATE"]
        m.d.sync += self.invalidate.eq(written("CACHE_CONTROL") & access.data[invalidate])

        # Whom to wake.
        runs = written("DBGR_CONTROL0") & access.data[run]
        m.d.sync += self.wake.eq(0)
        for name, warps in (("BPT_PAUSE_MASK", self.wake[:32]), ("BPT_PAUSE_MASK_1", self.wake[32:])):
            if len(warps):
                m.d.sync += warps.eq(Mux(written(name), ~access.data, 0) | runs.replicate(len(warps)))
        return m
