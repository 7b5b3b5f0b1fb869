"""The third stage: the token that ends the unwind, and what the operation comes to."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.tokens import TOKENS_PER_LINE
from rtl.layouts import ThreadCode, stack_result
from rtl.params import SmParams

from .setting import PointerSetting
from .stages import commit_stage, select_stage

__all__ = ["TokenSelect"]


class TokenSelect(Component):
    """Takes the topmost token that stops the unwind, or says that the next line is needed.

    Members
    -------
    valid, stage : In(1), In(select_stage)
    next_under_way : In(1)
        The line below is being looked at already.
    resolved : Out(1)
        The unwind is over: what is looked at behind it counts for nothing.
    result_valid, result : Out(1), Out(stack_result)
    commit : Out(commit_stage)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "valid": In(1), "stage": In(select_stage(params)), "next_under_way": In(1), "resolved": Out(1),
            "result_valid": Out(1), "result": Out(stack_result(params)), "commit": Out(commit_stage(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, result, commit = self.stage, self.result, self.commit
        step = stage.step

        # The topmost token that stops.
        stops = [verdict.stop for verdict in stage.verdicts]
        chosen = Signal(TOKENS_PER_LINE)
        m.d.comb += chosen.eq(Cat(stop & ~Cat(stops[index + 1:]).any() for index, stop in enumerate(stops)))
        found = Cat(stops).any()
        wrong = Cat(verdict.error & chosen[index] for index, verdict in enumerate(stage.verdicts)).any()
        m.d.comb += [
            result.pc.eq(_chosen(chosen, list(stage.pcs))), result.mask.eq(_chosen(chosen, list(stage.revived))),
            result.kind.eq(_chosen(chosen, [kind.as_value() for kind in stage.kinds]))]

        # What it comes to.
        failed, ends = Signal(), Signal()
        exhausted = step.bottom & ~step.cached[1] & ~found
        with m.If(stage.error != WarpError.NONE):
            m.d.comb += [result.error.eq(stage.error), failed.eq(step.walk)]
        with m.Elif(step.walk & found):
            misaligned = ~step.quad & result.pc[:3].any()
            m.d.comb += [failed.eq(wrong | misaligned), result.resume.eq(~failed)]
            with m.If(wrong):
                m.d.comb += result.error.eq(WarpError.STACK_ERROR)
            with m.Elif(misaligned):
                m.d.comb += result.error.eq(WarpError.MISALIGNED_PC)
        with m.Elif(step.walk & exhausted):
            m.d.comb += [failed.eq(step.quad | stage.stuck), ends.eq(~failed), result.empty.eq(ends)]
            with m.If(failed):
                m.d.comb += result.error.eq(WarpError.STACK_ERROR)
            with m.Elif(stage.returned):
                m.d.comb += result.error.eq(WarpError.RET_EMPTY_STACK_ERROR)
        over = found | exhausted | (stage.error != WarpError.NONE)
        m.d.comb += [
            self.resolved.eq(self.valid & step.walk & over),
            self.result_valid.eq(self.valid & Mux(step.walk, over, ~step.sink & ~step.restore)),
            result.warp.eq(stage.warp), result.value.eq(stage.value)]
        for index, (code, after) in enumerate(zip(stage.codes, result.codes, strict=True)):
            m.d.comb += after.eq(Mux(result.resume & result.mask[index], ThreadCode.NONE.value, code.as_value()))

        m.submodules.setting = setting = PointerSetting()
        m.d.comb += [
            setting.value.eq(stage.value), setting.steps.eq(stage.steps), commit.lines.eq(setting.lines),
            commit.warp.eq(stage.warp), commit.step.eq(step), commit.pointer.eq(stage.pointer),
            commit.value.eq(stage.value), commit.number.eq(stage.number), commit.below.eq(stage.number - 1),
            commit.stops.eq(chosen), commit.calls.eq(Cat(verdict.call for verdict in stage.verdicts)),
            commit.found.eq(result.resume), commit.failed.eq(failed), commit.ends.eq(ends),
            commit.waits.eq(step.walk & ~over & ~self.next_under_way),
            commit.restores.eq((result.resume & ((step.seen != 0) | chosen[0])) | step.restore),
            commit.done.eq(step.ends & Mux(step.walk, over, ~step.sink))]
        return m


def _chosen(chosen: Signal, values: list[Value]) -> Value:
    """The value whose bit in ``chosen`` is 1; 0 if none is."""
    return reduce(or_, (chosen[index].replicate(len(value)) & value for index, value in enumerate(values)))
