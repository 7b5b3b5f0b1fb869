"""The trap unit."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BreakpointMode
from rtl.isa.table import BY_NAME
from rtl.layouts import completion, dispatched, error_event, warp_launch
from rtl.params import SmParams
from rtl.word import field_of, pattern_of

__all__ = ["TRAP_REASONS", "TrapEvent", "TrapUnit"]

TRAP_REASONS = range(1, 8)
"""What BPT.TRAP can give as its reason; anything else is ILLEGAL_INSTR_PARAM."""


class TrapEvent(data.StructLayout):
    """A BPT, for one cycle. ``trap``: with this reason, and ``pc`` of the next instruction. ``interrupt``: BPT.INT."""

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "trap": 1, "interrupt": 1, "warp": params.warp_bits, "pc": 32, "reason": range(TRAP_REASONS.stop)})


class TrapUnit(Component):
    """Takes an instruction in every cycle, and answers in the next one.

    An instruction with a reported error is complete, and so is BPT.TRAP; but their warps are not let go.

    Members
    -------
    dispatch : In(valid and dispatched)
        Kind TRAP.
    room : Out(1)
        Always.
    launch : In(valid and warp_launch)
        A new warp's traps are not masked.
    report_mask : In(32)
        Bit n: errors of code n are reported. One that is not makes the instruction do nothing.
    trapped : Out(TrapEvent)
    masked : Out(warps)
        IDE.DI is in force.
    resume : Out(warps)
        For one cycle: the warp goes on.
    completion : Out(completion)
    error : Out(error_event)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})), "room": Out(1),
            "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)})), "report_mask": In(32),
            "trapped": Out(TrapEvent(params)), "masked": Out(params.warps), "resume": Out(params.warps),
            "completion": Out(completion(params)), "error": Out(error_event(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction, valid = self.dispatch.payload, self.dispatch.valid
        word, error, reported = instruction.word, Signal(WarpError), Signal()
        traps, interrupts = Signal(), Signal()
        (breakpoint_form,), (mask_form,) = BY_NAME["BPT"], BY_NAME["IDE"]
        mode, reason = (field_of(word, breakpoint_form.fields[name]) for name in ("mode", "reason"))
        with m.Switch(word):
            with m.Case(pattern_of(breakpoint_form)), m.Switch(mode):
                with m.Case(BreakpointMode.TRAP.value):
                    m.d.comb += traps.eq((reason >= TRAP_REASONS.start) & (reason < TRAP_REASONS.stop))
                    m.d.comb += error.eq(Mux(traps, WarpError.NONE, WarpError.ILLEGAL_INSTR_PARAM))
                with m.Case(BreakpointMode.INT.value):
                    m.d.comb += interrupts.eq(1)
                with m.Case(BreakpointMode.DRAIN.value):
                    pass
                with m.Default():
                    m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_ENCODING)
            with m.Case(pattern_of(mask_form)), m.If(valid):
                m.d.sync += self.masked.bit_select(instruction.warp, 1).eq(
                    field_of(word, mask_form.fields["disable"]))
            with m.Default():
                m.d.comb += error.eq(WarpError.ILLEGAL_INSTR_ENCODING)
        with m.If(self.launch.valid):
            m.d.sync += self.masked.bit_select(self.launch.payload.warp, 1).eq(0)

        told, trapped, failed = self.completion, self.trapped, self.error
        one = Const(1, self._params.warps)
        m.d.comb += [
            self.room.eq(1),
            reported.eq((error != WarpError.NONE) & self.report_mask.bit_select(error.as_value()[:5], 1))]
        m.d.sync += [told[name].eq(instruction[name]) for name in ("warp", "serial", "write_barrier", "read_barrier")]
        m.d.sync += [
            told.valid.eq(valid), self.resume.eq(Mux(valid & ~reported & ~traps, one << instruction.warp, 0)),
            failed.valid.eq(valid & reported), failed.warp.eq(instruction.warp), failed.pc.eq(instruction.pc),
            failed.error.eq(error), trapped.trap.eq(valid & traps), trapped.interrupt.eq(valid & interrupts),
            trapped.warp.eq(instruction.warp), trapped.pc.eq(instruction.pc + INSTRUCTION_BYTES),
            trapped.reason.eq(reason)]
        return m
