"""The second stage: where an instruction goes, what it does to the warp, and what it wants of the stack."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.layouts import FlowOperation, StackPort, ThreadCode
from rtl.params import SmParams

from .entry import TrapEntry
from .stages import decide_stage, outcome_stage
from .target import TargetResolver

__all__ = ["FlowDecision"]

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
        # Whether there are threads that execute it; others that want to branch, where a branch is indexed; others.
        self._some, self._others, self._stay = Signal(), Signal(), Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.entry = entry = TrapEntry()
        m.submodules.resolver = resolver = TargetResolver()
        stage, request, taken = self.gathered.payload, self.stack.request.payload, self.decided
        following = Signal(32)
        some, others, stay = self._some, self._others, self._stay
        branches, calls, enters = (self._does(each) for each in (
            FlowOperation.BRANCH, FlowOperation.CALL, FlowOperation.ENTER_TRAP))

        # Two pushes of one instruction: those that stay are below, those that branch later on top. A cycle after the
        # first the stack tells whether it was done; a second follows then.
        pair, second, telling, pushed = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            some.eq((stage.group | stage.rest).any()), others.eq(stage.rest.any()), stay.eq(stage.left.any()),
            pair.eq(stay & others),
            self.stack.request.valid.eq(self.gathered.valid & ~telling), self.stack.configuration.eq(stage.stack),
            taken.eq(self.stack.request.valid & self.stack.request.ready),
            self.gathered.ready.eq(~self.gathered.valid | taken & Mux(enters, entry.last, second | ~pair)),
            entry.enters.eq(enters), entry.taken.eq(taken), entry.codes.eq(stage.codes),
            entry.target_error.eq(resolver.error), entry.holes.eq(self.stack.holes),
            entry.refusal.eq(self.stack.entry)]
        m.d.sync += telling.eq(taken & pair & ~second)
        with m.If(taken):
            m.d.sync += second.eq(pair & ~second)
        with m.If(telling):
            m.d.sync += pushed.eq(self.stack.pushed)

        # Where to. The token: threads that branch later come back to the branch, others go on behind it, or at the
        # target.
        later = second | ~stay
        own, behind = branches & later | entry.begins, branches & ~later | calls
        aside = branches | enters & entry.begun
        m.d.comb += [
            following.eq(stage.pc + INSTRUCTION_BYTES), resolver.pc.eq(stage.pc),
            resolver.instruction.eq(stage.instruction), resolver.operand.eq(stage.operand),
            resolver.fault.eq(stage.fault), request.warp.eq(stage.warp),
            request.operation.eq(Mux(enters, entry.operation, stage.instruction.asked)),
            request.kind.eq(Mux(enters, entry.kind, stage.instruction.kind)),
            request.pair.eq(pair & ~second),
            request.operand.eq(self._if(own, stage.pc) | self._if(behind, following)
                               | self._if(~(own | behind | enters & entry.begun), resolver.target) | entry.operand),
            request.mask.eq(self._if(~aside | entry.begins, stage.group)
                            | self._if(~aside | entry.begins | branches & ~later, stage.left)
                            | self._if(branches & later, stage.rest) | entry.mask)]

        m.d.comb += [
            self.outcome.warp.eq(stage.warp), self.outcome.pc.eq(stage.pc), self.outcome.following.eq(following),
            self.outcome.target.eq(resolver.target)]
        self._ask(m, entry, resolver.error, second, pushed)
        self._mark(m, enters)
        return m

    def _ask(self, m: Module, entry: TrapEntry, wrong: Any, second: Signal, pushed: Signal) -> None:
        """What of the stack, and what holds unless it fails."""
        stage, outcome, request = self.gathered.payload, self.outcome, self.stack.request.payload
        instruction, right = stage.instruction, wrong == WarpError.NONE
        some, stay = self._some, self._stay
        takes, strays = some & ~(instruction.limited & self.stack.killed), instruction.uniform & stay
        m.d.comb += [request.enable.eq(1), outcome.active.eq(stage.left)]
        with m.Switch(instruction.operation):
            with m.Case(FlowOperation.BRANCH):
                goes = takes & right & ~strays
                m.d.comb += [
                    request.enable.eq(goes & Mux(second, pushed, stay | self._others)), outcome.mute.eq(second),
                    outcome.jumps.eq(goes), outcome.moves.eq(goes & ~second), outcome.active.eq(stage.group)]
                with m.If(takes):
                    m.d.comb += outcome.error.eq(Mux(strays, WarpError.DIVERGENT, wrong))
            with m.Case(FlowOperation.CALL, FlowOperation.PUSH):
                m.d.comb += [
                    request.enable.eq(right), outcome.jumps.eq(self._does(FlowOperation.CALL)),
                    outcome.error.eq(wrong)]
            with m.Case(FlowOperation.LEAVE):
                m.d.comb += [
                    request.enable.eq(~stay), outcome.moves.eq(some & stay),
                    outcome.marks.eq(some & stay), outcome.kept.eq(some & instruction.keep_reference)]
            with m.Case(FlowOperation.PUSH_QUAD):
                m.d.comb += [outcome.moves.eq(1), outcome.active.eq(self._living)]
            with m.Case(FlowOperation.POP_QUAD):
                m.d.comb += outcome.quad.eq(1)
            with m.Case(FlowOperation.WRITE_BACK):
                m.d.comb += request.enable.eq(some)
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
            m.d.comb += code.eq(Mux(leaves & executes | ends, stage.instruction.code.as_value(), kept))

    def _does(self, *operations: FlowOperation) -> Any:
        """Whether it is one of these."""
        return self.gathered.payload.instruction.operation.as_value().matches(*(each.value for each in operations))

    def _if(self, condition: Any, word: Any) -> Any:
        return word & condition.replicate(len(word))

    @property
    def _living(self) -> Any:
        """The threads that have neither exited nor been killed."""
        dead = (ThreadCode.EXIT.value, ThreadCode.KILLED.value)
        return Cat(~code.as_value().matches(*dead) for code in self.gathered.payload.codes)
