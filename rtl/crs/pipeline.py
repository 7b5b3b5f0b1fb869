"""The pipeline of the stack: access, change, judge, commit."""

from typing import Any

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.tokens import API_CALL_LIMIT, TOKENS_PER_LINE, TokenKind
from rtl.layouts import (
    BLOCK_ADDRESS_BITS,
    CRS_GRANULE_BITS,
    DEPTH_BITS,
    TRAP_FRAME,
    Event,
    StackConfiguration,
    StackEvents,
    StackOperation,
    ThreadCode,
    stack_request,
    stack_result,
)
from rtl.params import SmParams

from .judge import TokenJudge
from .records import (
    CACHED_LINES,
    COUNT_BITS,
    NEAR_BITS,
    PLACE_BITS,
    POINTER_CALLS,
    SPILLS_FROM,
    TOP_STEP,
    EnginePort,
    Parking,
    again,
    change_stage,
    judge_stage,
)
from .states import StackStates
from .tokens import TokenPort, role_of

__all__ = ["StackPipeline"]

_FLAGS = {
    StackOperation.PUSH: ("push",), StackOperation.CALL: ("push", "counts"),
    StackOperation.PREPARE_CALL: ("push", "counts", "prepares"), StackOperation.UNWIND: ("walk", "holds"),
    StackOperation.POP_QUAD: ("walk", "quad", "holds"),
    StackOperation.RESTORE: ("walk", "frame", "mode", "leave", "holds"),
    StackOperation.CLEAR: ("walk", "clear", "holds"),
    StackOperation.GET_POINTER: ("get",), StackOperation.SET_POINTER: ("set", "holds"),
    StackOperation.GET_BASE: ("base",), StackOperation.SET_BASE: ("move", "holds"),
    StackOperation.WRITE_BACK: ("write_back", "holds"), StackOperation.LAUNCH: ("launch", "holds"),
    StackOperation.SET_MODE: ("mode",)}
"""The flags of :class:`Step` that are set for an operation."""
_LAST_PLACE = TOKENS_PER_LINE - 1
_BY_MASK, _BY_PC = ([ThreadCode.NONE.value, *(code.value for code in codes)] for codes in zip(*TRAP_FRAME, strict=True))
"""The codes that the threads of a frame's token get, by its place in the line."""
_STUCK = (ThreadCode.NONE, ThreadCode.BREAK, ThreadCode.CONTINUE, ThreadCode.LONGJMP)
"""The codes of threads that a warp must not end without."""


class StackPipeline(Component):
    """What is done for a warp is a step of four stages, from the access to the commit; an unwind is a step for each
    token. The first stage reads the memories of :class:`StackStates`; the second writes what a push leaves, the fourth
    what all else does.

    Members
    -------
    request, configuration, killed, holes, entry, pushed, result_valid, result, committed, events
        See CallReturnStack; of the events those that it knows of.
    tokens : Out(TokenPort)
    engine : Out(EnginePort)
    """

    def __init__(self, params: SmParams, states: StackStates) -> None:
        self._params, self._states = params, states
        bits = params.warp_bits
        super().__init__({
            "request": In(stream.Signature(stack_request(params))), "configuration": In(StackConfiguration),
            "killed": Out(1), "holes": Out(range(TOKENS_PER_LINE)), "entry": Out(WarpError),
            "pushed": Out(Event(data.StructLayout({"warp": bits, "kind": TokenKind}))), "result_valid": Out(1),
            "result": Out(stack_result(params)), "events": Out(StackEvents),
            "committed": Out(Event(data.StructLayout({"warp": bits, "last": DEPTH_BITS}))),
            "tokens": Out(TokenPort(params)), "engine": Out(EnginePort(params))})
        self._judge = TokenJudge(params, states)
        self._access: Any = Signal(change_stage(params))
        self._change: Any = Signal(change_stage(params))
        self._changed: Any = Signal(judge_stage(params))
        self._returns = Signal()
        """An operation comes back into the first stage (``_back``)."""
        self._back: Any = Signal(again(params))
        self._follows = Signal()
        """The next token of the unwind in the third stage is read, and goes into the second."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.judge = judge = self._judge
        access, change, changed, engine = self._access, self._change, self._changed, self.engine
        self._turn(m)
        self._look_up(m)
        self._push(m)
        self._walk(m)
        self._begin(m)
        self.join(m, judge, "result_valid", "result", "committed")

        # From stage to stage. An unwind's next token comes from the third; if the one before has ended the unwind after
        # all, it counts for nothing.
        over, arriving = Signal(), Signal.like(change)
        m.d.sync += [
            arriving.eq(access), arriving.valid.eq(access.valid | self._follows), arriving.follows.eq(self._follows),
            over.eq(judge.over), judge.stage.eq(changed)]
        with m.If(self._follows):
            m.d.sync += [arriving.run.eq(judge.next), arriving.sees.eq(1)]
        m.d.comb += [
            change.eq(arriving), change.valid.eq(arriving.valid & ~(arriving.follows & over)),
            judge.next_comes.eq(self._follows), judge.below.eq(engine.below), judge.cleaned.eq(engine.cleaned),
            engine.commit.eq(judge.flags),
            self.events.hit.eq(judge.hit), self.events.miss.eq(judge.miss), self.events.push.eq(self.pushed.valid)]

        run, busy = change.run, self._states.busy
        m.d.sync += [
            Assert(~change.valid | change.follows | ((run.lines <= CACHED_LINES) & (change.dirty <= run.lines)),
                   "more lines than there are"),
            Assert(~(self.pushed.valid & engine.commit.writes & (run.warp == engine.commit.warp)),
                   "a push of a warp that is over as well"),
            Assert(~(change.follows & run.step.push), "a push is done twice"),
            Assert(~(self.pushed.valid & busy.read(m, run.warp)), "a push of a warp that is busy"),
            Assert(~(engine.again.valid & judge.again), "two operations come back at once"),
            Assert(~(engine.again.valid & ~engine.again_free), "an operation comes back before another has gone")]
        return m

    def _turn(self, m: Module) -> None:
        """Access: whose turn it is. First what comes back from where it was parked, then a request, then the next token
        of an unwind; that goes first if its unwind has come back before.

        A request waits while its warp is busy, if it is a push also while the warp's lines are all dirty, and in the
        cycle after a request of the same warp, whose state is being written then. An unwind whose warp was busy waits
        one cycle more, since its token is not read before.
        """
        request, asked, engine, judge, access, change, returns, back = (
            self.request, self.request.payload, self.engine, self._judge, self._access, self._change, self._returns,
            self._back)
        busy, was_busy, asks = self._states.busy.read(m, asked.warp), Signal(), Signal()
        pushes, unwinds = (asked.operation.as_value().matches(*(each.value for each in _FLAGS if flag in _FLAGS[each]))
                           for flag in ("push", "walk"))
        m.d.sync += was_busy.eq(request.valid & busy)
        m.d.comb += [
            asks.eq(request.valid & ~was_busy),
            self._follows.eq(judge.stage.onward & judge.stage.more & (
                judge.stage.run.step.prior | ~(asks | returns))),
            self.events.full.eq(request.valid & ~busy & pushes & engine.full.bit_select(asked.warp, 1)),
            request.ready.eq(~(busy | (was_busy & unwinds) | self.events.full | returns | self._follows
                               | (change.valid & (change.run.warp == asked.warp)))),
            self.events.taken.eq(request.valid & ~request.ready & (returns | self._follows)),
            access.valid.eq((returns & ~self._follows) | (request.valid & request.ready)),
            access.run.warp.eq(Mux(returns, back.warp, asked.warp)),
            self.tokens.walk.valid.eq(self._follows | returns | (asks & unwinds)),
            engine.again_free.eq(~(returns & self._follows)), judge.again_free.eq(engine.again_free & ~engine.waking)]

        # What is to be done. A write-back of a warp whose lines memory has is done at once.
        step, walks = access.run.step, (back.parking == Parking.WALK) | (back.parking == Parking.SINK)
        with m.If(returns):
            seeks = self._states.seeks.read(m, back.warp)
            m.d.comb += [
                step.walk.eq(walks), step.quad.eq(walks & seeks.quad), step.frame.eq(walks & seeks.frame),
                step.load.eq(back.parking == Parking.LOAD), step.fault.eq(back.fault), step.prior.eq(1),
                step.holds.eq(1)]
        with m.Else():
            m.d.comb += step.pair.eq(asked.pair)
            with m.If(asked.enable), m.Switch(asked.operation):
                for operation, flags in _FLAGS.items():
                    with m.Case(operation):
                        m.d.comb += [step[flag].eq(1) for flag in flags]
        with m.If(engine.again_free):
            m.d.sync += [returns.eq(engine.again.valid | judge.again), back.eq(engine.again.payload)]
            with m.If(judge.tries):
                m.d.sync += [back.warp.eq(judge.stage.run.warp), back.parking.eq(Parking.WALK), back.fault.eq(0)]
        self._states.codes.write(m, request.valid, asked.warp, asked.codes)

    def _look_up(self, m: Module) -> None:
        """Access: what is known of the warp. What does not concern a step of its own counts for requests only."""
        states, asked, access, run = self._states, self.request.payload, self._access, self._access.run
        state, operation = run.state, asked.operation
        known, sizes, traps, below, cleaned, acknowledged = (words.read(m, run.warp) for words in (
            states.states, states.sizes, states.traps, states.below, states.cleaned, states.acknowledged))
        enters, returns = operation == StackOperation.SET_MODE, run.step.prior
        m.d.comb += [
            self.killed.eq(known.kill), state.eq(known), run.memory.eq(sizes.memory),
            run.lines.eq(known.entered - below), run.clean.eq(known.dirtied == cleaned),
            access.top.eq(known.last), access.dirty.eq(known.dirtied - cleaned),
            access.free.eq(Cat(known.last[bit] ^ known.last[:bit].all() for bit in range(TOP_STEP))),
            access.limit.eq(Cat((traps | enters) & sizes.memory, sizes.granules)),
            access.near.eq(Cat((known.last[TOP_STEP + 1:] ^ sizes.granules)[part::NEAR_BITS] == 0
                               for part in range(NEAR_BITS))),
            access.sees.eq(run.step.walk & ~run.step.clear & ~run.step.fault & ~known.last[-1]
                           & (known.entered != below)),
            access.calls_full.eq(sizes.checks_calls & (known.calls >= API_CALL_LIMIT)),
            access.token.pc.eq(asked.operand), access.token.mask.eq(asked.mask), access.token.kind.eq(asked.kind),
            access.token.role.as_value().eq(role_of(asked.kind)),
            access.token.counted.eq((operation == StackOperation.CALL) | (operation == StackOperation.PREPARE_CALL))]
        with m.If((operation == StackOperation.SET_POINTER) & ~returns):
            m.d.comb += Cat(state.last, state.calls, state.kill).eq(
                Cat(asked.operand[:DEPTH_BITS], asked.operand[POINTER_CALLS:]))
        with m.Elif(((operation == StackOperation.GET_POINTER) | enters) & ~returns):
            m.d.comb += state.last[:PLACE_BITS].eq(_LAST_PLACE)     # these count whole lines
        with m.If(~sizes.memory | (run.clean & (cleaned == acknowledged))):
            m.d.comb += run.step.write_back.eq(0)     # memory has all lines

        # The line of the token that is looked at. Where an unwind begins is the last thing to be known: so the state is
        # read for this once more, by a number that is known early.
        back, onward = self._back, self._judge.next
        returning, requested, follows = (Cat(state.last[PLACE_BITS:TOP_STEP], warp) for state, warp in (
            (states.states.read(m, back.warp), back.warp), (states.states.read(m, asked.warp), asked.warp),
            (onward.state, onward.warp)))
        m.d.comb += self.tokens.walk.payload.eq(Mux(
            self._follows, follows, Mux(self._returns, returning, requested)))

    def _push(self, m: Module) -> None:
        """Change: a token is pushed, or the stack pointer changes otherwise: up by one, down by one, or not.

        A whole step below the limit there is room, and numbers go up by ones; those in the entries that are kept for
        the trap handler are a step above the limit of user mode.
        """
        change, run, step, changed, flags, tokens = (
            self._change, self._change.run, self._change.run.step, self._changed, self.engine.change, self.tokens)
        before, after, low, limit = run.state, changed.run.state, run.state.last[:TOP_STEP], change.limit
        refused, rises, number = Signal(), Signal(), Signal(DEPTH_BITS)
        place, full, stores = low[:PLACE_BITS], run.lines == CACHED_LINES, self.pushed.valid
        up, down = rises | step.get | (step.mode & ~step.walk), step.walk | step.set
        topmost, crosses = place == _LAST_PLACE, step.walk & change.sees & (place == 0)
        ends, limited, missing = Signal(), Signal(), Signal()
        adds, dirty = topmost | run.clean, Signal(COUNT_BITS)
        m.d.comb += [
            refused.eq(step.counts & change.calls_full), rises.eq(step.push & ~refused),
            ends.eq(low[1:].all() & (low[0] | step.pair)),
            limited.eq(change.near.all() & Mux(before.last[TOP_STEP], ends | ~limit[0], ends & ~limit[0])),
            missing.eq((run.lines == 0) & (change.top != _LAST_PLACE)),
            self.entry.eq(Mux(missing, WarpError.MMU_FAULT,
                              Mux(limited, WarpError.STACK_OVERFLOW, WarpError.NONE))),
            stores.eq(change.valid & rises & ~missing & ~limited), dirty.eq(change.dirty + adds),
            number.eq(before.last + Cat(up | down, down.replicate(DEPTH_BITS - 1)))]

        # The state that the step leaves. A pointer that is set stays in the region.
        clamps = step.set & (before.last[TOP_STEP:] > limit)
        m.d.comb += [
            changed.run.eq(run), after.last.eq(Mux(clamps, Cat(Const(~0, TOP_STEP), limit), number)),
            after.entered.eq(before.entered + Cat(
                (rises & topmost & ~full) | crosses, crosses.replicate(COUNT_BITS - 1))),
            after.dirtied.eq(before.dirtied + Cat((rises & adds) | crosses, crosses.replicate(COUNT_BITS - 1))),
            changed.run.lines.eq(run.lines - crosses), changed.run.dropped.eq(run.dropped | crosses)]
        with m.If(step.push):
            m.d.comb += [after.calls.eq(before.calls + (step.counts & ~refused)),
                         after.kill.eq(Mux(step.prepares, refused, before.kill))]
        self._states.states.write(m, stores | (change.valid & step.prepares & refused), run.warp, after)
        m.d.comb += [
            self.holes.eq(~change.top), self.pushed.payload.warp.eq(run.warp),
            self.pushed.payload.kind.eq(change.token.kind), tokens.push.valid.eq(change.valid & step.push),
            tokens.push.payload.stored.eq(stores), tokens.push.payload.token.eq(change.token),
            tokens.push.payload.place.eq(change.free), tokens.push.payload.slot.eq(Cat(
                change.free[PLACE_BITS:], run.warp)),
            flags.warp.eq(run.warp), flags.holds.eq(change.valid & ~change.follows & step.holds),
            flags.flushes.eq(change.valid & step.write_back), flags.drops.eq(stores & topmost & full),
            flags.fills.eq(stores & run.memory & (place == _LAST_PLACE - 1) & (dirty == CACHED_LINES)),
            flags.spills.eq(stores & run.memory & (dirty >= SPILLS_FROM)),
            flags.begins_line.eq(change.valid & step.push & topmost), flags.lacks.eq(change.valid & rises & missing)]
        self._states.busy.write(m, flags.holds, flags.warp, 1)

        # What is told of it.
        depth = Cat(Const(0, PLACE_BITS), number[PLACE_BITS:], Const(0, POINTER_CALLS - DEPTH_BITS))
        m.d.comb += changed.value.eq(Mux(step.base, self._states.bases.read(m, run.warp),
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
        topmost, lowest, top = place == _LAST_PLACE, place == 0, changed.run.state.last[-1]
        hole, fits = Signal(), Signal()
        m.d.comb += [
            changed.valid.eq(change.valid), changed.seen.eq(change.sees), changed.token.eq(self.tokens.line[place]),
            changed.more.eq(change.sees & ~(lowest & (run.lines == 1))),
            changed.bottom.eq(run.state.last[-1] | step.clear | (change.sees & top)),
            changed.onward.eq(change.valid & step.walk & ~step.fault & ~changed.bottom),
            hole.eq(kind == TokenKind.NONE),
            fits.eq(Mux(step.quad, kind == TokenKind.QUAD, (kind.as_value() < TokenKind.QUAD.value) & ~hole)),
            changed.masks.eq((kind == TokenKind.MASKS) & (run.framed | topmost)),
            changed.anyone.eq(step.frame & lowest),
            changed.halts.eq(change.sees & Mux(step.frame, (kind == TokenKind.TRAP) & lowest,
                                               ~hole & (~fits | step.quad))),
            changed.wrong.eq(changed.halts & Mux(step.frame, ~run.framed, ~fits)),
            changed.may_halt.eq(change.sees & ~step.frame & ~hole),
            changed.by_pc.eq(Array(Const(code, 3) for code in _BY_PC)[place]),
            changed.by_mask.eq(Array(Const(code, 3) for code in _BY_MASK)[place])]

        # The threads' codes, in a frame as the tokens above in the line leave them.
        asked, assigned = self._states.codes.read(m, run.warp), Signal.like(changed.codes)
        m.d.sync += assigned.eq(self._judge.codes)
        m.d.comb += [
            changed.codes.eq(Mux(change.follows & step.frame & ~topmost, assigned.as_value(), asked.as_value())),
            changed.returned.eq(Cat(code == ThreadCode.RETURN for code in asked).any()),
            changed.stuck.eq(Cat(code == stuck for code in asked for stuck in _STUCK).any())]
        for thread, code in enumerate(changed.codes):
            m.d.comb += [changed.fits[thread].eq(change.sees & ((code == role) | changed.anyone)),
                         changed.past[thread].eq((code == ThreadCode.NONE) & (role != ThreadCode.NONE)),
                         changed.stops[thread].eq(changed.fits[thread] | changed.past[thread])]

    def _begin(self, m: Module) -> None:
        """Change: what is kept of a step that begins: where the region lies, behind the threads' local memory, and its
        limits; the mode; what an unwind looks for, and where it began."""
        change, run, step, states = self._change, self._change.run, self._change.run.step, self._states
        asked: Any = Signal(StackConfiguration)
        m.d.sync += asked.eq(self.configuration)
        begins = change.valid & ~step.prior & ~change.follows
        launches, moves, unwinds = (begins & does for does in (step.launch, step.launch | step.move, step.walk))
        sized, less, pc = asked.size != 0, Signal(CRS_GRANULE_BITS), change.token.pc
        behind = Mux(step.launch, asked.local, states.locals.read(m, run.warp))
        # A SET_MODE to the trap handler if its frame has room has 2 in its operand, too.
        enters = pc[0] & ~step.leave & ~(pc[1] & (self.entry != WarpError.NONE))
        m.d.comb += less.eq(Mux(sized, asked.size - 1, 0))
        for words, enable, value in (
                (states.sizes, launches, Cat(less, sized, asked.check_calls)),
                (states.traps, begins & (step.launch | step.mode), enters & ~step.launch),
                (states.bases, moves, asked.base), (states.locals, launches, asked.local),
                (states.regions, moves, (asked.base + behind)[:BLOCK_ADDRESS_BITS]),
                (states.seeks, unwinds, Cat(step.quad, step.frame)),
                (states.origins, unwinds, Cat(run.state.last, run.state.calls))):
            words.write(m, enable, run.warp, value)
