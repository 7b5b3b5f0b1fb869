"""The call/return stack, joined."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.arbiter import RoundRobin
from rtl.isa.tokens import TOKENS_PER_LINE
from rtl.layouts import (
    DEPTH_BITS,
    MemoryPort,
    StackConfiguration,
    StackEvents,
    StackPointer,
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
from .setting import PointerSetting
from .stages import commit_stage, match_stage, select_stage
from .window import WindowState
from .windows import StackWindows

__all__ = ["CallReturnStack"]


class _Unwind(data.Struct):
    """What is kept of a warp's unwind while it walks."""

    origin: unsigned(DEPTH_BITS)
    quad: unsigned(1)


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
    commit_valid, commit_warp, committed : Out(1), Out, Out(StackPointer)
        A pointer after an unwind or SET_POINTER, one cycle behind the result.
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
            "commit_valid": Out(1), "commit_warp": Out(bits), "committed": Out(StackPointer),
            "write_fault": Out(1), "write_fault_warp": Out(bits), "events": Out(StackEvents),
            "port": Out(MemoryPort(bits))})
        self.pointers = StackPointers(params)
        self.lines = LineMemory(params)
        self.windows = StackWindows(params)
        self.access = StackAccess(params)

    def elaborate(self, platform: object) -> Module:
        params = self._params
        m = Module()
        m.submodules.pointers = pointers = self.pointers
        m.submodules.lines = lines = self.lines
        m.submodules.windows = windows = self.windows
        m.submodules.limits = limits = DepthLimits(params)
        m.submodules.access = access = self.access
        m.submodules.setting = setting = PointerSetting()
        m.submodules.match = match = TokenMatch()
        m.submodules.select = select = TokenSelect(params)
        m.submodules.commit = commit = StackCommit(params)
        m.submodules.mover = mover = LineMover(params)
        m.submodules.asked = asked = LineRequest(params)
        m.submodules.turns = turns = RoundRobin(params.warps)
        m.submodules.codes = codes = memory.Memory(shape=ThreadCodes, depth=params.warps, init=[])
        m.submodules.unwinds = unwinds = memory.Memory(shape=_Unwind, depth=params.warps, init=[])

        matching, matching_valid = Signal(match_stage(params)), Signal()
        selecting, selecting_valid = Signal(select_stage(params)), Signal()
        committing, committing_valid = Signal(commit_stage(params)), Signal()

        # Access. Who: a warp whose own step is due, the request, or the walk that is one stage ahead.
        connect(m, flipped(self.request), access.request)
        wants_turn = Cat(view.wants_turn for view in windows.views)
        outpaced = select.resolved & (selecting.warp == matching.warp)
        m.d.comb += [
            turns.requests.eq(wants_turn),
            access.turn.eq(turns.valid & wants_turn.bit_select(turns.chosen, 1)), access.turn_warp.eq(turns.chosen),
            access.follow.eq(matching_valid & matching.step.walk & matching.step.more & ~outpaced),
            access.follow_warp.eq(matching.warp), access.follow_seen.eq(matching.step.seen + 1),
            access.busy.eq(committing_valid & commit.write), access.busy_warp.eq(committing.warp)]
        # What is known of that warp.
        window, view, trap = windows.views[access.warp], access.view, self.request.payload.trap
        unwind, origin = unwinds.read_port(domain="comb"), unwinds.read_port(domain="comb")
        m.d.comb += [
            pointers.warp.eq(access.warp), access.pointer.eq(pointers.pointer), self.killed.eq(pointers.pointer.kill),
            limits.warp.eq(access.warp), limits.pointer.eq(pointers.pointer), limits.trap.eq(trap),
            unwind.addr.eq(access.warp), asked.launch_warp.eq(access.warp), access.sized.eq(self.configuration.size != 0),
            view.cached.eq(window.cached), view.seen.eq(window.seen), view.pushable.eq(window.pushable),
            view.faulty.eq(window.faulty), view.idle.eq(window.state == WindowState.IDLE),
            view.writing_back.eq(window.state == WindowState.WRITE_BACK),
            view.has_memory.eq(limits.has_memory), view.full.eq(limits.full), view.nearly_full.eq(limits.nearly_full),
            view.calls_full.eq(limits.calls_full), view.quad.eq(unwind.data.quad), view.base.eq(asked.base)]
        # What is written at once, so that the next cycle sees it.
        events, begin, code = access.events, unwinds.write_port(), codes.write_port()
        m.d.comb += [
            pointers.push.eq(access.change), pointers.pushed.eq(access.changed),
            begin.en.eq(access.step.walk & access.step.begins), begin.addr.eq(access.warp),
            begin.data.origin.eq(pointers.pointer.depth), begin.data.quad.eq(access.step.quad),
            code.en.eq(access.accepted), code.addr.eq(access.warp), code.data.eq(self.request.payload.codes),
            windows.access_warp.eq(access.warp), windows.access.eq(events),
            limits.launch.eq(events.launch), limits.configuration.eq(self.configuration),
            asked.launch.eq(events.launch), asked.set_base.eq(access.set_base),
            asked.configuration.eq(self.configuration),
            self.ready.eq(windows.ready)]

        # Match: the line's tokens against the threads' codes.
        m.d.sync += [
            matching_valid.eq(access.valid), matching.warp.eq(access.warp), matching.step.eq(access.step),
            matching.error.eq(access.error), matching.pointer.eq(pointers.pointer), matching.top.eq(access.top),
            matching.value.eq(access.value), matching.limit.eq(limits.steps), matching.line.eq(lines.line),
            matching.valid.eq(access.tokens)]
        known = codes.read_port(domain="comb")
        m.d.comb += [
            known.addr.eq(matching.warp), match.line.eq(matching.line), match.valid.eq(matching.valid),
            match.codes.eq(known.data), match.quad.eq(matching.step.quad),
            setting.value.eq(matching.value), setting.steps.eq(matching.limit)]
        pcs, kinds = [token.pc for token in matching.line], [token.kind for token in matching.line]
        m.d.sync += [
            selecting_valid.eq(matching_valid & ~(outpaced & matching.step.walk)), selecting.warp.eq(matching.warp),
            selecting.step.eq(matching.step), selecting.error.eq(matching.error), selecting.value.eq(matching.value),
            selecting.number.eq(matching.top - matching.step.seen), selecting.codes.eq(known.data),
            selecting.pointer.eq(Mux(matching.step.set, setting.pointer.as_value(), matching.pointer.as_value())),
            selecting.verdicts.eq(match.verdicts), selecting.revived.eq(match.revived),
            selecting.returned.eq(match.returned), selecting.stuck.eq(match.stuck),
            *(kept.eq(pc) for kept, pc in zip(selecting.pcs, pcs, strict=True)),
            *(kept.eq(kind) for kept, kind in zip(selecting.kinds, kinds, strict=True))]

        # Select: the topmost token that stops the unwind; the result.
        m.d.comb += [
            select.valid.eq(selecting_valid), select.stage.eq(selecting),
            select.next_under_way.eq(matching_valid & matching.step.walk & (matching.warp == selecting.warp)),
            self.result_valid.eq(select.result_valid), self.result.eq(select.result)]
        m.d.sync += [committing_valid.eq(select.commit_valid), committing.eq(select.commit)]

        # Commit.
        m.d.comb += [
            commit.valid.eq(committing_valid), commit.stage.eq(committing),
            origin.addr.eq(committing.warp), commit.origin.eq(origin.data.origin),
            pointers.commit.eq(commit.write), pointers.commit_warp.eq(committing.warp),
            pointers.committed.eq(commit.written),
            windows.commit_warp.eq(committing.warp), windows.commit.eq(commit.events),
            self.commit_valid.eq(commit.write), self.commit_warp.eq(committing.warp),
            self.committed.eq(commit.written)]

        # Beside the pipeline, lines move between the cache and memory.
        connect(m, asked.request, flipped(self.port.request))
        connect(m, flipped(self.port.response), mover.response)
        written = [Mux(mover.install, installed.as_value(), access.token.as_value()) for installed in mover.installed]
        m.d.comb += [
            mover.windows.eq(windows.views), pointers.aside_warp.eq(mover.warp), mover.depth.eq(pointers.aside_depth),
            mover.read_free.eq(~access.reads), mover.write_free.eq(~access.may_push), mover.request_free.eq(asked.free),
            lines.read_warp.eq(Mux(access.reads, access.warp, mover.warp)),
            lines.read_slot.eq(Mux(access.reads, access.slot, mover.slot)),
            lines.write_warp.eq(Mux(mover.install, mover.warp, access.warp)),
            lines.write_slot.eq(Mux(mover.install, mover.slot, access.push_slot)),
            lines.write_tokens.eq(access.push_token | mover.install.replicate(TOKENS_PER_LINE)),
            *(line.eq(token) for line, token in zip(lines.write_line, written, strict=True)),
            windows.mover_warp.eq(mover.warp), windows.mover.eq(mover.events),
            windows.written_warp.eq(mover.written_warp), windows.written.eq(mover.written),
            self.write_fault.eq(mover.write_fault), self.write_fault_warp.eq(mover.written_warp),
            asked.take.eq(mover.events.spilled | mover.events.requested), asked.write.eq(mover.events.spilled),
            asked.warp.eq(mover.warp), asked.number.eq(mover.number), asked.valid.eq(mover.valid),
            asked.line.eq(lines.line)]

        m.d.comb += [
            self.events.push.eq(events.push), self.events.spill.eq(mover.events.spilled),
            self.events.fill.eq(mover.events.filled), self.events.full.eq(access.waits_for_line),
            self.events.taken.eq(access.waits_for_turn),
            self.events.hit.eq(select.resolved & selecting.step.there),
            self.events.miss.eq(selecting_valid & selecting.step.walk & ~select.resolved & ~selecting.step.more)]
        return m
