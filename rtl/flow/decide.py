"""The second stage: what an instruction does to the warp, and what it wants of the stack."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.layouts import FlowOperation, StackOperation, StackPort, ThreadCode
from rtl.params import SmParams

from .entry import TrapEntry
from .stages import decide_stage, outcome_stage

__all__ = ["FlowDecision"]

_STRAIGHT = {
    FlowOperation.POP_QUAD: StackOperation.POP_QUAD, FlowOperation.GET_POINTER: StackOperation.GET_POINTER,
    FlowOperation.SET_POINTER: StackOperation.SET_POINTER, FlowOperation.GET_BASE: StackOperation.GET_BASE,
    FlowOperation.SET_BASE: StackOperation.SET_BASE, FlowOperation.LAUNCH: StackOperation.LAUNCH,
    FlowOperation.RESTORE: StackOperation.RESTORE, FlowOperation.TERMINATE: StackOperation.CLEAR}
"""What the stack does with these is the whole instruction."""


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
        self._params = params
        super().__init__({
            "gathered": In(stream.Signature(decide_stage(params))), "stack": Out(StackPort(params)),
            "decided": Out(1), "outcome": Out(outcome_stage(params)), "waits": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, outcome = self.gathered.payload, self.outcome
        request, following = self.stack.request.payload, Signal(32)
        m.d.comb += following.eq(stage.pc + INSTRUCTION_BYTES)

        some, others, stay = stage.some, stage.others, stage.stay
        takes = some & ~(stage.limited & self.stack.killed)
        wrong = stage.target_error != WarpError.NONE
        operation = stage.operation

        # Two pushes of one instruction: those that stay are below, those that branch later on top. Whether the first
        # was done is told in the cycle behind it, which an indexed branch always has; a second follows then.
        second, telling, two, pushed_first = Signal(), Signal(), Signal(), Signal()
        first = stage.indexed & ~second
        later = second | ~stay
        m.submodules.entry = entry = TrapEntry(self._params)
        enters = operation == FlowOperation.ENTER_TRAP
        served = ~self.stack.request.valid | self.stack.request.ready
        m.d.comb += [
            self.stack.request.valid.eq(self.gathered.valid & (~second | (two & ~telling))),
            self.stack.configuration.eq(stage.stack),
            self.decided.eq(self.stack.request.valid & self.stack.request.ready),
            self.gathered.ready.eq(
                ~self.gathered.valid | (served & ~first & ~(telling & two) & ~(enters & ~entry.last))),
            entry.taken.eq(self.gathered.valid & enters & self.stack.request.ready), entry.stage.eq(stage),
            entry.holes.eq(self.stack.holes), entry.refusal.eq(self.stack.entry)]
        with m.If(served & self.gathered.valid):
            m.d.sync += [second.eq(first | (telling & two)), telling.eq(first), two.eq(stay & others)]
        with m.If(telling):
            m.d.sync += pushed_first.eq(self.stack.pushed)

        # What of the stack, and what holds unless it fails.
        living = Cat(_lives(code) for code in stage.codes)
        m.d.comb += [
            request.warp.eq(stage.warp), request.kind.eq(stage.kind), request.operand.eq(stage.target),
            request.mask.eq(stage.group | stage.left), request.enable.eq(1), request.pair.eq(stay & others & ~second),
            outcome.warp.eq(stage.warp), outcome.pc.eq(stage.pc), outcome.target.eq(stage.target),
            outcome.active.eq(stage.left), outcome.mute.eq(second)]
        with m.Switch(operation):
            with m.Case(FlowOperation.BRANCH):
                strays = stage.uniform & stay
                goes = takes & ~wrong & ~strays
                m.d.comb += [
                    request.operation.eq(StackOperation.PUSH), request.mask.eq(Mux(later, stage.rest, stage.left)),
                    request.operand.eq(Mux(later, stage.pc, following)),
                    request.enable.eq(goes & Mux(second, pushed_first, stay | others)),
                    outcome.jumps.eq(goes), outcome.moves.eq(goes & ~second), outcome.active.eq(stage.group)]
                with m.If(takes & strays):
                    m.d.comb += outcome.error.eq(WarpError.DIVERGENT)
                with m.Elif(takes):
                    m.d.comb += outcome.error.eq(stage.target_error)
            with m.Case(FlowOperation.CALL):
                m.d.comb += [
                    request.operation.eq(Mux(stage.counted, StackOperation.CALL, StackOperation.PUSH)),
                    request.operand.eq(following), request.enable.eq(~wrong), outcome.jumps.eq(1),
                    outcome.error.eq(stage.target_error)]
            with m.Case(FlowOperation.PUSH):
                m.d.comb += [
                    request.operation.eq(Mux(stage.counted, StackOperation.PREPARE_CALL, StackOperation.PUSH)),
                    request.enable.eq(~wrong), outcome.error.eq(stage.target_error)]
            with m.Case(FlowOperation.LEAVE):
                m.d.comb += [
                    request.operation.eq(StackOperation.UNWIND), request.enable.eq(~stay),
                    outcome.moves.eq(some & stay), outcome.marks.eq(some & stay),
                    outcome.kept.eq(some & stage.keep_reference)]
            with m.Case(FlowOperation.PUSH_QUAD):
                m.d.comb += [
                    request.operation.eq(StackOperation.PUSH), request.operand.eq(0), outcome.moves.eq(1),
                    outcome.active.eq(living)]
            with m.Case(FlowOperation.WRITE_BACK):
                m.d.comb += [request.operation.eq(StackOperation.WRITE_BACK), request.enable.eq(some)]
            with m.Case(FlowOperation.ENTER_TRAP):
                m.d.comb += [
                    request.operation.eq(entry.operation), request.enable.eq(entry.enable), request.kind.eq(entry.kind),
                    request.operand.eq(entry.operand), request.mask.eq(entry.mask), outcome.active.eq(living),
                    outcome.jumps.eq(1), outcome.moves.eq(entry.enters), outcome.marks.eq(entry.enters),
                    outcome.mute.eq(~entry.last), outcome.loud.eq(1), outcome.error.eq(entry.error)]
            with m.Case(FlowOperation.LEAVE_TRAP):
                m.d.comb += [
                    request.operation.eq(StackOperation.SET_MODE), request.operand.eq(0), outcome.jumps.eq(1),
                    outcome.target.eq(stage.pc)]
            with m.Case(*_STRAIGHT):
                m.d.comb += [outcome.quad.eq(operation == FlowOperation.POP_QUAD)]
                for meant, asked in _STRAIGHT.items():
                    with m.If(operation == meant):
                        m.d.comb += request.operation.eq(asked)
                launches = operation == FlowOperation.LAUNCH
                m.d.comb += [outcome.jumps.eq(launches), outcome.moves.eq(launches), outcome.marks.eq(launches)]
        m.d.comb += self.waits.eq((operation == FlowOperation.LEAVE) | (operation == FlowOperation.POP_QUAD)
                                  | (operation == FlowOperation.WRITE_BACK) | (operation == FlowOperation.RESTORE))

        # Threads that leave have their code before the stack looks at them. For a QUAD token only who lives counts, and
        # so for the trap handler. What a frame brings back depends on nobody.
        frees = enters | (operation == FlowOperation.POP_QUAD)
        restores, terminates = operation == FlowOperation.RESTORE, operation == FlowOperation.TERMINATE
        leaves = (operation == FlowOperation.LEAVE) | (operation == FlowOperation.LAUNCH)
        for thread, code in enumerate(stage.codes):
            left = Mux(leaves & stage.group[thread], stage.code.as_value(), code.as_value())
            freed = Mux(restores | (frees & living[thread]), ThreadCode.NONE.value, left)
            m.d.comb += request.codes[thread].eq(Mux(terminates, ThreadCode.EXIT.value, freed))
        return m


def _lives(code: ThreadCode) -> Any:
    """Whether a thread with that code has neither exited nor been killed."""
    return (code != ThreadCode.EXIT) & (code != ThreadCode.KILLED)
