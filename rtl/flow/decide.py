"""The second stage: what an instruction does to the warp, and what it wants of the stack."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import FlowOperation, StackOperation, StackPort, ThreadCode
from rtl.params import SmParams

from .entry import TrapEntry
from .stages import decide_stage, outcome_stage

__all__ = ["FlowDecision"]

_ASKED = {
    FlowOperation.BRANCH: StackOperation.PUSH, FlowOperation.CALL: StackOperation.PUSH,
    FlowOperation.PUSH: StackOperation.PUSH, FlowOperation.LEAVE: StackOperation.UNWIND,
    FlowOperation.PUSH_QUAD: StackOperation.PUSH, FlowOperation.POP_QUAD: StackOperation.POP_QUAD,
    FlowOperation.GET_POINTER: StackOperation.GET_POINTER, FlowOperation.SET_POINTER: StackOperation.SET_POINTER,
    FlowOperation.GET_BASE: StackOperation.GET_BASE, FlowOperation.SET_BASE: StackOperation.SET_BASE,
    FlowOperation.WRITE_BACK: StackOperation.WRITE_BACK, FlowOperation.LAUNCH: StackOperation.LAUNCH,
    FlowOperation.LEAVE_TRAP: StackOperation.SET_MODE, FlowOperation.RESTORE: StackOperation.RESTORE,
    FlowOperation.TERMINATE: StackOperation.CLEAR}
"""What each asks of the stack. ENTER_TRAP asks several things."""
_COUNTED = {FlowOperation.CALL: StackOperation.CALL, FlowOperation.PUSH: StackOperation.PREPARE_CALL}
"""The same of those whose token counts as a call."""


class FlowDecision(Component):
    """Every instruction asks the stack, if only for nothing, so that results keep the order of the stack's.

    An indexed branch that leaves threads at the next instruction and others at itself pushes two tokens, in three
    cycles. The stack takes the first only if there is room for both, so that the first tells what becomes of it. What
    entering the trap handler asks of it takes some more; see :class:`TrapEntry`.

    Members
    -------
    gathered : In(stream of decide_stage)
    stack : Out(StackPort)
        Its results are the next stage's.
    decided, outcome : Out(1), Out(outcome_stage)
        The request that the stack takes in this cycle comes to this.
    waits : Out(1)
        It may take the stack more steps than usual.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "gathered": In(stream.Signature(decide_stage(params))), "stack": Out(StackPort(params)),
            "decided": Out(1), "outcome": Out(outcome_stage(params)), "waits": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.entry = entry = TrapEntry()
        stage, request, taken = self.gathered.payload, self.stack.request.payload, self.decided
        branches, calls, enters = (self._does(each) for each in (
            FlowOperation.BRANCH, FlowOperation.CALL, FlowOperation.ENTER_TRAP))

        # Two pushes of one instruction: those that stay are below, those that branch later on top. A cycle after the
        # first the stack tells whether it was done; a second follows then.
        pair, second, telling, pushed = stage.stay & stage.others, Signal(), Signal(), Signal()
        m.d.comb += [
            self.stack.request.valid.eq(self.gathered.valid & ~telling), self.stack.configuration.eq(stage.stack),
            taken.eq(self.stack.request.valid & self.stack.request.ready),
            self.gathered.ready.eq(~self.gathered.valid | taken & Mux(enters, entry.last, second | ~pair)),
            entry.enters.eq(enters), entry.taken.eq(taken), entry.codes.eq(stage.codes),
            entry.target_error.eq(stage.target_error), entry.holes.eq(self.stack.holes),
            entry.refusal.eq(self.stack.entry)]
        m.d.sync += telling.eq(taken & pair & ~second)
        with m.If(taken):
            m.d.sync += second.eq(pair & ~second)
        with m.If(telling):
            m.d.sync += pushed.eq(self.stack.pushed)

        # The token: the threads that branch later come back to the branch, others go on behind it, or at the target.
        later = second | ~stage.stay
        own, behind = branches & later | entry.begins, branches & ~later | calls
        aside = branches | enters & entry.begun
        m.d.comb += [
            request.warp.eq(stage.warp), request.kind.eq(Mux(enters, entry.kind, stage.kind)),
            request.pair.eq(pair & ~second),
            request.operand.eq(self._if(own, stage.pc) | self._if(behind, stage.following)
                               | self._if(~(own | behind | enters & entry.begun), stage.target) | entry.operand),
            request.mask.eq(self._if(~aside | entry.begins, stage.group)
                            | self._if(~aside | entry.begins | branches & ~later, stage.left)
                            | self._if(branches & later, stage.rest) | entry.mask)]

        self._ask(m, entry, second, pushed)
        self._mark(m, enters)
        return m

    def _ask(self, m: Module, entry: TrapEntry, second: Signal, pushed: Signal) -> None:
        """What of the stack, and what holds unless it fails."""
        stage, outcome, request = self.gathered.payload, self.outcome, self.stack.request.payload
        takes, strays = stage.some & ~(stage.limited & self.stack.killed), stage.uniform & stage.stay
        right = stage.target_error == WarpError.NONE
        m.d.comb += [
            request.enable.eq(1), outcome.warp.eq(stage.warp), outcome.pc.eq(stage.pc), outcome.target.eq(stage.target),
            outcome.active.eq(stage.left)]
        with m.Switch(stage.operation):
            for operation, asked in _ASKED.items():
                with m.Case(operation):
                    m.d.comb += request.operation.eq(Mux(stage.counted, _COUNTED.get(operation, asked), asked))
            with m.Default():
                m.d.comb += request.operation.eq(entry.operation)
        with m.Switch(stage.operation):
            with m.Case(FlowOperation.BRANCH):
                goes = takes & right & ~strays
                m.d.comb += [
                    request.enable.eq(goes & Mux(second, pushed, stage.stay | stage.others)), outcome.mute.eq(second),
                    outcome.jumps.eq(goes), outcome.moves.eq(goes & ~second), outcome.active.eq(stage.group)]
                with m.If(takes):
                    m.d.comb += outcome.error.eq(Mux(strays, WarpError.DIVERGENT, stage.target_error))
            with m.Case(FlowOperation.CALL, FlowOperation.PUSH):
                m.d.comb += [
                    request.enable.eq(right), outcome.jumps.eq(self._does(FlowOperation.CALL)),
                    outcome.error.eq(stage.target_error)]
            with m.Case(FlowOperation.LEAVE):
                m.d.comb += [
                    request.enable.eq(~stage.stay), outcome.moves.eq(stage.some & stage.stay),
                    outcome.marks.eq(stage.some & stage.stay), outcome.kept.eq(stage.some & stage.keep_reference)]
            with m.Case(FlowOperation.PUSH_QUAD):
                m.d.comb += [outcome.moves.eq(1), outcome.active.eq(self._living)]
            with m.Case(FlowOperation.POP_QUAD):
                m.d.comb += outcome.quad.eq(1)
            with m.Case(FlowOperation.WRITE_BACK):
                m.d.comb += request.enable.eq(stage.some)
            with m.Case(FlowOperation.LAUNCH):
                m.d.comb += [outcome.jumps.eq(1), outcome.moves.eq(1), outcome.marks.eq(1)]
            with m.Case(FlowOperation.LEAVE_TRAP):
                m.d.comb += outcome.stays.eq(1)
            with m.Case(FlowOperation.ENTER_TRAP):
                m.d.comb += [
                    request.enable.eq(entry.enable), outcome.active.eq(self._living), outcome.jumps.eq(1),
                    outcome.moves.eq(entry.moves), outcome.marks.eq(entry.moves), outcome.mute.eq(~entry.last),
                    outcome.loud.eq(1), outcome.error.eq(entry.error)]
        m.d.comb += self.waits.eq(self._does(FlowOperation.LEAVE, FlowOperation.POP_QUAD, FlowOperation.WRITE_BACK,
                                             FlowOperation.RESTORE))

    def _mark(self, m: Module, enters: Any) -> None:
        """Threads that leave have their code before the stack looks at them. For a QUAD token only who lives counts,
        and so for the trap handler. What a frame brings back, and a new warp, depends on nobody."""
        stage = self.gathered.payload
        leaves = self._does(FlowOperation.LEAVE, FlowOperation.LAUNCH)
        ends, restores = self._does(FlowOperation.TERMINATE), self._does(FlowOperation.RESTORE, FlowOperation.LAUNCH)
        frees = enters | self._does(FlowOperation.POP_QUAD)
        codes = self.stack.request.payload.codes
        for code, old, lives, executes in zip(codes, stage.codes, self._living, stage.group, strict=True):
            kept = Mux(restores | frees & lives, ThreadCode.NONE.value, old.as_value())
            m.d.comb += code.eq(Mux(leaves & executes | ends, stage.code.as_value(), kept))

    def _does(self, *operations: FlowOperation) -> Any:
        """Whether it is one of these."""
        return self.gathered.payload.operation.as_value().matches(*(each.value for each in operations))

    def _if(self, condition: Any, word: Any) -> Any:
        return word & condition.replicate(len(word))

    @property
    def _living(self) -> Any:
        """The threads that have neither exited nor been killed."""
        dead = (ThreadCode.EXIT.value, ThreadCode.KILLED.value)
        return Cat(~code.as_value().matches(*dead) for code in self.gathered.payload.codes)
