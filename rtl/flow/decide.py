"""Decide: the second stage. It sends an instruction's requests to the stack, and computes what the
instruction does to its warp."""

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
"""The progress of an instruction with several requests, after the first one.

Fields
------
is_refused : 1
    The stack has refused the first request.
error : WarpError
    Why the warp cannot enter the trap handler.
holes_below, pending_holes : HOLE_BITS
    The number of holes under the trap frame, and how many of them are not pushed yet.
frame_token : range(TOKENS_PER_LINE)
    The next token of the frame, after the holes.
"""

_TOKEN = data.StructLayout({"operand": PC_BITS, "mask": WARP_THREADS})
"""The fields of a stack_request that a token stores: its pc or other operand, and its mask."""


def _token(operand: Any, mask: Any) -> Any:
    """A token with an operand and a mask."""
    return struct_value(_TOKEN, operand=operand, mask=mask)


class DecideStage(Component):
    """The second stage: sends a request to the stack for each instruction, and computes the
    outcome: what the instruction does to its warp unless the stack refuses.

    An instruction that does not need the stack requests a NONE operation, so that flow results
    leave in the order of stack results. Two instructions have several requests. The stack answers
    the first one a cycle later; the others wait for that answer (``answer_is_due``). ::

        indexed branch       PUSH the remaining threads --> PUSH the deferred threads
        entering the trap    SET_MODE --> PUSH a hole, for each --> PUSH four frame tokens

    An indexed branch has two requests if some active threads do not branch, and others branch to
    another target. The first PUSH is refused unless there is room for both tokens; then nothing is
    pushed. SET_MODE reports how many holes the topmost line has room for, and whether holes and
    frame have room. If they have none, the mode does not change, and a single request that does
    nothing follows.

    Members
    -------
    gathered : In(stream of gathered_instruction)
    stack : Out(StackPort)
        Its results are used by the conclude stage.
    decided : Out(Event(decided_outcome))
        The outcome of the request that the stack accepts in this cycle. Its ``warp`` and ``basic``
        are valid as long as the instruction is in this stage.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "gathered": In(stream.Signature(gathered_instruction(params))),
            "stack": Out(StackPort(params)),
            "decided": Out(Event(decided_outcome(params))),
        })
        self.is_followup = Signal()
        """The instruction's first request was accepted, and the instruction has others."""
        self.is_last = Signal()
        """This is the instruction's last request."""
        self.progress: Any = Signal(_PROGRESS)
        """Of an instruction with several requests; valid after the answer to the first one."""
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

    # The sequence of requests.

    @property
    def _operation(self) -> Any:
        return self.gathered.payload.request.instruction.operation

    @property
    def _needs_two_pushes(self) -> Value:
        """A branch pushes two tokens: remaining threads, and deferred threads."""
        stage = self.gathered.payload
        return stage.has_remaining & stage.has_deferred

    def _sequence(self, m: Module) -> None:
        """Sends an instruction's requests one after the other."""
        request = self.stack.request
        progress = self.progress
        is_accepted = self.decided.valid
        frame_is_complete = (progress.pending_holes == 0) & (
            progress.frame_token == _LAST_FRAME_TOKEN)
        with m.If(self._operation == FlowOperation.ENTER_TRAP):
            m.d.comb += self.is_last.eq(
                self.is_followup & (progress.is_refused | frame_is_complete))
        with m.Else():
            m.d.comb += self.is_last.eq(self.is_followup | ~self._needs_two_pushes)
        m.d.comb += request.valid.eq(self.gathered.valid & ~self._answer_is_due)
        m.d.comb += is_accepted.eq(request.valid & request.ready)
        m.d.comb += self.gathered.ready.eq(~self.gathered.valid | (is_accepted & self.is_last))
        m.d.sync += self._answer_is_due.eq(is_accepted & ~self.is_followup & ~self.is_last)
        with m.If(is_accepted):
            m.d.sync += self.is_followup.eq(~self.is_last)

    def _keep_progress(self, m: Module) -> None:
        """Stores the stack's answer to the first request; then counts holes and tokens."""
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
        """Selects the request's operation and the kind of its token. :meth:`_decide` sets
        ``enable``."""
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
        """Selects the token's pc and mask. Deferred threads execute the branch again; other threads
        continue at the next instruction, or at the target. SET_MODE has the mode in the lowest bits
        of its operand, which are 0 in a pc. LEAVE_TRAP requests it with its own pc, so these bits
        are 0, for user mode; ENTER_TRAP sets them to ENTER_IF_ROOM."""
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
        """Selects a token of a trap frame. The lowest one, TRAP, has the warp's pc and active
        threads. The lowest bits of a pc are 0, and contain the number of holes under the frame. The
        other tokens, MASKS, have the threads of two codes each: one in the mask, the other in place
        of the pc."""
        stage = self.gathered.payload
        progress = self.progress
        with m.If(progress.frame_token == 0):
            m.d.comb += token.eq(_token(stage.request.pc | progress.holes_below, stage.group))
        with m.Else():
            m.d.comb += token.eq(_token(
                self._threads_with_code(FRAME_PC_CODES),
                self._threads_with_code(FRAME_MASK_CODES)))

    def _threads_with_code(self, codes: tuple[ThreadCode, ...]) -> Value:
        """The threads with one code. ``codes`` has the code for each token of the frame."""
        width = Shape.cast(ThreadCode).width
        of_token = Array(Const(code.value, width) for code in codes)
        held = of_token[self.progress.frame_token]
        return Cat(code.as_value() == held for code in self.gathered.payload.codes)

    def _assign_codes(self, m: Module) -> None:
        """The codes that the stack compares with tokens. Threads that leave already have their new
        code. For a QUAD token, and in the trap handler, the stack only needs to know which threads
        live. For a RESTORE and for a launch, no thread's code matters."""
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
        """Decides whether the request is enabled, and computes the outcome."""
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
        """A branch: the group jumps to the target, unless there is an error. The first request sets
        the outcome. The second one pushes the deferred threads, if the first was not refused."""
        stage = self.gathered.payload
        instruction = stage.request.instruction
        request = self.stack.request.payload
        outcome = self.decided.payload
        is_killed = instruction.limited & self.stack.killed
        is_divergent = instruction.uniform & stage.has_remaining
        is_taken = Signal()
        succeeds = Signal()
        m.d.comb += is_taken.eq(stage.is_executed & ~is_killed)
        m.d.comb += succeeds.eq(is_taken & ~is_divergent & (stage.target.error == WarpError.NONE))
        m.d.comb += outcome.jumps.eq(succeeds)
        m.d.comb += outcome.sets_active.eq(succeeds & ~self.is_followup)
        m.d.comb += outcome.active.eq(stage.group)
        m.d.comb += outcome.has_no_result.eq(self.is_followup)
        with m.If(self.is_followup):
            m.d.comb += request.enable.eq(succeeds & ~self.progress.is_refused)
        with m.Else():
            m.d.comb += request.enable.eq(succeeds & (stage.has_remaining | stage.has_deferred))
        with m.If(is_taken & is_divergent):
            m.d.comb += outcome.error.eq(WarpError.DIVERGENT)
        with m.Elif(is_taken):
            m.d.comb += outcome.error.eq(stage.target.error)

    def _decide_leave(self, m: Module) -> None:
        """BRK, RET and others: active threads that remain continue at the next instruction. If none
        remains, the stack unwinds, and its result contains the threads that continue."""
        stage = self.gathered.payload
        outcome = self.decided.payload
        some_remain = stage.is_executed & stage.has_remaining
        m.d.comb += self.stack.request.payload.enable.eq(~stage.has_remaining)
        m.d.comb += outcome.sets_active.eq(some_remain)
        m.d.comb += outcome.sets_codes.eq(some_remain)

    def _decide_entry(self, m: Module) -> None:
        """ENTER_TRAP: the flow result is that of the last request."""
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
        """Assertions about the stages and the stack."""
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
