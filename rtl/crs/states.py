"""What is kept of each warp's stack, in memories read by the warp's number; the fourth stage, which writes it."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import CRS_GRANULE, TOKEN_BYTES, TOKENS_PER_LINE, TRAP_RESERVE
from rtl.layouts import BLOCK_ADDRESS_BITS, CRS_GRANULE_BITS, DEPTH_BITS, StackConfiguration
from rtl.params import SmParams

from .records import (
    COUNT_BITS,
    FILLS_UP_TO,
    PLACE_BITS,
    SLOT_BITS,
    Limits,
    Origin,
    Parking,
    Seek,
    StackState,
    change_stage,
    commit_flags,
    commit_stage,
)
from .words import add_words, make_words, read, write

__all__ = ["StackStates"]

assert CRS_GRANULE // TOKEN_BYTES == 2 * TRAP_RESERVE, "a granule is two of the steps that limits are counted in"
_Sizes = data.StructLayout({"granules": CRS_GRANULE_BITS, "memory": 1, "checks_calls": 1})


class StackStates(Component):
    """The states of all stacks, where each lies in memory, and how far it may grow.

    A push writes a state while another warp's unwind is over: so there are two memories, one for each writer, and a
    state is what they differ in. User mode may not fill the last 16 entries of the region, the trap handler may.
    Without a region in memory the entries on chip are all there is, in any mode.

    Members
    -------
    warp, trap, state, limits, seek : In, In(1), Out(StackState), Out(Limits), Out(Seek)
        What is known of ``warp``, with ``trap`` its limits in the trap handler whatever the mode.
    slot_parts : Out(2 of SLOT_BITS)
        Their difference is the slot of its topmost token's line.
    begins, change, configuration, enters : In(1), In(change_stage), In(StackConfiguration), In(1)
        A step that begins, in the second stage, and what came with it; its SET_MODE enters the trap handler.
    push, pushed, base : In(1), In(StackState), Out(BLOCK_ADDRESS_BITS)
        Writes the state of the warp that is there; where its local memory begins.
    looked_warp, origin : In, Out(Origin)
        Where its unwind began.
    commit, below, cleaned : In(commit_stage), In(COUNT_BITS), In(COUNT_BITS)
        The fourth stage, which may write the state of another warp, with the engine's counters as they are now: lines
        may have come and gone since the step was in the first stage.
    last, flags : Out(DEPTH_BITS), Out(commit_flags)
        What comes of that: the topmost token, and more.
    other_warp, other, region, memory : In, Out(StackState), Out(BLOCK_ADDRESS_BITS), Out(1)
        Another warp's state, where its region begins, and whether it has one.
    """

    def __init__(self, params: SmParams) -> None:
        bits = params.warp_bits
        super().__init__({
            "warp": In(bits), "trap": In(1), "state": Out(StackState), "limits": Out(Limits), "seek": Out(Seek),
            "slot_parts": Out(data.ArrayLayout(SLOT_BITS, 2)), "begins": In(1), "change": In(change_stage(params)),
            "configuration": In(StackConfiguration), "enters": In(1), "push": In(1), "pushed": In(StackState),
            "base": Out(BLOCK_ADDRESS_BITS), "looked_warp": In(bits), "origin": Out(Origin),
            "commit": In(commit_stage(params)), "below": In(COUNT_BITS), "cleaned": In(COUNT_BITS),
            "last": Out(DEPTH_BITS), "flags": Out(commit_flags(params)), "other_warp": In(bits),
            "other": Out(StackState), "region": Out(BLOCK_ADDRESS_BITS), "memory": Out(1)})
        self._words = make_words(
            params.warps, by_push=StackState, by_commit=StackState, sizes=_Sizes, traps=1, bases=BLOCK_ADDRESS_BITS,
            locals=BLOCK_ADDRESS_BITS, regions=BLOCK_ADDRESS_BITS, origins=Origin, seeks=Seek)
        self.by_push, self.by_commit = self._words["by_push"], self._words["by_commit"]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        by_push, by_commit, sizes, traps, bases, local, regions, origins, seeks = add_words(m, self._words)
        asked, stage, step, warp = self.configuration, self.change, self.change.step, self.change.warp

        # The states.
        for words, other, enable, writer, state in (
                (by_push, by_commit, self.push, warp, self.pushed),
                (by_commit, by_push, self.commit.write, self.commit.warp, self._commit(m))):
            write(m, words, enable, writer, state.as_value() ^ read(m, other, writer).as_value())
        for reader, state in ((self.warp, self.state), (self.other_warp, self.other)):
            parts = [read(m, words, reader) for words in (by_push, by_commit)]
            m.d.comb += state.eq(parts[0].as_value() ^ parts[1].as_value())
            if reader is self.warp:
                m.d.comb += [slot.eq(part.last[PLACE_BITS:]) for slot, part in zip(self.slot_parts, parts, strict=True)]

        # The highest number is the size in granules, less 1, twice, and 1 more in the trap handler.
        known: Any = read(m, sizes, self.warp)
        launches, less, sized = self.begins & step.launch, Signal(CRS_GRANULE_BITS), asked.size != 0
        m.d.comb += [
            self.limits.limit.eq(Cat((read(m, traps, self.warp) | self.trap) & known.memory, known.granules)),
            self.limits.memory.eq(known.memory), self.limits.checks_calls.eq(known.checks_calls),
            self.memory.eq(read(m, sizes, self.other_warp).memory), less.eq(Mux(sized, asked.size - 1, 0))]
        write(m, sizes, launches, warp, Cat(less, sized, asked.check_calls))
        write(m, traps, launches | (self.begins & step.mode & ~step.prior), warp, self.enters & ~step.launch)

        # The region lies behind the threads' local memory.
        moves = self.begins & (step.launch | step.move)
        behind = Mux(step.launch, asked.local, read(m, local, warp))
        write(m, bases, moves, warp, asked.base)
        write(m, local, launches, warp, asked.local)
        write(m, regions, moves, warp, (asked.base + behind)[:BLOCK_ADDRESS_BITS])
        m.d.comb += [self.base.eq(read(m, bases, warp)), self.region.eq(read(m, regions, self.other_warp))]

        # What an unwind looks for, and where it began.
        unwinds = self.begins & step.walk & ~step.prior
        write(m, seeks, unwinds, warp, Cat(step.quad, step.frame))
        write(m, origins, unwinds, warp, Cat(stage.number, stage.calls))
        m.d.comb += [self.seek.eq(read(m, seeks, self.warp)), self.origin.eq(read(m, origins, self.looked_warp))]
        return m

    def _commit(self, m: Module) -> Any:
        """The state that an operation leaves. A topmost line that has room is dirty, whatever memory has behind its
        tokens."""
        stage, flags = self.commit, self.flags
        state: Any = Signal(StackState)
        lines, difference = Signal(COUNT_BITS), Signal(COUNT_BITS)
        none, room, waits = Signal(), Signal(), Signal()
        top_line = state.last[PLACE_BITS:]
        bottom = Mux(lines == 0, state.last[-1], ~top_line[1:].any() & (top_line[0] == lines[1]))
        m.d.comb += [
            lines.eq(Mux(stage.empties, 0, stage.lines)), difference.eq(stage.dirtied - self.cleaned),
            # From -4 to 4, and never 4 if lines were dropped.
            none.eq(stage.empties | (stage.dropped & difference[-1]) | (stage.dirtied == self.cleaned)),
            self.last.eq(state.last), room.eq(state.last[:PLACE_BITS] != TOKENS_PER_LINE - 1),
            waits.eq(stage.write & stage.done & room & (lines == 0)),
            state.last.eq(Mux(stage.back, stage.origin.last, stage.number)),
            state.calls.eq(Mux(stage.back, stage.origin.calls, Mux(stage.ends, 0, stage.calls))),
            state.kill.eq(stage.kill & (stage.back | ~stage.ends)), state.sunk.eq(stage.sunk),
            state.entered.eq(Mux(stage.empties, self.below, stage.below + stage.lines)),
            state.dirtied.eq(Mux(none, self.cleaned + (room & (lines != 0)), stage.dirtied)),
            flags.warp.eq(stage.warp), flags.writes.eq(stage.write), flags.empties.eq(stage.write & stage.empties),
            flags.done.eq(stage.done & ~waits), flags.parks.eq(stage.parks | waits),
            flags.parking.eq(Mux(waits, Parking.LOAD, stage.parking)),
            flags.lacks.eq(stage.write & stage.memory & (lines <= FILLS_UP_TO) & ~bottom),
            flags.stirs.eq(stage.moves | flags.empties),
            flags.lowers.eq(flags.stirs | (stage.write & (none | (difference == 1))))]
        return state
