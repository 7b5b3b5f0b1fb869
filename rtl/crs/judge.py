"""Judge and commit: a token against the codes of 32 threads, what the step comes to, the state that it leaves."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import DEPTH_BITS, Event, ThreadCode, ThreadCodes, stack_result
from rtl.params import WARP_THREADS, SmParams

from .records import Origin, Parking, StackStates, commit_flags, fills_up_to, stack_step
from .tokens import PLACE_BITS, StoredToken

__all__ = ["TokenJudge"]

_PC_ALIGNMENT_BITS = ceil_log2(INSTRUCTION_BYTES)


class TokenJudge(Component):
    """The third stage, and the fourth.

    A SYNC or DIVERGE token revives the threads of its mask that wait for nothing else; a token of another kind those
    whose code is its kind, and it is an error if a thread of its mask has synchronised past it. POP_QUAD accepts a
    QUAD token alone; it is an error if none of its threads lives.

    RESTORE stops at a TRAP token in a line's lowest place. The tokens of a line above it assign codes to threads that
    have none yet: first those in place of a pc, then those of the mask, from the topmost token down. It is an error if
    they are not MASKS tokens, or no thread is active. Who is active is not dead, but may have another code: it waits,
    and SAM has made it active until RAM.

    Members
    -------
    stage : In(struct)
        With the token that is looked at. ``seen``: there is one; ``more``: there is another one below it on chip;
        ``bottom``: there is none on the stack. ``onward``: the unwind goes on unless the token ends it.

        Known of the token by its kind and place: it ends the unwind (``halts``), in error if ``wrong``; or it does so
        if there are threads for it (``may_halt``). In a trap frame, ``masks``: it is one of its MASKS tokens;
        ``by_pc``, ``by_mask``: the codes that its threads get. Of the threads' codes as the tokens above leave them:
        who goes on without his code if the token's mask has him, in a trap frame who is dead (``fits``); who has passed
        it (``past``), either (``stops``); somebody waits for a RETURN token (``returned``) or for one of another kind
        (``stuck``).
    stays : In(1)
        If the unwind goes on, it does so in the pipeline.
    next, codes : Out(stack_step), Out(ThreadCodes)
        The unwind as its next token finds it.
    stops, goes_on : Out(1), Out(1)
        An unwind ends with the token; it goes on.
    result_valid, result, committed
        See CallReturnStack.
    flags : Out(commit_flags)
    below, cleaned : In
        The engine's counters of the warp of ``flags`` as they are now: lines may have come and gone since the step was
        in the first stage.
    """

    def __init__(self, params: SmParams, states: StackStates) -> None:
        self._states, self._few = states, fills_up_to(params)
        super().__init__({
            "stage": In(data.StructLayout({
                "valid": 1, "run": stack_step(params), "seen": 1, "more": 1, "bottom": 1, "onward": 1,
                "token": StoredToken, "halts": 1, "wrong": 1, "may_halt": 1, "masks": 1, "by_pc": 3, "by_mask": 3,
                "codes": ThreadCodes, **dict.fromkeys(("fits", "past", "stops"), WARP_THREADS), "stuck": 1,
                "returned": 1, "error": WarpError, "value": 32})), "stays": In(1), "next": Out(stack_step(params)),
            "codes": Out(ThreadCodes), "stops": Out(1), "goes_on": Out(1), "result_valid": Out(1),
            "result": Out(stack_result(params)),
            "committed": Out(Event(data.StructLayout({"warp": params.warp_bits, "last": DEPTH_BITS}))),
            "flags": Out(commit_flags(params)), "below": In(params.stack_count_bits),
            "cleaned": In(params.stack_count_bits)})
        self._left: Any = Signal(data.StructLayout({
            "run": stack_step(params), "write": 1, "back": 1, "origin": Origin, "ends": 1, "empties": 1, "moves": 1,
            "done": 1, "parks": 1, "parking": Parking}))
        """What the step makes of its warp's stack. ``write``: the state is written, with what it was in ``origin`` if
        ``back``; if ``ends``, no call is open, if ``empties``, no line is on chip any more. ``moves``: the warp's
        memory is another. ``done``: the warp's next request may follow. ``parks``: the step goes on by the engine."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, run, step, token, answer, stops, goes_on = (
            self.stage, self.stage.run, self.stage.run.step, self.stage.token, self.result, self.stops, self.goes_on)

        # The threads, and whether the token is where the unwind ends.
        matching, freed, alive, passed = Signal(WARP_THREADS), Signal(WARP_THREADS), Signal(), Signal()
        bad, needed = Signal(), step.quad | step.frame
        misaligned = ~step.quad & (
            token.pc[HOLE_BITS:_PC_ALIGNMENT_BITS].any() | (token.pc[:HOLE_BITS].any() & ~step.frame))
        m.d.comb += [
            matching.eq(token.mask & (stage.fits | step.frame.replicate(WARP_THREADS))),
            freed.eq(token.mask & stage.fits), alive.eq(matching.any()), passed.eq((token.mask & stage.past).any()),
            stops.eq(stage.halts | (stage.may_halt & (token.mask & stage.stops).any())),
            bad.eq(stage.wrong | (stage.may_halt & passed) | (needed & ~alive))]

        # What it comes to.
        found, ends, empty, failed = (Signal(name=name) for name in ("found", "ends", "empty", "failed"))
        live, walks, stuck = stage.valid, stage.valid & step.walk, needed | stage.stuck
        m.d.comb += [
            goes_on.eq(stage.onward & ~stops), found.eq(live & stops & ~bad & ~misaligned),
            ends.eq(walks & ~step.fault & stage.bottom & ~stops), empty.eq(ends & ~stuck),
            failed.eq((walks & step.fault) | (live & stops & (bad | misaligned)) | (ends & stuck))]

        # The answer.
        m.d.sync += [
            self.result_valid.eq(live & ~goes_on & ~step.write_back & ~step.load), answer.warp.eq(run.warp),
            answer.resume.eq(found), answer.empty.eq(empty), answer.kind.eq(token.kind),
            answer.pc.eq(Cat(token.pc[:HOLE_BITS] & ~step.frame.replicate(HOLE_BITS), token.pc[HOLE_BITS:])),
            answer.mask.eq(matching), answer.value.eq(stage.value), answer.error.eq(stage.error)]
        m.d.sync += [answer.codes[thread].as_value().eq(code.as_value() & ~freed[thread].replicate(3))
                     for thread, code in enumerate(stage.codes)]
        with m.If(step.walk & step.fault):
            m.d.sync += answer.error.eq(WarpError.MMU_FAULT)
        with m.Elif(stops):
            m.d.sync += answer.error.eq(Mux(bad, WarpError.STACK_ERROR, Mux(misaligned, WarpError.MISALIGNED_PC,
                                                                           WarpError.NONE)))
        with m.Elif(step.walk):
            m.d.sync += answer.error.eq(Mux(stuck, WarpError.STACK_ERROR,
                                            Mux(stage.returned, WarpError.RET_EMPTY_STACK_ERROR, WarpError.NONE)))

        # The token below, which finds the codes that a frame's tokens have assigned.
        m.d.comb += [
            self.next.eq(run), self.next.framed.eq(stage.masks),
            self.next.state.calls.eq(run.state.calls - (
                stage.seen & token.counted & (token.kind == TokenKind.RETURN)))]
        for thread, (after, code) in enumerate(zip(self.codes, stage.codes, strict=True)):
            given = Mux(token.pc[thread], stage.by_pc, Mux(token.mask[thread], stage.by_mask, ThreadCode.NONE.value))
            m.d.comb += after.eq(Mux(code == ThreadCode.NONE, given, code.as_value()))

        # The stack that it leaves. A trap frame takes the holes under it along, if there is a line for them.
        left, last = self._left, run.state.last
        empties = step.launch | ends | (step.set & ~run.memory)
        holes = token.pc[:HOLE_BITS] & (step.frame & stage.halts & ~last[-1]).replicate(HOLE_BITS)
        sinks = goes_on & ~stage.more & stage.seen & run.clean
        m.d.sync += [
            left.run.eq(self.next), left.run.state.sunk.eq(sinks),
            left.run.state.last.eq(Cat(last[:HOLE_BITS] ^ holes | step.set.replicate(HOLE_BITS), last[HOLE_BITS:])
                                     | empties.replicate(DEPTH_BITS)),
            left.write.eq(found | empty | sinks | (failed & run.state.sunk) | (live & (
                step.set | step.launch | (step.load & ~step.fault)))),
            left.back.eq(failed), left.origin.eq(self._states.origins.read(m, run.warp)),
            left.ends.eq(step.launch | ends), left.empties.eq(failed | empty | step.set | step.launch),
            left.moves.eq(live & step.move), left.done.eq(live & step.holds & ~goes_on & ~step.write_back),
            left.parks.eq(goes_on & ~self.stays),
            left.parking.eq(Mux(stage.more | run.clean, Parking.WALK, Parking.SINK))]
        self._commit(m)
        return m

    def _commit(self, m: Module) -> None:
        """The fourth stage. A topmost line that has room is dirty, whatever memory has behind its tokens."""
        stage, run, flags, state = self._left, self._left.run, self.flags, Signal.like(self._left.run.state)
        lines, difference = Signal.like(run.lines), Signal.like(run.lines)
        none, room, waits, top_line = Signal(), Signal(), Signal(), state.last[PLACE_BITS:]
        bottom = Mux(lines == 0, state.last[-1], top_line == (lines - 1)[:len(lines)])
        m.d.comb += [
            lines.eq(Mux(stage.empties, 0, run.lines)), difference.eq(run.state.dirtied - self.cleaned),
            # As many of both signs as there are lines on chip, but not all of them if lines were dropped.
            none.eq(stage.empties | (run.dropped & difference[-1]) | (difference == 0)),
            room.eq(state.last[:PLACE_BITS] != TOKENS_PER_LINE - 1),
            waits.eq(stage.write & stage.done & room & (lines == 0)), state.eq(run.state)]
        with m.If(stage.back):
            m.d.comb += [state.last.eq(stage.origin.last), state.calls.eq(stage.origin.calls)]
        with m.Elif(stage.ends):
            m.d.comb += [state.calls.eq(0), state.kill.eq(0)]
        with m.If(stage.empties):
            m.d.comb += state.entered.eq(self.below)
        with m.If(none):
            m.d.comb += state.dirtied.eq(self.cleaned + (room & (lines != 0)))
        self._states.states.write(m, stage.write, run.warp, state)
        self._states.busy.write(m, stage.done & ~waits, run.warp, 0)
        m.d.sync += [self.committed.valid.eq(stage.write & stage.done), self.committed.payload.warp.eq(run.warp),
                     self.committed.payload.last.eq(state.last)]
        m.d.comb += [
            flags.warp.eq(run.warp), flags.writes.eq(stage.write), flags.empties.eq(stage.write & stage.empties),
            flags.parks.eq(stage.parks | waits),
            flags.parking.eq(Mux(waits, Parking.LOAD, stage.parking)),
            flags.lacks.eq(stage.write & run.memory & (lines <= self._few) & ~bottom),
            flags.stirs.eq(stage.moves | flags.empties),
            flags.lowers.eq(flags.stirs | (stage.write & (none | (difference == 1))))]
        m.d.sync += [
            Assert(~stage.done | self._states.busy.read(m, run.warp), "a result that nobody waits for"),
            Assert(~(stage.done & stage.parks), "an operation is over, and goes on")]
