"""The last stage: what an instruction has come to."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import Event, ThreadCode, flow_result, stack_result
from rtl.params import WARP_THREADS, SmParams
from rtl.word import instruction_address

from .stages import WarpState, outcome_stage

__all__ = ["FlowConclusion"]

REPORT_BITS = 32
"""Width of the report mask."""


class FlowConclusion(Component):
    """Joins the stack's result and what the instruction comes to without it; combinational.

    Members
    -------
    stack, outcome : In(Event of stack_result), In(outcome_stage)
    report_mask : In(32)
        Bit n: errors of code n are reported. One that is not makes the instruction do nothing; one of entering the trap
        handler always is.
    old, new : In(WarpState), Out(WarpState)
        The warp's threads as they were, and as they are then.
    result : Out(Event of flow_result)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "stack": In(Event(stack_result(params))), "outcome": In(outcome_stage(params)),
            "report_mask": In(REPORT_BITS), "old": In(WarpState), "new": Out(WarpState),
            "result": Out(Event(flow_result(params)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        outcome, stack, result = self.outcome, self.stack.payload, self.result.payload
        error, failed, refused, reported = Signal(WarpError), Signal(), Signal(), Signal()
        unwound = stack.resume & ~outcome.quad
        m.d.comb += [
            error.eq(Mux(outcome.error != WarpError.NONE, outcome.error, stack.error)),
            refused.eq(stack.error != WarpError.NONE), failed.eq((outcome.error != WarpError.NONE) | refused),
            reported.eq(self.report_mask.bit_select(error.as_value()[:(REPORT_BITS - 1).bit_length()], 1)
                        | outcome.loud)]

        # Where to go on.
        m.d.comb += [
            self.result.valid.eq(self.stack.valid & ~outcome.mute), result.warp.eq(stack.warp),
            result.terminated.eq(stack.empty), result.value.eq(stack.value),
            result.kept.eq(outcome.kept & (stack.empty | ~failed)),
            result.error.eq(Mux(reported, error, WarpError.NONE))]
        with m.If(Mux(failed, reported, outcome.stays)):
            m.d.comb += result.pc.eq(outcome.pc)
        with m.Elif(~failed & unwound):
            m.d.comb += result.pc.eq(stack.pc)
        with m.Elif(~failed & outcome.jumps):
            m.d.comb += result.pc.eq(outcome.target)
        with m.Else():
            m.d.comb += result.pc.eq(outcome.following)

        back = instruction_address(stack.pc) == instruction_address(outcome.following)
        m.d.comb += result.behind.eq(~failed & Mux(unwound, back, Mux(outcome.jumps, outcome.near, ~outcome.stays)))

        # Who goes on. What marks threads can't fail, nor asks it the stack for more than to remember their codes.
        # Threads that wanted to return when the warp ends have exited.
        with m.If(stack.resume):
            m.d.comb += self.new.active.eq(stack.mask)
        with m.Elif(outcome.moves & ~refused):
            m.d.comb += self.new.active.eq(outcome.active)
        with m.Else():
            m.d.comb += self.new.active.eq(self.old.active & ~stack.empty.replicate(WARP_THREADS))
        marked = stack.empty | unwound | outcome.marks
        for after, code, old in zip(self.new.codes, stack.codes, self.old.codes, strict=True):
            ended = stack.empty & (code == ThreadCode.RETURN)
            m.d.comb += after.eq(Mux(marked, Mux(ended, Const(ThreadCode.EXIT.value, 3), code.as_value()),
                                     old.as_value()))
        m.d.comb += [result.active.eq(self.new.active), result.codes.eq(self.new.codes)]
        return m
