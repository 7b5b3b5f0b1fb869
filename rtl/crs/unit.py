"""The call/return stack, joined."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

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
from .commit import StackCommit
from .limits import DepthLimits
from .lines import LineMemory
from .match import TokenMatch
from .mover import LineMover
from .pointers import StackPointers
from .request import LineRequest
from .select import TokenSelect
from .stages import Unwind, check_stage, commit_stage, match_stage, select_stage
from .turns import StackTurns
from .windows import StackWindows

__all__ = ["CallReturnStack"]


class CallReturnStack(wiring.Component):
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
    ready : Out(warps)
        Warps whose next request, of whatever kind, would not wait for their stack.
    result_valid, result : Out(1), Out(stack_result)
        Two cycles after the request, or later.
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
            "killed": Out(1), "ready": Out(params.warps),
            "result_valid": Out(1), "result": Out(stack_result(params)),
            "commit_valid": Out(1), "commit_warp": Out(bits), "commit_depth": Out(DEPTH_BITS),
            "write_fault": Out(1), "write_fault_warp": Out(bits), "events": Out(StackEvents),
            "port": Out(MemoryPort(bits))})
        self.pointers = StackPointers(params)
        self.lines = LineMemory(params)
        self.windows = StackWindows(params)
        self.access = StackAccess(params)

    def elaborate(self, platform: object) -> Module:
        params, warps = self._params, self._params.warps
        m = Module()
        m.submodules.pointers = pointers = self.pointers
        m.submodules.lines = lines = self.lines
        m.submodules.windows = windows = self.windows
        m.submodules.access = access = self.access
        m.submodules.limits = limits = DepthLimits(params)
        m.submodules.match = match = TokenMatch()
        m.submodules.select = select = TokenSelect(params)
        m.submodules.commit = commit = StackCommit(params)
        m.submodules.mover = mover = LineMover(params)
        m.submodules.asked = asked = LineRequest(params)
        m.submodules.turns = turns = StackTurns(params)
        m.submodules.codes = codes = memory.Memory(shape=ThreadCodes, depth=warps, init=[])
        m.submodules.unwinds = unwinds = memory.Memory(shape=Unwind, depth=warps, init=[])

        matching, matching_valid = Signal(match_stage(params)), Signal()
        selecting, selecting_valid = Signal(select_stage(params)), Signal()
        committing, committing_valid = Signal(commit_stage(params)), Signal()
        checking, checking_valid = Signal(check_stage(params)), Signal()
        waiting = Signal()
        view, request = access.view, self.request.payload

        # Access: a warp whose own step is due, the request, or the walk that is one stage ahead.
        connect(m, flipped(self.request), access.request)
        follow, ahead = access.follow, matching.step
        outpaced = select.resolved & (selecting.warp == matching.warp)
        turning, begin = unwinds.read_port(domain="comb"), unwinds.write_port()
        m.d.comb += [
            turns.windows.eq(windows.views), turning.addr.eq(turns.warp), turns.quad.eq(turning.data.quad),
            commit.warp.eq(turns.warp), turns.seen.eq(commit.progress.seen),
            access.turn_valid.eq(turns.valid), access.turn.eq(turns.turn),
            access.follow_valid.eq(matching_valid & ahead.walk & ahead.cached[1]), access.outpaced.eq(outpaced),
            follow.warp.eq(matching.warp), follow.top.eq(matching.top), follow.slot.eq(matching.slot - 1),
            follow.tokens.eq(~0), follow.step.eq(ahead), follow.step.begins.eq(0),
            follow.step.seen.eq(ahead.seen + 1), follow.step.cached.eq(ahead.cached >> 1),
            pointers.request_warp.eq(request.warp), pointers.warp.eq(access.warp), limits.warp.eq(access.warp),
            asked.launch_warp.eq(access.warp), access.sized.eq(self.configuration.size != 0),
            view.window.eq(windows.views[request.warp]), view.calls_full.eq(pointers.calls_full),
            view.pointer.eq(pointers.pointer), view.checks_calls.eq(limits.checks_calls),
            view.has_memory.eq(limits.has_memory), view.base.eq(asked.base),
            self.killed.eq(pointers.pointer.kill), self.ready.eq(windows.ready)]
        # What is written at once, so that the next cycle sees it.
        code, known = codes.write_port(), codes.read_port(domain="comb")
        m.d.comb += [
            pointers.push.eq(access.change), pointers.pushed.eq(access.changed),
            begin.en.eq(access.step.walk & access.step.begins), begin.addr.eq(request.warp),
            begin.data.origin.eq(Cat(view.window.last, view.pointer.high)), begin.data.quad.eq(access.step.quad),
            code.en.eq(access.accepted), code.addr.eq(request.warp), code.data.eq(request.codes),
            known.addr.eq(Mux(turns.valid, turns.turn.warp, matching.warp)),
            windows.access_warp.eq(access.warp), windows.access.eq(access.events),
            limits.launch.eq(access.launch), limits.size.eq(self.configuration.size),
            limits.check_calls.eq(self.configuration.check_calls), limits.set_mode.eq(access.set_mode),
            limits.trap.eq(request.operand[0]), asked.launch.eq(access.launch), asked.set_base.eq(access.set_base),
            asked.configuration.eq(self.configuration)]

        # Match: the line's tokens against the threads' codes.
        m.d.sync += [
            matching_valid.eq(access.valid), matching.warp.eq(access.warp), matching.step.eq(access.step),
            matching.error.eq(access.error), matching.pointer.eq(access.changed), matching.top.eq(access.top),
            matching.value.eq(access.value), matching.slot.eq(access.slot), matching.line.eq(lines.line), matching.valid.eq(access.tokens)]
        m.d.sync += matching.codes.eq(Mux(access.step.begins, request.codes.as_value(), known.data.as_value()))
        m.d.comb += [
            pointers.counted.eq(matching_valid & matching.step.counts & (matching.pointer.calls >= API_CALL_LIMIT)),
            pointers.counted_warp.eq(matching.warp), match.line.eq(matching.line), match.valid.eq(matching.valid),
            match.codes.eq(matching.codes), match.quad.eq(matching.step.quad),
            limits.clamp_warp.eq(matching.warp)]
        m.d.sync += [
            selecting_valid.eq(matching_valid & ~(outpaced & matching.step.walk)), selecting.warp.eq(matching.warp),
            selecting.step.eq(matching.step), selecting.error.eq(matching.error), selecting.value.eq(matching.value),
            selecting.number.eq(matching.top - matching.step.seen), selecting.codes.eq(matching.codes),
            selecting.pointer.eq(matching.pointer), selecting.steps.eq(limits.steps),
            selecting.verdicts.eq(match.verdicts),
            selecting.revived.eq(match.revived), selecting.returned.eq(match.returned), selecting.stuck.eq(match.stuck),
            selecting.pcs.eq(Cat(token.pc for token in matching.line)),
            selecting.kinds.eq(Cat(token.kind for token in matching.line))]

        # Select: the topmost token that stops the unwind; the result.
        m.d.comb += [
            select.valid.eq(selecting_valid), select.stage.eq(selecting),
            select.next_under_way.eq(matching_valid & matching.step.walk & (matching.warp == selecting.warp)),
            self.result_valid.eq(select.result_valid), self.result.eq(select.result)]
        m.d.sync += [committing_valid.eq(selecting_valid), committing.eq(select.commit)]


        # Commit.
        origin = unwinds.read_port(domain="comb")
        m.d.comb += [
            commit.valid.eq(committing_valid), commit.stage.eq(committing), origin.addr.eq(committing.warp),
            commit.unwind.eq(origin.data), commit.window.eq(windows.views[committing.warp]),
            pointers.commit.eq(commit.write), pointers.commit_warp.eq(committing.warp),
            pointers.committed.eq(commit.written),
            windows.commit_warp.eq(committing.warp), windows.commit.eq(commit.events),
            self.commit_valid.eq(commit.write), self.commit_warp.eq(committing.warp),
            self.commit_depth.eq(Cat(commit.events.last, commit.written.high) + 1)]

        # Check the new pointer against the limits.
        m.d.sync += [checking_valid.eq(commit.check), checking.warp.eq(committing.warp),
                     checking.high.eq(commit.written.high), checking.calls.eq(commit.written.calls),
                     checking.pushed.eq(committing.step.wraps)]
        m.d.comb += [
            limits.check_warp.eq(checking.warp), limits.high.eq(checking.high), limits.calls.eq(checking.calls),
            windows.check.eq(checking_valid), windows.check_warp.eq(checking.warp), windows.flags.eq(limits.flags),
            pointers.check.eq(checking_valid & ~checking.pushed), pointers.check_warp.eq(checking.warp),
            pointers.checked_full.eq(limits.calls_full)]

        # Beside the pipeline, lines move between the cache and memory.
        connect(m, asked.request, flipped(self.port.request))
        connect(m, flipped(self.port.response), mover.response)
        # A line that came is written in a cycle of its own, best while no push is at the door.
        installing = Signal()
        m.d.sync += [waiting.eq(self.request.valid & ~self.request.ready),
                     installing.eq(mover.arrived & ~installing & (waiting | ~access.wants_push))]
        written = [Mux(installing, installed.as_value(), access.token.as_value()) for installed in mover.installed]
        m.d.comb += [
            mover.windows.eq(windows.views), pointers.aside_warp.eq(mover.warp), mover.high.eq(pointers.aside_high),
            mover.held.eq(committing_valid & committing.step.ends), mover.held_warp.eq(committing.warp),
            mover.read_free.eq(~access.reads), mover.write_free.eq(installing), access.installing.eq(installing),
            mover.request_free.eq(asked.free),
            lines.read_warp.eq(Mux(access.reads, access.warp, mover.turn_warp)),
            lines.read_slot.eq(Mux(access.reads, access.slot, mover.slot)),
            lines.write_warp.eq(Mux(installing, mover.install_warp, request.warp)),
            lines.write_slot.eq(Mux(installing, mover.install_slot, access.push_slot)),
            lines.write_tokens.eq(access.push_tokens | mover.install.replicate(TOKENS_PER_LINE)),
            lines.write_line.eq(Cat(written)),
            windows.mover_warp.eq(mover.warp), windows.mover.eq(mover.events),
            asked.take.eq(mover.send | mover.ask), asked.write.eq(mover.send), asked.warp.eq(mover.warp),
            asked.number.eq(mover.number), asked.valid.eq(mover.valid), asked.line.eq(lines.line),
            self.write_fault.eq(mover.write_fault), self.write_fault_warp.eq(mover.write_fault_warp)]

        walks = selecting_valid & selecting.step.walk
        m.d.comb += [
            self.events.push.eq(access.events.push), self.events.spill.eq(mover.send), self.events.fill.eq(mover.ask),
            self.events.full.eq(access.waits_for_line), self.events.taken.eq(access.waits_for_turn),
            self.events.hit.eq(walks & select.resolved & selecting.step.cached[0]),
            self.events.miss.eq(walks & ~select.resolved & ~selecting.step.cached[1])]
        return m
