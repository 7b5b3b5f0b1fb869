"""The spill and fill engine: visits one warp after the other, and decides what moves between cache
and memory."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, enum
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.tokens import CRS_GRANULE, LINE_BYTES, TOKENS_PER_LINE
from rtl.layouts import BLOCK_ADDRESS_BITS, DEPTH_BITS, LINE_BITS, Event, MemoryPort
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.structs import struct_value

from .lines import LineEvents, LineTransfer, line_job
from .records import Parking, StackStates, fills_up_to, spills_from
from .stages import CommitPort, ReplayPort, change_flags
from .tokens import PLACE_BITS, LineTokenPort

__all__ = ["Action", "ActionView", "SpillFillEngine", "VisitStep", "warp_view"]

_LINES_PER_GRANULE_BITS = (CRS_GRANULE // LINE_BYTES - 1).bit_length()


class VisitStep(enum.Enum, shape=2):
    """A visit's steps, a cycle each; ACT may wait."""

    SELECT = 0
    """A warp is chosen: that whose line has come, else one that has a hint."""
    READ = 1
    """Its words are read."""
    DECIDE = 2
    """What is to be done for it is decided: an :class:`Action`."""
    ACT = 3
    """It is done."""


class ActionView(enum.EnumView):
    """An :class:`Action` in hardware, with its predicates."""

    @property
    def is_for_arrival(self) -> Value:
        """Whether the action handles a line that has arrived from memory."""
        return self._is_one_of(Action.DISCARD, Action.FAIL, Action.INSTALL)

    @property
    def fills(self) -> Value:
        """Whether the action requests a line from memory."""
        return self._is_one_of(Action.FILL, Action.WAKE_AND_FILL)

    @property
    def wakes(self) -> Value:
        """Whether the action makes a parked operation replay."""
        return self._is_one_of(Action.WAKE, Action.WAKE_AND_FILL)

    def _is_one_of(self, *actions: "Action") -> Value:
        return self.as_value().matches(*(each.value for each in actions))


class Action(enum.Enum, shape=4, view_class=ActionView):
    """What a visit does for its warp."""

    NONE = 0
    """Nothing moves. A write-back whose last lines are on their way waits for confirmation."""
    FILL = 1
    """The line below those on chip is requested."""
    WAKE = 2
    """What the parked operation waits for is so: it replays."""
    WAKE_AND_FILL = 3
    """Both."""
    SPILL = 4
    """Dirty lines are written to memory."""
    POSTPONE = 5
    """Dirty lines should be written, but as many writes are outstanding as can be counted."""
    DISCARD = 8
    """The line that has arrived is discarded: it is stale, or there is no room."""
    FAIL = 9
    """Memory could not give the line that an operation waits for: it replays, with a fault."""
    INSTALL = 10
    """The line that has arrived is installed in the cache. An operation that waits for it
    replays."""


def warp_view(params: SmParams) -> data.StructLayout:
    """What the engine has read of the warp that it visits.

    Fields
    ------
    last : 17
        Number of the topmost token.
    lines : 0 to all
        Lines on chip.
    below : counter
    dirty : 0 to all
        Dirty lines that are not about to leave.
    leaving : 1
        Some are about to leave.
    next_cleaned : counter
        What ``cleaned`` is when the next line has left.
    writes : 0 to one less than twice all
        Writes that memory has not confirmed, or that are about to leave.
    parked, writing_back, parking : 1, 1, Parking
        See StackStates.
    has_region : 1
    filling : 1
        A fill is outstanding.
    stale : 1
        Its line is stale: it will be discarded.
    region : address in granules
    """
    count = params.stack_count_bits
    return data.StructLayout({
        "last": DEPTH_BITS,
        "lines": count,
        "below": count,
        "dirty": count,
        "leaving": 1,
        "next_cleaned": count,
        "writes": count,
        "parked": 1,
        "writing_back": 1,
        "parking": Parking,
        "has_region": 1,
        "filling": 1,
        "stale": 1,
        "region": BLOCK_ADDRESS_BITS,
    })


class SpillFillEngine(Component):
    """Moves lines between cache and memory for all warps, and holds the parked operations, which
    wait for lines.

    ::

        change flags, commit flags, lines that moved
              |
              v
          hints, urgent --> SELECT --> READ --> DECIDE --> ACT --> jobs, installs, replays
                              ^                             |
                              +---- retry: a hint again <---+

    A visit takes four cycles. Meanwhile pushes and unwinds continue. They leave the line below
    those on chip unchanged as long as no push drops the lowest line, so a fill is requested only
    with ``fills_up_to`` lines on chip at most; they leave the oldest dirty line unchanged as long
    as another one is dirty. If anything else changes, the visit is abandoned and repeated.

    Priority: the next visit is for an arrived line, else for urgent warps, else for warps with a
    hint; among equals the priority rotates. A write-back that memory has confirmed replays before
    what a visit wakes. Jobs: one at a time; the next one waits until all lines of the one before
    have left the cache, or are requested.

    Members
    -------
    change : In(change_flags)
    commit : In(CommitPort)
    cache_is_full : Out(warps)
        Whose lines are all dirty, and the last one full.
    replay : Out(ReplayPort)
    tokens, write_fault, events, port
        See LineTransfer.
    """

    def __init__(self, params: SmParams, states: StackStates) -> None:
        self._params = params
        self._states = states
        self.lines = LineTransfer(params)
        super().__init__({
            "change": In(change_flags(params)),
            "commit": In(CommitPort(params)),
            "cache_is_full": Out(params.warps),
            "replay": Out(ReplayPort(params)),
            "tokens": Out(LineTokenPort(params)),
            "write_fault": Out(Event(params.warp_bits)),
            "events": Out(LineEvents()),
            "port": Out(MemoryPort(params.warp_bits)),
        })
        self.warp = Signal(params.warp_bits)
        """The warp that is visited."""
        self.stale = Signal(params.warps)
        """By warp: the line of its outstanding fill is stale, and will be discarded."""
        self._hints = Signal(params.warps, name="hints")
        """By warp: there may be something to do for it."""
        self._urgent = Signal(params.warps, name="urgent")
        """By warp: it is visited before others."""
        self._some_urgent = Signal(name="some_urgent")
        self._turn = Signal(params.warp_bits, name="turn")
        """Of equal warps, which one is preferred."""
        self._step = Signal(VisitStep, name="step")
        self._for_arrival = Signal(name="for_arrival")
        """The visit is for a line that has come."""
        self._view: Any = Signal(warp_view(params), name="view")
        """The visited warp's words, read a cycle ago."""
        self._drains = Signal(name="drains")
        """An operation of the warp waits until all dirty lines have left."""
        self._must_write = Signal(name="must_write")
        """Dirty lines are to be written."""
        self._may_write = Signal(name="may_write")
        """So many more writes may be under way."""
        self._wait_is_over = Signal(name="wait_is_over")
        """What an operation waits for is so."""
        self._is_useless = Signal(name="is_useless")
        """The line that has arrived is discarded."""

        # What has happened to the warp since the visit began.
        self._visits = Signal(name="visits")
        """A visit is under way."""
        self._commits = Signal(name="commits")
        """The commit stage has a step of the visited warp."""
        self._begins_line = Signal(name="begins_line")
        """A push of it begins a line."""
        self._was_invalidated = Signal(name="was_invalidated")
        self._was_committed = Signal(name="was_committed")
        """A state was written for it: tokens were popped."""
        self._line_was_started = Signal(name="line_was_started")
        self._is_given_up = Signal(name="is_given_up")
        """The visit would act on what is not so any more."""

        # What was decided.
        self._action: Any = Signal(Action, name="action")
        self._for_write_back = Signal(name="for_write_back")
        """The warp had a write-back that waits."""
        self._number = Signal(LINE_BITS, name="number")
        """The line that moves."""
        self._more = Signal(params.stack_slot_bits, name="more")
        """How many are written behind it."""
        self._keep = Signal(TOKENS_PER_LINE, name="keep")
        """Which tokens of the last one are on the stack."""

        # What a visit does.
        self._confirmed = Signal(name="confirmed")
        """Memory confirms the last line of a write-back in this cycle: that operation replays."""
        self._installs = Signal(name="installs")
        self._requests_line = Signal(name="requests_line")
        self._replays = Signal(name="replays")
        """The visited warp's operation replays."""
        self._awaits_confirmation = Signal(name="awaits_confirmation")
        """Of the warp's write-back only memory's confirmation is to come."""
        self._retry = Signal(name="retry")
        """The warp gets another visit."""
        self._done = Signal(name="done")
        """The visit is over."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._connect_lines(m)
        self._read(m)
        self._check_spill(m)
        self._check_wait(m)
        self._check_arrival(m)
        self._decide(m)
        self._select_lines(m)
        self._watch(m)
        self._prepare_job(m)
        self._act(m)
        self._move_line(m)
        self._replay(m)
        self._count(m)
        self._remember(m)
        self._hint(m)
        self._step_visit(m)
        return m

    def _connect_lines(self, m: Module) -> None:
        """The line transfer is a part of the engine."""
        m.submodules.lines = lines = self.lines
        commit = self.commit.flags
        connect(m, lines.tokens, flipped(self.tokens))
        connect(m, lines.write_fault, flipped(self.write_fault))
        connect(m, lines.port, flipped(self.port))
        connect(m, lines.events, flipped(self.events))
        m.d.sync += lines.keeps_lines.valid.eq(commit.keeps_lines)
        m.d.sync += lines.keeps_lines.payload.eq(commit.warp)

    def _read(self, m: Module) -> None:
        """READ: the words of the warp, a cycle later in ``view``. They are read in all steps."""
        states = self._states
        leaving = self.lines.leaving
        state = states.states.read(m, self.warp)
        below = states.below.read(m, self.warp)
        cleaned = states.cleaned.read(m, self.warp)
        acknowledged = states.acknowledged.read(m, self.warp)
        lines_leaving = Mux(leaving.warp == self.warp, leaving.lines, 0)
        m.d.sync += self._view.eq(struct_value(
            warp_view(self._params),
            last=state.last,
            lines=state.entered - below,
            below=below,
            dirty=state.dirtied - cleaned - lines_leaving,
            leaving=lines_leaving != 0,
            next_cleaned=cleaned + lines_leaving + 1,
            writes=cleaned + lines_leaving - acknowledged,
            parked=states.parked.read(m, self.warp),
            writing_back=states.writing_back.read(m, self.warp),
            parking=states.parking.read(m, self.warp),
            has_region=states.sizes.read(m, self.warp).has_region,
            filling=states.filling.read(m, self.warp),
            stale=self.stale.bit_select(self.warp, 1),
            region=states.regions.read(m, self.warp)))

    def _check_spill(self, m: Module) -> None:
        """DECIDE: whether lines are to be written. All dirty ones, if an operation waits for that;
        none, if it waits for a line from memory; else the oldest, if too many are dirty."""
        view = self._view
        has_parked = view.parked | view.writing_back
        m.d.comb += self._drains.eq(
            view.writing_back | (view.parked & (view.parking == Parking.EVICT)))
        with m.If(self._drains):
            m.d.comb += self._must_write.eq(view.has_region & (view.dirty != 0))
        with m.Elif(~has_parked):
            m.d.comb += self._must_write.eq(
                view.has_region & (view.dirty >= spills_from(self._params)))

        # The counter must have room: for the writes of all lines to drain them, for one to spill.
        most_writes = (1 << len(view.writes)) - 1
        with m.If(self._drains):
            m.d.comb += self._may_write.eq(view.writes <= most_writes - self._params.stack_lines)
        with m.Else():
            m.d.comb += self._may_write.eq(view.writes <= most_writes - 1)

    def _check_wait(self, m: Module) -> None:
        """DECIDE: whether what an operation waits for is so: all dirty lines have left, and of a
        write-back memory has confirmed them; or a line is on chip."""
        view = self._view
        has_parked = view.parked | view.writing_back
        has_all_left = (view.dirty == 0) & ~view.leaving
        is_confirmed = ~view.writing_back | (view.writes == 0)
        with m.If(self._drains):
            m.d.comb += self._wait_is_over.eq(
                ~view.has_region | (has_all_left & is_confirmed))
        with m.Elif(has_parked):
            m.d.comb += self._wait_is_over.eq(view.lines != 0)

    def _check_arrival(self, m: Module) -> None:
        """DECIDE: whether a line that has arrived is discarded. An error fails no operation that
        still waits for dirty lines to leave: such an operation requests the line again."""
        view = self._view
        waits_for_line = view.parked & ~self._drains
        has_no_room = view.lines > fills_up_to(self._params)
        with m.If(self.lines.arrived.payload.error):
            m.d.comb += self._is_useless.eq(view.stale | ~waits_for_line)
        with m.Else():
            m.d.comb += self._is_useless.eq(view.stale | has_no_room)

    def _decide(self, m: Module) -> None:
        """DECIDE: the action. Priority: a line that has arrived, then dirty lines that have
        to be written, then an operation whose wait is over, then a fill of the next line below."""
        view = self._view
        has_room = view.lines <= fills_up_to(self._params)
        may_fill = Signal()
        m.d.comb += may_fill.eq(view.has_region & ~self._drains & ~view.filling & has_room)
        action = Signal(Action)
        with m.If(self._for_arrival & self._is_useless):
            m.d.comb += action.eq(Action.DISCARD)
        with m.Elif(self._for_arrival & self.lines.arrived.payload.error):
            m.d.comb += action.eq(Action.FAIL)
        with m.Elif(self._for_arrival):
            m.d.comb += action.eq(Action.INSTALL)
        with m.Elif(self._must_write & self._may_write):
            m.d.comb += action.eq(Action.SPILL)
        with m.Elif(self._must_write):
            m.d.comb += action.eq(Action.POSTPONE)
        with m.Elif(self._wait_is_over & may_fill):
            m.d.comb += action.eq(Action.WAKE_AND_FILL)
        with m.Elif(self._wait_is_over):
            m.d.comb += action.eq(Action.WAKE)
        with m.Elif(may_fill):
            m.d.comb += action.eq(Action.FILL)
        with m.If(self._step == VisitStep.DECIDE):
            m.d.sync += self._action.eq(action)
            m.d.sync += self._for_write_back.eq(view.writing_back)

    def _select_lines(self, m: Module) -> None:
        """DECIDE: the lines that the action is about: the lowest dirty one and those above it, or
        the one below those on chip."""
        view = self._view
        top_line = view.last[PLACE_BITS:]
        with m.If(self._step == VisitStep.DECIDE):
            with m.If(self._must_write & ~self._for_arrival):
                m.d.sync += self._number.eq(top_line - (view.dirty - 1))
            with m.Else():
                m.d.sync += self._number.eq(top_line - view.lines)
            m.d.sync += self._more.eq(Mux(self._drains, view.dirty - 1, 0))
            for place in range(TOKENS_PER_LINE):
                is_on_stack = view.last[:PLACE_BITS] >= place
                m.d.sync += self._keep[place].eq(is_on_stack | ~self._drains)

    def _watch(self, m: Module) -> None:
        """Whether a commit of the warp, or a line that it begins, makes a decision wrong. A line to
        be installed has its slot as long as no other line was started since; lines to be written
        stay unchanged as long as nothing was popped."""
        step = self._step
        commit = self.commit.flags
        change = self.change
        m.d.comb += self._visits.eq(step != VisitStep.SELECT)
        m.d.comb += self._commits.eq(commit.warp == self.warp)
        m.d.comb += self._begins_line.eq(change.begins_line & (change.warp == self.warp))
        m.d.sync += self._was_invalidated.eq(
            self._visits & self._commits & commit.invalidates)
        m.d.sync += self._was_committed.eq(
            self._visits & (self._was_committed | (self._commits & commit.writes)))
        m.d.sync += self._line_was_started.eq(
            self._visits & (self._line_was_started | self._begins_line))
        spill_is_wrong = (
            (step == VisitStep.ACT) & (self._action == Action.SPILL) & self._was_committed)
        m.d.comb += self._is_given_up.eq(
            self._visits & (self._was_invalidated | spill_is_wrong))

    def _prepare_job(self, m: Module) -> None:
        """ACT: the job of a spill or a fill, and the slot of a line that is installed."""
        region = Cat(Const(0, _LINES_PER_GRANULE_BITS), self._view.region)
        m.d.comb += self.lines.job.payload.eq(struct_value(
            line_job(self._params),
            warp=self.warp,
            spill=self._action == Action.SPILL,
            address=region + self._number,
            slot=self._number,
            more=self._more,
            keep=self._keep,
            cleaned=self._view.next_cleaned))
        m.d.comb += self.lines.install.payload.eq(
            Cat(self._number[:self._params.stack_slot_bits], self.warp))

    def _act(self, m: Module) -> None:
        """ACT: each action completes, or waits, or asks for another visit (``retry``)."""
        action = self._action
        arrived = self.lines.arrived
        job = self.lines.job
        can_replay = self.replay.ready & ~self._confirmed
        has_line_below = ~self._number[-1]
        m.d.comb += self._done.eq(1)
        with m.If(self._is_given_up):
            m.d.comb += self._retry.eq(1)
        with m.Elif(self._step == VisitStep.ACT), m.Switch(action):
            with m.Case(Action.DISCARD):
                # The error of a stale line does not concern the line that an operation waits for.
                m.d.comb += arrived.ready.eq(1)
                m.d.comb += self._retry.eq(self._view.stale | ~arrived.payload.error)
            with m.Case(Action.FAIL):
                # If it cannot replay now, the line stays in ``arrived``, and the visit is repeated.
                m.d.comb += self._replays.eq(can_replay)
                m.d.comb += arrived.ready.eq(can_replay)
            with m.Case(Action.INSTALL):
                # In a cycle without a push. If a line was started, which may have its slot, the
                # install is abandoned: the line stays in ``arrived``, and is decided again.
                with m.If(self._line_was_started):
                    m.d.comb += self._done.eq(1)
                with m.Elif(self.lines.install_free):
                    m.d.comb += self._installs.eq(1)
                    m.d.comb += arrived.ready.eq(1)
                    m.d.comb += self._replays.eq(
                        can_replay & self._view.parked & ~self._drains)
                with m.Else():
                    m.d.comb += self._done.eq(self._begins_line)
            with m.Case(Action.SPILL):
                with m.If(self.lines.free):
                    m.d.comb += job.valid.eq(1)
                    m.d.comb += self._awaits_confirmation.eq(self._for_write_back)
                    m.d.comb += self._retry.eq(1)
                with m.Else():
                    # The transfer is busy: a line that has arrived has priority.
                    m.d.comb += self._retry.eq(arrived.valid)
                    m.d.comb += self._done.eq(arrived.valid)
            with m.Case(Action.POSTPONE):
                m.d.comb += self._retry.eq(1)
            with m.Case(Action.WAKE, Action.FILL, Action.WAKE_AND_FILL):
                fills = action.fills & has_line_below
                m.d.comb += self._replays.eq(action.wakes & can_replay)
                m.d.comb += self._requests_line.eq(fills & self.lines.free)
                m.d.comb += job.valid.eq(fills & self.lines.free)
                m.d.comb += self._retry.eq(
                    (action.wakes & ~can_replay) | (fills & ~self.lines.free))
            with m.Case(Action.NONE):
                m.d.comb += self._awaits_confirmation.eq(self._for_write_back)

    def _move_line(self, m: Module) -> None:
        """ACT: a line that is installed, requested or discarded changes the words of its warp."""
        arrived = self.lines.arrived
        m.d.comb += self.lines.install.valid.eq(self._installs)
        self._states.below.write(m, self._installs, self.warp, self._view.below - 1)
        self._states.filling.write(
            m, self._requests_line | arrived.ready, self.warp, self._requests_line)
        m.d.sync += Assert(
            ~arrived.ready | self._view.filling, "a line arrived that was not requested")

    def _step_visit(self, m: Module) -> None:
        """The steps of a visit. A line that is in may be followed by another at once."""
        arrived = self.lines.arrived
        some_warp, warp = self._choose()
        with m.Switch(self._step):
            with m.Case(VisitStep.SELECT):
                m.d.sync += self._for_arrival.eq(arrived.valid)
                m.d.sync += self.warp.eq(Mux(arrived.valid, arrived.payload.warp, warp))
                with m.If(arrived.valid | some_warp):
                    m.d.sync += self._step.eq(VisitStep.READ)
            with m.Case(VisitStep.READ):
                m.d.sync += self._step.eq(VisitStep.DECIDE)
            with m.Case(VisitStep.DECIDE):
                m.d.sync += self._step.eq(VisitStep.ACT)
            with m.Case(VisitStep.ACT):
                with m.If(self._installs):
                    m.d.sync += self._for_arrival.eq(0)
                    m.d.sync += self._step.eq(VisitStep.READ)
                with m.Elif(self._done):
                    m.d.sync += self._step.eq(VisitStep.SELECT)
        with m.If(self._is_given_up):
            m.d.sync += self._step.eq(VisitStep.SELECT)

    def _replay(self, m: Module) -> None:
        """Operations that come back into the pipeline. Memory's confirmation brings a write-back
        back by itself, before what a visit has."""
        replayed = self.replay
        view = self._view
        acts = self._step == VisitStep.ACT
        m.d.comb += replayed.soon.eq(
            self._confirmed | (acts & (self._action.wakes | self._action.is_for_arrival)))
        m.d.comb += replayed.valid.eq((self._confirmed & replayed.ready) | self._replays)
        with m.If(self._confirmed):
            m.d.comb += replayed.payload.eq(struct_value(
                replayed.payload.shape(), warp=self.lines.acknowledged.payload,
                parking=Parking.WRITE_BACK, fault=0))
        with m.Else():
            m.d.comb += replayed.payload.eq(struct_value(
                replayed.payload.shape(), warp=self.warp,
                parking=Mux(view.writing_back, Parking.WRITE_BACK, view.parking),
                fault=self._action == Action.FAIL))
        states = self._states
        warp = replayed.payload.warp
        is_parked = states.parked.read(m, warp) | states.writing_back.read(m, warp)
        m.d.sync += Assert(
            ~replayed.valid | is_parked, "an operation replays that is not parked")

    def _count(self, m: Module) -> None:
        """Counts lines that were written to memory, and lines that memory has acknowledged. A
        write-back is over with the last one of a warp that has given it all."""
        lines = self.lines
        states = self._states
        written = lines.written
        acknowledged = lines.acknowledged
        leaving = lines.leaving
        warp = self.commit.flags.warp
        counters = self.commit.counters
        count = states.acknowledged.read(m, acknowledged.payload)
        written_count = states.cleaned.read(m, acknowledged.payload)
        confirming = states.confirming.read(m, acknowledged.payload)
        next_count = Signal(self._params.stack_count_bits)
        m.d.comb += next_count.eq(count + 1)
        none_leaving = (leaving.lines == 0) | (leaving.warp != acknowledged.payload)
        is_last = (next_count == written_count) & none_leaving
        m.d.comb += self._confirmed.eq(acknowledged.valid & confirming & is_last)
        states.cleaned.write(m, written.valid, written.payload.warp, written.payload.cleaned)
        states.acknowledged.write(m, acknowledged.valid, acknowledged.payload, next_count)
        m.d.sync += Assert(
            ~acknowledged.valid | (count != written_count),
            "memory acknowledges a line that was not written")

        # The counters for the commit stage, with what is written in this cycle.
        below = states.below.read(m, warp)
        cleaned = states.cleaned.read(m, warp)
        with m.If(self._installs & (self.warp == warp)):
            m.d.comb += counters.below.eq(self._view.below - 1)
        with m.Else():
            m.d.comb += counters.below.eq(below)
        with m.If(written.valid & (written.payload.warp == warp)):
            m.d.comb += counters.cleaned.eq(written.payload.cleaned)
        with m.Else():
            m.d.comb += counters.cleaned.eq(cleaned)

    def _remember(self, m: Module) -> None:
        """What operations wait for, and whose lines are stale, or full."""
        states = self._states
        change = self.change
        commit = self.commit.flags
        replayed = self.replay
        spilled = self.lines.spilled
        warps = self._params.warps
        states.parking.write(m, commit.parks, commit.warp, commit.parking)
        states.parked.write(m, commit.parks, commit.warp, 1)
        states.parked.write(m, replayed.valid, replayed.payload.warp, 0)
        states.writing_back.write(m, change.parks_write_back, change.warp, 1)
        states.writing_back.write(m, replayed.valid, replayed.payload.warp, 0)

        # A write-back that awaits memory's last confirmation may get it in this very cycle.
        confirmed_now = self._confirmed & (self.lines.acknowledged.payload == self.warp)
        writing_back = states.writing_back.read(m, self.warp)
        states.confirming.write(
            m, self._awaits_confirmation & writing_back & ~confirmed_now, self.warp, 1)
        states.confirming.write(m, replayed.valid, replayed.payload.warp, 0)

        is_requested = one_hot(self.warp, warps, self._requests_line)
        is_dropped = one_hot(change.warp, warps, change.drops_line)
        is_emptied = one_hot(commit.warp, warps, commit.empties)
        m.d.sync += self.stale.eq((self.stale & ~is_requested) | is_dropped | is_emptied)

        is_filled = one_hot(change.warp, warps, change.fills_cache)
        is_written = one_hot(commit.warp, warps, commit.writes)
        is_spilled = one_hot(spilled.payload.warp, warps, spilled.valid & spilled.payload.done)
        full = self.cache_is_full
        m.d.sync += full.eq((full | is_filled) & ~is_written & ~is_spilled)

    def _hint(self, m: Module) -> None:
        """Which warps are to be visited. A visit takes its hint when it reads the warp."""
        states = self._states
        change = self.change
        commit = self.commit.flags
        acknowledged = self.lines.acknowledged
        spilled = self.lines.spilled
        warps = self._params.warps
        takes_hint = Signal(name="takes_hint")
        m.d.comb += takes_hint.eq(
            (self._step == VisitStep.READ) & ~self._for_arrival & ~self._is_given_up)
        remains = ~one_hot(self.warp, warps, takes_hint)
        urges = one_hot(change.warp, warps, change.is_urgent)
        retries = one_hot(self.warp, warps, self._retry)
        commits = one_hot(commit.warp, warps, commit.needs_fill | commit.parks)
        parked = states.parked.read(m, spilled.payload.warp)
        spills = one_hot(spilled.payload.warp, warps, spilled.valid & parked)
        writing_back = states.writing_back.read(m, acknowledged.payload)
        confirms = one_hot(acknowledged.payload, warps, acknowledged.valid & writing_back)
        m.d.sync += self._urgent.eq((self._urgent & remains) | urges)
        m.d.sync += self._hints.eq(
            (self._hints & remains) | retries | commits | spills | confirms)

        m.d.sync += self._some_urgent.eq(change.is_urgent | (self._urgent & remains).any())
        m.d.sync += self._turn.eq(self._turn + takes_hint)

    def _choose(self) -> tuple[Any, Any]:
        """Whether a warp has a hint, and which one is next: urgent ones first. Each bit of ``turn``
        chooses between two halves of the warps, and alternates, so that none starves."""
        turn = self._turn

        def search(candidates: Any, bit: int) -> tuple[Any, Any]:
            """Whether there are any, and the number of one."""
            if bit < 0:
                return candidates[0], Const(0, 0)
            if len(candidates) <= 1 << bit:
                return search(candidates, bit - 1)
            some_low, low = search(candidates[:1 << bit], bit - 1)
            some_high, high = search(candidates[1 << bit:], bit - 1)
            is_high = some_high & (turn[bit] | ~some_low)
            return some_low | some_high, Cat(Mux(is_high, high, low), is_high)

        return search(Mux(self._some_urgent, self._urgent, self._hints), len(turn) - 1)
