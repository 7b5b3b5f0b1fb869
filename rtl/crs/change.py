"""The second stage: pushes are done, the next token of an unwind is asked for, the kind of this one is known."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.tokens import TOKENS_PER_LINE, TokenKind
from rtl.layouts import BLOCK_ADDRESS_BITS, DEPTH_BITS, TRAP_FRAME, ThreadCode, ThreadCodes
from rtl.params import SmParams

from .records import (
    CACHED_LINES,
    COUNT_BITS,
    PLACE_BITS,
    POINTER_CALLS,
    SPILLS_FROM,
    TOP_STEP,
    StackState,
    change_flags,
    change_stage,
    judge_stage,
)
from .tokens import StoredLine

__all__ = ["StackChange"]

_LAST_PLACE = TOKENS_PER_LINE - 1
_BY_PC = [ThreadCode.NONE.value, *(by_pc.value for _, by_pc in TRAP_FRAME)]
_BY_MASK = [ThreadCode.NONE.value, *(by_mask.value for by_mask, _ in TRAP_FRAME)]
"""The codes that the threads of a frame's token get, by its place in the line."""
_STUCK = (ThreadCode.NONE, ThreadCode.BREAK, ThreadCode.CONTINUE, ThreadCode.LONGJMP)


class StackChange(Component):
    """Combinational.

    Members
    -------
    valid, stage, follows : In(1), In(change_stage), In(1)
        ``follows``: an unwind whose token before was here a cycle ago.
    line, codes : In(StoredLine), In(ThreadCodes)
        The line of the token that is looked at, and the codes that came with the request.
    before, calls : In(judge_stage), In(8)
        The next stage, with the unwind's token before this one, and the API call depth that it leaves.
    base : In(BLOCK_ADDRESS_BITS)
        Where the warp's memory begins.
    more, place, next_number, next_lines, next_lone : Out
        The unwind's next token is on chip: where, and what is then in the stage.
    push, pushed, stored, pushed_place : Out(1), Out(StackState), Out(1), Out
        The state that a push leaves is written; it has stored its token, and where.
    flags : Out(change_flags)
    entry : Out(WarpError)
        Why the warp cannot enter the trap handler: the topmost line has room for a token, but is not on chip; there is
        no room behind it.
    judge : Out(judge_stage)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "valid": In(1), "stage": In(change_stage(params)), "follows": In(1), "line": In(StoredLine),
            "codes": In(ThreadCodes), "before": In(judge_stage(params)), "calls": In(8),
            "base": In(BLOCK_ADDRESS_BITS), "more": Out(1), "place": Out(TOP_STEP), "next_number": Out(DEPTH_BITS),
            "next_lines": Out(COUNT_BITS), "next_lone": Out(1), "push": Out(1), "pushed": Out(StackState),
            "stored": Out(1), "pushed_place": Out(TOP_STEP), "flags": Out(change_flags(params)),
            "entry": Out(WarpError), "judge": Out(judge_stage(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, step, judge, flags = self.stage, self.stage.step, self.judge, self.flags
        low, place = stage.number[:TOP_STEP], stage.number[:PLACE_BITS]
        topmost, lowest = place == _LAST_PLACE, place == 0

        # Up by one, down by one, or neither. Where a token lies is not taken from this sum, whose carries are late.
        refused, rises, up, down = Signal(), Signal(), Signal(), Signal()
        number = Signal(DEPTH_BITS + 1)
        m.d.comb += [
            refused.eq(step.counts & stage.calls_full), rises.eq(step.push & ~refused),
            up.eq(rises | step.get | (step.mode & ~step.walk)), down.eq(step.walk | step.set),
            number.eq((stage.number + Cat(up | down, down.replicate(DEPTH_BITS)))[:DEPTH_BITS + 1]),
            self.place.eq(Cat(low[bit] ^ ~low[:bit].any() for bit in range(TOP_STEP))),
            self.pushed_place.eq(Cat(low[bit] ^ low[:bit].all() for bit in range(TOP_STEP)))]

        # The limit: a whole step below it there is room, and numbers go up by ones; those in the entries that are kept
        # for the trap handler are a step above the limit of user mode.
        limited, missing = Signal(), Signal()
        steps, limit = stage.number[TOP_STEP:], stage.limit
        ends = low[1:].all() & (low[0] | step.pair)
        m.d.comb += [
            limited.eq(stage.near.all() & Mux(steps[0], ends | ~limit[0], ends & ~limit[0])),
            missing.eq((stage.lines == 0) & (stage.top != _LAST_PLACE)),
            self.entry.eq(Mux(missing, WarpError.MMU_FAULT,
                              Mux(limited, WarpError.STACK_OVERFLOW, WarpError.NONE)))]

        # A push.
        stores, full = Signal(), stage.lines == CACHED_LINES
        dirty = Signal(COUNT_BITS)
        m.d.comb += [
            dirty.eq(stage.dirty + (topmost | stage.clean)),
            stores.eq(self.valid & rises & ~missing & ~limited), self.stored.eq(stores),
            self.push.eq(stores | (self.valid & step.prepares & refused)),
            self.pushed.last.eq(number), self.pushed.entered.eq(stage.below + stage.lines + (rises & topmost & ~full)),
            self.pushed.dirtied.eq(stage.cleaned + Mux(rises, dirty, stage.dirty)),
            self.pushed.calls.eq(stage.calls + (step.counts & ~refused)),
            self.pushed.kill.eq(Mux(step.prepares, refused, stage.kill)),
            flags.warp.eq(stage.warp), flags.holds.eq(self.valid & ~self.follows & step.holds),
            flags.flushes.eq(self.valid & step.write_back), flags.drops.eq(stores & topmost & full),
            flags.fills.eq(stores & stage.memory & (place == _LAST_PLACE - 1) & (dirty == CACHED_LINES)),
            flags.spills.eq(stores & stage.memory & (dirty >= SPILLS_FROM)),
            flags.begins_line.eq(self.valid & step.push & topmost)]

        # An unwind: the token that is looked at, and the one below.
        none, crosses = Signal(), Signal()
        m.d.comb += [
            none.eq(stage.number[-1] | step.clear), crosses.eq(step.walk & lowest), judge.seen.eq(stage.sees),
            self.next_lines.eq(stage.lines - crosses), self.next_number.eq(number),
            self.next_lone.eq(Mux(lowest, stage.lines == 2, stage.lone)),
            judge.more.eq(stage.sees & ~(lowest & stage.lone)), self.more.eq(self.valid & judge.more)]

        # The token: what its kind makes of it, and the codes, which in a frame the tokens above it have assigned. Its
        # mask comes late.
        kind, hole, fits, before = judge.token.kind, Signal(), Signal(), self.before
        m.d.comb += [
            judge.token.eq(self.line[place]), hole.eq(kind == TokenKind.NONE),
            fits.eq(Mux(step.quad, kind == TokenKind.QUAD, (kind.as_value() < TokenKind.QUAD.value) & ~hole)),
            judge.framed.eq(self.follows & before.masks), judge.anyone.eq(step.frame & lowest),
            judge.masks.eq((kind == TokenKind.MASKS) & (judge.framed | topmost)),
            judge.halts.eq(judge.seen & Mux(step.frame, (kind == TokenKind.TRAP) & lowest,
                                            ~hole & (~fits | step.quad))),
            judge.wrong.eq(judge.halts & Mux(step.frame, ~judge.framed, ~fits)),
            judge.may_halt.eq(judge.seen & ~step.frame & ~hole),
            judge.by_pc.eq(Array(Const(code, 3) for code in _BY_PC)[place]),
            judge.by_mask.eq(Array(Const(code, 3) for code in _BY_MASK)[place]),
            judge.calls.eq(Mux(self.follows, self.calls, stage.calls)),
            judge.returned.eq(Cat(code == ThreadCode.RETURN for code in self.codes).any()),
            judge.stuck.eq(Cat(code == stuck for code in self.codes for stuck in _STUCK).any())]
        assigned = Signal()
        m.d.comb += assigned.eq(self.follows & step.frame & ~topmost)
        for thread, code in enumerate(judge.codes):
            old = before.codes[thread].as_value()
            given = Mux(before.token.pc[thread], before.by_pc, Mux(before.token.mask[thread], before.by_mask, 0))
            m.d.comb += [
                code.as_value().eq(Mux(assigned, old | Mux(old == 0, given, 0), self.codes[thread].as_value())),
                judge.fits[thread].eq(judge.seen & ((code == judge.token.role) | judge.anyone)),
                judge.free[thread].eq(code == ThreadCode.NONE)]

        # What else the next stage has to know.
        m.d.comb += [
            judge[name].eq(stage[name])
            for name in ("warp", "step", "held", "dirty", "below", "cleaned", "kill", "sunk", "limit", "memory",
                         "clean")]
        pointer = Cat(Const(0, PLACE_BITS), number[PLACE_BITS:DEPTH_BITS], Const(0, POINTER_CALLS - DEPTH_BITS),
                      stage.calls, stage.kill)
        m.d.comb += [
            judge.number.eq(number), judge.last.eq(number[-1] & step.walk), judge.lines.eq(self.next_lines),
            judge.clamp.eq(step.set & (steps > limit)), judge.none.eq(none & step.walk),
            judge.follows.eq(self.follows), judge.value.eq(Mux(step.base, self.base, pointer))]
        with m.If(step.counts & ~step.prepares & stage.calls_full):
            m.d.comb += judge.error.eq(WarpError.API_STACK_ERROR)
        with m.Elif(rises):
            m.d.comb += judge.error.eq(self.entry)
        with m.Elif(step.set & ~stage.memory):
            m.d.comb += judge.error.eq(WarpError.STACK_ERROR)
        return m
