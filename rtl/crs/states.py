"""What is kept of each warp's stack, in memories read by the warp's number."""

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
    Parking,
    StackState,
    commit_flags,
    commit_stage,
)
from .words import add_words, make_words, read, write

__all__ = ["StackRegions", "StackStates"]

assert CRS_GRANULE // TOKEN_BYTES == 2 * TRAP_RESERVE, "a granule is two of the steps that limits are counted in"


class StackStates(Component):
    """The states of all stacks: two reads and two writes in a cycle.

    A push writes while another warp's unwind is over: so there are two memories, one for each writer, and a state is
    what they differ in.

    Members
    -------
    warp, state : In, Out(StackState)
    slot_parts : Out(2 of SLOT_BITS)
        Their difference is the slot of the topmost token's line.
    other_warp, other : In, Out(StackState)
        Another's.
    push, push_warp, pushed : In(1), In, In(StackState)
        Writes a state.
    stage, below, cleaned : In(commit_stage), In(COUNT_BITS), In(COUNT_BITS)
        The fourth stage, which may write that of another warp, with the engine's counters as they are now: lines may
        have come and gone since the step was in the first stage.
    last, flags : Out(DEPTH_BITS), Out(commit_flags)
        What comes of that: the topmost token, and more.
    """

    def __init__(self, params: SmParams) -> None:
        bits = params.warp_bits
        super().__init__({
            "warp": In(bits), "state": Out(StackState), "other_warp": In(bits), "other": Out(StackState),
            "slot_parts": Out(data.ArrayLayout(SLOT_BITS, 2)), "push": In(1), "push_warp": In(bits),
            "pushed": In(StackState), "stage": In(commit_stage(params)), "below": In(COUNT_BITS),
            "cleaned": In(COUNT_BITS), "last": Out(DEPTH_BITS), "flags": Out(commit_flags(params))})
        self._copies = make_words(params.warps, by_push=StackState, by_commit=StackState)
        self.by_push, self.by_commit = self._copies.values()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        add_words(m, self._copies)
        for words, other, enable, warp, state in (
                (self.by_push, self.by_commit, self.push, self.push_warp, self.pushed),
                (self.by_commit, self.by_push, self.stage.write, self.stage.warp, self._commit(m))):
            write(m, words, enable, warp, state.as_value() ^ read(m, other, warp).as_value())
        for warp, state in ((self.warp, self.state), (self.other_warp, self.other)):
            parts = [read(m, words, warp) for words in (self.by_push, self.by_commit)]
            m.d.comb += state.eq(parts[0].as_value() ^ parts[1].as_value())
            if warp is self.warp:
                m.d.comb += [slot.eq(part.last[PLACE_BITS:]) for slot, part in zip(self.slot_parts, parts, strict=True)]
        return m

    def _commit(self, m: Module) -> Any:
        """The state that an operation leaves. A topmost line that has room is dirty, whatever memory has behind its
        tokens."""
        stage, flags = self.stage, self.flags
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


class StackRegions(Component):
    """Where each stack lies in memory, and how far it may grow.

    User mode may not fill the last 16 entries of the region, the trap handler may. Without a region in memory the
    entries on chip are all there is, in any mode.

    Members
    -------
    warp, trap, limits : In, In(1), Out(Limits)
        The limits of ``warp``, with ``trap`` those in the trap handler whatever the mode.
    write_warp, base : In, Out(BLOCK_ADDRESS_BITS)
        Where the local memory of ``write_warp`` begins.
    launch, move, configuration : In(1), In(1), In(StackConfiguration)
        A new stack for it; with ``move`` only the base is set.
    mode, enters : In(1), In(1)
        Its mode.
    other_warp, region, other_memory : In, Out(BLOCK_ADDRESS_BITS), Out(1)
        Where the region of ``other_warp`` begins, if it has one.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        bits = params.warp_bits
        super().__init__({
            "warp": In(bits), "trap": In(1), "limits": Out(Limits), "write_warp": In(bits),
            "base": Out(BLOCK_ADDRESS_BITS), "launch": In(1), "move": In(1), "configuration": In(StackConfiguration),
            "mode": In(1), "enters": In(1), "other_warp": In(bits), "region": Out(BLOCK_ADDRESS_BITS),
            "other_memory": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        asked = self.configuration
        limits, traps, bases, sizes, regions = add_words(m, make_words(
            self._warps, limits=data.StructLayout({"granules": CRS_GRANULE_BITS, "memory": 1, "checks_calls": 1}),
            traps=1, bases=BLOCK_ADDRESS_BITS, sizes=BLOCK_ADDRESS_BITS, regions=BLOCK_ADDRESS_BITS))

        # The highest number is the size in granules, less 1, twice, and 1 more in the trap handler.
        known: Any = read(m, limits, self.warp)
        less, sized = Signal(CRS_GRANULE_BITS), asked.size != 0
        m.d.comb += [
            self.limits.limit.eq(Cat((read(m, traps, self.warp) | self.trap) & known.memory, known.granules)),
            self.limits.memory.eq(known.memory), self.limits.checks_calls.eq(known.checks_calls),
            self.other_memory.eq(read(m, limits, self.other_warp).memory), less.eq(Mux(sized, asked.size - 1, 0))]
        write(m, limits, self.launch, self.write_warp, Cat(less, sized, asked.check_calls))
        write(m, traps, self.launch | self.mode, self.write_warp, self.enters & ~self.launch)

        # The region lies behind the threads' local memory.
        local = Mux(self.launch, asked.local, read(m, sizes, self.write_warp))
        write(m, bases, self.launch | self.move, self.write_warp, asked.base)
        write(m, sizes, self.launch, self.write_warp, asked.local)
        write(m, regions, self.launch | self.move, self.write_warp, (asked.base + local)[:BLOCK_ADDRESS_BITS])
        m.d.comb += [self.base.eq(read(m, bases, self.write_warp)), self.region.eq(read(m, regions, self.other_warp))]
        return m
