"""The call/return stack, joined."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.tokens import TOKENS_PER_LINE, TokenKind
from rtl.layouts import (
    DEPTH_BITS,
    Event,
    MemoryPort,
    StackConfiguration,
    StackEvents,
    StackOperation,
    ThreadCodes,
    stack_request,
    stack_result,
)
from rtl.one_hot import one_hot
from rtl.params import SmParams

from .access import StackAccess
from .change import StackChange
from .engine import SpillFillEngine
from .judge import TokenJudge
from .lines import LineTransfer
from .records import CACHED_LINES, PLACE_BITS, Parking, again
from .states import StackStates
from .tokens import TokenStore
from .words import add_words, make_words, read, write

__all__ = ["CallReturnStack"]


class CallReturnStack(Component):
    """The call/return stacks of all warps: 16 tokens of each on chip, the rest in memory.

    A warp has one operation at a time, except that anything may follow a push, a SET_MODE or a GET, two cycles later.
    Warps take turns in any order, one request a cycle.

    Members
    -------
    request : In(stream of stack_request)
    configuration : In(StackConfiguration)
        Goes with a LAUNCH request; ``base`` of it with a SET_BASE request.
    killed : Out(1)
        The kill bit of the warp that requests.
    holes, entry : Out(2), Out(WarpError)
        Of the warp whose request was taken a cycle ago: how many tokens fill its topmost line; after a SET_MODE to the
        trap handler why it cannot enter.
    pushed : Out(Event(warp, kind))
        The request that was taken a cycle ago has pushed its token.
    ready : Out(warps)
        Warps whose next request, of whatever kind, would not wait for their stack.
    result_valid, result : Out(1), Out(stack_result)
        Three cycles after the request, or later.
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
        self._params = params
        bits = params.warp_bits
        super().__init__({
            "request": In(stream.Signature(stack_request(params))), "configuration": In(StackConfiguration),
            "killed": Out(1), "holes": Out(range(TOKENS_PER_LINE)), "entry": Out(WarpError),
            "pushed": Out(Event(data.StructLayout({"warp": bits, "kind": TokenKind}))), "ready": Out(params.warps),
            "result_valid": Out(1), "result": Out(stack_result(params)),
            "committed": Out(Event(data.StructLayout({"warp": bits, "last": DEPTH_BITS}))),
            "write_fault": Out(Event(bits)), "events": Out(StackEvents), "port": Out(MemoryPort(bits))})
        self.states = StackStates(params)
        self.tokens = TokenStore(params)
        self.engine = SpillFillEngine(params)
        self.busy, self.full = Signal(params.warps), Signal(params.warps)

    def elaborate(self, platform: object) -> Module:
        params, warps = self._params, self._params.warps
        m = Module()
        m.submodules.states = states = self.states
        m.submodules.tokens = tokens = self.tokens
        m.submodules.engine = engine = self.engine
        m.submodules.lines = lines = LineTransfer(params)
        m.submodules.access = access = StackAccess(params)
        m.submodules.change = change = StackChange(params)
        m.submodules.judge = judge = TokenJudge(params)
        codes, = add_words(m, make_words(warps, codes=ThreadCodes))
        request, stage, step, looked, left = (
            self.request.payload, change.stage, change.stage.step, judge.stage, states.commit)
        returning, follows, returns = Signal(), Signal(), Signal(again(params))

        # Access: what comes back, a request, or the next token of the unwind that is one stage ahead.
        connect(m, flipped(self.request), access.request)
        m.d.comb += [
            access.again.valid.eq(returning), access.again.payload.eq(returns), access.follows.eq(follows),
            access.busy.eq(self.busy), access.full.eq(self.full), access.before.valid.eq(change.valid),
            access.before.payload.eq(stage.warp), states.warp.eq(access.warp), access.state.eq(states.state),
            engine.read_warp.eq(access.warp), access.counters.eq(engine.counters), access.limits.eq(states.limits),
            access.seek.eq(states.seek), states.trap.eq(request.operation == StackOperation.SET_MODE),
            self.killed.eq(states.state.kill),
            follows.eq(change.more & ~judge.cut & (step.prior | ~(access.asks | returning)))]
        write(m, codes, self.request.valid, request.warp, request.codes)

        # Change: pushes are done. The line of the token that is looked at comes from the cache.
        begins = change.valid & ~change.follows
        m.d.sync += [change.valid.eq(access.valid | follows), change.follows.eq(follows),
                     states.configuration.eq(self.configuration)]
        with m.If(follows):
            m.d.sync += [stage.number.eq(change.next_number), stage.lines.eq(change.next_lines),
                         stage.lone.eq(change.next_lone)]
        with m.Else():
            m.d.sync += stage.eq(access.stage)
        m.d.comb += [
            change.line.eq(tokens.line), change.codes.eq(read(m, codes, stage.warp)), change.before.eq(looked),
            change.calls.eq(judge.next_calls), change.base.eq(states.base), states.begins.eq(begins),
            states.change.eq(stage), states.push.eq(change.push), states.pushed.eq(change.pushed),
            # A SET_MODE to the trap handler if its frame has room has 2 in its operand, too.
            states.enters.eq(stage.token.pc[0] & ~step.leave
                             & ~(stage.token.pc[1] & (self.entry != WarpError.NONE))),
            self.entry.eq(change.entry), self.holes.eq(~stage.top), self.pushed.valid.eq(change.stored),
            self.pushed.payload.warp.eq(stage.warp), self.pushed.payload.kind.eq(stage.token.kind)]

        # The tokens on chip: an unwind reads before a line that leaves, a push writes before one that has come. Where
        # an unwind begins is the last thing to be known.
        pushes, reads, early = change.valid & step.push, ~follows & access.reads, Signal.like(tokens.read)
        m.d.comb += [
            early.eq(Mux(follows, Cat(change.place[PLACE_BITS:], stage.warp), lines.slot)),
            tokens.read.eq(Mux(reads, Cat(states.slot_parts[0] ^ states.slot_parts[1], access.warp), early)),
            lines.read_free.eq(~follows & ~access.reads), lines.line.eq(tokens.line), lines.write_free.eq(~pushes),
            tokens.write.eq(one_hot(change.pushed_place[:PLACE_BITS], TOKENS_PER_LINE, change.stored)
                            | engine.lines.installed.replicate(TOKENS_PER_LINE)),
            tokens.slot.eq(Mux(pushes, Cat(change.pushed_place[PLACE_BITS:], stage.warp), engine.lines.slot)),
            tokens.written.eq(Mux(pushes, Cat(stage.token for _ in range(TOKENS_PER_LINE)), lines.written.as_value()))]

        # Judge.
        m.d.sync += [judge.valid.eq(change.valid), looked.eq(change.judge), judge.cut.eq(judge.over & change.follows)]
        m.d.comb += [
            judge.next_comes.eq(change.valid & change.follows), judge.again_free.eq(~returning & ~engine.waking),
            judge.origin.eq(states.origin), states.looked_warp.eq(looked.warp),
            engine.again_free.eq(~returning)]
        woken = engine.again
        with m.If(judge.again | woken.valid):
            m.d.sync += [returning.eq(1), returns.warp.eq(Mux(woken.valid, woken.payload.warp, looked.warp)),
                         returns.fault.eq(woken.valid & woken.payload.fault),
                         returns.parking.eq(Mux(woken.valid, woken.payload.parking, Parking.WALK))]
        with m.Elif(access.again_taken):
            m.d.sync += returning.eq(0)

        # Commit, and beside it the answer.
        done = states.flags
        m.d.sync += [
            self.result_valid.eq(judge.answered), self.result.eq(judge.answer), left.eq(judge.commit),
            self.committed.valid.eq(left.write & left.done), self.committed.payload.warp.eq(left.warp),
            self.committed.payload.last.eq(states.last)]
        m.d.comb += [states.below.eq(engine.left_below), states.cleaned.eq(engine.left_cleaned)]

        # Who has to wait: for an operation, or with a push since all lines are dirty, and the last is full.
        began, spilled = change.flags, lines.engine.spilled
        m.d.sync += [
            self.busy.eq((self.busy | one_hot(began.warp, warps, began.holds)) & ~one_hot(done.warp, warps, done.done)),
            self.full.eq((self.full | one_hot(began.warp, warps, began.fills))
                         & ~one_hot(done.warp, warps, done.writes)
                         & ~one_hot(spilled.payload.warp, warps, spilled.valid & spilled.payload.done))]
        m.d.comb += self.ready.eq(~(self.busy | self.full | one_hot(stage.warp, warps, change.valid)))

        # Beside the pipeline, what moves between cache and memory.
        connect(m, lines.port, flipped(self.port))
        connect(m, engine.lines, lines.engine)
        connect(m, lines.write_fault, flipped(self.write_fault))
        m.d.comb += [
            engine.change.eq(change.flags), engine.commit.eq(states.flags), states.other_warp.eq(engine.warp),
            engine.state.eq(states.other), engine.region.eq(states.region), engine.memory.eq(states.memory)]

        # Events, and what the stages promise each other.
        m.d.comb += [
            self.events.push.eq(change.stored), self.events.hit.eq(judge.hit), self.events.miss.eq(judge.miss),
            self.events.spill.eq(lines.spill), self.events.fill.eq(lines.fill), self.events.full.eq(access.blocked),
            self.events.taken.eq(self.request.valid & ~self.request.ready & (returning | follows))]
        m.d.sync += [
            Assert(~begins | ((stage.lines <= CACHED_LINES) & (stage.dirty <= stage.lines)),
                   "more lines than there are"),
            Assert(~(states.push & left.write & (stage.warp == left.warp)), "a push of a warp that is over as well"),
            Assert(~(change.follows & step.push), "a push is done twice"),
            Assert(~(change.stored & self.busy.bit_select(stage.warp, 1)), "a push of a warp that is busy"),
            Assert(~left.done | self.busy.bit_select(left.warp, 1), "a result that nobody waits for"),
            Assert(~(left.done & left.parks), "an operation is over, and goes on"),
            Assert(~(change.stored & engine.lines.installed), "a token and a line are written at once"),
            Assert(~(woken.valid & judge.again), "two operations come back at once"),
            Assert(~(woken.valid & returning), "an operation comes back before another has gone")]
        return m
