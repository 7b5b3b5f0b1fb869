"""The call/return stack: its pipeline of access, change, judge and commit."""

from typing import Any

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Out, connect

from rtl.component import Component, members_of, pass_on
from rtl.isa.errors import WarpError
from rtl.isa.tokens import API_CALL_LIMIT, CRS_GRANULE, TOKEN_BYTES, TOKENS_PER_LINE, TokenKind
from rtl.layouts import DEPTH_BITS, TRAP_FRAME, StackEvents, StackOperation, StackPort, ThreadCode
from rtl.one_hot import one_hot
from rtl.params import SmParams

from .engine import SpillFillEngine
from .judge import TokenJudge
from .records import Parking, StackStates, spills_from, stack_step
from .tokens import (
    LAST_PLACE,
    PLACE_BITS,
    POINTER_CALLS,
    STEP_BITS,
    STUCK,
    StoredToken,
    TokenStore,
    role_of,
    steps_on_chip,
)

__all__ = ["STEP_FLAGS", "CallReturnStack"]

STEP_FLAGS = {
    StackOperation.PUSH: ("push",), StackOperation.CALL: ("push", "counts"),
    StackOperation.PREPARE_CALL: ("push", "counts", "prepares"), StackOperation.UNWIND: ("walk", "holds"),
    StackOperation.POP_QUAD: ("walk", "quad", "holds"),
    StackOperation.RESTORE: ("walk", "frame", "mode", "leave", "holds"),
    StackOperation.CLEAR: ("walk", "clear", "holds"),
    StackOperation.GET_POINTER: ("get",), StackOperation.SET_POINTER: ("set", "holds"),
    StackOperation.GET_BASE: ("base",), StackOperation.SET_BASE: ("move", "holds"),
    StackOperation.WRITE_BACK: ("write_back", "holds"), StackOperation.LAUNCH: ("launch", "holds"),
    StackOperation.SET_MODE: ("mode",)}
"""The flags of a step that are set for an operation."""
_OF_ENGINE = ("write_fault", "port")
_NEAR_BITS = 3
"""Parts in which a number is held against a limit."""
assert CRS_GRANULE // TOKEN_BYTES == 2 << STEP_BITS, "a granule is two of the steps of limits"
_BY_MASK, _BY_PC = ([ThreadCode.NONE.value, *(code.value for code in codes)] for codes in zip(*TRAP_FRAME, strict=True))
"""The codes that the threads of a frame's token get, by its place in the line."""


class CallReturnStack(Component):
    """The call/return stacks of all warps: the topmost tokens of each on chip, the rest in memory.

    A warp has one operation at a time, except that anything may follow a push, a SET_MODE or a GET, two cycles later.
    Warps take turns in any order, one request a cycle. What is done for a warp is a step of four stages, from the
    access to the commit; an unwind is a step for each token. The first stage reads the memories of
    :class:`StackStates`; the second writes what a push leaves, the fourth what all else does.

    Members
    -------
    request, configuration, killed, pushed, holes, entry, result_valid, result
        See StackPort. The configuration goes with a LAUNCH request; ``base`` of it with a SET_BASE request. ``killed``
        is the kill bit of the warp that requests, ``entry`` is told after a SET_MODE to the trap handler. The result is
        there three cycles after the request, or later.
    committed : Out(Event(warp, last))
        The number of the topmost token that an unwind or SET_POINTER has left, one cycle behind the result; all ones
        when the stack is empty.
    write_fault : Out(Event(warp))
        Memory could not take a line of the warp's.
    events : Out(StackEvents)
    port : Out(MemoryPort)
        Tagged by warp.
    """

    def __init__(self, params: SmParams) -> None:
        self.params, self.states = params, (states := StackStates(params))
        self._free_bits = PLACE_BITS + params.stack_slot_bits
        self.tokens, self.engine = TokenStore(params), SpillFillEngine(params, states)
        self._judge = TokenJudge(params, states)
        super().__init__({
            **StackPort(params).flip().members, **members_of(self._judge, "committed"),
            **members_of(self.engine, *_OF_ENGINE), "events": Out(StackEvents)})
        self._access: Any = Signal(data.StructLayout({
            "valid": 1, "run": stack_step(params), "follows": 1, "sees": 1, "top": PLACE_BITS,
            "dirty": params.stack_count_bits, "free": self._free_bits, "near": _NEAR_BITS,
            "limit": DEPTH_BITS - STEP_BITS, "calls_full": 1, "token": StoredToken}))
        """A step and what is known of its warp. ``follows``: it is an unwind's that goes on, of which only ``sees`` is
        known besides: there is a token to look at, and on chip. ``top`` is the topmost token's place in its line;
        ``free`` is where the next one lies on chip. ``dirty`` lines are dirty. ``limit`` is the highest number that a
        token may have, in steps; ``near``: the topmost token's step makes up the same granule, part by part of their
        bits. ``calls_full``: the limit of calls is reached. ``token`` is to be pushed; its pc may be an operand."""
        self._change: Any = Signal.like(self._access)
        self._changed: Any = Signal.like(self._judge.stage)
        self._returns = Signal()
        """An operation comes back into the first stage (``_back``)."""
        self._back: Any = Signal.like(self.engine.again.payload)
        self._follows, self._tries = Signal(), Signal()
        """The next token of the unwind in the third stage is read, and goes into the second; it is not, and the unwind
        begins again. Neither counts if the unwind ends."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.judge = judge = self._judge
        m.submodules.tokens = tokens = self.tokens
        m.submodules.engine = engine = self.engine
        access, change, changed = self._access, self._change, self._changed
        self._turn(m)
        self._look_up(m)
        self._push(m)
        self._walk(m)
        self._begin(m)
        self.states.add(m)
        self.join(m, judge, "result_valid", "result", "committed")
        self.join(m, engine, *_OF_ENGINE)
        connect(m, engine.tokens, tokens.lines)

        # From stage to stage. An unwind's next token comes from the third; if the one before has ended the unwind after
        # all, it counts for nothing.
        over, arriving = Signal(), Signal.like(change)
        m.d.sync += [
            arriving.eq(access), arriving.valid.eq(access.valid | self._follows), arriving.follows.eq(self._follows),
            over.eq(~judge.goes_on), judge.stage.eq(changed)]
        with m.If(self._follows):
            m.d.sync += [arriving.run.eq(judge.next), arriving.sees.eq(1)]
        m.d.comb += [
            change.eq(arriving), change.valid.eq(arriving.valid & ~(arriving.follows & over)),
            judge.stays.eq(self._follows | self._tries), engine.commit.eq(judge.flags),
            self.events.hit.eq(judge.stage.valid & judge.stops),
            self.events.miss.eq(judge.goes_on & ~judge.stage.more), self.events.push.eq(self.pushed.valid)]
        pass_on(m, engine, judge, "below", "cleaned")
        pass_on(m, engine, self.events, "spill", "fill")
        run, busy = change.run, self.states.busy
        m.d.sync += [
            Assert(~change.valid | change.follows | (
                (run.lines <= self.params.stack_lines) & (change.dirty <= run.lines)), "more lines than there are"),
            Assert(~(change.valid & run.step.push & engine.commit.writes & (run.warp == engine.commit.warp)),
                   "a push of a warp that is over as well"),
            Assert(~(change.follows & run.step.push), "a push is done twice"),
            Assert(~(self.pushed.valid & busy.read(m, run.warp)), "a push of a warp that is busy"),
            Assert(~(engine.again.valid & self._tries & judge.goes_on), "two operations come back at once"),
            Assert(~(engine.again.valid & ~engine.again_free), "an operation comes back before another has gone")]
        return m

    def _turn(self, m: Module) -> None:
        """Access: whose turn it is. First what comes back from where it was parked, then a request, then the next token
        of an unwind; that goes first if its unwind has come back before.

        A request waits while its warp is busy, if it is a push also while the warp's lines are all dirty, and in the
        cycle after a request of the same warp, whose state is being written then; and during the sweep after a reset.
        An unwind whose warp was busy waits one cycle more, since its token is not read before.
        """
        request, asked, engine, judge, access, change, returns, back = (
            self.request, self.request.payload, self.engine, self._judge, self._access, self._change,
            self._returns, self._back)
        busy, was_busy, asks = self.states.busy.read(m, asked.warp), Signal(), Signal()
        pushes, unwinds = (asked.operation.as_value().matches(*(
            each.value for each, flags in STEP_FLAGS.items() if flag in flags)) for flag in ("push", "walk"))
        m.d.sync += was_busy.eq(request.valid & busy)
        m.d.comb += [
            asks.eq(request.valid & ~was_busy),
            self._follows.eq(judge.stage.onward & judge.stage.more & (
                judge.stage.run.step.prior | ~(asks | returns))),
            self.events.full.eq(request.valid & ~busy & pushes & engine.full.bit_select(asked.warp, 1)),
            request.ready.eq(~(busy | (was_busy & unwinds) | self.events.full | returns | self._follows
                               | (change.valid & (change.run.warp == asked.warp)) | self.states.sweep.active)),
            self.events.taken.eq(request.valid & ~request.ready & (returns | self._follows)),
            access.valid.eq((returns & ~self._follows) | (request.valid & request.ready)),
            access.run.warp.eq(Mux(returns, back.warp, asked.warp)),
            self.tokens.pipeline.read.valid.eq(self._follows | returns | (asks & unwinds)),
            engine.again_free.eq(~(returns & self._follows)),
            self._tries.eq(judge.stage.onward & judge.stage.more & ~self._follows & engine.again_free & ~engine.waking)]

        # What is to be done. A write-back of a warp whose lines memory has is done at once.
        step, walks = access.run.step, (back.parking == Parking.WALK) | (back.parking == Parking.SINK)
        with m.If(returns):
            seeks = self.states.seeks.read(m, back.warp)
            m.d.comb += [
                step.walk.eq(walks), step.quad.eq(walks & seeks.quad), step.frame.eq(walks & seeks.frame),
                step.load.eq(back.parking == Parking.LOAD), step.fault.eq(back.fault), step.prior.eq(1),
                step.holds.eq(1)]
        with m.Else():
            m.d.comb += step.pair.eq(asked.pair)
            with m.If(asked.enable), m.Switch(asked.operation):
                for operation, flags in STEP_FLAGS.items():
                    with m.Case(operation):
                        m.d.comb += [step[flag].eq(1) for flag in flags]
        with m.If(engine.again_free):
            m.d.sync += [returns.eq(engine.again.valid | (self._tries & judge.goes_on)), back.eq(engine.again.payload)]
            with m.If(self._tries):
                m.d.sync += [back.warp.eq(judge.stage.run.warp), back.parking.eq(Parking.WALK), back.fault.eq(0)]
        self.states.codes.write(m, request.valid, asked.warp, asked.codes)

    def _look_up(self, m: Module) -> None:
        """Access: what is known of the warp. What does not concern a step of its own counts for requests only."""
        states, asked, access, run = self.states, self.request.payload, self._access, self._access.run
        state, operation = run.state, asked.operation
        known, sizes, traps, below, cleaned, acknowledged = (words.read(m, run.warp) for words in (
            states.states, states.sizes, states.traps, states.below, states.cleaned, states.acknowledged))
        enters, returns = operation == StackOperation.SET_MODE, run.step.prior
        m.d.comb += [
            self.killed.eq(known.kill), state.eq(known), run.memory.eq(sizes.memory),
            run.lines.eq(known.entered - below), run.clean.eq(known.dirtied == cleaned),
            access.top.eq(known.last), access.dirty.eq(known.dirtied - cleaned),
            access.free.eq(Cat(known.last[bit] ^ known.last[:bit].all() for bit in range(self._free_bits))),
            access.limit.eq(Cat(Mux(sizes.memory, traps | enters, steps_on_chip(self.params) > 1), sizes.granules)),
            access.near.eq(Cat((known.last[STEP_BITS + 1:] ^ sizes.granules)[part::_NEAR_BITS] == 0
                               for part in range(_NEAR_BITS))),
            access.sees.eq(run.step.walk & ~run.step.clear & ~run.step.fault & ~known.last[-1]
                           & (known.entered != below)),
            access.calls_full.eq(sizes.checks_calls & (known.calls >= API_CALL_LIMIT)),
            access.token.pc.eq(asked.operand), access.token.role.as_value().eq(role_of(asked.kind)),
            access.token.counted.eq((operation == StackOperation.CALL) | (operation == StackOperation.PREPARE_CALL))]
        pass_on(m, asked, access.token, "mask", "kind")
        with m.If((operation == StackOperation.SET_POINTER) & ~returns):
            m.d.comb += Cat(state.last, state.calls, state.kill).eq(
                Cat(asked.operand[:DEPTH_BITS], asked.operand[POINTER_CALLS:]))
        with m.Elif(((operation == StackOperation.GET_POINTER) | enters) & ~returns):
            m.d.comb += state.last[:PLACE_BITS].eq(LAST_PLACE)     # these count whole lines
        with m.If(~sizes.memory | (run.clean & (cleaned == acknowledged))):
            m.d.comb += run.step.write_back.eq(0)     # memory has all lines

        # The line of the token that is looked at. Where an unwind begins is the last thing to be known: so the state is
        # read for this once more, by a number that is known early.
        back, onward = self._back, self._judge.next
        returning, requested, follows = (Cat(state.last[PLACE_BITS:self._free_bits], warp) for state, warp in (
            (states.states.read(m, back.warp), back.warp), (states.states.read(m, asked.warp), asked.warp),
            (onward.state, onward.warp)))
        m.d.comb += self.tokens.pipeline.read.payload.eq(Mux(
            self._follows, follows, Mux(self._returns, returning, requested)))

    def _push(self, m: Module) -> None:
        """Change: a token is pushed, or the stack pointer changes otherwise: up by one, down by one, or not.

        A whole step below the limit there is room, and numbers go up by ones; those in the entries that are kept for
        the trap handler are a step above the limit of user mode.
        """
        change, run, step, changed, flags, written = (
            self._change, self._change.run, self._change.run.step, self._changed, self.engine.change,
            self.tokens.pipeline.write)
        before, after, low, limit = run.state, changed.run.state, run.state.last[:STEP_BITS], change.limit
        refused, rises, number = Signal(), Signal(), Signal(DEPTH_BITS)
        all_lines = self.params.stack_lines
        place, full, stores = low[:PLACE_BITS], run.lines == all_lines, self.pushed.valid
        up, down = rises | step.get | (step.mode & ~step.walk), step.walk | step.set
        topmost, crosses = place == LAST_PLACE, step.walk & change.sees & (place == 0)
        ends, limited, missing = Signal(), Signal(), Signal()
        # Without a region the tokens on chip may be a part of a step.
        part = low[self._free_bits:]
        alone = (~run.memory).replicate(len(part))
        adds, dirty = topmost | run.clean, Signal.like(run.lines)
        m.d.comb += [
            refused.eq(step.counts & change.calls_full), rises.eq(step.push & ~refused),
            ends.eq(low[1:self._free_bits].all() & (part | alone).all() & (low[0] | step.pair)),
            limited.eq(change.near.all() & Mux(before.last[STEP_BITS], ends | ~limit[0], ends & ~limit[0])),
            missing.eq((run.lines == 0) & (change.top != LAST_PLACE)),
            self.entry.eq(Mux(missing, WarpError.MMU_FAULT,
                              Mux(limited, WarpError.STACK_OVERFLOW, WarpError.NONE))),
            stores.eq(change.valid & rises & ~missing & ~limited), dirty.eq(change.dirty + adds),
            number.eq(before.last + Cat(up | down, down.replicate(DEPTH_BITS - 1)))]

        # The state that the step leaves. A pointer that is set stays in the region.
        clamps = step.set & (before.last[STEP_BITS:] > limit)
        m.d.comb += [
            changed.run.eq(run), after.last.eq(Mux(clamps, Cat(Const(~0, STEP_BITS), limit), number)),
            after.entered.eq(before.entered + Cat(
                (rises & topmost & ~full) | crosses, crosses.replicate(len(run.lines) - 1))),
            after.dirtied.eq(before.dirtied + Cat((rises & adds) | crosses, crosses.replicate(len(run.lines) - 1))),
            changed.run.lines.eq(run.lines - crosses), changed.run.dropped.eq(run.dropped | crosses)]
        with m.If(step.push):
            m.d.comb += [after.calls.eq(before.calls + (step.counts & ~refused)),
                         after.kill.eq(Mux(step.prepares, refused, before.kill))]
        self.states.states.write(m, stores | (change.valid & step.prepares & refused), run.warp, after)
        m.d.comb += [
            self.holes.eq(~change.top), self.pushed.payload.warp.eq(run.warp),
            self.pushed.payload.kind.eq(change.token.kind), written.valid.eq(change.valid & step.push),
            written.payload.slot.eq(Cat(change.free[PLACE_BITS:], run.warp)),
            written.payload.places.eq(one_hot(change.free[:PLACE_BITS], TOKENS_PER_LINE, stores)),
            *(token.eq(change.token) for token in written.payload.tokens),
            flags.warp.eq(run.warp), flags.flushes.eq(change.valid & step.write_back),
            flags.drops.eq(stores & topmost & full),
            flags.fills.eq(stores & run.memory & (place == LAST_PLACE - 1) & (dirty == all_lines)),
            flags.begins_line.eq(change.valid & step.push & topmost),
            flags.urges.eq(flags.flushes | (stores & run.memory & (dirty >= spills_from(self.params)))
                           | (change.valid & rises & missing))]
        self.states.busy.write(m, change.valid & ~change.follows & step.holds, run.warp, 1)

        # What is told of it.
        depth = Cat(Const(0, PLACE_BITS), number[PLACE_BITS:], Const(0, POINTER_CALLS - DEPTH_BITS))
        m.d.comb += changed.value.eq(Mux(step.base, self.states.bases.read(m, run.warp),
                                         Cat(depth, before.calls, before.kill)))
        with m.If(step.counts & ~step.prepares & change.calls_full):
            m.d.comb += changed.error.eq(WarpError.API_STACK_ERROR)
        with m.Elif(rises):
            m.d.comb += changed.error.eq(self.entry)
        with m.Elif(step.set & ~run.memory):
            m.d.comb += changed.error.eq(WarpError.STACK_ERROR)

    def _walk(self, m: Module) -> None:
        """Change: what the kind of an unwind's token makes of it, and of the codes; its mask comes late."""
        change, run, step, changed = self._change, self._change.run, self._change.run.step, self._changed
        place, kind, role = run.state.last[:PLACE_BITS], changed.token.kind, changed.token.role
        topmost, lowest, top = place == LAST_PLACE, place == 0, changed.run.state.last[-1]
        hole, fits = Signal(), Signal()
        m.d.comb += [
            changed.valid.eq(change.valid), changed.seen.eq(change.sees),
            changed.token.eq(self.tokens.pipeline.line[place]),
            changed.more.eq(change.sees & ~(lowest & (run.lines == 1))),
            changed.bottom.eq(run.state.last[-1] | step.clear | (change.sees & top)),
            changed.onward.eq(change.valid & step.walk & ~step.fault & ~changed.bottom),
            hole.eq(kind == TokenKind.NONE),
            fits.eq(Mux(step.quad, kind == TokenKind.QUAD, (kind.as_value() < TokenKind.QUAD.value) & ~hole)),
            changed.masks.eq((kind == TokenKind.MASKS) & (run.framed | topmost)),
            changed.halts.eq(change.sees & Mux(step.frame, (kind == TokenKind.TRAP) & lowest,
                                               ~hole & (~fits | step.quad))),
            changed.wrong.eq(changed.halts & Mux(step.frame, ~run.framed, ~fits)),
            changed.may_halt.eq(change.sees & ~step.frame & ~hole),
            changed.by_pc.eq(Array(_BY_PC)[place]),
            changed.by_mask.eq(Array(_BY_MASK)[place])]

        # The threads' codes, in a frame as the tokens above in the line leave them.
        asked, assigned = self.states.codes.read(m, run.warp), Signal.like(changed.codes)
        m.d.sync += assigned.eq(self._judge.codes)
        m.d.comb += [
            changed.codes.eq(Mux(change.follows & step.frame & ~topmost, assigned.as_value(), asked.as_value())),
            changed.returned.eq(Cat(code == ThreadCode.RETURN for code in asked).any()),
            changed.stuck.eq(Cat(code == stuck for code in asked for stuck in STUCK).any())]
        for thread, code in enumerate(changed.codes):
            dead = code.as_value().matches(ThreadCode.EXIT.value, ThreadCode.KILLED.value)
            m.d.comb += [changed.fits[thread].eq(change.sees & ((code == role) | (step.frame & dead))),
                         changed.past[thread].eq((code == ThreadCode.NONE) & (role != ThreadCode.NONE)),
                         changed.stops[thread].eq(changed.fits[thread] | changed.past[thread])]

    def _begin(self, m: Module) -> None:
        """Change: what is kept of a step that begins: where the region lies, behind the threads' local memory, and its
        limits; the mode; what an unwind looks for, and where it began."""
        change, run, step, states = self._change, self._change.run, self._change.run.step, self.states
        asked = Signal.like(self.configuration)
        m.d.sync += asked.eq(self.configuration)
        begins = change.valid & ~step.prior & ~change.follows
        launches, moves, unwinds = (begins & does for does in (step.launch, step.launch | step.move, step.walk))
        sized, less, pc = asked.size != 0, Signal.like(asked.size), change.token.pc
        behind = Mux(step.launch, asked.local, states.locals.read(m, run.warp))
        # A SET_MODE to the trap handler if its frame has room has 2 in its operand, too.
        enters = pc[0] & ~step.leave & ~(pc[1] & (self.entry != WarpError.NONE))
        m.d.comb += less.eq(Mux(sized, asked.size - 1, (steps_on_chip(self.params) - 1) // 2))
        for words, enable, value in (
                (states.sizes, launches, Cat(less, sized, asked.check_calls)),
                (states.traps, begins & (step.launch | step.mode), enters & ~step.launch),
                (states.bases, moves, asked.base), (states.locals, launches, asked.local),
                (states.regions, moves, asked.base + behind),
                (states.seeks, unwinds, Cat(step.quad, step.frame)),
                (states.origins, unwinds, Cat(run.state.last, run.state.calls))):
            words.write(m, enable, run.warp, value)
