"""The third stage: which token ends the unwind, and what the operation comes to."""


from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TOKENS_PER_LINE
from rtl.params import SmParams

from .pointers import WidePointer
from .setting import PointerSetting
from .stages import answer_stage, commit_stage, select_stage

__all__ = ["TokenSelect"]


class TokenSelect(Component):
    """Takes the topmost token that stops the unwind, or says that the next line is needed.

    Members
    -------
    valid, stage, pointer : In(1), In(select_stage), In(WidePointer)
        The pointer is that of the stage's warp.
    next_under_way : In(1)
        The line below is being looked at already.
    resolved : Out(1)
        The unwind is over: what is looked at behind it counts for nothing.
    answered, answer : Out(1), Out(answer_stage)
    commit : Out(commit_stage)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "valid": In(1), "stage": In(select_stage(params)), "pointer": In(WidePointer), "next_under_way": In(1),
            "resolved": Out(1),
            "answered": Out(1), "answer": Out(answer_stage(params)), "commit": Out(commit_stage(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, answer, commit = self.stage, self.answer, self.commit
        step = stage.step

        # The topmost token that stops.
        stops = [verdict.stop for verdict in stage.verdicts]
        chosen = Signal(TOKENS_PER_LINE)
        m.d.comb += chosen.eq(Cat(stop & ~Cat(stops[index + 1:]).any() for index, stop in enumerate(stops)))
        found = Cat(stops).any()
        wrong = Cat(verdict.error & chosen[index] for index, verdict in enumerate(stage.verdicts)).any()
        misaligned = Cat(verdict.misaligned & chosen[index] for index, verdict in enumerate(stage.verdicts)).any()

        # What it comes to.
        failed, ends = Signal(), Signal()
        exhausted = step.bottom & ~step.cached[1] & ~found
        with m.If(stage.error != WarpError.NONE):
            m.d.comb += [answer.error.eq(stage.error), failed.eq(step.walk)]
        with m.Elif(step.walk & found):
            m.d.comb += [failed.eq(wrong | misaligned), answer.resume.eq(~failed)]
            with m.If(wrong):
                m.d.comb += answer.error.eq(WarpError.STACK_ERROR)
            with m.Elif(misaligned):
                m.d.comb += answer.error.eq(WarpError.MISALIGNED_PC)
        with m.Elif(step.walk & exhausted):
            m.d.comb += [failed.eq(step.quad | stage.stuck), ends.eq(~failed), answer.empty.eq(ends)]
            with m.If(failed):
                m.d.comb += answer.error.eq(WarpError.STACK_ERROR)
            with m.Elif(stage.returned):
                m.d.comb += answer.error.eq(WarpError.RET_EMPTY_STACK_ERROR)
        over = found | exhausted | (stage.error != WarpError.NONE)
        m.d.comb += [
            self.resolved.eq(self.valid & step.walk & over),
            self.answered.eq(self.valid & Mux(step.walk, over, ~step.sink & ~step.restore)),
            answer.chosen.eq(chosen)]
        m.d.comb += [answer[name].eq(stage[name]) for name in ("warp", "pcs", "kinds", "revived", "codes", "value")]

        # A trap frame takes the holes under it along, if there is a line for them.
        holes = Signal(HOLE_BITS)
        with m.If(step.frame):
            m.d.comb += answer.pcs[0][:HOLE_BITS].eq(0)
            with m.If(~step.bottom | step.cached[1]):
                m.d.comb += holes.eq(stage.pcs[0])

        top = Cat(stage.top, self.pointer.high)
        m.submodules.setting = setting = PointerSetting()
        m.d.comb += [
            setting.value.eq(stage.value), setting.steps.eq(stage.steps), commit.lines.eq(setting.lines),
            commit.warp.eq(stage.warp), commit.step.eq(step), commit.pointer.eq(self.pointer),
            commit.value.eq(stage.value), commit.number.eq(top - step.seen), commit.below.eq(top - (step.seen + 1)),
            commit.stops.eq(chosen), commit.calls.eq(Cat(verdict.call for verdict in stage.verdicts)),
            commit.found.eq(answer.resume), commit.holes.eq(holes), commit.failed.eq(failed), commit.ends.eq(ends),
            commit.waits.eq(step.walk & ~over & ~self.next_under_way),
            commit.restores.eq((answer.resume & ((step.seen != 0) | chosen[0])) | step.restore),
            commit.done.eq(step.ends & Mux(step.walk, over, ~step.sink))]
        return m
