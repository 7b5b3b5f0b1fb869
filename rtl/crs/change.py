"""The second stage: pushes are done, the next token of an unwind is asked for."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.tokens import TOKENS_PER_LINE
from rtl.layouts import BLOCK_ADDRESS_BITS, DEPTH_BITS, TRAP_FRAME, ThreadCode
from rtl.params import SmParams

from .records import (
    CACHED_LINES,
    COUNT_BITS,
    PLACE_BITS,
    POINTER_CALLS,
    SPILLS_FROM,
    StackState,
    change_stage,
    judge_stage,
)

__all__ = ["StackChange"]

_LAST_PLACE = TOKENS_PER_LINE - 1
_BY_PC = [ThreadCode.NONE.value, *(by_pc.value for _, by_pc in TRAP_FRAME)]
_BY_MASK = [ThreadCode.NONE.value, *(by_mask.value for by_mask, _ in TRAP_FRAME)]
"""The codes that the threads of a frame's token get, by its place in the line."""


class StackChange(Component):
    """Combinational.

    Members
    -------
    valid, stage, follows, second : In(1), In(change_stage), In(1), In(1)
        ``follows``: an unwind whose token before was here a cycle ago. ``second``: a frame's token is looked at for the
        second time, then for the threads of its mask; at first for those in place of its pc.
    base : In(BLOCK_ADDRESS_BITS)
        Where the warp's memory begins.
    more, place, next_second, next_number, next_lines : Out
        The unwind's next token is on chip: where, and what is then in the stage.
    push, pushed, stored : Out(1), Out(StackState), Out(1)
        The state that a push leaves is written; it has stored its token.
    fills, drops, spills : Out(1)
        A stored token has made the last line that has room full, all others being dirty; has taken the place of the
        lowest line; has left so many dirty lines that one is to be written to memory.
    missing : Out(1)
        The topmost line has room for a token, but is not on chip.
    judge : Out(judge_stage)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "valid": In(1), "stage": In(change_stage(params)), "follows": In(1), "second": In(1),
            "base": In(BLOCK_ADDRESS_BITS),
            "more": Out(1), "place": Out(PLACE_BITS), "next_second": Out(1), "next_number": Out(DEPTH_BITS),
            "next_lines": Out(COUNT_BITS),
            "push": Out(1), "pushed": Out(StackState), "stored": Out(1), "fills": Out(1), "drops": Out(1),
            "spills": Out(1),
            "missing": Out(1), "judge": Out(judge_stage(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, step, judge = self.stage, self.stage.step, self.judge
        place = stage.number[:2]

        # Up by one, down by one, or neither. All the arithmetic on numbers of tokens is this one sum.
        refused, rises, up, down, stays = Signal(), Signal(), Signal(), Signal(), Signal()
        number = Signal(DEPTH_BITS + 1)
        m.d.comb += [
            refused.eq(step.counts & stage.calls_full), rises.eq(step.push & ~refused),
            stays.eq(step.frame & ~self.second & (place != 0)),
            up.eq(rises | step.get | (step.mode & ~step.walk)), down.eq((step.walk & ~stays) | step.set),
            number.eq((stage.number + Cat(up | down, down.replicate(DEPTH_BITS)))[:DEPTH_BITS + 1])]

        # A push.
        begins, stores = place == _LAST_PLACE, Signal()
        full = stage.lines == CACHED_LINES
        dirty = stage.dirty + (begins | (stage.dirty == 0))
        m.d.comb += [
            self.missing.eq((stage.lines == 0) & (stage.places != _LAST_PLACE)),
            stores.eq(self.valid & rises & ~self.missing & ~stage.limited), self.stored.eq(stores),
            self.push.eq(stores | (self.valid & step.prepares & refused)),
            self.pushed.last.eq(number), self.pushed.entered.eq(stage.below + stage.lines + (rises & begins & ~full)),
            self.pushed.dirtied.eq(stage.cleaned + Mux(rises, dirty, stage.dirty)),
            self.pushed.calls.eq(stage.calls + (step.counts & ~refused)),
            self.pushed.kill.eq(Mux(step.prepares, refused, stage.kill)),
            self.fills.eq(stores & stage.memory & (number[:2] == _LAST_PLACE) & (dirty == CACHED_LINES)),
            self.drops.eq(stores & begins & full),
            self.spills.eq(stores & stage.memory & (dirty >= SPILLS_FROM))]

        # An unwind: the token that is looked at, and the one below.
        none, crosses = Signal(), Signal()
        m.d.comb += [
            none.eq(stage.number[-1] | step.clear), crosses.eq(step.walk & (place == 0)),
            judge.seen.eq(step.walk & ~none & ~step.fault & (stage.lines != 0)),
            self.next_lines.eq(stage.lines - crosses),
            judge.popped.eq(judge.seen & ~stays),
            judge.more.eq(judge.seen & ((place != 0) | (stage.lines != 1))), self.more.eq(self.valid & judge.more),
            self.next_second.eq(stays), self.next_number.eq(number)]
        # By hand, since a sum would make a chain of carries here.
        low, borrows = stage.number[:PLACE_BITS], ~stays
        m.d.comb += self.place.eq(Cat(low[bit] ^ (borrows & ~low[:bit].any()) for bit in range(PLACE_BITS)))

        # What the next stage has to know.
        codes = [Array(Const(code, 3) for code in codes)[place] for codes in (_BY_PC, _BY_MASK)]
        m.d.comb += [
            judge[name].eq(stage[name])
            for name in ("warp", "step", "held", "dirty", "below", "cleaned", "kill", "sunk", "tags", "limit", "memory",
                         "clean")]
        m.d.comb += [
            judge.number.eq(number), judge.last.eq(number[-1] & step.walk), judge.lines.eq(self.next_lines),
            judge.clamp.eq(step.set & stage.beyond),
            judge.none.eq(none & step.walk), judge.follows.eq(self.follows),
            judge.place.eq(place), judge.assign.eq(Mux(step.frame, Mux(self.second, codes[1], codes[0]), 0))]
        pointer = Cat(Const(0, 2), number[2:DEPTH_BITS], Const(0, POINTER_CALLS - DEPTH_BITS), stage.calls, stage.kill)
        m.d.comb += judge.value.eq(Mux(step.base, self.base, pointer))
        with m.If(step.counts & ~step.prepares & stage.calls_full):
            m.d.comb += judge.error.eq(WarpError.API_STACK_ERROR)
        with m.Elif(rises & self.missing):
            m.d.comb += judge.error.eq(WarpError.MMU_FAULT)
        with m.Elif(rises & stage.limited):
            m.d.comb += judge.error.eq(WarpError.STACK_OVERFLOW)
        with m.Elif(step.set & ~stage.memory):
            m.d.comb += judge.error.eq(WarpError.STACK_ERROR)
        return m
