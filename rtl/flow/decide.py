"""Decide: the second stage. What an instruction requests of the stack, and what it does to the
warp."""

from typing import Any

from amaranth.hdl import Array, Assert, Cat, Const, Module, Shape, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import (
    ENTER_IF_ROOM,
    FRAME_MASK_CODES,
    FRAME_PC_CODES,
    Event,
    FlowOperation,
    StackOperation,
    StackPort,
    ThreadCode,
)
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import common_fields, struct_value

from .stages import PC_BITS, BasicOutcome, decided_outcome, gathered_instruction, living_threads

__all__ = ["DecideStage"]

_LAST_FRAME_TOKEN = TOKENS_PER_LINE - 1

_PROGRESS = data.StructLayout({
    "is_refused": 1,
    "error": WarpError,
    "holes_below": HOLE_BITS,
    "pending_holes": HOLE_BITS,
    "frame_token": range(TOKENS_PER_LINE),
})
"""Of an instruction with several requests, after the first one: the stack has refused it; why a
warp cannot enter the trap handler; holes under the trap frame, and how many of them are still to be
pushed; the token of the frame that comes then."""

_TOKEN = data.StructLayout({"operand": PC_BITS, "mask": WARP_THREADS})
"""What a token holds, as in a stack_request: its pc or other operand, and its mask of threads."""


def _token(operand: Any, mask: Any) -> Any:
    """A token with this operand and this mask."""
    return struct_value(_TOKEN, operand=operand, mask=mask)


class DecideStage(Component):
    """The second stage: one request to the stack for each instruction, and what the instruction
    does to the warp unless the stack refuses.

    An instruction that needs nothing of the stack requests a NONE operation, so that results leave
    in the order of the stack's. Two instructions have several requests. The stack answers the first
    one a cycle later; the others wait for that answer (``answer_is_due``). ::

        indexed branch       PUSH the remaining threads --> PUSH the deferred threads
        entering the trap    SET_MODE --> PUSH a hole, for each --> PUSH four frame tokens

    An indexed branch has two requests if some active threads do not branch, and others branch to
    another target. The first PUSH is refused unless there is room for both tokens; then nothing is
    pushed. SET_MODE reports how many holes the topmost line has room for, and whether holes and frame
    have room; if not, the mode stays as it was, and a single request that does nothing follows.

    Members
    -------
    gathered : In(stream of gathered_instruction)
    stack : Out(StackPort)
        Its results are for the conclude stage.
    decided : Out(Event(decided_outcome))
        The outcome of the request that the stack takes in this cycle. Its ``warp`` and ``basic``
        are there as soon as the instruction is.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "gathered": In(stream.Signature(gathered_instruction(params))),
            "stack": Out(StackPort(params)),
            "decided": Out(Event(decided_outcome(params))),
        })
        self.is_followup = Signal()
        """The instruction's first request was taken, and it has others."""
        self.is_last = Signal()
        """The instruction has no request after this one."""
        self.progress: Any = Signal(_PROGRESS)
        """Of an instruction with several requests, from the answer to the first one on."""
        self._answer_is_due = Signal(name="answer_is_due")
        """The stack answers the first of several requests in this cycle."""
        self._next_pc = Signal(32, name="next_pc")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage = self.gathered.payload
        m.d.comb += self._next_pc.eq(stage.request.pc + INSTRUCTION_BYTES)
        m.d.comb += self.stack.configuration.eq(stage.configuration)
        self._sequence(m)
        self._keep_progress(m)
        self._request(m)
        self._select_token(m)
        self._assign_codes(m)
        self._decide(m)
        self._promise(m)
        return m

    # Which request it is.

    @property
    def _operation(self) -> Any:
        return self.gathered.payload.request.instruction.operation

    @property
    def _needs_two_pushes(self) -> Value:
        """Of a branch: it pushes the threads that do not branch, and those that do so later."""
        stage = self.gathered.payload
        return stage.has_remaining & stage.has_deferred

    def _sequence(self, m: Module) -> None:
        """An instruction's requests, one after the other."""
        request = self.stack.request
        progress = self.progress
        is_taken = self.decided.valid
        frame_is_complete = (progress.pending_holes == 0) & (
            progress.frame_token == _LAST_FRAME_TOKEN)
        with m.If(self._operation == FlowOperation.ENTER_TRAP):
            m.d.comb += self.is_last.eq(
                self.is_followup & (progress.is_refused | frame_is_complete))
        with m.Else():
            m.d.comb += self.is_last.eq(self.is_followup | ~self._needs_two_pushes)
        m.d.comb += request.valid.eq(self.gathered.valid & ~self._answer_is_due)
        m.d.comb += is_taken.eq(request.valid & request.ready)
        m.d.comb += self.gathered.ready.eq(~self.gathered.valid | (is_taken & self.is_last))
        m.d.sync += self._answer_is_due.eq(is_taken & ~self.is_followup & ~self.is_last)
        with m.If(is_taken):
            m.d.sync += self.is_followup.eq(~self.is_last)

    def _keep_progress(self, m: Module) -> None:
        """The stack's answer to the first request; then holes and tokens are counted."""
        stage = self.gathered.payload
        stack = self.stack
        progress = self.progress
        has_bad_target = stage.target.error != WarpError.NONE
        with m.If(self._answer_is_due):
            m.d.sync += progress.holes_below.eq(stack.holes)
            m.d.sync += progress.pending_holes.eq(stack.holes)
            m.d.sync += progress.frame_token.eq(0)
            with m.If(has_bad_target):
                m.d.sync += progress.error.eq(stage.target.error)
            with m.Else():
                m.d.sync += progress.error.eq(stack.entry)
            with m.If(self._operation == FlowOperation.ENTER_TRAP):
                m.d.sync += progress.is_refused.eq(
                    has_bad_target | (stack.entry != WarpError.NONE))
            with m.Else():
                m.d.sync += progress.is_refused.eq(~stack.pushed.valid)
        with m.Elif(self.decided.valid & self.is_followup):
            with m.If(progress.pending_holes != 0):
                m.d.sync += progress.pending_holes.eq(progress.pending_holes - 1)
            with m.Else():
                m.d.sync += progress.frame_token.eq(progress.frame_token + 1)

    # The request to the stack.

    def _request(self, m: Module) -> None:
        """The request's operation, and the kind of its token. ``enable`` is decided, see
        :meth:`_decide`."""
        stage = self.gathered.payload
        instruction = stage.request.instruction
        request = self.stack.request.payload
        m.d.comb += request.warp.eq(stage.request.warp)
        m.d.comb += request.pair.eq(self._needs_two_pushes & ~self.is_followup)
        m.d.comb += request.operation.eq(instruction.stack_operation)
        m.d.comb += request.kind.eq(instruction.kind)
        with m.If(instruction.operation == FlowOperation.ENTER_TRAP):
            with m.If(self.is_followup):
                m.d.comb += request.operation.eq(StackOperation.PUSH)
            with m.Else():
                m.d.comb += request.operation.eq(StackOperation.SET_MODE)
            with m.If(self.progress.pending_holes != 0):
                m.d.comb += request.kind.eq(TokenKind.NONE)
            with m.Elif(self.progress.frame_token == 0):
                m.d.comb += request.kind.eq(TokenKind.TRAP)
            with m.Else():
                m.d.comb += request.kind.eq(TokenKind.MASKS)

    def _select_token(self, m: Module) -> None:
        """The token's pc and mask. Threads that branch later come back to the branch; others go on
        behind the instruction, or at its target. A SET_MODE has the mode in the lowest bits of its
        operand, which are 0 in a pc: LEAVE_TRAP requests it with its own pc, so bit 0 says that it
        leaves; ENTER_TRAP sets both bits, to enter if there is room."""
        stage = self.gathered.payload
        token: Any = Signal(_TOKEN)
        with m.Switch(self._operation):
            with m.Case(FlowOperation.BRANCH):
                with m.If(self.is_followup | ~stage.has_remaining):
                    m.d.comb += token.eq(_token(stage.request.pc, stage.deferred))
                with m.Else():
                    m.d.comb += token.eq(_token(self._next_pc, stage.remaining))
            with m.Case(FlowOperation.CALL):
                m.d.comb += token.eq(_token(self._next_pc, stage.group))
            with m.Case(FlowOperation.ENTER_TRAP):
                with m.If(~self.is_followup):
                    m.d.comb += token.eq(_token(stage.target.pc | ENTER_IF_ROOM, stage.group))
                with m.Elif(self.progress.pending_holes == 0):
                    self._select_frame_token(m, token)
            with m.Default():
                m.d.comb += token.eq(_token(stage.target.pc, stage.group))
        m.d.comb += common_fields(self.stack.request.payload, token)

    def _select_frame_token(self, m: Module, token: Any) -> None:
        """The lowest token of a trap frame, TRAP, has the warp's pc and active threads, and in the
        lowest bits of the pc, which are 0, the holes under the frame. The others, MASKS, have the
        threads of two codes each: one in the mask, one in place of the pc."""
        stage = self.gathered.payload
        progress = self.progress
        with m.If(progress.frame_token == 0):
            m.d.comb += token.eq(_token(stage.request.pc | progress.holes_below, stage.group))
        with m.Else():
            m.d.comb += token.eq(_token(
                self._threads_with_code(FRAME_PC_CODES),
                self._threads_with_code(FRAME_MASK_CODES)))

    def _threads_with_code(self, codes: tuple[ThreadCode, ...]) -> Value:
        """The threads whose code is the one that this token of the frame holds, of one code a
        token."""
        width = Shape.cast(ThreadCode).width
        of_token = Array(Const(code.value, width) for code in codes)
        held = of_token[self.progress.frame_token]
        return Cat(code.as_value() == held for code in self.gathered.payload.codes)

    def _assign_codes(self, m: Module) -> None:
        """The threads' codes as the stack looks at them: those that leave have theirs already. For
        a QUAD token, and for the trap handler, only who lives counts; what a frame brings back, and
        a new warp, depends on no thread's code."""
        stage = self.gathered.payload
        operation = self._operation
        living = living_threads(stage.codes)
        new_code = stage.request.instruction.code
        for thread, code in enumerate(self.stack.request.payload.codes):
            leaves = operation.gives_code & stage.group[thread]
            with m.If(leaves | operation.ends_warp):
                m.d.comb += code.eq(new_code)
            with m.Elif(operation.clears_codes | (operation.clears_living_codes & living[thread])):
                m.d.comb += code.eq(ThreadCode.NONE)
            with m.Else():
                m.d.comb += code.eq(stage.codes[thread])

    # The outcome.

    def _decide(self, m: Module) -> None:
        """Whether the request is enabled, and what holds unless the stack refuses it."""
        stage = self.gathered.payload
        operation = self._operation
        request = self.stack.request.payload
        outcome = self.decided.payload
        leaves = stage.is_executed & (operation == FlowOperation.LEAVE)
        m.d.comb += outcome.warp.eq(stage.request.warp)
        m.d.comb += outcome.basic.eq(struct_value(
            BasicOutcome,
            pc=stage.request.pc,
            next_pc=self._next_pc,
            retries=operation.retries_on_error,
            is_pop_quad=operation == FlowOperation.POP_QUAD,
            keeps_reference=leaves & stage.request.instruction.keep_reference))
        m.d.comb += outcome.target.eq(stage.target.pc)
        m.d.comb += outcome.predicted.eq(stage.request.instruction.predicted)
        m.d.comb += outcome.active.eq(stage.remaining)
        m.d.comb += request.enable.eq(1)
        with m.Switch(operation):
            with m.Case(FlowOperation.BRANCH):
                self._decide_branch(m)
            with m.Case(FlowOperation.CALL, FlowOperation.PUSH):
                m.d.comb += request.enable.eq(stage.target.error == WarpError.NONE)
                m.d.comb += outcome.jumps.eq(operation == FlowOperation.CALL)
                m.d.comb += outcome.error.eq(stage.target.error)
            with m.Case(FlowOperation.LEAVE):
                self._decide_leave(m)
            with m.Case(FlowOperation.PUSH_QUAD):
                m.d.comb += outcome.sets_active.eq(1)
                m.d.comb += outcome.active.eq(living_threads(stage.codes))
            with m.Case(FlowOperation.WRITE_BACK):
                m.d.comb += request.enable.eq(stage.is_executed)
            with m.Case(FlowOperation.LAUNCH):
                m.d.comb += outcome.jumps.eq(1)
                m.d.comb += outcome.sets_active.eq(1)
                m.d.comb += outcome.sets_codes.eq(1)
            with m.Case(FlowOperation.ENTER_TRAP):
                self._decide_entry(m)

    def _decide_branch(self, m: Module) -> None:
        """The group goes to the target, if no error keeps it. The first request does all; the
        second one pushes the deferred threads, if the first was not refused."""
        stage = self.gathered.payload
        instruction = stage.request.instruction
        request = self.stack.request.payload
        outcome = self.decided.payload
        is_killed = instruction.limited & self.stack.killed
        diverges = instruction.uniform & stage.has_remaining
        is_taken = Signal()
        succeeds = Signal()
        m.d.comb += is_taken.eq(stage.is_executed & ~is_killed)
        m.d.comb += succeeds.eq(is_taken & ~diverges & (stage.target.error == WarpError.NONE))
        m.d.comb += outcome.jumps.eq(succeeds)
        m.d.comb += outcome.sets_active.eq(succeeds & ~self.is_followup)
        m.d.comb += outcome.active.eq(stage.group)
        m.d.comb += outcome.has_no_result.eq(self.is_followup)
        with m.If(self.is_followup):
            m.d.comb += request.enable.eq(succeeds & ~self.progress.is_refused)
        with m.Else():
            m.d.comb += request.enable.eq(succeeds & (stage.has_remaining | stage.has_deferred))
        with m.If(is_taken & diverges):
            m.d.comb += outcome.error.eq(WarpError.DIVERGENT)
        with m.Elif(is_taken):
            m.d.comb += outcome.error.eq(stage.target.error)

    def _decide_leave(self, m: Module) -> None:
        """If active threads remain, they go on behind the instruction. If none does, the stack
        unwinds, and its result says which threads go on."""
        stage = self.gathered.payload
        outcome = self.decided.payload
        some_remain = stage.is_executed & stage.has_remaining
        m.d.comb += self.stack.request.payload.enable.eq(~stage.has_remaining)
        m.d.comb += outcome.sets_active.eq(some_remain)
        m.d.comb += outcome.sets_codes.eq(some_remain)

    def _decide_entry(self, m: Module) -> None:
        """Entering the trap handler: the last request has the result."""
        stage = self.gathered.payload
        outcome = self.decided.payload
        progress = self.progress
        enters = self.is_last & ~progress.is_refused
        with m.If(self.is_followup):
            m.d.comb += self.stack.request.payload.enable.eq(~progress.is_refused)
        with m.Else():
            m.d.comb += self.stack.request.payload.enable.eq(
                stage.target.error == WarpError.NONE)
        m.d.comb += outcome.active.eq(living_threads(stage.codes))
        m.d.comb += outcome.jumps.eq(1)
        m.d.comb += outcome.sets_active.eq(enters)
        m.d.comb += outcome.sets_codes.eq(enters)
        m.d.comb += outcome.has_no_result.eq(~self.is_last)
        m.d.comb += outcome.reports_error.eq(1)
        m.d.comb += outcome.error.eq(progress.error)

    def _promise(self, m: Module) -> None:
        """What the stages and the stack promise each other."""
        stage = self.gathered.payload
        is_entry = self._operation == FlowOperation.ENTER_TRAP
        progress = self.progress
        m.d.sync += Assert(
            ~(self.gathered.valid & self._operation.concerns_all & stage.has_remaining),
            "a push that not all active threads execute")
        m.d.sync += Assert(
            ~self.is_followup | self.gathered.valid, "an instruction with several requests is lost")
        m.d.sync += Assert(
            ~self.is_followup | is_entry | (self._operation == FlowOperation.BRANCH),
            "an instruction that has one request has another one")
        m.d.sync += Assert(
            (progress.pending_holes == 0) | (progress.frame_token == 0),
            "a hole is pushed in the midst of a frame")
