"""The call/return stack, joined."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream
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
    ThreadCodes,
    stack_request,
    stack_result,
)
from rtl.params import SmParams

from .access import StackAccess
from .change import StackChange
from .commit import StackCommit
from .engine import SpillFillEngine
from .flags import WarpFlags
from .judge import TokenJudge
from .lines import LineTransfer
from .records import CACHED_LINES, Origin, Parking, again
from .states import StackRegions, StackStates
from .tokens import TokenStore

__all__ = ["CallReturnStack"]


class CallReturnStack(Component):
    """The call/return stacks of all warps: 16 tokens of each on chip, the rest in memory.

    A warp has one operation at a time, except that anything may follow a push, two cycles later. Warps take turns in
    any order, one request a cycle.

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
        self.flags = WarpFlags(params)

    def elaborate(self, platform: object) -> Module:
        params, warps = self._params, self._params.warps
        m = Module()
        m.submodules.states = states = self.states
        m.submodules.tokens = tokens = self.tokens
        m.submodules.engine = engine = self.engine
        m.submodules.flags = flags = self.flags
        m.submodules.regions = regions = StackRegions(params)
        m.submodules.lines = lines = LineTransfer(params)
        m.submodules.access = access = StackAccess(params)
        m.submodules.change = change = StackChange(params)
        m.submodules.judge = judge = TokenJudge(params)
        m.submodules.commit = commit = StackCommit(params)
        m.submodules.codes = codes = memory.Memory(shape=ThreadCodes, depth=warps, init=[])
        m.submodules.origins = origins = memory.Memory(shape=Origin, depth=warps, init=[])
        m.submodules.seeks = seeks = memory.Memory(shape=2, depth=warps, init=[])

        def read(words: memory.Memory, warp: Any) -> Any:
            port = words.read_port(domain="comb")
            m.d.comb += port.addr.eq(warp)
            return port.data

        def write(words: memory.Memory, enable: Any, warp: Any, value: Any) -> None:
            port = words.write_port()
            m.d.comb += [port.en.eq(enable), port.addr.eq(warp), port.data.eq(value)]

        request, stage, looked = self.request.payload, change.stage, judge.stage
        returns: Any = Signal(Event(again(params)).members["payload"].shape)
        returning, follows = Signal(), Signal()

        # Access: what comes back, a request, or the next token of the unwind that is one stage ahead.
        connect(m, flipped(self.request), access.request)
        seek = read(seeks, access.warp)
        m.d.comb += [
            access.configuration.eq(self.configuration), access.again.valid.eq(returning),
            access.again.payload.eq(returns),
            access.follows.eq(follows), access.busy.eq(flags.busy), access.full.eq(flags.full),
            access.last_valid.eq(change.valid), access.last_warp.eq(stage.warp), states.warp.eq(access.warp),
            access.state.eq(states.state), access.tags.eq(states.tags), engine.read_warp.eq(access.warp),
            access.below.eq(engine.below), access.cleaned.eq(engine.cleaned), regions.warp.eq(access.warp),
            regions.trap.eq(access.enters), access.limit.eq(regions.limit), access.memory.eq(regions.memory),
            access.checks_calls.eq(regions.checks_calls), Cat(access.quad, access.frame).eq(seek),
            self.killed.eq(states.state.kill),
            follows.eq(change.more & ~(judge.valid & looked.follows & judge.over)
                       & (stage.step.prior | ~(access.asks | returning)))]
        write(codes, self.request.valid, request.warp, request.codes)

        # Change: pushes are done. The token of an unwind comes from the cache.
        m.d.sync += [change.valid.eq(access.valid | follows), change.follows.eq(follows),
                     change.second.eq(follows & change.next_second)]
        with m.If(follows):
            m.d.sync += [stage.number.eq(change.next_number), stage.lines.eq(change.next_lines)]
        with m.Else():
            m.d.sync += stage.eq(access.stage)
        begins = change.valid & ~change.follows
        step = stage.step
        write(seeks, begins & step.walk & ~step.prior, stage.warp, Cat(step.quad, step.frame))
        write(origins, begins & step.walk & ~step.prior, stage.warp, Cat(stage.number, stage.calls))
        m.d.comb += [
            change.base.eq(regions.base), states.push.eq(change.push), states.push_warp.eq(stage.warp),
            states.pushed.eq(change.pushed), states.push_tags.eq(stage.tags), regions.write_warp.eq(stage.warp),
            regions.launch.eq(begins & step.launch), regions.move.eq(begins & step.move),
            regions.configuration.eq(stage.configuration), regions.mode.eq(begins & step.mode & ~step.prior),
            # A SET_MODE to the trap handler if its frame has room has 2 in its operand, too.
            regions.enters.eq(stage.token.pc[0] & ~step.leave
                              & ~(stage.token.pc[1] & (self.entry != WarpError.NONE))),
            self.entry.eq(Mux(change.missing, WarpError.MMU_FAULT,
                              Mux(stage.limited, WarpError.STACK_OVERFLOW, WarpError.NONE))),
            self.holes.eq(~stage.places), self.pushed.valid.eq(change.stored), self.pushed.payload.warp.eq(stage.warp),
            self.pushed.payload.kind.eq(stage.token.kind)]

        # The tokens on chip: an unwind reads before a line that leaves, a push writes before one that has come.
        pushes = change.valid & ~step.single
        m.d.comb += [
            tokens.read.eq(Mux(follows, Cat(change.place, stage.warp),
                               Mux(access.reads, Cat(access.place, access.warp), lines.place))),
            lines.read_free.eq(~follows & ~access.reads), lines.token.eq(tokens.token), lines.write_free.eq(~pushes),
            tokens.write.eq(change.stored | (lines.writes & ~pushes)),
            tokens.place.eq(Mux(pushes, Cat(change.pushed.last[:4], stage.warp),
                                Cat(lines.install_place, engine.install_slot, engine.warp))),
            tokens.written.eq(Mux(pushes, stage.token.as_value(), lines.written.as_value()))]

        # Judge.
        token: Any = judge.token
        seen = change.judge.seen
        known = read(codes, stage.warp)
        assigns = change.follows & step.frame & ((change.judge.place != TOKENS_PER_LINE - 1) | change.second)
        m.d.sync += [
            judge.valid.eq(change.valid), looked.eq(change.judge), token.eq(tokens.token),
            token.mask.eq(Mux(step.frame & (change.judge.place != 0) & ~change.second, tokens.token.pc,
                              tokens.token.mask)
                          & seen.replicate(32)),
            judge.codes.eq(Mux(assigns, judge.next_codes.as_value(), known.as_value())),
            judge.calls.eq(Mux(change.follows, judge.next_calls, stage.calls)), judge.masks.eq(judge.next_masks),
            judge.over.eq(judge.next_over)]
        m.d.comb += [judge.next_comes.eq(change.valid & change.follows),
                     judge.again_free.eq(~returning & ~engine.waking),
                     judge.origin.eq(read(origins, looked.warp))]
        engine_again = engine.again
        m.d.comb += engine.again_free.eq(~returning)
        with m.If(judge.again | engine_again.valid):
            m.d.sync += [returning.eq(1), returns.warp.eq(Mux(engine_again.valid, engine_again.payload.warp,
                                                              looked.warp)),
                         returns.fault.eq(engine_again.valid & engine_again.payload.fault),
                         returns.parking.eq(Mux(engine_again.valid, engine_again.payload.parking, Parking.WALK))]
        with m.Elif(access.again_taken):
            m.d.sync += returning.eq(0)

        # Commit, and beside it the answer.
        left: Any = commit.stage
        m.d.sync += [
            self.result_valid.eq(judge.answered), self.result.eq(judge.answer), left.eq(judge.commit),
            self.committed.valid.eq(left.write & left.done), self.committed.payload.warp.eq(left.warp),
            self.committed.payload.last.eq(commit.state.last)]
        m.d.comb += [
            states.commit.eq(left.write), states.commit_warp.eq(left.warp), states.committed.eq(commit.state),
            states.commit_tags.eq(left.tags), engine.park.eq(commit.parks), engine.park_warp.eq(left.warp),
            engine.parking.eq(commit.parking)]

        # Beside the pipeline, what moves between cache and memory.
        stirred, lowered, lately = Signal(), Signal(), Signal(params.warp_bits)
        m.d.sync += [stirred.eq(commit.stirs), lowered.eq(commit.lowers), lately.eq(left.warp)]
        begins_line = pushes & (change.judge.place == TOKENS_PER_LINE - 1) & (stage.warp == engine.warp)
        connect(m, lines.port, flipped(self.port))
        connect(m, engine.job, lines.job)
        connect(m, lines.acknowledged, engine.acknowledged)
        connect(m, lines.acknowledged, flags.acknowledged)
        connect(m, lines.spilled, flags.spilled)
        connect(m, lines.write_fault, flipped(self.write_fault))
        m.d.comb += [
            engine.hints.eq(flags.hints), engine.urgent.eq(flags.urgent), engine.parked.eq(flags.parked),
            engine.stale.eq(flags.stale),
            engine.stirred.eq(stirred & (lately == engine.warp)), engine.lowered.eq(lowered & (lately == engine.warp)),
            engine.left_warp.eq(left.warp),
            commit.below.eq(engine.left_below), commit.cleaned.eq(engine.left_cleaned),
            states.other_warp.eq(engine.warp), engine.state.eq(states.other),
            regions.other_warp.eq(engine.warp), engine.region.eq(regions.region),
            engine.memory.eq(regions.other_memory),
            engine.job_free.eq(lines.job_free), engine.spilling.eq(lines.leaves),
            engine.spilling_warp.eq(lines.leaves_warp),
            engine.clean.eq(lines.clean), engine.clean_warp.eq(lines.last_warp), engine.cleaned_count.eq(lines.cleaned),
            engine.arrived.eq(lines.arrived), engine.arrived_warp.eq(lines.arrived_warp),
            engine.arrived_error.eq(lines.arrived_error), lines.consumed.eq(engine.consumed),
            lines.install.eq(engine.install), engine.installed.eq(lines.installed),
            engine.disturbed.eq(begins_line), lines.disturbed.eq(begins_line), lines.lowered.eq(lowered),
            lines.left_warp.eq(lately),
            flags.change.warp.eq(stage.warp), flags.changes.eq(change.valid),
            flags.change.begins.eq(begins & step.single),
            flags.change.fills.eq(change.fills), flags.change.drops.eq(change.drops),
            flags.change.spills.eq(change.spills),
            flags.commit.warp.eq(left.warp), flags.commit.done.eq(commit.done), flags.commit.parks.eq(commit.parks),
            flags.commit.write.eq(left.write), flags.commit.forget.eq(left.forget),
            flags.commit.lacks.eq(commit.lacks), flags.engine.eq(engine.flags),
            self.ready.eq(flags.ready)]

        # Events, and what the stages promise each other.
        waits = self.request.valid & ~self.request.ready
        m.d.comb += [
            self.events.push.eq(change.stored), self.events.hit.eq(judge.hit), self.events.miss.eq(judge.miss),
            self.events.spill.eq(lines.spill), self.events.fill.eq(lines.fill),
            self.events.full.eq(waits & access.pushes & flags.full.bit_select(request.warp, 1)
                                & ~flags.busy.bit_select(request.warp, 1)),
            self.events.taken.eq(waits & (returning | follows))]
        m.d.sync += [
            Assert(~begins | ((stage.lines <= CACHED_LINES) & (stage.dirty <= stage.lines)),
                   "more lines than there are"),
            Assert(~(states.push & states.commit & (stage.warp == left.warp)), "a push of a warp that is busy"),
            Assert(~left.done | flags.busy.bit_select(left.warp, 1), "a result that nobody waits for"),
            Assert(~(engine_again.valid & judge.again), "two operations come back at once"),
            Assert(~(change.stored & flags.busy.bit_select(stage.warp, 1)), "a push of a warp that is busy")]
        return m
