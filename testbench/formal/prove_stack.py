"""The call/return stack is unbounded: an unwind finds the tokens that were pushed, with any spills
and fills in between.

Any operations of any warps arrive, any threads are pending; memory answers at any time, in any
order of warps, and may refuse. Lines are spilled, filled and written back meanwhile. For any one
warp and any one depth:

1. The token that an unwind finds there is the one that was pushed there last.
2. An unwind examines all tokens from the topmost one down. It examines none, and leaves none as the
   topmost one, before it has passed those above; except for the holes under a trap frame, and an
   operation that empties the stack.
3. Memory has the token, unless its line is one of those marked as dirty. A dirty line is written to
   its own address in the warp's region.
4. At most four lines are on chip, one is being filled, seven are being spilled; with another number
   n of lines on chip: n, one, 2n - 1.
5. A write-back is answered when memory has accepted all lines.
6. The promises between engine and pipeline, which are assertions of the hardware, hold.
7. All of this holds from the end of the sweep after a reset on, with any initial content of the
   stack's memories.

A token is forgotten when its warp is launched or gets another region, when SET_POINTER drops its
line before memory has it, and when memory refuses its line.

Assumed, since proved elsewhere: tokens on chip are read unchanged (`tokens`); nothing was pushed
beyond the largest region, or without one beyond the capacity on chip, in an earlier cycle
(`stack_limit`, which in turn assumes the assertions). Also assumed: a warp is launched before
anything else; its region is at most 1 MiB; memory answers each request, with the last data written.
"""

from functools import partial
from typing import Any

from amaranth.asserts import AnyConst, AnySeq  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Array, Assume, Cat, Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data

from rtl.crs import CallReturnStack
from rtl.crs.engine import Action, VisitStep
from rtl.crs.operations import StepOperation
from rtl.crs.records import Parking, fills_up_to
from rtl.crs.tokens import PLACE_BITS, StoredToken, role_of
from rtl.isa.tokens import (
    CRS_GRANULE,
    LINE_BYTES,
    TOKEN_BYTES,
    TOKENS_PER_LINE,
    MemoryToken,
    TokenKind,
)
from rtl.layouts import DEPTH_BITS, LINE_BITS, StackOperation, TokenLine
from rtl.params import PRESETS, SmParams
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import (
    Anything,
    Past,
    can_happen,
    claim,
    ever,
    free,
    no_reset,
    silenced,
)
from sim.checks.formal.theorem import Theorem

_SHARED = ("pc", "mask", "kind", "counted")
_LAST_PLACE = TOKENS_PER_LINE - 1
_GRANULE = CRS_GRANULE // TOKEN_BYTES
"""Number of tokens of a granule."""
_GRANULES = 1 << DEPTH_BITS - 1 - (_GRANULE - 1).bit_length()
"""Number of granules of the largest region."""
_LINES_PER_GRANULE_BITS = (CRS_GRANULE // LINE_BYTES - 1).bit_length()
_UNWINDS = (Parking.UNWIND, Parking.EVICT)


class StackSpec(Elaboratable):
    """The call/return stack; its tokens on chip are an unconstrained memory that is read unchanged.

    In examples one warp executes the operations of ``_do``, and memory is fast.
    """

    def __init__(self, params: SmParams, examples: bool = False) -> None:
        self._params, self._examples = params, examples
        self._count, self._slot, self._most = (
            params.stack_count_bits,
            params.stack_slot_bits,
            params.stack_lines,
        )
        self._few, self._most_writes = fills_up_to(params), (1 << params.stack_count_bits) - 1
        self.dut: Any = CallReturnStack(params)
        if not examples:
            self.dut.tokens = Anything(self.dut.tokens)

    def elaborate(self, platform: object) -> Module:
        self.m = m = Module()
        self.past = Past(m)
        dut = self.dut
        if not self._examples:
            free(m, dut)
        no_reset(m)
        self.engine, self.lines, self.judge, self.change = (
            dut.engine,
            dut.engine.lines,
            dut.judge,
            dut.change.stage,
        )
        self.left, self.stage, self.arbiter = dut.commit.stage, dut.judge.stage, dut.access.arbiter
        self.warp, self.depth = Signal(self._params.warp_bits), Signal(DEPTH_BITS - 1)
        m.d.comb += [
            self.warp.eq(AnyConst(len(self.warp))),
            self.depth.eq(AnyConst(len(self.depth))),
        ]
        self._read()
        self._surround()
        self._keep_tokens()
        self._keep_memory()
        self._follow()
        self._show_stack()
        self._show_steps()
        self._show_unwinds()
        self._show_visit()
        self._show_action()
        self._show_leaving()
        self._show_coming()
        self._show_promises()
        if self._examples:
            self._do()
        m.submodules.dut = silenced(dut)
        states = dut.states
        for name in ("states", "busy", "parked", "writing_back", "confirming"):
            words = getattr(states, name)
            self._claim(
                ~words.collides | ~Cat(warp == self.warp for _, warp in words.writes).all(),
                f"one place writes, {name}",
            )
        return m

    def _claim(self, what: Any, message: str, *, when: Any = 1) -> None:
        """Asserts a condition after the sweep that follows a reset."""
        claim(
            self.m,
            what,
            message,
            when=~self.dut.states.sweep.active & Value.cast(when).any(),
            src_loc_at=1,
        )

    def _let(self, name: str, value: Any, bits: int = 1) -> Signal:
        """Returns a new signal of that width, driven by the value."""
        signal = Signal(bits, name=name)
        self.m.d.comb += signal.eq(value)
        return signal

    def _of(self, bits: Any) -> Value:
        """Returns the warp's bit."""
        return Value.cast(bits).bit_select(self.warp, 1)

    def _read(self) -> None:
        """Reads the warp's words, the lines that they describe, and its steps in the stages."""
        m, states, warp, depth = self.m, self.dut.states, self.warp, self.depth
        change, stage, left = self.change, self.stage, self.left
        (
            self.state,
            self.below,
            self.cleaned,
            self.acknowledged,
            self.region,
            self.sizes,
            self.origin,
        ) = (
            words.read(m, warp)
            for words in (
                states.states,
                states.below,
                states.cleaned,
                states.acknowledged,
                states.regions,
                states.sizes,
                states.origins,
            )
        )
        self.filling, self.parked, self.parking, self.writing_back, self.confirming, self.busy = (
            words.read(m, warp)
            for words in (
                states.filling,
                states.parked,
                states.parking,
                states.writing_back,
                states.confirming,
                states.busy,
            )
        )
        self.memory, state = self.sizes.has_region, self.state
        self.on_chip = self._let("on_chip", state.entered - self.below, self._count)
        self.dirty = self._let("dirty", state.dirtied - self.cleaned, self._count)
        self.top = self._let("top", state.last[PLACE_BITS:], LINE_BITS)
        self.beneath = self._let("beneath", self.top - self.on_chip, LINE_BITS)
        self.clean = self._let("clean", self.top - self.dirty, LINE_BITS)

        # The line of the depth, and its location
        self.place, self.line = depth[:PLACE_BITS], self._let("line", depth[PLACE_BITS:], LINE_BITS)
        down = self._let("down", self.top - self.line, LINE_BITS)
        self.cached, self.soiled = (
            self._let("cached", down < self.on_chip),
            self._let("soiled", down < self.dirty),
        )
        first = Cat(Const(0, _LINES_PER_GRANULE_BITS), self.region)
        self.base = self._let("base", first, len(self.lines.job.payload.address))
        self.address = self._let("address", self.base + self.line, len(self.base))

        # The warp's steps in the stages, and the steps that stall it there
        self.changes, self.judges, self.leaves = (
            self._let(name, each.step.warp == warp)
            for name, each in (("changes", change), ("judges", stage), ("leaves", left))
        )
        step, operation, judged, after = (
            change.step,
            change.step.operation,
            stage.step.operation,
            left.step.operation,
        )
        launch, moves = StepOperation.LAUNCH, StepOperation.SET_BASE
        self.begins = change.valid & self.changes & ~step.replayed & ~change.continues
        self.pushing = change.valid & self.changes & operation.is_push
        self.pushed = self._let("stores", self.dut.pushed.valid & self.changes)
        self.launching = self._let(
            "launching",
            (stage.valid & self.judges & (judged == launch))
            | (self.leaves & left.writes & (after == launch)),
        )
        self.moving = self._let(
            "moving",
            (stage.valid & self.judges & ((judged == launch) | (judged == moves)))
            | (self.leaves & (left.moves_region | (left.writes & (after == launch)))),
        )
        self.in_change = self._let("in_change", change.valid & self.changes & operation.is_blocking)
        self.in_judge = self._let(
            "in_judge",
            stage.valid & self.judges & judged.is_blocking & (judged != StepOperation.WRITE_BACK),
        )
        self.in_left = self._let("in_left", self.leaves & (left.is_done | left.parks))
        self.returns = self._let(
            "returns", self.arbiter.replayed.valid & (self.arbiter.replayed.payload.warp == warp)
        )
        self.commits = self._let("commits", self.leaves & left.writes)
        self.first = self._let("first", (self.in_change & ~change.continues) | self.pushing)

    def _surround(self) -> None:
        """Drives the requests."""
        m, request, asked = self.m, self.dut.request, self.dut.request.payload
        takes = request.valid & request.ready & (asked.warp == self.warp) & asked.enable
        launches = takes & (asked.operation == StackOperation.LAUNCH)
        self.launched = ever(m, launches)
        m.d.comb += [
            Assume(
                ~takes | launches | self.launched | (asked.operation == StackOperation.NONE),
                "it is launched first",
            ),
            Assume(Cat(asked.kind == kind for kind in TokenKind).any(), "there are such tokens"),
            Assume(
                self.dut.configuration.size <= _GRANULES, "a region has so many granules at most"
            ),
            Assume(
                ~ever(
                    m,
                    self.pushed
                    & (
                        self.state.last
                        == Mux(self.memory, _GRANULES * _GRANULE - 1, self._params.stack_tokens - 1)
                    ),
                ),
                "no push went beyond",
            ),
        ]

    def _keep_tokens(self) -> None:
        """Stores the token of the depth on chip, as last written."""
        m, past, pipeline, other = (
            self.m,
            self.past,
            self.dut.tokens.pipeline,
            self.dut.tokens.lines,
        )
        self.chip: Any = Signal(StoredToken, name="chip")
        slot = self.depth[PLACE_BITS : PLACE_BITS + self._slot]
        bits, here = len(Value.cast(self.chip)), Cat(slot, self.warp)

        def token_of(line: Any) -> Value:
            return Value.cast(line).word_select(self.place, bits)

        writes = [
            port.write.valid
            & is_free
            & (port.write.payload.slot == here)
            & port.write.payload.places.bit_select(self.place, 1)
            for port, is_free in ((pipeline, 1), (other, other.write_free))
        ]
        reads = Mux(pipeline.read.valid, pipeline.read.payload, other.read.payload) == here
        self.shown = Signal()
        m.d.sync += self.shown.eq(reads & ~(writes[0] | writes[1]))
        with m.If(writes[0] | writes[1]):
            m.d.sync += self.chip.as_value().eq(
                Mux(writes[0], *(token_of(port.write.payload.tokens) for port in (pipeline, other)))
            )
        self.seen = token_of(pipeline.line)
        m.d.comb += [
            Assume(
                (other.read_free == ~pipeline.read.valid)
                & (other.write_free == ~pipeline.write.valid),
                "who is refused",
            ),
            Assume(Value.cast(pipeline.line) == Value.cast(other.line), "both see the same line"),
            Assume(
                ~self.shown | (self.seen == past(self.chip.as_value())),
                "it is read unchanged",
            ),
        ]

    def _keep_memory(self) -> None:
        """Stores the token of the depth in memory, and the warp's outstanding answers: to writes,
        and to a line, which was ``fetched`` when it was requested.
        """
        m, out, answer = self.m, self.dut.port.request, self.dut.port.response
        self.asks = self._let("asks", out.valid & (out.payload.tag == self.warp))
        self.to_it = self._let("to_it", out.payload.address == self.address)
        self.accepted = self._let("accepted", self.asks & out.ready)
        taken, writes, written = (
            Signal(MemoryToken),
            self.asks & self.to_it & out.payload.write,
            Signal(MemoryToken),
        )
        self.fetched, self.reading, self.asked_for, self.owed = (
            Signal(MemoryToken),
            Signal(),
            Signal(),
            Signal(4),
        )
        m.d.comb += written.eq(data.View(TokenLine, out.payload.data)[self.place])
        with m.If(writes & out.ready):
            m.d.sync += taken.eq(written)
        self.in_memory = Signal(MemoryToken)
        m.d.comb += self.in_memory.eq(Mux(writes, written, taken))
        self.refused = self._let("refused", writes & out.ready & AnySeq(1))

        mine = answer.valid & (answer.payload.tag == self.warp)
        written, comes = (
            self._let(name, mine & answer.ready & what)
            for name, what in (("written", answer.payload.write), ("comes", ~answer.payload.write))
        )
        with m.If(self.accepted & ~out.payload.write):
            m.d.sync += [self.reading.eq(1), self.asked_for.eq(self.to_it), self.fetched.eq(taken)]
        with m.Elif(comes):
            m.d.sync += self.reading.eq(0)
        m.d.sync += self.owed.eq(self.owed + (self.accepted & out.payload.write) - written)
        came = data.View(TokenLine, answer.payload.data)[self.place]
        m.d.comb += [
            Assume(
                ~mine | Mux(answer.payload.write, self.owed != 0, self.reading), "who is answered"
            ),
            Assume(
                ~(mine & ~answer.payload.write & ~answer.payload.error)
                | (Value.cast(came) == Value.cast(self.fetched)),
                "what is read",
            ),
        ]

    def _follow(self) -> None:
        """Tracks the depth. ``token`` was pushed to it, if ``known``; it is on the stack if
        ``alive``; the current unwind has ``met`` it.
        """
        m, change, state = self.m, self.change, self.state
        operation, last = change.step.operation, Signal(DEPTH_BITS)
        self.token: Any = Signal(StoredToken)
        self.known, self.met = Signal(), Signal()
        m.d.comb += last.eq(Mux(state.is_provisional, self.origin.last, state.last))
        self.alive = self._let("alive", self.known & ~last[-1] & (self.depth <= last[:-1]))
        forgotten = (
            (self.begins & operation.moves_region)
            | self.refused
            | (self.commits & (self.left.step.operation == StepOperation.SET_POINTER) & self.soiled)
        )
        with m.If(self.pushed & ((change.step.state.last + 1)[:DEPTH_BITS] == self.depth)):
            m.d.sync += [self.known.eq(1), self.token.eq(change.token)]
        with m.Elif(~self.alive | forgotten):
            m.d.sync += self.known.eq(0)

        self.looks = self._let(
            "looks", change.valid & self.changes & operation.is_unwind & change.has_token
        )
        self.finds = self._let(
            "finds", self.looks & self.alive & (change.step.state.last == self.depth)
        )
        m.d.sync += self.met.eq((self.met & ~(self.begins & operation.is_unwind)) | self.finds)

    def _is_token(self, other: Any) -> Value:
        """Returns whether the token equals the one in memory."""
        return Cat(
            Value.cast(other[name]) == Value.cast(self.token[name]) for name in _SHARED
        ).all()

    def _show_stack(self) -> None:
        """Asserts the theorem, and that the warp's words agree with it."""
        m, state, engine, past = self.m, self.state, self.engine, self.past
        change, on_chip, dirty, memory = self.change, self.on_chip, self.dirty, self.memory
        launches = self.begins & (change.step.operation == StepOperation.LAUNCH)
        self._claim(
            self.dut.change.result.token == self.token,
            "what is found is what was pushed",
            when=self.finds,
        )
        self._claim(
            self.met,
            "all above were found",
            when=self.looks & self.alive & (change.step.state.last < self.depth),
        )
        self._claim(self.chip == self.token, "on chip", when=self.alive & self.cached)
        self._claim(self._is_token(self.in_memory), "in memory", when=self.alive & ~self.soiled)
        self._claim(~self.known, "in another region", when=self.moving)
        self._claim(
            (self.token.role.as_value() == role_of(self.token.kind))
            & Cat(self.token.kind == kind for kind in TokenKind).any(),
            "a token",
            when=self.known,
        )
        can_happen(
            m,
            self.finds & ever(m, self.alive & ~self.cached) & ever(m, self.filling & ~self.cached),
            "it was in memory alone",
        )
        can_happen(
            m, self.alive & past(self.soiled) & ~self.soiled & ~self.writing_back, "it is spilled"
        )
        can_happen(
            m,
            self.alive & past(self.soiled) & ~self.soiled & self.writing_back,
            "it is written back",
        )

        claim(
            m,
            self.launched,
            "it was launched",
            when=self.known
            | self.pushing
            | self.in_change
            | self.in_judge
            | self.in_left
            | self.returns
            | self.commits,
        )
        claim(
            m, ~self.launched, "nothing is launched in the sweep", when=self.dut.states.sweep.active
        )
        self._claim(
            self.launched,
            "it was launched that waits",
            when=self.parked | self.writing_back | self.filling,
        )
        self._claim((on_chip <= self._most) & (dirty <= on_chip), "lines")
        self._claim(on_chip <= (self.top + 1)[:LINE_BITS], "lines that there are")
        self._claim(state.last.all(), "the empty stack", when=state.last[-1])
        self._claim(
            ((self.top + 1)[:LINE_BITS] == on_chip) & (dirty == on_chip),
            "without a region",
            when=self.launched & ~memory & ~self.launching & ~launches,
        )
        self._claim(~self.sizes.granules[-1], "sizes", when=self.launched & ~launches)
        self._claim(
            self._of(engine.cache_is_full),
            "who is full",
            when=memory
            & ~self.launching
            & (dirty == self._most)
            & (state.last[:PLACE_BITS] == _LAST_PLACE),
        )

    def _show_steps(self) -> None:
        """Asserts which operation is in which stage, and that the change stage's state is current."""
        state, change, stage, left = self.state, self.change, self.stage, self.left
        step, operation, judged, after = (
            change.step,
            change.step.operation,
            stage.step.operation,
            left.step.operation,
        )
        on_chip, dirty, memory = self.on_chip, self.dirty, self.memory
        held = self.in_change & (step.replayed | change.continues)
        others = [self.in_judge, self.in_left, self.returns, self.parked, self.writing_back]
        self._claim(sum(others, self.in_change) <= 1, "the warp has one operation")
        self._claim(self.busy == (held | Cat(others).any()), "and is busy then")
        self._claim(self.writing_back, "who waits for memory", when=self.confirming)
        self._claim(
            ~self.busy, "a request", when=self.begins & (operation.is_blocking | operation.is_push)
        )
        self._claim(
            operation.is_blocking,
            "who comes back",
            when=change.valid & self.changes & (step.replayed | change.continues),
        )

        def legal(each: Any) -> Value:
            """Returns whether a step is defined."""
            does = each.operation
            comes_back = (
                (does == StepOperation.FINISH_WRITE_BACK)
                | (does == StepOperation.LOAD)
                | (does.is_unwind & (does != StepOperation.CLEAR))
            )
            return (
                Cat(does == known for known in StepOperation).any()
                & (~each.replayed | comes_back)
                & (~each.fault | each.replayed)
                & ((does != StepOperation.LOAD) | each.replayed)
            )

        self._claim(legal(step), "a step that changes", when=change.valid)
        self._claim(legal(stage.step), "a step that is judged", when=stage.valid)
        self._claim(
            legal(left.step),
            "a step that is left",
            when=left.writes | left.is_done | left.parks | left.moves_region,
        )

        # State that a step has from the previous stage
        def same(*names: str) -> Value:
            return Cat(step.state[name] == state[name] for name in names).all()

        self._claim(same("entered", "dirtied", "is_provisional"), "the state", when=self.first)
        self._claim(
            same("last"),
            "the topmost token",
            when=self.first & (operation != StepOperation.SET_POINTER),
        )
        self._claim(
            step.has_region == memory,
            "whether there is a region",
            when=self.first & (operation != StepOperation.LAUNCH) & ~self.launching,
        )
        self._claim(
            (step.lines <= on_chip) & (on_chip <= step.lines + 1) & (dirty <= step.lines),
            "lines, as read",
            when=self.first,
        )
        self._claim(
            (step.lines == on_chip) | (on_chip < self._most),
            "none comes when it is full",
            when=self.pushing,
        )
        self._claim(
            (change.dirty_lines >= dirty) & (change.dirty_lines <= dirty + 1),
            "dirty lines, as read",
            when=self.first,
        )
        self._claim(
            (change.top_place == state.last[:PLACE_BITS])
            & (change.next_slot == (state.last + 1)[: len(change.next_slot)]),
            "where a token goes",
            when=self.pushing,
        )
        self._claim(dirty == 0, "clean", when=step.was_clean & (self.in_change | self.pushing))
        self._claim(
            step.was_clean | (state.last[:PLACE_BITS] == _LAST_PLACE) | (dirty != 0),
            "a topmost line with room",
            when=self.pushing,
        )
        self._claim((change.dirty_lines != 0) | step.was_clean, "no dirty line", when=self.first)
        self._claim(
            (dirty < self._most) | (state.last[:PLACE_BITS] != _LAST_PLACE) | ~memory,
            "a line for a push",
            when=self.pushing,
        )
        self._claim(~step.dropped, "nothing is left yet", when=self.first)
        self._claim(
            ~change.limit[-1],
            "the limit",
            when=self.in_change & (operation == StepOperation.SET_POINTER),
        )
        self._claim(
            stage.step.has_region == memory,
            "whether there is a region, judged",
            when=self.in_judge & (judged != StepOperation.LAUNCH),
        )
        self._claim(
            memory | left.step.state.last.all(),
            "a pointer without a region",
            when=self.commits & (after == StepOperation.SET_POINTER),
        )

    def _relate(self, name: str, step: Any, when: Any) -> None:
        """Asserts the state of a step that has passed some of the lines on chip."""
        state, last = self.state, step.state.last
        back = self._let(f"back_{name}", self.top - last[PLACE_BITS:], LINE_BITS)
        counted = back[: self._count]
        self._claim(
            Cat(
                (state[each] - step.state[each])[: self._count] == counted
                for each in ("entered", "dirtied")
            ).all(),
            f"counters, {name}",
            when=when,
        )
        self._claim(
            (back + step.lines <= self.on_chip)
            & (back <= self._most)
            & (self.dirty <= back + step.lines),
            f"lines, {name}",
            when=when,
        )
        self._claim(step.dropped == (back != 0), f"lines are left, {name}", when=when)
        self._claim(last[-1] <= last.all(), f"the empty stack, {name}", when=when)
        self._claim((last <= state.last) | last.all(), f"it goes down, {name}", when=when)

    def _show_unwinds(self) -> None:
        """Asserts the position of an unwind in the stages, and its results; also of other steps
        that unwind.
        """
        state, change, stage, left = self.state, self.change, self.stage, self.left
        step, operation, judged, after = (
            change.step,
            change.step.operation,
            stage.step.operation,
            left.step.operation,
        )
        now, then, origin, load = stage.step.state, left.step.state, self.origin, StepOperation.LOAD
        replayed = self.arbiter.replayed.payload

        def waits(*why: Parking) -> Value:
            """Returns whether an operation is parked, or resumes, for one of these reasons."""
            return (self.returns & Cat(replayed.parking == each for each in why).any()) | (
                self.parked & Cat(self.parking == each for each in why).any()
            )

        held = self.in_change & (step.replayed | change.continues)
        walks = (
            (held & operation.is_unwind)
            | (self.in_judge & judged.is_unwind)
            | (self.in_left & left.parks)
            | waits(*_UNWINDS)
        )
        loads = (
            (held & (operation == load))
            | (self.in_judge & (judged == load))
            | (self.in_left & (after == load))
            | waits(Parking.LOAD)
        )
        self._claim(self.dirty == 0, "who loads has nothing to lose", when=loads)

        # Lines are skipped temporarily
        self._claim(
            (self.dirty == 0) & (state.last[:PLACE_BITS] == _LAST_PLACE),
            "what is provisional is clean",
            when=state.is_provisional,
        )
        self._claim(
            walks | (self.in_left & left.writes), "who has made it so", when=state.is_provisional
        )
        self._claim(origin.last == state.last, "where it began", when=walks & ~state.is_provisional)
        self._claim(
            ~origin.last[-1] & ~state.last[-1] & (origin.last >= state.last),
            "it began above",
            when=state.is_provisional,
        )
        self._claim(
            self.met,
            "what is left was found",
            when=state.is_provisional & self.alive & (state.last < self.depth),
        )
        self._claim(
            step.state.is_provisional == state.is_provisional,
            "provisional, changed",
            when=self.in_change,
        )
        self._claim(
            now.is_provisional == state.is_provisional, "provisional, judged", when=self.in_judge
        )

        # A token is read
        sees, has_seen = (
            each.is_unwind & (each != StepOperation.CLEAR) for each in (operation, judged)
        )
        self._claim(
            sees & change.has_token & ~step.fault,
            "what follows",
            when=change.valid & change.continues,
        )
        self._claim(sees & ~step.fault, "who looks", when=change.valid & change.has_token)
        self._relate(
            "changed", step, looks := self.in_change & operation.is_unwind & change.has_token
        )
        self._claim((step.lines != 0) & ~step.state.last[-1], "there is a token", when=looks)

        # It is examined
        seen = self.in_judge & judged.is_unwind & stage.has_token
        self._claim(
            judged.is_unwind & ~stage.step.fault & ~stage.is_empty,
            "which threads continue",
            when=stage.valid & stage.may_continue,
        )
        self._claim(
            has_seen & ~stage.step.fault, "who has looked", when=stage.valid & stage.has_token
        )
        self._claim(
            stage.has_token,
            "who finds",
            when=stage.valid & (stage.must_end | stage.may_end | stage.has_next),
        )
        self._claim(
            ~now.last[-1],
            "there is one below",
            when=stage.valid & stage.may_continue & stage.has_token,
        )
        self._relate("judged", stage.step, seen | (self.in_judge & (judged == load)))
        self._claim((now.last < state.last) | now.last.all(), "it has gone down, judged", when=seen)
        self._claim(
            self.met,
            "it was found, judged",
            when=seen & self.alive & (now.last[-1] | (now.last < self.depth)),
        )
        self._claim(
            (stage.step.lines != 0) & ~now.last[-1],
            "there is one on chip",
            when=seen & stage.has_next,
        )
        self._claim(self.dirty == 0, "clean, judged", when=self.in_judge & stage.step.was_clean)
        self._claim(
            now.last[-1] <= now.last.all(),
            "a pointer, judged",
            when=self.in_judge & (judged == StepOperation.SET_POINTER),
        )

        # It has ended, or continues in another way.
        left_so = self.commits & after.is_unwind & ~left.rolls_back
        sets = after == StepOperation.SET_POINTER
        self._relate("left", left.step, self.commits & ~left.empties)
        self._claim(
            (then.last < state.last) | then.last.all(),
            "it has gone down",
            when=left_so & ~left.empties,
        )
        self._claim(
            self.met,
            "it was found",
            when=left_so
            & (after != StepOperation.CLEAR)
            & self.alive
            & (
                then.last[-1]
                | ((then.last | Mux(after == StepOperation.RESTORE, _LAST_PLACE, 0)) < self.depth)
            ),
        )
        self._claim(left.is_done | left.parks, "who writes", when=self.commits)
        self._claim(
            left.parks
            & ~then.last[-1]
            & (self.dirty == 0)
            & (then.last[:PLACE_BITS] == _LAST_PLACE),
            "what is to be provisional",
            when=self.commits & then.is_provisional,
        )
        self._claim(
            state.is_provisional & (left.origin == origin) & (self.dirty == 0),
            "it goes back",
            when=self.commits & left.rolls_back,
        )
        self._claim(
            then.last.all(),
            "it is empty",
            when=self.commits & left.empties & ~left.rolls_back & ~sets,
        )
        self._claim(
            (then.last[-1] <= then.last.all()) & (then.last[:PLACE_BITS] == _LAST_PLACE),
            "a pointer is set",
            when=self.commits & sets,
        )

    def _show_visit(self) -> None:
        """The state that the engine has read for a visit is current, unless the engine is notified
        of a change.
        """
        engine, lines = self.engine, self.lines
        view, here = engine._view, engine.warp == self.warp
        self.acts = self._let("acts", here & (engine._step == VisitStep.ACT))
        self.visits = self._let("visits", here & (engine._step == VisitStep.DECIDE)) | self.acts
        self.calm = self._let("calm", self.visits & ~engine._was_invalidated)
        self.stale, few = self._of(engine.stale), self.calm & (view.lines <= self._few)
        self._claim(
            (view.below == self.below) & (view.filling == self.filling),
            "its words, as read",
            when=self.visits,
        )
        self._claim(
            (view.last[PLACE_BITS:] - view.lines)[:LINE_BITS] == self.beneath,
            "the line below, as read",
            when=few,
        )
        self._claim(self.on_chip <= view.lines + 1, "lines on chip, as read", when=few)
        self._claim(view.stale == self.stale, "whether it is stale, as read", when=few)
        self._claim(
            view.region == self.region, "the region, as read", when=self.calm & ~self.moving
        )
        self._claim(
            view.has_region == self.memory,
            "whether there is one, as read",
            when=self.calm & ~self.launching,
        )
        self._claim(
            self.parked & (self.parking == view.parking),
            "who is parked, as read",
            when=self.visits & view.parked,
        )
        self._claim(
            ~view.parked & (self.writing_back | ((view.dirty == 0) & (view.writes != 0))),
            "who writes back, as read",
            when=self.visits & view.writing_back,
        )
        self._claim(
            lines.arrived.valid & (lines.arrived.payload.warp == engine.warp),
            "it is for a line that has come",
            when=(engine._step != VisitStep.SELECT) & engine._for_arrival,
        )

        # Lines to be spilled, and writes that memory has not confirmed
        out = self.dut.port.request
        self.kept = self._let(
            "stays", lines.keeps_lines.valid & (lines.keeps_lines.payload == self.warp)
        )
        self.works = self._let("works", lines._job.valid & (lines._job.payload.warp == self.warp))
        self.came = self._let(
            "came_out", lines._read.valid & (lines._read.payload.warp == self.warp)
        )
        self.leaving = self._let(
            "leave",
            Mux(
                self.kept,
                0,
                Mux(self.works & lines._job.payload.spill, lines._job.payload.more + 1, 0)
                + self.came,
            ),
            4,
        )
        heard = lines.acknowledged.valid & (lines.acknowledged.payload == self.warp)
        self.writes = self._let("under_way", self.owed + (self.asks & out.payload.write) + heard, 5)
        self._claim(
            (self.cleaned - self.acknowledged)[: self._count] == self.writes[: self._count],
            "writes are counted",
        )
        self._claim(self.writes + self.leaving <= self._most_writes, "so many writes")
        claim(
            self.m,
            ~Cat(
                self._of(engine._hints),
                self._of(engine._urgent),
                here & (engine._step != VisitStep.SELECT),
                self.works,
                self.came,
                self.writes,
            ).any(),
            "nothing moves before its launch",
            when=~self.launched,
        )
        self._claim(self.writes + self.leaving <= view.writes, "writes, as read", when=self.visits)
        self._claim(self.memory, "who writes back has a region", when=self.writing_back)
        self._claim(
            self.dirty == self.leaving,
            "a warp that waits for memory has written all lines",
            when=self.confirming,
        )

    def _show_action(self) -> None:
        """A decision of a visit is still valid when it is carried out."""
        engine, action, acts, calm = self.engine, self.engine._action, self.acts, self.calm
        parked, flushing, dirty, leaving = self.parked, self.writing_back, self.dirty, self.leaving
        doing, arrives = engine._step == VisitStep.ACT, self.lines.arrived.payload
        spills, for_write_back = action == Action.SPILL, engine._for_write_back
        sinks = parked & (self.parking == Parking.EVICT)
        self.drains = sinks | flushing
        self._claim(
            Cat(action == each for each in Action).any(), "there is such an action", when=doing
        )
        self._claim(
            engine._for_arrival == action.is_for_arrival, "for a line that has come", when=doing
        )
        self._claim(
            arrives.error == (action == Action.FAIL),
            "what memory refuses fails",
            when=doing & ((action == Action.INSTALL) | (action == Action.FAIL)),
        )
        self._claim(parked | flushing, "a warp waits", when=acts & action.wakes)
        self._claim(
            parked & (self.parking != Parking.EVICT),
            "a warp waits that fails",
            when=acts & (action == Action.FAIL),
        )
        self._claim(flushing, "a write-back", when=acts & for_write_back & (action.wakes | spills))
        self._claim((dirty == 0) | ~self.memory, "all is out", when=acts & action.wakes & sinks)
        self._claim(
            (dirty == 0) & (self.writes == 0) & (leaving == 0),
            "memory has it all",
            when=acts & for_write_back & action.wakes,
        )
        self._claim(
            dirty == leaving,
            "the last lines are leaving",
            when=acts & for_write_back & flushing & (action == Action.NONE),
        )
        back = engine.replay
        self._claim(
            (dirty == 0) & (self.owed == 0) & ~(self.asks & self.dut.port.request.payload.write),
            "memory has taken all",
            when=flushing & back.valid & (back.payload.warp == self.warp),
        )

        # A line is installed, or requested
        install, ask = acts & calm & (action == Action.INSTALL), acts & calm & action.fills
        self._claim(~self.stale & self.filling, "which is put in", when=install)
        self._claim(
            self.on_chip <= self._few, "there is room", when=install & ~engine._line_was_started
        )
        self._claim(
            (self.on_chip < self._most) & ~self.filling & (self.memory | self.launching),
            "there will be room",
            when=ask,
        )
        self._claim(engine._number == self.beneath, "it is the one below", when=ask | install)

        # Lines are to be spilled
        spill = self._let("spills", acts & spills & calm & ~engine._was_committed)
        rest = self._let("rest", engine._more + 1 + leaving, 5)
        self._claim(
            (self.memory | self.launching)
            & (engine._number == (self.clean + 1 + leaving)[:LINE_BITS]),
            "the oldest dirty line",
            when=spill,
        )
        self._claim(rest <= dirty, "so many are dirty", when=spill)
        self._claim(
            (rest < dirty) & (engine._more == 0),
            "one that has others above it",
            when=spill & ~self.drains,
        )
        self._claim(
            engine._view.next_cleaned == (self.cleaned + leaving + 1)[: self._count],
            "their counter",
            when=spill,
        )
        self._claim(self._keeps(engine._keep, rest == dirty), "their tokens", when=spill)
        self._claim(self.writes + rest <= self._most_writes, "so many writes, to be", when=spill)
        self._claim(rest == dirty, "a write-back takes all", when=spill & for_write_back)

    def _keeps(self, keep: Any, topmost: Any) -> Value:
        """Returns whether a line has all its tokens, or, for the topmost line of a draining warp,
        all that exist.
        """
        there = Cat(self.state.last[:PLACE_BITS] >= each for each in range(TOKENS_PER_LINE))
        return keep.all() | ((keep == there) & self.drains & topmost)

    def _show_leaving(self) -> None:
        """Lines that are spilled: ``job`` is the next of several, ``read`` was read from the cache."""
        lines, dirty, leaving, clean = self.lines, self.dirty, self.leaving, self.clean
        job, read = lines._job.payload, lines._read.payload
        came, jobs = self.came & ~self.kept, self.works & job.spill & ~self.kept
        done = lines.spilled.payload
        self._claim(read.warp == job.warp, "it is the same warp", when=lines._read.valid)
        self._claim(self.memory | self.launching, "there is a region", when=jobs | came)
        self._claim((leaving < dirty) | self.drains, "others are above", when=jobs | came)
        self._claim(
            dirty < self._most,
            "one is out",
            when=lines.spilled.valid & done.done & (done.warp == self.warp),
        )

        self._claim(
            (read.cleaned == (self.cleaned + 1)[: self._count]) & (dirty != 0),
            "the counter of what is out",
            when=came,
        )
        self._claim(
            read.address == (self.base + (clean + 1)[:LINE_BITS])[: len(self.base)],
            "its address",
            when=came & ~self.moving,
        )
        self._claim(
            self.shown & (self.seen == self.chip.as_value()),
            "its tokens",
            when=came & ((clean + 1)[:LINE_BITS] == self.line),
        )
        self._claim(self._keeps(read.keep, dirty == 1), "which of them", when=came)

        self._claim(
            (job.cleaned == (self.cleaned + 1 + came)[: self._count]) & (leaving <= dirty),
            "the counter of the next",
            when=jobs,
        )
        self._claim((job.more == 0) | self.drains, "how many follow", when=jobs)
        self._claim(
            job.address == (self.base + (clean + 1 + came)[:LINE_BITS])[: len(self.base)],
            "the next one's address",
            when=jobs & ~self.moving,
        )
        self._claim(job.slot == (clean + 1 + came)[: self._slot], "the next one's slot", when=jobs)
        self._claim(
            self._keeps(job.keep, leaving == dirty), "which of the next one's tokens", when=jobs
        )

    def _show_coming(self) -> None:
        """A line that is filled: before its request, requested, answered, arrived."""
        lines, out = self.lines, self.dut.port.request
        to_ask, asked = self.works & ~lines._job.payload.spill, self.asks & ~out.payload.write
        arrived = lines.arrived.valid & (lines.arrived.payload.warp == self.warp)
        self._claim((to_ask + asked + self.reading + arrived) == self.filling, "one line comes")
        self._claim(~self.beneath[-1], "there is a line below", when=self.filling & ~self.stale)
        wanted = self._let(
            "wanted", self.filling & ~self.stale & self.alive & (self.line == self.beneath)
        )
        self._claim(
            lines._job.payload.address == self.address,
            "it is to be asked for",
            when=wanted & to_ask,
        )
        self._claim(self.to_it, "it is asked for", when=wanted & asked)
        self._claim(
            self.asked_for & self._is_token(self.fetched), "it is read", when=wanted & self.reading
        )
        self._claim(
            self._is_token(lines._line[self.place]),
            "it has come",
            when=wanted & arrived & ~lines.arrived.payload.error,
        )

    def _show_promises(self) -> None:
        """The assertions of the hardware, as far as they concern the warp."""
        change, engine, lines, left, dut = self.change, self.engine, self.lines, self.left, self.dut
        step, notified, again, out = (
            change.step,
            engine.lines.acknowledged,
            engine.replay,
            dut.port.request,
        )
        self._claim(
            (step.lines <= self._most) & (change.dirty_lines <= step.lines),
            "more lines than there are",
            when=change.valid & self.changes & ~change.continues,
        )
        commit = engine.commit.flags
        self._claim(
            ~commit.writes | (commit.warp != self.warp),
            "a push of a warp that is over as well",
            when=self.pushing,
        )
        self._claim(~change.continues, "a push is done twice", when=self.pushing)
        self._claim(~self.busy, "a push of a warp that is busy", when=self.pushed)
        self._claim(
            ~(again.valid & self.arbiter.unwind_replays & ~self.judge.ends),
            "two operations replay at once",
        )
        self._claim(
            engine.replay.ready, "a replay while the register is not free", when=again.valid
        )
        self._claim(
            self.acknowledged != self.cleaned,
            "memory acknowledges a line that was not written",
            when=notified.valid & (notified.payload == self.warp),
        )
        self._claim(
            engine._view.filling,
            "a line arrived that was not requested",
            when=lines.arrived.ready & (engine.warp == self.warp),
        )
        self._claim(
            self.parked | self.writing_back,
            "an operation replays that is not parked",
            when=again.valid & (again.payload.warp == self.warp),
        )
        self._claim(lines.free, "a line is to move while another one does", when=lines.job.valid)
        self._claim(
            ~out.valid | out.ready, "a line was read without room for it", when=lines._read.valid
        )
        self._claim(
            lines.arrived.valid, "a line is taken that has not arrived", when=lines.arrived.ready
        )
        self._claim(
            self.busy, "a result of a warp that is not busy", when=left.is_done & self.leaves
        )
        self._claim(~left.parks, "an operation both ends and continues", when=left.is_done)
        judge = self.judge
        outcomes = judge.continues + judge._found + judge._is_emptied + judge._failed
        self._claim(
            outcomes == self.stage.step.operation.is_unwind,
            "an unwind has none or several of its four outcomes",
            when=self.stage.valid,
        )
        self._claim(outcomes == 0, "no outcome without an unwind", when=~self.stage.valid)
        self._claim(
            lines.install_free,
            "a line is installed while a push is stored",
            when=lines.install.valid,
        )

    def _do(self) -> None:
        """Makes the requests of examples, with memory that answers in the next cycle.

        A warp is launched and pushes 9 tokens, of which a line is spilled; or 5, which are written
        back, of which it keeps 4, and pops the last one.
        """
        m, request, asked, port = self.m, self.dut.request, self.dut.request.payload, self.dut.port
        pushes, number, line = Signal(4), Signal(4), Signal.like(port.request.payload.data)
        fifth, more, out, answer = Signal(), Signal(), port.request, port.response
        m.d.comb += [fifth.eq(AnyConst(1)), pushes.eq(Mux(fifth, 5, 9)), more.eq(number > pushes)]
        m.d.sync += number.eq(number + (request.valid & request.ready))
        with m.If(out.valid & out.payload.write & (out.payload.address == self.address)):
            m.d.sync += line.eq(out.payload.data)
        after = Array(
            (StackOperation.WRITE_BACK, StackOperation.SET_POINTER, StackOperation.UNWIND)
        )
        m.d.comb += [
            self.dut.configuration.eq(0),
            self.dut.configuration.size.eq(2),
            asked.eq(0),
            asked.enable.eq(1),
            asked.kind.as_value().eq(TokenKind.SYNC.value),
            asked.mask.eq(number),
            asked.operand.eq(Mux(more, TOKENS_PER_LINE, 8 * number)),
            asked.operation.eq(
                Mux(
                    more,
                    after[number - pushes - 1],
                    Mux(number == 0, StackOperation.LAUNCH, StackOperation.PUSH),
                )
            ),
            request.valid.eq(number <= pushes + 3 * fifth),
            out.ready.eq(1),
            answer.payload.tag.eq(0),
            answer.payload.error.eq(0),
            answer.payload.data.eq(line),
            answer.payload.write.eq(self.owed != 0),
            answer.valid.eq((self.owed != 0) | self.reading),
            Assume((self.warp == 0) & (self.depth == _LAST_PLACE) & ~self.refused, "an example"),
        ]


STALE_SPILL = Fault(
    "rtl.crs.engine", "self._commits & commit.writes", "self._commits & commit.keeps_lines"
)
"""A spill that was decided before a commit which drops no line is not cancelled."""

FAULTS = (
    Fault(
        "rtl.crs.records",
        "[Words(shape, warps, sweep, **_IN_LUTS) for _ in range(2)]",
        "[Words(shape, warps, sweep, number, **_IN_LUTS) for number in range(2)]",
    ),
    Fault("rtl.crs.engine", "view.last[:PLACE_BITS] >= place", "view.last[:PLACE_BITS] > place"),
    Fault("rtl.crs.lines", "address.eq(read.address)", "address.eq(job.address)"),
    Fault("rtl.crs.engine", "(next_count == written_count) & none_leaving", "none_leaving"),
    Fault(
        "rtl.crs.lines",
        "Mux(self._keeps_lines, 0, to_read + self._read.valid)",
        "to_read + self._read.valid",
    ),
    Fault("rtl.crs.engine", "self._visits & (self._line_was_started | self._begins_line)", "0"),
    STALE_SPILL,
    Fault(
        "rtl.crs.engine",
        "waits_for_line = view.parked & ~self._drains",
        "waits_for_line = view.parked",
    ),
    Fault(
        "rtl.crs.change",
        "drops_line=self._stores & begins_line & (step.lines == all_lines)",
        "drops_line=0",
    ),
    Fault("rtl.crs.commit", "stage.empties | is_negative", "stage.empties"),
    Fault("rtl.crs.judge", "stage.has_token & step.was_clean", "stage.has_token"),
)
"""Changes of the hardware with which the theorem must fail."""


def theorem(params: SmParams, faults: tuple[Fault, ...] = FAULTS) -> Theorem:
    """Returns the theorem of the stack for a machine."""
    spec = partial(StackSpec, params)
    return Theorem(
        spec,
        depth=3,
        cover_depth=54,
        long=True,
        examples=partial(spec, examples=True),
        split=True,
        faults=faults,
    )


THEOREM = theorem(PRESETS["tiny"])
