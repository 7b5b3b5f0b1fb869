"""The call/return stack, joined."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.tokens import API_CALL_LIMIT, TOKENS_PER_LINE
from rtl.layouts import (
    DEPTH_BITS,
    MemoryPort,
    StackConfiguration,
    StackEvents,
    ThreadCodes,
    stack_request,
    stack_result,
)
from rtl.params import SmParams

from .access import StackAccess
from .answer import StackAnswer
from .cache import StackCache
from .commit import StackCommit
from .limits import DepthLimits
from .lines import TokensOfLine
from .match import TokenMatch, role_of
from .pointers import StackPointers
from .select import TokenSelect
from .setting import pointer_value, without_depth
from .stages import Unwind, apply_stage, commit_stage, error_of, match_stage, select_stage
from .turns import StackTurns
from .windows import StackWindows

__all__ = ["CallReturnStack"]


class CallReturnStack(Component):
    """The call/return stacks of all warps: 16 tokens of each on chip, the rest in memory.

    A warp has one operation at a time, except that pushes follow each other, and anything follows a push,
    from one cycle to the next. Warps take turns in any order, one request a cycle.

    Members
    -------
    request : In(stream of stack_request)
    configuration : In(StackConfiguration)
        Goes with a LAUNCH request; ``base`` of it with a SET_BASE request.
    killed : Out(1)
        The kill bit of the warp that requests.
    holes, entry : Out(2), Out(WarpError)
        How many tokens fill its topmost line; why it can't enter the trap handler, if it is in user mode.
    ready : Out(warps)
        Warps whose next request, of whatever kind, would not wait for their stack.
    result_valid, result : Out(1), Out(stack_result)
        Three cycles after the request, or later.
    commit_valid, commit_warp, commit_depth : Out(1), Out, Out(DEPTH_BITS)
        A depth that an unwind or SET_POINTER has left, one cycle behind the result.
    write_fault, write_fault_warp : Out(1), Out
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
            "killed": Out(1), "holes": Out(range(TOKENS_PER_LINE)), "entry": Out(WarpError), "ready": Out(params.warps),
            "result_valid": Out(1), "result": Out(stack_result(params)),
            "commit_valid": Out(1), "commit_warp": Out(bits), "commit_depth": Out(DEPTH_BITS),
            "write_fault": Out(1), "write_fault_warp": Out(bits), "events": Out(StackEvents),
            "port": Out(MemoryPort(bits))})
        self.pointers = StackPointers(params)
        self.windows = StackWindows(params)
        self.access = StackAccess(params)
        self.cache = StackCache(params)

    def elaborate(self, platform: object) -> Module:
        params, warps = self._params, self._params.warps
        m = Module()
        m.submodules.pointers = pointers = self.pointers
        m.submodules.windows = windows = self.windows
        m.submodules.access = access = self.access
        m.submodules.cache = cache = self.cache
        m.submodules.limits = limits = DepthLimits(params)
        m.submodules.match = match = TokenMatch()
        m.submodules.select = select = TokenSelect(params)
        m.submodules.commit = commit = StackCommit(params)
        m.submodules.turns = turns = StackTurns(params)
        m.submodules.codes = codes = memory.Memory(shape=ThreadCodes, depth=warps, init=[])
        m.submodules.unwinds = unwinds = memory.Memory(shape=Unwind, depth=warps, init=[])

        matching, matching_valid = Signal(match_stage(params)), Signal()
        selecting, selecting_valid = Signal(select_stage(params)), Signal()
        committing, committing_valid = Signal(commit_stage(params)), Signal()
        applying = Signal(apply_stage(params))
        view, request, step = access.view, self.request.payload, access.step

        # Access: a warp whose own step is due, the request, or the walk that is one stage ahead.
        connect(m, flipped(self.request), access.request)
        follow, ahead, followed = access.follow, matching.step, Signal()
        outpaced = select.resolved & (selecting.warp == matching.warp)
        m.d.sync += followed.eq(cache.granted)
        m.d.comb += [
            access.turn_valid.eq(turns.valid), access.turn.eq(turns.turn),
            access.follow_valid.eq(matching_valid & ahead.walk & ahead.cached[1] & followed),
            access.outpaced.eq(outpaced), follow.warp.eq(matching.warp), follow.top.eq(matching.top),
            follow.slot.eq(matching.slot - 1), follow.tokens.eq(~0), follow.step.eq(ahead), follow.step.begins.eq(0),
            follow.step.seen.eq(ahead.seen + 1), follow.step.cached.eq(ahead.cached >> 1)]
        # What is known of its warp.
        turning, begin = unwinds.read_port(domain="comb"), unwinds.write_port()
        m.d.comb += [
            turns.windows.eq(windows.views), turns.hold.eq(cache.restore), turns.seen.eq(commit.progress.seen),
            turning.addr.eq(turns.warp), turns.quad.eq(turning.data.quad), turns.frame.eq(turning.data.frame),
            commit.warp.eq(turns.warp),
            pointers.warp.eq(request.warp), limits.warp.eq(request.warp),
            view.window.eq(windows.views[request.warp]), view.calls_full.eq(pointers.calls_full),
            view.pointer.eq(pointers.pointer), view.checks_calls.eq(limits.checks_calls),
            view.has_memory.eq(limits.has_memory), view.base.eq(cache.base),
            access.sized.eq(self.configuration.size != 0), access.installing.eq(cache.busy),
            self.killed.eq(pointers.pointer.kill), self.ready.eq(windows.ready)]
        # What is written at once, so that the next cycle sees it.
        code, known = codes.write_port(), codes.read_port(domain="comb")
        m.d.comb += [
            pointers.push.eq(access.change), pointers.pushed.eq(access.changed),
            windows.access_warp.eq(request.warp), windows.access.eq(access.events),
            windows.turn.eq(turns.valid), windows.turn_warp.eq(turns.turn.warp),
            begin.en.eq(access.accepted & step.walk & step.begins), begin.addr.eq(request.warp),
            begin.data.origin.eq(Cat(view.window.last, view.pointer.high)), begin.data.quad.eq(step.quad),
            begin.data.frame.eq(step.frame),
            code.en.eq(access.accepted), code.addr.eq(request.warp), code.data.eq(request.codes),
            known.addr.eq(Mux(turns.valid, turns.turn.warp, matching.warp)),
            limits.launch.eq(access.launch), limits.size.eq(self.configuration.size),
            limits.check_calls.eq(self.configuration.check_calls), limits.set_mode.eq(access.set_mode),
            limits.trap.eq(access.trap)]

        # A trap frame is a line of its own. The reserved entries have room for it, unless they are in use already;
        # the limit is a multiple of 16 tokens.
        top = view.window.last
        full = Mux(view.window.has_memory, view.window.reached, view.window.near) & top[2:].all()
        missing = (self.holes != 0) & ~view.window.cached[0]
        m.d.comb += [
            self.holes.eq(~top[:2]),
            self.entry.eq(Mux(missing, WarpError.MMU_FAULT, Mux(full, WarpError.STACK_OVERFLOW, WarpError.NONE)))]

        # Match: the line's tokens against the threads' codes.
        matched: Any = Signal(TokensOfLine)
        m.d.comb += matched.eq(Mux(step.begins, cache.top.as_value(), cache.line.as_value()))
        m.d.sync += [
            matching_valid.eq(access.valid), matching.warp.eq(access.warp), matching.step.eq(step),
            matching.refusal.eq(access.refusal), matching.pointer.eq(access.changed), matching.top.eq(access.top),
            matching.value.eq(access.value), matching.slot.eq(access.slot), matching.valid.eq(access.tokens),
            matching.line.eq(matched),
            matching.codes.eq(Mux(step.begins, request.codes.as_value(), known.data.as_value())),
            Cat(matching.roles).eq(Cat(role_of(token.kind) for token in matched))]
        m.d.comb += [
            pointers.counted.eq(matching_valid & ahead.counts & (matching.pointer.calls >= API_CALL_LIMIT)),
            pointers.counted_warp.eq(matching.warp), limits.clamp_warp.eq(matching.warp),
            match.line.eq(matching.line), match.roles.eq(matching.roles), match.valid.eq(matching.valid),
            match.codes.eq(matching.codes), match.quad.eq(ahead.quad), match.frame.eq(ahead.frame)]

        # Select: the topmost token that stops the unwind.
        m.d.sync += [
            selecting_valid.eq(matching_valid & ~(outpaced & ahead.walk)), selecting.warp.eq(matching.warp),
            selecting.step.eq(ahead), selecting.error.eq(error_of(matching.refusal)), selecting.top.eq(matching.top),
            selecting.value.eq(Mux(ahead.get, pointer_value(matching.top, matching.pointer),
                                   without_depth(matching.value, matching.refusal.region))),
            selecting.codes.eq(Mux(ahead.frame, match.saved.as_value(), matching.codes.as_value())),
            selecting.steps.eq(limits.steps),
            selecting.verdicts.eq(match.verdicts), selecting.revived.eq(match.revived),
            selecting.returned.eq(match.returned), selecting.stuck.eq(match.stuck),
            selecting.pcs.eq(Cat(token.pc for token in matching.line)),
            selecting.kinds.eq(Cat(token.kind for token in matching.line))]
        m.d.comb += [
            select.valid.eq(selecting_valid), select.stage.eq(selecting),
            pointers.select_warp.eq(selecting.warp), select.pointer.eq(pointers.selected),
            select.next_under_way.eq(matching_valid & ahead.walk & (matching.warp == selecting.warp))]

        # The answer.
        m.submodules.answer = answer = StackAnswer(params)
        m.d.sync += [self.result_valid.eq(select.answered), answer.stage.eq(select.answer)]
        m.d.comb += self.result.eq(answer.result)

        # Beside it, commit: what that makes of pointer and window; and, a cycle later, the change.
        origin = unwinds.read_port(domain="comb")
        m.d.sync += [committing_valid.eq(selecting_valid), committing.eq(select.commit), applying.eq(commit.apply)]
        m.d.comb += [
            commit.valid.eq(committing_valid), commit.stage.eq(committing), origin.addr.eq(committing.warp),
            commit.unwind.eq(origin.data), commit.window.eq(windows.views[committing.warp]),
            pointers.commit.eq(applying.write), pointers.commit_warp.eq(applying.warp),
            pointers.committed.eq(applying.pointer), limits.check_warp.eq(committing.warp),
            limits.high.eq(applying.pointer.high), limits.calls.eq(applying.pointer.calls),
            pointers.check.eq(applying.check_calls), pointers.check_warp.eq(applying.warp),
            pointers.checked_full.eq(limits.calls_full), windows.check_warp.eq(applying.warp),
            windows.commit_warp.eq(applying.warp), windows.commit.eq(applying.events),
            windows.check.eq(applying.check), windows.flags.eq(limits.flags),
            self.commit_valid.eq(applying.write), self.commit_warp.eq(applying.warp),
            self.commit_depth.eq(Cat(applying.events.last, applying.pointer.high) + 1)]

        # Beside the pipeline, the lines. Nothing moves while a step changes its warp's window.
        m.d.sync += cache.held.eq(((selecting_valid & selecting.step.ends) << selecting.warp)
                                  | ((committing_valid & committing.step.ends) << committing.warp))
        connect(m, cache.port, flipped(self.port))
        m.d.comb += [
            cache.top_warp.eq(request.warp), cache.restore.eq(commit.read),
            cache.restore_place.warp.eq(committing.warp),
            cache.restore_place.slot.eq(commit.slot), cache.restored.eq(applying.restores & applying.events.top),
            cache.restored_warp.eq(applying.warp), cache.pushing.eq(access.wants_push),
            cache.accessed.eq(turns.valid | self.request.valid), cache.accessed_warp.eq(access.warp),
            windows.delayed.eq(cache.delayed), windows.copied.eq(cache.copied),
            windows.copied_warp.eq(cache.copied_warp), cache.look.eq(turns.look), cache.look_place.warp.eq(turns.warp),
            cache.look_place.slot.eq(turns.slot), cache.ahead.eq(access.reads),
            cache.ahead_place.warp.eq(access.warp),
            cache.ahead_place.slot.eq(access.below), cache.door.eq(access.wants_push & self.request.ready),
            cache.push_warp.eq(request.warp), cache.push_slot.eq(access.push_slot),
            cache.push_tokens.eq(access.push_tokens), cache.token.eq(access.token),
            cache.launch.eq(access.launch), cache.set_base.eq(access.set_base), cache.warp.eq(request.warp),
            cache.configuration.eq(self.configuration), cache.windows.eq(windows.views),
            pointers.aside_warp.eq(cache.high_warp), cache.high.eq(pointers.aside_high),
            windows.mover_warp.eq(cache.mover_warp), windows.mover.eq(cache.mover),
            self.write_fault.eq(cache.write_fault), self.write_fault_warp.eq(cache.write_fault_warp)]

        walks = selecting_valid & selecting.step.walk
        m.d.comb += [
            self.events.push.eq(access.push_tokens.any()), self.events.spill.eq(cache.spill),
            self.events.fill.eq(cache.fill),
            self.events.full.eq(access.waits_for_line), self.events.taken.eq(access.waits_for_turn),
            self.events.hit.eq(walks & select.resolved & selecting.step.cached[0]),
            self.events.miss.eq(walks & ~select.resolved & ~selecting.step.cached[1])]
        return m
