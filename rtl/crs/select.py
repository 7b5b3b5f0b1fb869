"""The third stage: the token that ends the unwind, and what the operation comes to."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TOKENS_PER_LINE
from rtl.layouts import stack_result
from rtl.params import WARP_THREADS, SmParams

from .stages import commit_stage, select_stage

__all__ = ["TokenSelect"]


class TokenSelect(wiring.Component):
    """Takes the topmost token that stops the unwind, or says that the next line is needed.

    Members
    -------
    valid, stage : In(1), In(select_stage)
    next_under_way : In(1)
        The line below is being looked at already.
    resolved : Out(1)
        The unwind is over: what is looked at behind it counts for nothing.
    result_valid, result : Out(1), Out(stack_result)
    commit_valid, commit : Out(1), Out(commit_stage)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "valid": In(1), "stage": In(select_stage(params)), "next_under_way": In(1), "resolved": Out(1),
            "result_valid": Out(1), "result": Out(stack_result(params)),
            "commit_valid": Out(1), "commit": Out(commit_stage(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, result, commit = self.stage, self.result, self.commit
        step = stage.step

        # The topmost token that stops.
        stops = Cat(verdict.stop for verdict in stage.verdicts)
        chosen = Signal(TOKENS_PER_LINE)
        for index in range(TOKENS_PER_LINE):
            m.d.comb += chosen[index].eq(stops[index] & ~stops[index + 1:].any())
        found = stops.any()
        wrong = Cat(verdict.error & chosen[index] for index, verdict in enumerate(stage.verdicts)).any()
        m.d.comb += [
            result.pc.eq(_one_of(chosen, stage.pcs)), result.mask.eq(_one_of(chosen, stage.revived)),
            result.kind.eq(_one_of(chosen, [kind.as_value() for kind in stage.kinds]))]
        misaligned = ~step.quad & result.pc[:3].any()

        # What it comes to.
        failed, ends, exhausted = Signal(), Signal(), Signal()
        m.d.comb += exhausted.eq(step.walk & ~found & step.lowest & (stage.error == WarpError.NONE))
        with m.If(stage.error != WarpError.NONE):
            m.d.comb += [result.error.eq(stage.error), failed.eq(step.walk)]
        with m.Elif(step.walk & found):
            with m.If(wrong):
                m.d.comb += [result.error.eq(WarpError.STACK_ERROR), failed.eq(1)]
            with m.Elif(misaligned):
                m.d.comb += [result.error.eq(WarpError.MISALIGNED_PC), failed.eq(1)]
            with m.Else():
                m.d.comb += result.resume.eq(1)
        with m.Elif(exhausted):
            with m.If(step.quad | stage.stuck):
                m.d.comb += [result.error.eq(WarpError.STACK_ERROR), failed.eq(1)]
            with m.Else():
                m.d.comb += [result.empty.eq(1), ends.eq(1)]
                with m.If(stage.returned):
                    m.d.comb += result.error.eq(WarpError.RET_EMPTY_STACK_ERROR)
        m.d.comb += [
            self.resolved.eq(self.valid & step.walk & (result.resume | failed | ends)),
            self.result_valid.eq(self.valid & (~step.walk | self.resolved)),
            result.warp.eq(stage.warp), result.value.eq(stage.value)]
        for thread in range(WARP_THREADS):
            revived = result.resume & ~step.quad & result.mask[thread]
            m.d.comb += result.codes.as_value().word_select(thread, 3).eq(
                Mux(revived, 0, stage.codes.as_value().word_select(thread, 3)))

        m.d.comb += [
            self.commit_valid.eq(self.valid & (step.walk | step.set | step.finish)),
            commit.warp.eq(stage.warp), commit.step.eq(step), commit.pointer.eq(stage.pointer),
            commit.number.eq(stage.number), commit.stops.eq(chosen),
            commit.calls.eq(Cat(verdict.call for verdict in stage.verdicts)),
            commit.found.eq(result.resume), commit.failed.eq(failed), commit.ends.eq(ends),
            commit.waits.eq(step.walk & ~self.resolved & ~self.next_under_way)]
        return m


def _one_of(chosen: Signal, values: data.View | list) -> object:
    """The value whose bit in ``chosen`` is 1; 0 if none is."""
    result = 0
    for index, value in enumerate(values):
        result |= chosen[index].replicate(len(value)) & value
    return result
