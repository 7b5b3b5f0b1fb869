"""Which lines of one warp's stack are on chip, and what has to happen to them."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.tokens import CACHED_TOKENS

from .lines import CACHED_LINES, SLOT_BITS
from .pointers import LOW_BITS

__all__ = ["AccessEvents", "CommitEvents", "LimitFlags", "MoverEvents", "StackWindow", "WindowFill", "WindowState"]


class WindowState(enum.Enum, shape=3):
    """What the stack itself is doing for the warp."""

    IDLE = 0
    """Nothing: requests are served."""
    BUSY = 1
    """An operation other than a push is in the pipeline."""
    AGAIN = 2
    """An unwind goes on: its next line is on chip."""
    WAIT = 3
    """An unwind goes on when its next line has come; it has seen all lines on chip."""
    WRITE_BACK = 4
    """Dirty lines are on their way to memory."""
    RESTORE = 5
    """The top line, not on chip, is needed again after an unwind that was in vain."""


class WindowFill(enum.Enum, shape=2):
    """The line that has been asked for, below the lowest on chip."""

    NONE = 0
    COMING = 1
    STALE = 2
    """It is still to come, but is not the next one any more."""
    FAULTY = 3
    """Memory could not give it."""


class LimitFlags(data.Struct):
    """How near the depth is to the limit, which is a multiple of 16 tokens."""

    near: unsigned(1)
    """The topmost token is among the last 16, or beyond."""
    reached: unsigned(1)
    """The topmost token is beyond."""


class AccessEvents(data.Struct):
    """What the first stage wants of a warp's window. Each window knows by itself whether that is possible, earlier
    than the stage does."""

    push: unsigned(1)
    """A token is pushed, if there is room."""
    pair: unsigned(1)
    """If there is room for two."""
    request: unsigned(1)
    """A request that is not a push is served, if any is: none follows before it is over."""
    write_back: unsigned(1)
    """That request is to write dirty lines back."""


class CommitEvents(data.Struct):
    """What the last stage makes of a warp's window."""

    state: unsigned(1)
    """The state becomes ``next_state``."""
    next_state: WindowState
    load: unsigned(1)
    """``last``, ``cached``, ``dirty`` and ``oldest`` are set."""
    last: unsigned(LOW_BITS)
    cached: unsigned(CACHED_LINES)
    dirty: unsigned(CACHED_LINES)
    oldest: unsigned(SLOT_BITS)
    soils: unsigned(1)
    """The top line, which has come, is dirty."""
    top_known: unsigned(1)
    """``top`` tells whether the copy of the top line holds."""
    top: unsigned(1)
    forget: unsigned(1)
    """Nothing on chip is valid any more; ``bottom`` tells whether lines lie below."""
    bottom: unsigned(1)
    heal: unsigned(1)
    """A line that memory could not give may be asked for again."""
    launch: unsigned(1)
    """A new warp; if ``sized``, its stack has a region in memory."""
    sized: unsigned(1)


class MoverEvents(data.Struct):
    """What moves between a warp's window and memory."""

    spilled: unsigned(1)
    """The oldest dirty line is on its way to memory."""
    requested: unsigned(1)
    """The line below the lowest one on chip is asked for."""
    filled: unsigned(1)
    """The line asked for has come; line 0 if ``first``; ``fault`` if memory could not give it."""
    first: unsigned(1)
    fault: unsigned(1)
    writes: unsigned(1)
    """``writing`` tells whether lines are still on their way to memory."""
    writing: unsigned(1)


class StackWindow(wiring.Component):
    """The lines on chip are the topmost ones; of those the topmost are dirty: memory does not have them as
    they are. Both counts are kept as a run of ones: bit n is 1 if there are more than n.

    Members
    -------
    access, commit, mover : In
        Events of the three places that change the window. Commit and the others never concern the same warp
        in the same cycle.
    turn : In(1)
        A step of the stack's own enters the pipeline.
    delayed, copied : In(1), In(1)
        The copy of the top line that a commit restores is made later; is made.
    check, flags : In(1), In(LimitFlags)
        New flags: some cycles after a push has begun a new run of 16 tokens, and after every commit.
    state, fill : Out
    last : Out(LOW_BITS)
        Number of the topmost token, modulo 16.
    cached, dirty : Out(CACHED_LINES)
    oldest : Out(SLOT_BITS)
        Slot of the oldest dirty line.
    top : Out(1)
        The copy of the top line holds.
    bottom : Out(1)
        No line lies below those on chip.
    has_memory : Out(1)
    near, reached : Out(1)
        See LimitFlags.
    serves, fits, takes, takes_pair : Out(1)
        Known from the cycle before: a request is served, if it is a push; there is room for one token, for
        two of the same instruction.
    keeps : Out(1)
        A line that comes is put in: it is the next one, and there is room.
    wants_spill, wants_fill, wants_turn : Out(1)
        There is a line to write, a line to read, a step to take in the pipeline.
    """

    access: In(AccessEvents)
    turn: In(1)
    delayed: In(1)
    copied: In(1)
    commit: In(CommitEvents)
    mover: In(MoverEvents)
    check: In(1)
    flags: In(LimitFlags)
    state: Out(WindowState)
    fill: Out(WindowFill)
    last: Out(LOW_BITS, init=-1)  # pyright: ignore[reportCallIssue]
    cached: Out(CACHED_LINES)
    dirty: Out(CACHED_LINES)
    oldest: Out(SLOT_BITS)
    top: Out(1)
    bottom: Out(1, init=1)  # pyright: ignore[reportCallIssue]
    has_memory: Out(1)
    near: Out(1)
    reached: Out(1)
    serves: Out(1)
    fits: Out(1)
    takes: Out(1)
    takes_pair: Out(1)
    keeps: Out(1)
    wants_spill: Out(1)
    wants_fill: Out(1)
    wants_turn: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        access, commit, mover = self.access, self.commit, self.mover
        writing, push, request = Signal(), Signal(), Signal()
        m.d.comb += [
            push.eq(access.push & Mux(access.pair, self.takes_pair, self.takes)),
            request.eq(access.request & self.serves)]
        waiting, writing_back = self.state == WindowState.WAIT, self.state == WindowState.WRITE_BACK
        new_line = self.last[:2] == 3
        no_room, all_dirty = self.cached[-1], self.dirty[-1]

        # What is wanted: lines are written and read ahead of need, before the window is full or empty.
        dead_window = waiting & no_room
        flush = (writing_back | dead_window) & self.dirty[0]
        early = (self.state == WindowState.IDLE) & self.dirty[-2]
        faulty = self.fill == WindowFill.FAULTY
        clean = ~self.dirty[0] | ~self.has_memory
        m.d.comb += [
            self.keeps.eq((self.fill == WindowFill.COMING) & ~no_room),
            self.wants_spill.eq(self.has_memory & (early | flush)),
            self.wants_fill.eq(~self.bottom & (self.fill == WindowFill.NONE)
                               & (~self.cached[-2] | (waiting & ~no_room))),
            self.wants_turn.eq((self.state == WindowState.AGAIN) | (dead_window & clean) | (waiting & faulty)
                               | (writing_back & clean & ~writing)
                               | ((self.state == WindowState.RESTORE) & (self.cached[0] | faulty)))]

        # Lines on chip. A push into a full window takes the place of the lowest line, which is then clean.
        gains = mover.filled & ~mover.fault & self.keeps
        grows = (push & new_line) | gains
        with m.If(commit.load):
            m.d.sync += self.cached.eq(commit.cached)
        with m.Elif(grows):
            m.d.sync += self.cached.eq(Cat(Const(1, 1), self.cached))
        drops_lowest = push & new_line & no_room
        with m.If(commit.forget):
            m.d.sync += self.bottom.eq(commit.bottom)
        with m.Elif(drops_lowest):
            m.d.sync += self.bottom.eq(0)
        with m.Elif(gains & mover.first):
            m.d.sync += self.bottom.eq(1)

        with m.If(commit.top_known):
            m.d.sync += self.top.eq(commit.top & ~self.delayed)
        with m.Elif(push & new_line):
            m.d.sync += self.top.eq(1)
        with m.Elif(self.copied):
            m.d.sync += self.top.eq(1)

        # Dirty lines.
        with m.If(commit.load):
            m.d.sync += self.dirty.eq(commit.dirty)
        with m.Elif(commit.soils):
            m.d.sync += self.dirty[0].eq(1)
        with m.Elif(push & new_line & ~mover.spilled):
            m.d.sync += self.dirty.eq(Cat(Const(1, 1), self.dirty))
        with m.Elif(mover.spilled & ~(push & new_line)):
            m.d.sync += self.dirty.eq(self.dirty[1:])
        with m.Elif(push):
            m.d.sync += self.dirty[0].eq(1)
        with m.If(commit.load):
            m.d.sync += self.oldest.eq(commit.oldest)
        with m.Elif(commit.soils & ~self.dirty[0]):
            m.d.sync += self.oldest.eq(self.last[2:LOW_BITS])
        with m.Elif(mover.spilled):
            m.d.sync += self.oldest.eq(self.oldest + 1)
        with m.Elif(push & ~self.dirty[0]):
            m.d.sync += self.oldest.eq((self.last + 1)[2:LOW_BITS])

        # The topmost token.
        with m.If(commit.load):
            m.d.sync += self.last.eq(commit.last)
        with m.Elif(push):
            m.d.sync += self.last.eq(self.last + 1)
        with m.If(self.check):
            m.d.sync += [self.near.eq(self.flags.near), self.reached.eq(self.flags.reached)]

        # Lines under way.
        coming, stale = self.fill == WindowFill.COMING, self.fill == WindowFill.STALE
        with m.If(mover.filled):
            with m.If(coming & mover.fault & ~drops_lowest):
                m.d.sync += self.fill.eq(WindowFill.FAULTY)
            with m.Else():
                m.d.sync += self.fill.eq(WindowFill.NONE)
        with m.Elif((commit.forget | drops_lowest) & (coming | mover.requested)):
            m.d.sync += self.fill.eq(WindowFill.STALE)
        with m.Elif(mover.requested):
            m.d.sync += self.fill.eq(WindowFill.COMING)
        with m.Elif((commit.heal | commit.forget) & ~stale & ~coming):
            m.d.sync += self.fill.eq(WindowFill.NONE)
        with m.If(mover.writes):
            m.d.sync += writing.eq(mover.writing)
        with m.If(commit.launch):
            m.d.sync += self.has_memory.eq(commit.sized)

        # What the next cycle may do, with what a commit or a push in this one leaves. No line is missing after
        # a commit: the next token goes into the top line, or at least one line has been popped.
        idle = Mux(commit.state, commit.next_state == WindowState.IDLE, self.state == WindowState.IDLE)
        last = Signal(LOW_BITS)
        limits: Any = Signal(LimitFlags)
        m.d.comb += [
            limits.eq(Mux(self.check, self.flags.as_value(), Cat(self.near, self.reached))),
            last.eq(Mux(commit.load, commit.last, self.last))]
        line_free = ~no_room | ~all_dirty | ~self.has_memory
        fits = Mux(push, (self.last[:2] != 2) | line_free, ~new_line | line_free | commit.load)
        possible = idle & ~request & fits & (push | commit.load | new_line | self.cached[0])
        m.d.sync += [
            self.serves.eq(idle & ~request), self.fits.eq(idle & ~request & fits),
            self.takes.eq(possible & Mux(push, _room(limits, last, 2), _room(limits, last, 1))),
            self.takes_pair.eq(possible & Mux(push, _room(limits, last, 3), _room(limits, last, 2)))]

        # What the stack is doing.
        with m.If(commit.state):
            m.d.sync += self.state.eq(commit.next_state)
        with m.Elif(request & access.write_back):
            m.d.sync += self.state.eq(WindowState.WRITE_BACK)
        with m.Elif(request | self.turn):
            m.d.sync += self.state.eq(WindowState.BUSY)
        with m.Elif(waiting & gains):
            m.d.sync += self.state.eq(WindowState.AGAIN)
        return m


def _room(limits: LimitFlags, last: Signal, tokens: int) -> Value:
    """Whether that many more tokens stay below the limit."""
    return ~(limits.reached | (limits.near & (last > CACHED_TOKENS - 1 - tokens)))
