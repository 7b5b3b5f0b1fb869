"""The third stage: a token against the codes of 32 threads, and what the step comes to."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TokenKind
from rtl.layouts import DEPTH_BITS, ThreadCode, stack_result
from rtl.params import WARP_THREADS, SmParams

from .records import PLACE_BITS, SLOT_BITS, Origin, Parking, commit_stage, judge_stage

__all__ = ["TokenJudge"]

_PC_ALIGNMENT_BITS = ceil_log2(INSTRUCTION_BYTES)


class TokenJudge(Component):
    """Combinational.

    A SYNC or DIVERGE token revives the threads of its mask that wait for nothing else; a token of another kind those
    whose code is its kind, and it is an error if a thread of its mask has synchronised past it. The instruction that
    pops a QUAD token accepts no other, and gives the codes of threads that live as NONE; it is an error if none of the
    token's threads does.

    What looks for a trap frame stops at a TRAP token in a line's lowest place, and gives all codes as NONE. The tokens
    of a line above it assign codes to threads that have none yet, in this order: the threads in place of a pc, of a
    mask, from the topmost token down. So of a thread's masks the first of active, killed, exit, longjmp, return,
    continue, break counts. It is an error if they are not MASKS tokens, or no thread is active.

    Members
    -------
    valid, stage : In(1), In(judge_stage)
    cut : In(1)
        The step follows in vain: its unwind has ended with a token that was here before.
    next_comes : In(1)
        Its next token will be here in the next cycle.
    again_free : In(1)
        A step can come back into the pipeline from here.
    next_calls, over : Out(8), Out(1)
        The API call depth that the token leaves. Its unwind ends with it, or has ended before.
    answered, answer : Out(1), Out(stack_result)
    hit, miss : Out(1), Out(1)
        An unwind ends with a token on chip; it needs a line that is not.
    again : Out(1)
        An unwind whose next token did not come begins again.
    origin : In(Origin)
    commit : Out(commit_stage)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "valid": In(1), "stage": In(judge_stage(params)), "cut": In(1), "next_comes": In(1), "again_free": In(1),
            "origin": In(Origin), "next_calls": Out(8), "over": Out(1), "answered": Out(1),
            "answer": Out(stack_result(params)), "hit": Out(1), "miss": Out(1), "again": Out(1),
            "commit": Out(commit_stage(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, step, token, answer, commit = self.stage, self.stage.step, self.stage.token, self.answer, self.commit

        # The threads, and whether the token is where the unwind ends.
        matching, alive, passed = Signal(WARP_THREADS), Signal(), Signal()
        stops, bad = Signal(), Signal()
        waited_for, needed = token.role != ThreadCode.NONE, step.quad | step.frame
        misaligned = ~step.quad & (
            token.pc[HOLE_BITS:_PC_ALIGNMENT_BITS].any() | (token.pc[:HOLE_BITS].any() & ~step.frame))
        m.d.comb += [
            matching.eq(token.mask & stage.fits), alive.eq(matching.any()),
            passed.eq((token.mask & stage.free).any() & waited_for),
            stops.eq(stage.halts | (stage.may_halt & (alive | passed))),
            bad.eq(stage.wrong | (stage.may_halt & passed) | (needed & ~alive))]

        # What it comes to.
        live, found, ends, empty, failed, goes_on, walks = (
            Signal(name=name) for name in ("live", "found", "ends", "empty", "failed", "goes_on", "walks"))
        stuck = needed | stage.stuck
        m.d.comb += [
            live.eq(self.valid & ~self.cut), walks.eq(live & step.walk),
            found.eq(live & stops & ~bad & ~misaligned),
            ends.eq(walks & ~step.fault & (stage.none | (stage.last & ~stops))), empty.eq(ends & ~stuck),
            failed.eq((walks & step.fault) | (live & stops & (bad | misaligned)) | (ends & stuck)),
            goes_on.eq(walks & ~stops & ~stage.none & ~stage.last & ~step.fault),
            self.over.eq(self.valid & step.walk & (~live | ~goes_on)),
            self.hit.eq(live & stops), self.miss.eq(goes_on & ~stage.more),
            self.again.eq(goes_on & stage.more & ~self.next_comes & self.again_free),
            self.next_calls.eq(stage.calls - (stage.seen & token.counted & (token.kind == TokenKind.RETURN)))]

        # The answer.
        m.d.comb += [
            self.answered.eq(live & Mux(step.walk, ~goes_on, ~step.write_back & ~step.load)),
            answer.warp.eq(stage.warp), answer.resume.eq(found), answer.empty.eq(empty), answer.kind.eq(token.kind),
            answer.pc.eq(Cat(token.pc[:HOLE_BITS] & ~step.frame.replicate(HOLE_BITS), token.pc[HOLE_BITS:])),
            answer.mask.eq(matching), answer.value.eq(stage.value), answer.error.eq(stage.error)]
        m.d.comb += [answer.codes[thread].as_value().eq(code.as_value() & ~matching[thread].replicate(3))
                     for thread, code in enumerate(stage.codes)]
        with m.If(step.walk & step.fault):
            m.d.comb += answer.error.eq(WarpError.MMU_FAULT)
        with m.Elif(step.walk & stage.seen & stops):
            m.d.comb += answer.error.eq(Mux(bad, WarpError.STACK_ERROR, Mux(misaligned, WarpError.MISALIGNED_PC,
                                                                           WarpError.NONE)))
        with m.Elif(step.walk):
            m.d.comb += answer.error.eq(Mux(stuck, WarpError.STACK_ERROR,
                                            Mux(stage.returned, WarpError.RET_EMPTY_STACK_ERROR, WarpError.NONE)))

        # The stack that it leaves. A trap frame takes the holes under it along, if there is a line for them.
        empties = step.launch | stage.none | (step.set & ~stage.memory)
        holes = token.pc[:HOLE_BITS] & (stage.anyone & ~stage.last).replicate(HOLE_BITS)
        number = Mux(stage.clamp, Cat(Const(~0, SLOT_BITS + PLACE_BITS), stage.limit), stage.number)
        sinks = self.miss & stage.seen & stage.clean
        waits = goes_on & ~self.next_comes & ~self.again
        m.d.comb += [commit[name].eq(stage[name]) for name in ("warp", "memory", "below", "lines", "kill")]
        m.d.comb += [
            commit.write.eq(found | empty | sinks | (failed & stage.sunk) | (live & (
                step.set | step.launch | (step.load & ~step.fault)))),
            commit.dropped.eq(stage.lines != stage.held), commit.moves.eq(live & step.move),
            commit.dirtied.eq(stage.cleaned + stage.dirty - (stage.held - stage.lines)), commit.back.eq(failed),
            commit.origin.eq(self.origin), commit.empties.eq(failed | empty | step.set | step.launch),
            commit.sunk.eq(sinks), commit.done.eq(live & step.holds & Mux(step.walk, ~goes_on, ~step.write_back)),
            commit.parks.eq(waits), commit.parking.eq(Mux(stage.more | stage.clean, Parking.WALK, Parking.SINK)),
            commit.number.eq(Cat(number[:HOLE_BITS] ^ holes | step.set.replicate(HOLE_BITS), number[HOLE_BITS:])
                             | empties.replicate(DEPTH_BITS)),
            commit.ends.eq(step.launch | ends), commit.calls.eq(self.next_calls)]
        return m
