"""The third stage: a token against the codes of 32 threads, and what the step comes to."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import DEPTH_BITS, ThreadCode, ThreadCodes, stack_result
from rtl.params import WARP_THREADS, SmParams

from .records import PLACE_BITS, Origin, Parking, commit_stage, judge_stage
from .tokens import StoredToken

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
    valid, stage, token, codes, calls : In(1), In(judge_stage), In(StoredToken), In(ThreadCodes), In(8)
        The API call depth as the tokens above leave it.
    masks : In(1)
        All tokens above in the line are MASKS tokens, down from its topmost place.
    over : In(1)
        The unwind has ended with a token that was here before.
    next_comes : In(1)
        Its next token will be here in the next cycle.
    again_free : In(1)
        A step can come back into the pipeline from here.
    next_codes, next_calls, next_masks, next_over : Out
        The same for its next token.
    answered, answer : Out(1), Out(stack_result)
    hit, miss : Out(1), Out(1)
        An unwind ends with a token on chip; it needs a line that is not.
    again : Out(1)
        An unwind whose next token did not come begins again.
    writes : Out(1)
        ``commit`` is of an operation that is not a push.
    origin : In(Origin)
    commit : Out(commit_stage)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "valid": In(1), "stage": In(judge_stage(params)), "token": In(StoredToken), "codes": In(ThreadCodes),
            "calls": In(8), "masks": In(1), "over": In(1), "next_comes": In(1), "again_free": In(1),
            "origin": In(Origin),
            "next_codes": Out(ThreadCodes), "next_calls": Out(8), "next_masks": Out(1), "next_over": Out(1),
            "answered": Out(1), "answer": Out(stack_result(params)), "hit": Out(1), "miss": Out(1), "again": Out(1),
            "commit": Out(commit_stage(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, step, token, answer, commit = self.stage, self.stage.step, self.token, self.answer, self.commit

        # The threads.
        lowest = stage.place == 0
        anyone = step.frame & lowest
        matching, waiting = Signal(WARP_THREADS), Signal(WARP_THREADS)
        for thread, code in enumerate(self.codes):
            fits = code.as_value() == token.role.as_value()
            m.d.comb += [matching[thread].eq(token.mask[thread] & (fits | anyone)),
                         waiting[thread].eq(token.mask[thread] & (code == ThreadCode.NONE)),
                         self.next_codes[thread].as_value().eq(
                             (code.as_value() & ~matching[thread].replicate(3))
                             | (stage.assign & matching[thread].replicate(3)))]
        alive, passed = matching.any(), waiting.any()

        # The token.
        hole, fits, framed, halts, may_halt, wrong = (
            Signal(name=name) for name in ("hole", "fits", "framed", "halts", "may_halt", "wrong"))
        masks = token.kind == TokenKind.MASKS
        m.d.comb += [
            hole.eq(token.kind == TokenKind.NONE),
            fits.eq(Mux(step.quad, token.kind == TokenKind.QUAD,
                        (token.kind.as_value() < TokenKind.QUAD.value) & ~hole)),
            framed.eq(stage.follows & self.masks),
            self.next_masks.eq(masks & (framed | (stage.place == TOKENS_PER_LINE - 1))),
            halts.eq(stage.seen & Mux(step.frame, (token.kind == TokenKind.TRAP) & lowest,
                                      ~hole & (~fits | step.quad))),
            may_halt.eq(stage.seen & ~step.frame & ~hole),
            wrong.eq(halts & Mux(step.frame, ~framed, ~fits))]
        waited_for = token.role != ThreadCode.NONE
        needed = step.quad | step.frame
        stops = halts | (may_halt & (alive | (passed & waited_for)))
        bad = wrong | (may_halt & passed & waited_for) | (needed & ~alive)
        misaligned = ~step.quad & (
            token.pc[HOLE_BITS:_PC_ALIGNMENT_BITS].any() | (token.pc[:HOLE_BITS].any() & ~step.frame))

        # An empty stack.
        returned = Cat(code == ThreadCode.RETURN for code in self.codes).any()
        stuck = needed | Cat((code == ThreadCode.NONE) | (code == ThreadCode.BREAK) | (code == ThreadCode.CONTINUE)
                             | (code == ThreadCode.LONGJMP) for code in self.codes).any()

        # What it comes to.
        live, found, ends, empty, failed, goes_on, walks = (
            Signal(name=name) for name in ("live", "found", "ends", "empty", "failed", "goes_on", "walks"))
        m.d.comb += [
            live.eq(self.valid & ~(stage.follows & self.over)), walks.eq(live & step.walk),
            found.eq(live & stops & ~bad & ~misaligned),
            ends.eq(walks & ~step.fault & (stage.none | (stage.last & ~stops))), empty.eq(ends & ~stuck),
            failed.eq((walks & step.fault) | (live & stops & (bad | misaligned)) | (ends & stuck)),
            goes_on.eq(walks & ~stops & ~stage.none & ~stage.last & ~step.fault),
            self.next_over.eq(self.valid & step.walk & (~live | ~goes_on)),
            self.hit.eq(live & stops), self.miss.eq(goes_on & ~stage.more),
            self.again.eq(goes_on & stage.more & ~self.next_comes & self.again_free)]
        counted = stage.popped & token.counted & (token.kind == TokenKind.RETURN)
        m.d.comb += self.next_calls.eq(self.calls - counted)

        # The answer.
        m.d.comb += [
            self.answered.eq(live & Mux(step.walk, ~goes_on, ~step.write_back & ~step.load)),
            answer.warp.eq(stage.warp), answer.resume.eq(found), answer.empty.eq(empty), answer.kind.eq(token.kind),
            answer.pc.eq(Cat(token.pc[:HOLE_BITS] & ~step.frame.replicate(HOLE_BITS), token.pc[HOLE_BITS:])),
            answer.mask.eq(matching), answer.codes.eq(self.next_codes), answer.value.eq(stage.value),
            answer.error.eq(stage.error)]
        with m.If(step.walk & step.fault):
            m.d.comb += answer.error.eq(WarpError.MMU_FAULT)
        with m.Elif(step.walk & stage.seen & stops):
            m.d.comb += answer.error.eq(Mux(bad, WarpError.STACK_ERROR, Mux(misaligned, WarpError.MISALIGNED_PC,
                                                                           WarpError.NONE)))
        with m.Elif(step.walk):
            m.d.comb += answer.error.eq(Mux(stuck, WarpError.STACK_ERROR,
                                            Mux(returned, WarpError.RET_EMPTY_STACK_ERROR, WarpError.NONE)))

        # The stack that it leaves. A trap frame takes the holes under it along, if there is a line for them.
        empties = step.launch | stage.none | (step.set & ~stage.memory)
        holes = token.pc[:HOLE_BITS] & (anyone & ~stage.last).replicate(HOLE_BITS)
        number = Mux(stage.clamp, Cat(Const(~0, PLACE_BITS), stage.limit), stage.number)
        sinks = self.miss & stage.seen & stage.clean
        waits = goes_on & ~self.next_comes & ~self.again
        m.d.comb += [commit[name].eq(stage[name]) for name in ("warp", "memory", "below", "lines", "tags")]
        m.d.comb += [
            commit.write.eq(found | empty | sinks | (failed & stage.sunk) | (live & (
                step.set | step.launch | (step.load & ~step.fault)))),
            commit.dropped.eq(stage.lines != stage.held), commit.moves.eq(live & step.move),
            commit.dirtied.eq(stage.cleaned + stage.dirty - (stage.held - stage.lines)), commit.back.eq(failed),
            commit.origin.eq(self.origin),
            commit.forget.eq(failed | empty | step.set | step.launch), commit.sunk.eq(sinks),
            commit.done.eq(live & Mux(step.walk, ~goes_on, step.single & ~step.write_back)),
            commit.parks.eq(waits | (live & step.write_back)),
            commit.parking.eq(Mux(step.write_back, Parking.WRITE_BACK, Mux(stage.more | stage.clean, Parking.WALK,
                                                                          Parking.SINK))),
            commit.number.eq(Cat(number[:HOLE_BITS] ^ holes | step.set.replicate(HOLE_BITS), number[HOLE_BITS:])
                             | empties.replicate(DEPTH_BITS)),
            commit.ends.eq(step.launch | ends), commit.calls.eq(self.next_calls), commit.kill.eq(stage.kill)]
        return m


