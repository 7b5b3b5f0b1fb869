"""The second stage: where an instruction goes, what it does to the warp, and what it wants of the stack."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import (
    TRAP_FRAME,
    FlowOperation,
    StackConfiguration,
    StackOperation,
    StackPort,
    ThreadCode,
    ThreadCodes,
    flow_request,
)
from rtl.params import WARP_THREADS, SmParams

from .target import TargetResolver

__all__ = ["FlowDecision", "decide_stage", "outcome_stage"]

_ENTERS = 0b11
"""What the operand of a SET_MODE ends in that enters the trap handler if there is room."""
_ENTRY = data.StructLayout({
    "enters": 1, "begun": 1, "begins": 1, "last": 1, "refused": 1, "error": WarpError, "holes": range(TOKENS_PER_LINE),
    "token": range(TOKENS_PER_LINE)})
"""Where a warp is that ``enters`` its trap handler: behind the request for the mode (``begun``), at the frame's lowest
token (``begins``), at the last request. It was ``refused`` for the ``error``. So many ``holes`` are to be pushed, then
this ``token`` of the frame."""


def decide_stage(params: SmParams) -> data.StructLayout:
    """From the gathering of threads and target.

    ``group`` are the threads that execute the instruction, of an indexed branch those that share its target; ``rest``
    the others that want to branch; ``left`` the active threads that do not execute it. ``codes`` are the threads' codes
    before it; of a launch they mean nothing.
    """
    return data.StructLayout({
        "request": flow_request(params), "group": WARP_THREADS, "rest": WARP_THREADS, "left": WARP_THREADS,
        "codes": ThreadCodes, "stack": StackConfiguration})


def outcome_stage(params: SmParams) -> data.StructLayout:
    """From the decision, what holds unless the stack says otherwise; it travels beside the stack's request.

    ``moves``: the active threads become those of ``active``, unless the stack refuses. ``marks``: the threads' codes
    become those that the stack was given. The warp goes on at ``target`` if it ``jumps``, at ``pc`` if it ``stays``, or
    else at ``following``; ``near``: it jumps there. ``mute``: another request of the same instruction tells everything.
    ``loud``: an error is told whether it is reported or not; behind the wait, also one of the decision that is
    reported.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "pc": 32, "following": 32, "target": 32, "jumps": 1, "near": 1, "stays": 1,
        "active": WARP_THREADS, "moves": 1, "marks": 1, "quad": 1, "kept": 1, "mute": 1, "loud": 1, "error": WarpError})


class FlowDecision(Component):
    """Every instruction asks the stack, if only for nothing, so that results keep the order of the stack's.

    An indexed branch that leaves threads at the next instruction and others at itself pushes two tokens, in three
    cycles. The stack takes the first only if there is room for both, so that the first tells what becomes of it.

    Entering the trap handler takes one request after the other: the mode, NONE tokens up to a full line, the tokens of
    the frame. A cycle after the first the stack tells whether there is room for all of them, so that no push is
    refused; if not, the mode stays as it was, and the one request behind that asks for nothing.

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
        # Which of two pushes of one instruction it is, and whether the first was done.
        self._second, self._pushed = Signal(), Signal()
        self._entry: Any = Signal(_ENTRY)
        self._resolver = TargetResolver()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.resolver = resolver = self._resolver
        stage, asks, taken, entry = self.gathered.payload, self.stack.request, self.decided, self._entry
        asked, second, pair, telling = stage.request, self._second, Signal(), Signal()
        m.d.comb += [
            self._some.eq((stage.group | stage.rest).any()), self._others.eq(stage.rest.any()),
            self._stay.eq(stage.left.any()), resolver.pc.eq(asked.pc), resolver.instruction.eq(asked.instruction),
            resolver.operand.eq(asked.operand), resolver.fault.eq(asked.fault)]

        # Two pushes of one instruction: those that stay are below, those that branch later on top. A cycle after the
        # first the stack tells whether it was done; a second follows then.
        m.d.comb += [
            pair.eq(self._stay & self._others), asks.valid.eq(self.gathered.valid & ~telling),
            taken.eq(asks.valid & asks.ready), self.stack.configuration.eq(stage.stack),
            self.gathered.ready.eq(~self.gathered.valid | taken & Mux(entry.enters, entry.last, second | ~pair))]
        m.d.sync += telling.eq(taken & pair & ~second)
        with m.If(taken):
            m.d.sync += second.eq(pair & ~second)
        with m.If(telling):
            m.d.sync += self._pushed.eq(self.stack.pushed)

        request, outcome, following = asks.payload, self.outcome, asked.pc + INSTRUCTION_BYTES
        m.d.comb += [
            request.warp.eq(asked.warp), request.operation.eq(asked.instruction.asked),
            request.kind.eq(asked.instruction.kind), request.pair.eq(pair & ~second), outcome.warp.eq(asked.warp),
            outcome.pc.eq(asked.pc), outcome.following.eq(following), outcome.target.eq(resolver.target)]
        self._put(m, following, *self._enter(m))
        self._ask(m)
        self._mark(m)
        return m

    def _put(self, m: Module, following: Any, saved_mask: Any, saved_pc: Any) -> None:
        """The token: threads that branch later come back to the branch, others go on behind it, or at the target."""
        stage, request, entry = self.gathered.payload, self.stack.request.payload, self._entry
        branches, calls = self._does(FlowOperation.BRANCH), self._does(FlowOperation.CALL)
        later, frames = self._second | ~self._stay, entry.enters & entry.begun
        own, behind, aside = branches & later | entry.begins, branches & ~later | calls, branches | frames
        m.d.comb += [
            request.operand.eq(self._if(own, stage.request.pc) | self._if(behind, following)
                               | self._if(~(own | behind | frames), self._resolver.target) | saved_pc),
            request.mask.eq(self._if(~aside | entry.begins, stage.group)
                            | self._if(~aside | entry.begins | branches & ~later, stage.left)
                            | self._if(branches & later, stage.rest) | saved_mask)]

    def _enter(self, m: Module) -> tuple[Any, Any]:
        """The requests that make a warp enter its trap handler; returns what they add to the token's mask and pc. The
        frame's lowest token has the warp's pc and active threads besides."""
        stack, entry, stage, wrong = self.stack, self._entry, self.gathered.payload, self._resolver.error
        under, told, taken = Signal(range(TOKENS_PER_LINE)), Signal(), self.decided & self._entry.enters
        frames, bad = entry.holes == 0, wrong != WarpError.NONE
        m.d.comb += [
            entry.enters.eq(self._does(FlowOperation.ENTER_TRAP)),
            entry.last.eq(entry.begun & (entry.refused | (frames & (entry.token == TOKENS_PER_LINE - 1)))),
            entry.begins.eq(entry.enters & entry.begun & frames & (entry.token == 0))]
        m.d.sync += told.eq(taken & ~entry.begun)
        with m.If(taken):
            m.d.sync += entry.begun.eq(~entry.last)
        with m.If(told):
            m.d.sync += [
                under.eq(stack.holes), entry.holes.eq(stack.holes), entry.token.eq(0),
                entry.error.eq(Mux(bad, wrong, stack.entry)),
                entry.refused.eq(bad | (stack.entry != WarpError.NONE))]
        with m.Elif(taken & ~entry.begun):
            m.d.sync += entry.refused.eq(0)
        with m.Elif(taken & ~frames):
            m.d.sync += entry.holes.eq(entry.holes - 1)
        with m.Elif(taken):
            m.d.sync += entry.token.eq(entry.token + 1)

        # The tokens.
        with m.If(entry.enters):
            m.d.comb += [
                stack.request.payload.operation.eq(Mux(entry.begun, StackOperation.PUSH, StackOperation.SET_MODE)),
                stack.request.payload.kind.eq(Mux(frames, Mux(entry.token == 0, TokenKind.TRAP, TokenKind.MASKS),
                                                  TokenKind.NONE))]
        saves, ends = entry.enters & entry.begun & frames & (entry.token != 0), Signal(HOLE_BITS)
        m.d.comb += ends.eq(Mux(entry.enters & ~entry.begun, _ENTERS, Mux(entry.begins, under, 0)))
        masks = (Cat(saves & (code.as_value() == saved) for code in stage.codes) for saved in (
            Array(Const(code.value, 3) for code in (ThreadCode.NONE, *codes))[entry.token]
            for codes in zip(*TRAP_FRAME, strict=True)))
        in_mask, in_pc = masks
        return in_mask, in_pc | ends

    def _ask(self, m: Module) -> None:
        """What of the stack, and what holds unless it fails."""
        stage, outcome, request, entry = self.gathered.payload, self.outcome, self.stack.request.payload, self._entry
        instruction, wrong = stage.request.instruction, self._resolver.error
        some, stay, right = self._some, self._stay, wrong == WarpError.NONE
        takes, strays = some & ~(instruction.limited & self.stack.killed), instruction.uniform & stay
        m.d.comb += [request.enable.eq(1), outcome.active.eq(stage.left)]
        with m.Switch(instruction.operation):
            with m.Case(FlowOperation.BRANCH):
                goes = takes & right & ~strays
                m.d.comb += [
                    request.enable.eq(goes & Mux(self._second, self._pushed, stay | self._others)),
                    outcome.mute.eq(self._second), outcome.jumps.eq(goes), outcome.moves.eq(goes & ~self._second),
                    outcome.active.eq(stage.group)]
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
                enters = entry.last & ~entry.refused
                m.d.comb += [
                    request.enable.eq(Mux(entry.begun, ~entry.refused, right)), outcome.active.eq(self._living),
                    outcome.jumps.eq(1), outcome.moves.eq(enters), outcome.marks.eq(enters),
                    outcome.mute.eq(~entry.last), outcome.loud.eq(1), outcome.error.eq(entry.error)]
        m.d.comb += self.waits.eq(self._does(FlowOperation.LEAVE, FlowOperation.POP_QUAD, FlowOperation.WRITE_BACK,
                                             FlowOperation.RESTORE))

    def _mark(self, m: Module) -> None:
        """Threads that leave have their code before the stack looks at them. For a QUAD token only who lives counts,
        and so for the trap handler. What a frame brings back, and a new warp, depends on nobody."""
        stage = self.gathered.payload
        leaves = self._does(FlowOperation.LEAVE, FlowOperation.LAUNCH)
        ends, restores = self._does(FlowOperation.TERMINATE), self._does(FlowOperation.RESTORE, FlowOperation.LAUNCH)
        frees = self._does(FlowOperation.ENTER_TRAP, FlowOperation.POP_QUAD)
        codes = self.stack.request.payload.codes
        for code, old, lives, executes in zip(codes, stage.codes, self._living, stage.group, strict=True):
            kept = Mux(restores | frees & lives, ThreadCode.NONE.value, old.as_value())
            m.d.comb += code.eq(Mux(leaves & executes | ends, stage.request.instruction.code.as_value(), kept))

    def _does(self, *operations: FlowOperation) -> Any:
        """Whether it is one of these."""
        operation = self.gathered.payload.request.instruction.operation
        return operation.as_value().matches(*(each.value for each in operations))

    def _if(self, condition: Any, word: Any) -> Any:
        return word[:32] & condition.replicate(32)

    @property
    def _living(self) -> Any:
        """The threads that have neither exited nor been killed."""
        dead = (ThreadCode.EXIT.value, ThreadCode.KILLED.value)
        return Cat(~code.as_value().matches(*dead) for code in self.gathered.payload.codes)
