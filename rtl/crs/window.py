"""Which lines of one warp's stack are on chip, and what has to happen to them."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from .lines import CACHED_LINES

__all__ = ["LINE_COUNT_BITS", "SPILL_AT", "AccessEvents", "CommitEvents", "MoverEvents", "StackWindow", "WindowState"]

LINE_COUNT_BITS = CACHED_LINES.bit_length()
"""Width of a number of cached lines, 0 to CACHED_LINES."""
SPILL_AT = CACHED_LINES - 1
"""Dirty lines at which the oldest is written to memory ahead of need."""
FILL_BELOW = CACHED_LINES - 1
"""Lines on chip or under way, fewer than which another is read from memory ahead of need."""
WRITES = 7
"""Writes of one warp that may be under way."""


class WindowState(enum.Enum, shape=2):
    """What the stack itself is doing for the warp."""

    IDLE = 0
    """Nothing: requests are served."""
    BUSY = 1
    """A step of its own is in the pipeline."""
    WAIT = 2
    """An unwind has seen all lines on chip, or lost its turn: it goes on when the next line is there."""
    WRITE_BACK = 3
    """Dirty lines are on their way to memory."""


class AccessEvents(data.Struct):
    """What the first stage does to a warp's window."""

    launch: unsigned(1)
    """A new warp: the stack is empty; if ``sized``, it has a region in memory."""
    sized: unsigned(1)
    push: unsigned(1)
    """A token is pushed; ``new_line`` if it is the first of its line."""
    new_line: unsigned(1)
    enter: unsigned(1)
    """A walk, or the end of a write-back, enters the pipeline."""
    sink: unsigned(1)
    """All lines on chip are dead and in memory: the unwind goes on below them."""
    write_back: unsigned(1)
    """Dirty lines are to be written back."""


class CommitEvents(data.Struct):
    """What the last stage does to a warp's window."""

    set: unsigned(1)
    """The stack pointer is set, to 0 if ``first``: nothing on chip is valid."""
    first: unsigned(1)
    wait: unsigned(1)
    """An unwind has passed the ``seen`` topmost lines, and no look at the next one is under way."""
    seen: unsigned(LINE_COUNT_BITS)
    done: unsigned(1)
    """The unwind or write-back is over; if ``failed``, with an error, and the stack is as before it."""
    failed: unsigned(1)
    pop: unsigned(1)
    """Tokens are popped: ``dropped`` lines have none left, and the top line is ``partial``."""
    dropped: unsigned(LINE_COUNT_BITS)
    partial: unsigned(1)


class MoverEvents(data.Struct):
    """What moves between a warp's window and memory."""

    spilled: unsigned(1)
    """The oldest dirty line is on its way to memory."""
    requested: unsigned(1)
    """The line below the lowest one on chip or under way is asked for."""
    filled: unsigned(1)
    """A line asked for has come; line 0 if ``first``; ``fault`` if memory could not give it."""
    first: unsigned(1)
    fault: unsigned(1)


class StackWindow(wiring.Component):
    """Counts of one warp's lines: the window of lines on chip ends at the top of the stack.

    A line is dirty when memory does not have it as it is; dirty lines are the top ones. The counts say all:
    line numbers follow from them and the stack pointer. The lowest line on chip moves only when a push
    drops it, a line is filled in below it, or the stack pointer is set.

    Members
    -------
    access, commit, mover : In(AccessEvents), In(CommitEvents), In(MoverEvents)
    written : In(1)
        Memory has one more of the lines sent.
    state : Out(WindowState)
    cached, dirty, coming, seen : Out
        Lines on chip, dirty lines, lines asked for below the lowest on chip, lines that an unwind has passed.
    pushable : Out(1)
        A token may start a new line. Without memory this is a matter of the limit alone.
    faulty : Out(1)
        Memory could not give the line below the lowest on chip.
    accepts : Out(1)
        A line that comes now is kept.
    wants_spill, wants_fill, wants_turn : Out(1)
        There is a line to write, a line to read, a step to take in the pipeline.
    """

    access: In(AccessEvents)
    commit: In(CommitEvents)
    mover: In(MoverEvents)
    written: In(1)
    state: Out(WindowState)
    cached: Out(LINE_COUNT_BITS)
    dirty: Out(LINE_COUNT_BITS)
    coming: Out(LINE_COUNT_BITS)
    seen: Out(LINE_COUNT_BITS)
    pushable: Out(1)
    faulty: Out(1)
    accepts: Out(1)
    wants_spill: Out(1)
    wants_fill: Out(1)
    wants_turn: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        access, commit, mover = self.access, self.commit, self.mover
        bottom = Signal(init=1)
        """The lowest line on chip is line 0, or the stack is empty."""
        has_memory = Signal()
        stale = Signal(LINE_COUNT_BITS)
        """Lines still to come that nobody waits for any more; they come before the others."""
        writes = Signal(range(WRITES + 1))
        sunk = Signal()
        """The unwind under way has left the lines that were on chip when it began."""

        # What is wanted.
        writing_back = self.state == WindowState.WRITE_BACK
        waiting = self.state == WindowState.WAIT
        line_there = self.cached > self.seen
        all_dead = (self.cached == CACHED_LINES) & (self.seen == CACHED_LINES)
        all_in_memory = (self.dirty == 0) | ~has_memory
        early = (self.state == WindowState.IDLE) & (self.dirty >= SPILL_AT)
        flushing = (writing_back | (waiting & all_dead)) & (self.dirty != 0)
        known = self.cached + self.coming
        m.d.comb += [
            self.pushable.eq((self.cached != CACHED_LINES) | (self.dirty != CACHED_LINES) | ~has_memory),
            self.accepts.eq((stale == 0) & (self.cached != CACHED_LINES)),
            self.wants_spill.eq(has_memory & (early | flushing) & (writes != WRITES)),
            self.wants_fill.eq(~bottom & ~self.faulty & (stale == 0)
                               & (known < Mux(waiting, CACHED_LINES, FILL_BELOW))),
            self.wants_turn.eq(
                (waiting & (line_there | self.faulty | (all_dead & all_in_memory)))
                | (writing_back & all_in_memory & (writes == 0)))]

        # Lines on chip. A fill that finds the window full, or no longer next to it, is dropped.
        drops_lowest = access.push & access.new_line & (self.cached == CACHED_LINES)
        forget = access.launch | commit.set | (commit.done & commit.failed & sunk)
        fresh = mover.filled & (stale == 0)
        keeps = mover.filled & ~mover.fault & self.accepts
        with m.If(forget | access.sink):
            m.d.sync += self.cached.eq(0)
        with m.Else():
            m.d.sync += self.cached.eq(self.cached + (access.push & access.new_line & ~drops_lowest) + (keeps & ~forget)
                                       - Mux(commit.pop, commit.dropped, 0))
        with m.If(forget):
            m.d.sync += bottom.eq(access.launch | (commit.set & commit.first))
        with m.Elif(drops_lowest):
            m.d.sync += bottom.eq(0)
        with m.Elif(keeps & mover.first):
            m.d.sync += bottom.eq(1)

        # Lines under way.
        missed = fresh & ~mover.fault & (self.cached == CACHED_LINES)
        others = self.coming + mover.requested - fresh
        with m.If(forget | drops_lowest | missed):
            m.d.sync += [self.coming.eq(0), stale.eq(stale + self.coming + mover.requested - mover.filled)]
        with m.Else():
            m.d.sync += [self.coming.eq(others), stale.eq(stale - (mover.filled & (stale != 0)))]
        with m.If(forget | commit.done):
            m.d.sync += self.faulty.eq(0)
        with m.Elif(fresh & mover.fault):
            m.d.sync += self.faulty.eq(1)
        m.d.sync += writes.eq(writes + mover.spilled - self.written)

        # Dirty lines.
        with m.If(forget):
            m.d.sync += self.dirty.eq(0)
        with m.Elif(commit.pop):
            m.d.sync += self.dirty.eq(Mux(self.dirty > commit.dropped, self.dirty - commit.dropped, commit.partial))
        with m.Elif(access.push):
            m.d.sync += self.dirty.eq(Mux(access.new_line, self.dirty + 1, Mux(self.dirty == 0, 1, self.dirty))
                                      - mover.spilled)
        with m.Else():
            m.d.sync += self.dirty.eq(self.dirty - mover.spilled)

        # What the stack is doing.
        with m.If(access.launch):
            m.d.sync += has_memory.eq(access.sized)
        with m.If(access.launch | commit.done):
            m.d.sync += [self.state.eq(WindowState.IDLE), sunk.eq(0)]
        with m.Elif(access.enter):
            m.d.sync += self.state.eq(WindowState.BUSY)
        with m.Elif(commit.wait):
            m.d.sync += [self.state.eq(WindowState.WAIT), self.seen.eq(commit.seen)]
        with m.Elif(access.sink):
            m.d.sync += [self.seen.eq(0), sunk.eq(1)]
        with m.Elif(access.write_back):
            m.d.sync += self.state.eq(WindowState.WRITE_BACK)
        return m
