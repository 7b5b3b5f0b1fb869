"""The second stage: where an instruction goes, what it does to the warp, and what it wants of the stack."""

from typing import Any

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component, pass_on
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import (
    TRAP_FRAME,
    FlowInstruction,
    FlowOperation,
    StackConfiguration,
    StackOperation,
    StackPort,
    ThreadCode,
    ThreadCodes,
    flow_request,
)
from rtl.params import WARP_THREADS, SmParams

__all__ = ["FlowDecision", "TargetResolver", "decide_stage", "outcome_stage"]

_PC_BITS = 32
_ENTERS = 0b11
"""What the operand of a SET_MODE ends in that enters the trap handler if there is room."""
_ENTRY = data.StructLayout({
    "refused": 1, "error": WarpError, "under": HOLE_BITS, "holes": HOLE_BITS, "token": range(TOKENS_PER_LINE)})
"""What the stack has told: it has ``refused``, to enter the trap handler for the ``error``; so many holes are ``under``
the frame. So many ``holes`` are still to be pushed, then this ``token`` of the frame."""


def decide_stage(params: SmParams) -> data.StructLayout:
    """From the gathering of threads and target.

    ``group`` are the threads that execute the instruction, of an indexed branch those that share its target; ``rest``
    the others that want to branch; ``left`` the active threads that do not execute it. There are ``some`` that want to,
    of the ``others`` and of those that ``stay``. ``codes`` are the threads' codes before it; of a launch they mean
    nothing. ``target`` and ``wrong`` are what a :class:`TargetResolver` says.
    """
    return data.StructLayout({
        "request": flow_request(params), "group": WARP_THREADS, "rest": WARP_THREADS, "left": WARP_THREADS, "some": 1,
        "others": 1, "stay": 1, "codes": ThreadCodes, "stack": StackConfiguration, "target": _PC_BITS,
        "wrong": WarpError})


def outcome_stage(params: SmParams) -> data.StructLayout:
    """From the decision, what holds unless the stack says otherwise; it travels beside the stack's request.

    ``moves``: the active threads become those of ``active``, unless the stack refuses. ``marks``: the threads' codes
    become those that the stack was given. The warp goes on at ``target`` if it ``jumps``, at ``pc`` if it ``stays``, or
    else at ``following``; ``near``: ``target`` is ``following``. It ``stays`` where the trap unit makes it do something
    that may fail. ``mute``: another request of the same instruction tells everything.
    ``loud``: an error is told whether it is reported or not; behind the wait, also one of the decision that is
    reported.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "pc": 32, "following": 32, "target": 32, "jumps": 1, "near": 1, "stays": 1,
        "active": WARP_THREADS, "moves": 1, "marks": 1, "quad": 1, "kept": 1, "mute": 1, "loud": 1, "error": WarpError})


class TargetResolver(wiring.Component):
    """The sum of up to three: the next instruction's pc, the operand, the offset; combinational.

    What is added to the next instruction's pc is signed, wherever it comes from. What counts from the program's
    base is not, but an offset beside an index register is.

    Members
    -------
    pc, instruction, operand, fault
        Of a flow_request.
    target : Out(32)
    error : Out(WarpError)
        ``fault``; PC_WRAP when the sum is no 32-bit pc; MISALIGNED_PC where no instruction starts, except for a
        token's pc, which is looked at when it is popped.
    """

    pc: In(_PC_BITS)
    instruction: In(FlowInstruction)
    operand: In(_PC_BITS)
    fault: In(WarpError)
    target: Out(_PC_BITS)
    error: Out(WarpError)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction = self.instruction
        reads_operand = instruction.indexed | instruction.constant
        pc, operand, offset = Signal(_PC_BITS), Signal(_PC_BITS + 1), Signal(_PC_BITS + 1)
        total, step = Signal(_PC_BITS + 2), ceil_log2(INSTRUCTION_BYTES)
        operand_sign = self.operand[-1] & instruction.relative
        offset_sign = instruction.offset[-1] & (instruction.relative | instruction.indexed)
        m.d.comb += [
            pc.eq(Mux(instruction.relative, self.pc, 0)),
            operand.eq(Mux(reads_operand, self.operand | operand_sign << _PC_BITS, 0)),
            offset.eq(Mux(instruction.constant, 0, instruction.offset | offset_sign << _PC_BITS)),
            # One sum, of which synthesis makes a tree that carries only once.
            total.eq(pc + (instruction.relative << step) + operand.as_signed() + offset.as_signed()),
            self.target.eq(total)]
        with m.If(reads_operand & (self.fault != WarpError.NONE)):
            m.d.comb += self.error.eq(self.fault)
        with m.Elif(total[_PC_BITS:].any()):
            m.d.comb += self.error.eq(WarpError.PC_WRAP)
        with m.Elif(total[:step].any() & (instruction.operation != FlowOperation.PUSH)):
            m.d.comb += self.error.eq(WarpError.MISALIGNED_PC)
        return m


class FlowDecision(Component):
    """Every instruction asks the stack, if only for nothing, so that results keep the order of the stack's.

    Two instructions ask several things, and go on by what the stack tells a cycle after the first. An indexed branch
    that leaves threads at the next instruction and others at itself pushes two tokens: those that stay are below, those
    that branch later on top. The stack takes the first only if there is room for both. Entering the trap handler takes
    the mode, NONE tokens up to a full line, the tokens of the frame. The stack tells whether there is room for all of
    them; if not, the mode stays as it was, and the one request behind that asks for nothing.

    Members
    -------
    gathered : In(stream of decide_stage)
    stack : Out(StackPort)
        Its results are the next stage's.
    decided, outcome : Out(1), Out(outcome_stage)
        The request that the stack takes in this cycle comes to this.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "gathered": In(stream.Signature(decide_stage(params))), "stack": Out(StackPort(params)),
            "decided": Out(1), "outcome": Out(outcome_stage(params))})
        self._begun, self._last = Signal(), Signal()
        """The first request of several was taken; this is the last one."""
        self._entry: Any = Signal(_ENTRY)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, stack, asks, taken, begun, last = (
            self.gathered.payload, self.stack, self.stack.request, self.decided, self._begun, self._last)
        asked, request, outcome, entry, telling = stage.request, asks.payload, self.outcome, self._entry, Signal()
        enters, frames, token, bad = (self._does(FlowOperation.ENTER_TRAP), entry.holes == 0, entry.token,
                                      stage.wrong != WarpError.NONE)
        pair, following = Signal(), asked.pc + INSTRUCTION_BYTES
        m.d.comb += [
            stack.configuration.eq(stage.stack), pair.eq(stage.stay & stage.others),
            asks.valid.eq(self.gathered.valid & ~telling), taken.eq(asks.valid & asks.ready),
            last.eq(Mux(enters, begun & (entry.refused | (frames & (token == TOKENS_PER_LINE - 1))), begun | ~pair)),
            self.gathered.ready.eq(~self.gathered.valid | taken & last)]

        # One request after the other.
        m.d.sync += telling.eq(taken & ~begun & ~last)
        with m.If(taken):
            m.d.sync += begun.eq(~last)
        with m.If(telling):
            m.d.sync += [
                entry.under.eq(stack.holes), entry.holes.eq(stack.holes), token.eq(0),
                entry.error.eq(Mux(bad, stage.wrong, stack.entry)),
                entry.refused.eq(Mux(enters, bad | (stack.entry != WarpError.NONE), ~stack.pushed.valid))]
        with m.Elif(taken & begun):
            m.d.sync += [entry.holes.eq(entry.holes - ~frames), token.eq(token + frames)]

        pass_on(m, asked, outcome, "warp", "pc")
        m.d.comb += [
            request.warp.eq(asked.warp), request.operation.eq(asked.instruction.asked),
            request.kind.eq(asked.instruction.kind), request.pair.eq(pair & ~begun),
            outcome.following.eq(following), outcome.target.eq(stage.target)]
        with m.If(enters):
            m.d.comb += [
                request.operation.eq(Mux(begun, StackOperation.PUSH, StackOperation.SET_MODE)),
                request.kind.eq(Mux(frames, Mux(token == 0, TokenKind.TRAP, TokenKind.MASKS), TokenKind.NONE))]
        self._put(m, following, enters, frames)
        self._ask(m)
        self._mark(m)
        return m

    def _put(self, m: Module, following: Any, enters: Any, frames: Any) -> None:
        """The token: threads that branch later come back to the branch, others go on behind it, or at the target. The
        lowest token of a trap frame has the warp's pc and active threads, and the holes under it; the others have the
        threads of two codes each."""
        stage, request, entry, begun = self.gathered.payload, self.stack.request.payload, self._entry, self._begun
        branches, calls = self._does(FlowOperation.BRANCH), self._does(FlowOperation.CALL)
        lowest, saves = (enters & begun & frames & each for each in (entry.token == 0, entry.token != 0))
        later, frame = begun | ~stage.stay, enters & begun
        own, behind, aside = branches & later | lowest, branches & ~later | calls, branches | frame
        saved = (Cat(saves & (code.as_value() == word) for code in stage.codes) for word in (
            Array(Const(code.value, 3) for code in (ThreadCode.NONE, *codes))[entry.token]
            for codes in zip(*TRAP_FRAME, strict=True)))
        saved_mask, saved_pc = saved
        ends = Mux(enters & ~begun, _ENTERS, Mux(lowest, entry.under, 0))
        m.d.comb += [
            request.operand.eq(self._if(own, stage.request.pc) | self._if(behind, following)
                               | self._if(~(own | behind | frame), stage.target) | saved_pc | ends),
            request.mask.eq(self._if(~aside | lowest, stage.group) | self._if(branches & ~later, stage.left)
                            | self._if(branches & later, stage.rest) | saved_mask)]
        joint = self._does(FlowOperation.PUSH, FlowOperation.CALL, FlowOperation.PUSH_QUAD, FlowOperation.ENTER_TRAP)
        m.d.sync += Assert(~(self.gathered.valid & joint & stage.stay), "a push that not all active threads execute")

    def _ask(self, m: Module) -> None:
        """What of the stack, and what holds unless it fails."""
        stage, outcome, request, entry, begun = (
            self.gathered.payload, self.outcome, self.stack.request.payload, self._entry, self._begun)
        instruction, wrong, some, stay = stage.request.instruction, stage.wrong, stage.some, stage.stay
        right = wrong == WarpError.NONE
        takes, strays = some & ~(instruction.limited & self.stack.killed), instruction.uniform & stay
        m.d.comb += [request.enable.eq(1), outcome.active.eq(stage.left), outcome.quad.eq(
            self._does(FlowOperation.POP_QUAD)), outcome.stays.eq(self._does(
                FlowOperation.ENTER_TRAP, FlowOperation.LEAVE_TRAP, FlowOperation.RESTORE))]
        with m.Switch(instruction.operation):
            with m.Case(FlowOperation.BRANCH):
                goes = takes & right & ~strays
                m.d.comb += [
                    request.enable.eq(goes & Mux(begun, ~entry.refused, stay | stage.others)),
                    outcome.mute.eq(begun), outcome.jumps.eq(goes), outcome.moves.eq(goes & ~begun),
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
            with m.Case(FlowOperation.WRITE_BACK):
                m.d.comb += request.enable.eq(some)
            with m.Case(FlowOperation.LAUNCH):
                m.d.comb += [outcome.jumps.eq(1), outcome.moves.eq(1), outcome.marks.eq(1)]
            with m.Case(FlowOperation.ENTER_TRAP):
                enters = self._last & ~entry.refused
                m.d.comb += [
                    request.enable.eq(Mux(begun, ~entry.refused, right)), outcome.active.eq(self._living),
                    outcome.jumps.eq(1), outcome.moves.eq(enters), outcome.marks.eq(enters),
                    outcome.mute.eq(~self._last), outcome.loud.eq(1), outcome.error.eq(entry.error)]

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
