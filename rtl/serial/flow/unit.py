"""The flow unit of the serial machine: an instruction takes passes over the threads of its warp."""

from typing import Any

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Shape, Signal, Value, unsigned
from amaranth.lib import data, enum, memory, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.flow.stages import PC_BITS
from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import (
    ENTER_IF_ROOM,
    FRAME_MASK_CODES,
    FRAME_PC_CODES,
    FRAME_WORD_CODES,
    REPORT_BITS,
    Event,
    FlowOperation,
    SerialStackPort,
    StackOperation,
    ThreadCode,
    flow_launch,
    flow_request,
    flow_result,
    reported,
)
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import common_fields
from rtl.wires import IN_BLOCKS
from rtl.word import instruction_address

from .target import TargetAccumulator

__all__ = ["SerialFlowUnit"]

_CODE_BITS = Shape.cast(ThreadCode).width
_LAST_FRAME_TOKEN = TOKENS_PER_LINE - 1
_FRAME_WORDS = len(FRAME_WORD_CODES)
_FIRST_CODE_WORD = 2
"""The first word of a frame that holds threads of a code. Words 0 and 1 are the mask and the pc of
the TRAP token."""


def _code_of(codes: Any, index: Value) -> Value:
    """The code at an index, as a number."""
    return Array(Const(code.value, _CODE_BITS) for code in codes)[index]


class _Thread(data.Struct):
    """The stored state of a thread."""

    active: unsigned(1)
    code: ThreadCode
    """Why the thread is not active."""


class _ThreadRole(data.Struct):
    """The part that the thread of this step has in the instruction: for one thread the bits of the
    masks of :func:`~rtl.flow.stages.gathered_instruction`."""

    in_group: unsigned(1)
    """The thread executes the instruction; of an indexed branch, with the target of the group."""
    is_deferred: unsigned(1)
    """The thread executes an indexed branch with another target: it branches later."""
    remains: unsigned(1)
    """The thread is active and does not execute the instruction."""
    lives: unsigned(1)
    """The thread's code is neither EXIT nor KILLED."""


class _Word(enum.Enum, shape=2):
    """The source of a token's pc in a stack request, or of the pc in the result."""

    PC = 0
    NEXT_PC = 1
    TARGET = 2
    PC_MASK = 3
    """The mask of threads that a MASKS token of a trap frame has in place of a pc."""


class SerialFlowUnit(Component):
    """Stores the active bit and the code of all threads of all warps. Executes the instructions
    that change them, the pc, or the call/return stack.

    In a *pass* the unit reads the warp's 32 threads, one a cycle. ::

        IDLE --> FIRST --> TOKEN --> GATHER --> OPERAND --> REQUEST --> CONCLUDE --> COMMIT --+
                             ^  |                  ^         |  ^           ^           |      |
                             |  +------------------+         |  v           +-----------+      |
                             |   no mask to gather           | stack         word of a frame   |
                             +-------------------------------+                                 |
                                another token                    IDLE <-- RESULT <-- WAIT <-- DONE

    =========  =========  ====================================================================
    state      cycles     action
    =========  =========  ====================================================================
    IDLE       1 or more  waits for a launch or a request; starts the first pass
    FIRST      a pass     determines which threads execute the instruction; accumulates the target
    TOKEN      1          starts a pass, if the next request may push a token
    GATHER     a pass     collects the mask of that token
    OPERAND    1          registers the request's operand, such as the token's pc
    REQUEST    any        the stack executes the request; for an unwind it requests passes
    CONCLUDE   1          registers the outcome; starts a pass
    COMMIT     a pass     writes the threads; for a RESTORE, CONCLUDE and COMMIT are repeated for
                          each word of the frame that holds codes
    DONE       1          ``launch.ready``, if a launch is executed
    WAIT       1          delays the result
    RESULT     1          ``result.valid``; ``request.ready``, if a request is executed
    =========  =========  ====================================================================

    A pass takes 33 cycles after the cycle that starts it.

    Each instruction makes one stack request, with two exceptions. An indexed branch that pushes two
    tokens makes two. ENTER_TRAP makes a SET_MODE and then one push for each hole and each token of
    the frame. Only the first request can fail: it checks that there is room for all of them.

    If a launch and a request are valid at once, the launch is executed first. With an error the
    threads are not changed, with the exceptions of :class:`~rtl.flow.FlowUnit`: they are written
    only in COMMIT, after the outcome is known. After a reset, the threads of a warp are undefined
    until its launch has written them.

    Members
    -------
    request : In(stream of flow_request)
        ``ready`` in the cycle of its result.
    launch : In(stream of flow_launch)
        A new warp. Has priority over ``request``. The pc of its result is where the warp begins.
    report_mask : In(32)
        See FlowUnit.
    result : Out(Event of flow_result)
        For a launch: two cycles after ``launch.ready``.
    stack : Out(SerialStackPort)

    Attributes
    ----------
    threads : Memory
        The state of all threads, by warp and thread.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "request": In(stream.Signature(flow_request(params))),
            "launch": In(stream.Signature(flow_launch(params))),
            "report_mask": In(REPORT_BITS),
            "result": Out(Event(flow_result(params))),
            "stack": Out(SerialStackPort(params)),
        })
        self.threads = memory.Memory(
            shape=_Thread, depth=WARP_THREADS * params.warps, init=[], attrs=IN_BLOCKS)
        self.target = TargetAccumulator(params)

        # The instruction.
        self._is_launch = Signal(name="is_launch")
        """A launch is executed, not a request. Constant outside of IDLE."""
        self._current: Any = Signal(flow_request(params), name="current")
        """The request that is executed, or the launch in this form: then only the warp, the pc and
        the operation LAUNCH have a meaning."""
        self._is_executed = Signal(name="is_executed")
        """Some thread executes the instruction. Valid after the first pass, as are the next two."""
        self._has_deferred = Signal(name="has_deferred")
        """Some thread ``is_deferred``."""
        self._has_remaining = Signal(name="has_remaining")
        """Some thread ``remains``."""

        # Outputs of the states, driven by :meth:`_sequence`.
        self._is_idle = Signal(name="is_idle")
        """The state is IDLE."""
        self._starts_pass = Signal(name="starts_pass")
        """A pass starts: its first step is two cycles later."""
        self._is_first_pass = Signal(name="is_first_pass")
        """The state is FIRST."""
        self._gathers = Signal(name="gathers")
        """The state is GATHER: the pass collects a token's mask."""
        self._concludes = Signal(name="concludes")
        """The state is CONCLUDE, for the first time in this instruction."""
        self._commits = Signal(name="commits")
        """The state is COMMIT: the pass writes the threads."""
        self._restores = Signal(name="restores")
        """The pass of COMMIT is for a word of a frame that holds codes."""

        # The thread of a step.
        self._is_last_step = Signal(name="is_last_step")
        """The step is thread 31's."""
        self._old: Any = Signal(_Thread, name="old")
        """The thread's stored state."""
        self._write = self.threads.write_port()
        self._new: Any = self._write.data
        """The thread's new state, written if the pass ``commits``."""
        self._role: Any = Signal(_ThreadRole, name="role")

        # Tokens.
        self._is_followup = Signal(name="is_followup")
        """The stack has executed the first request of this instruction."""
        self._holes_below = Signal(HOLE_BITS, name="holes_below")
        """The number of holes under the trap frame."""
        self._pending_holes = Signal(HOLE_BITS, name="pending_holes")
        """The number of these holes that are not pushed yet."""
        self._frame_token = Signal(range(TOKENS_PER_LINE), name="frame_token")
        """If no hole is pending: the number of the next token of the trap frame."""
        self._pc_mask = Signal(WARP_THREADS, name="pc_mask")
        """The mask of threads that the next token has in place of a pc."""
        self._frame_word = self.stack.word
        """The word of the trap frame that is restored; 0 before the first one that holds codes."""
        self._selected = Signal(_Word, name="selected")
        self._selected_word = Signal(PC_BITS, name="selected_word")
        """The value of ``selected``, for the request or the result: see :meth:`_select_word`."""

        # The outcome.
        self._takes_branch = Signal(name="takes_branch")
        """The instruction is a branch that some thread executes, that the kill bit does not
        prevent, and that has no error."""
        self._first_error = Signal(WarpError, name="first_error")
        """The stack's error for the first request, stored."""
        self._stack_error = Signal(WarpError, name="stack_error")
        """The stack's error for the first request: ``first_error``, or before that is stored, the
        stack's result."""
        self._error = Signal(WarpError, name="error")
        """The error of the instruction, valid in CONCLUDE."""
        self._continuation = Signal(_Word, name="continuation")
        """The pc at which the warp continues, unless an unwind has found a token's pc."""
        self._sets_active = Signal(name="sets_active")
        """COMMIT writes the active bits that the instruction defines, unless the stack resumes."""
        self._sets_codes = Signal(name="sets_codes")
        """COMMIT writes ``stack.code`` as the codes."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.threads = self.threads
        m.submodules.target = self.target
        self._select_instruction(m)
        self._run_pass(m)
        self._classify_thread(m)
        self._assign_code(m)
        self._update_thread(m)
        self._resolve_target(m)
        self._gather_token(m)
        self._request(m)
        self._enable(m)
        self._select_word(m)
        self._decide(m)
        self._conclude(m)
        self._answer(m)
        self._sequence(m)
        return m

    def _select_instruction(self, m: Module) -> None:
        """Selects a launch or a request, in IDLE, until the unit is in IDLE again."""
        with m.If(self._is_idle):
            m.d.sync += self._is_launch.eq(self.launch.valid)
        m.d.comb += self._current.eq(self.request.payload)
        with m.If(self._is_launch):
            m.d.comb += common_fields(self._current, self.launch.payload)
            m.d.comb += self._operation.eq(FlowOperation.LAUNCH)

    @property
    def _operation(self) -> Any:
        return self._current.instruction.operation

    # The threads.

    def _run_pass(self, m: Module) -> None:
        """A pass: ``step`` is 1 for 32 cycles, from the second cycle after ``starts_pass`` or
        ``looks`` on. A thread is read in the cycle before its step, and is written in its step if
        the pass ``commits``."""
        stack = self.stack
        warp = self._current.warp
        read = self.threads.read_port(domain="comb")
        write = self._write
        reads = Signal()
        read_thread = Signal(range(WARP_THREADS))
        m.d.comb += read.addr.eq(Cat(read_thread, warp))
        with m.If(self._starts_pass | stack.looks):
            m.d.sync += reads.eq(1)
        with m.Elif(read_thread == WARP_THREADS - 1):
            m.d.sync += reads.eq(0)
        with m.If(reads):
            m.d.sync += read_thread.eq(read_thread + 1)

        m.d.sync += stack.step.eq(reads)
        m.d.sync += stack.thread.eq(read_thread)
        m.d.sync += self._old.eq(read.data)
        m.d.comb += self._is_last_step.eq(stack.step & (stack.thread == WARP_THREADS - 1))

        m.d.comb += write.addr.eq(Cat(stack.thread, warp))
        m.d.comb += write.en.eq(stack.step & self._commits)

    def _classify_thread(self, m: Module) -> None:
        """The thread's role. In a launch all 32 threads are active. Threads that are not in the
        launch's mask execute it: like the threads of a LEAVE, they leave the active mask, with the
        code KILLED."""
        request = self._current
        instruction = request.instruction
        thread = self.stack.thread
        role = self._role
        is_active = Signal()
        executes = Signal()
        has_operand = Signal()
        with m.If(self._is_launch):
            m.d.comb += is_active.eq(1)
            m.d.comb += executes.eq(~self.launch.payload.threads.bit_select(thread, 1))
            m.d.comb += has_operand.eq(1)
        with m.Else():
            guard = request.guard.bit_select(thread, 1) | instruction.is_trap_move
            m.d.comb += is_active.eq(self._old.active)
            m.d.comb += executes.eq(is_active & guard)
            m.d.comb += has_operand.eq(request.same.bit_select(thread, 1) | ~instruction.indexed)
        m.d.comb += role.in_group.eq(executes & has_operand)
        m.d.comb += role.is_deferred.eq(executes & ~has_operand)
        m.d.comb += role.remains.eq(is_active & ~executes)
        m.d.comb += role.lives.eq(~self._old.code.is_dead)

        # Until COMMIT no thread changes, so later passes set the same flags again.
        with m.If(self._is_idle):
            m.d.sync += self._is_executed.eq(0)
            m.d.sync += self._has_deferred.eq(0)
            m.d.sync += self._has_remaining.eq(0)
        with m.Elif(self.stack.step):
            m.d.sync += self._is_executed.eq(self._is_executed | executes)
            m.d.sync += self._has_deferred.eq(self._has_deferred | role.is_deferred)
            m.d.sync += self._has_remaining.eq(self._has_remaining | role.remains)

    def _assign_code(self, m: Module) -> None:
        """The thread's code after the instruction, which the stack compares with tokens. A thread
        that leaves has the instruction's code. POP_QUAD and ENTER_TRAP clear the codes of threads
        that live; a RESTORE or a launch clears all codes, except those of threads that leave the
        active mask."""
        operation = self._operation
        code = self.stack.code
        role = self._role
        with m.If(operation.ends_warp):
            m.d.comb += code.eq(ThreadCode.EXIT)
        with m.Elif(operation.gives_code & role.in_group):
            with m.If(self._is_launch):
                m.d.comb += code.eq(ThreadCode.KILLED)
            with m.Else():
                m.d.comb += code.eq(self._current.instruction.code)
        with m.Elif(operation.clears_codes | (operation.clears_living_codes & role.lives)):
            m.d.comb += code.eq(ThreadCode.NONE)
        with m.Else():
            m.d.comb += code.eq(self._old.code)

    def _update_thread(self, m: Module) -> None:
        """The thread's new state; in COMMIT it is also shifted into the result's masks."""
        result = self.result.payload
        codes: Any = result.codes.as_value()
        m.d.comb += self._new.eq(self._old)
        with m.If(self._restores):
            self._restore_code(m)
        with m.Else():
            self._update_active(m)
            self._update_code(m)
        with m.If(self.stack.step & self._commits):
            m.d.sync += result.active.eq(Cat(result.active[1:], self._new.active))
            m.d.sync += codes.eq(Cat(codes[_CODE_BITS:], self._new.code))

    def _restore_code(self, m: Module) -> None:
        """A thread whose bit is set in the frame's word gets the code of that word. An active
        thread gets no EXIT or KILLED: its code becomes NONE."""
        code: Any = ThreadCode(_code_of(FRAME_WORD_CODES, self._frame_word))
        with m.If(self.stack.bit):
            with m.If(code.is_dead & self._old.active):
                m.d.comb += self._new.code.eq(ThreadCode.NONE)
            with m.Else():
                m.d.comb += self._new.code.eq(code)

    def _update_active(self, m: Module) -> None:
        """The new active bit. In order of priority: the thread is revived, if an unwind resumes;
        the bit that the instruction defines; 0, if the warp ends; else unchanged."""
        answer = self.stack.result
        operation = self._operation
        revives_living = (operation == FlowOperation.PUSH_QUAD) | (
            operation == FlowOperation.ENTER_TRAP)
        with m.If(answer.resume):
            m.d.comb += self._new.active.eq(self.stack.revived)
        with m.Elif(self._sets_active):
            with m.If(operation == FlowOperation.BRANCH):
                m.d.comb += self._new.active.eq(self._role.in_group)
            with m.Elif(revives_living):
                m.d.comb += self._new.active.eq(self._role.lives)
            with m.Else():
                m.d.comb += self._new.active.eq(self._role.remains)
        with m.Elif(answer.empty):
            m.d.comb += self._new.active.eq(0)

    def _update_code(self, m: Module) -> None:
        """The new code: NONE if an unwind revives the thread. When the warp ends, a thread that
        waits for a RETURN token gets EXIT."""
        answer = self.stack.result
        code = self.stack.code
        with m.If(self._returns & self.stack.revived):
            m.d.comb += self._new.code.eq(ThreadCode.NONE)
        with m.Elif(answer.empty & (code == ThreadCode.RETURN)):
            m.d.comb += self._new.code.eq(ThreadCode.EXIT)
        with m.Elif(answer.empty | self._returns | self._sets_codes):
            m.d.comb += self._new.code.eq(code)

    # The request to the stack.

    def _resolve_target(self, m: Module) -> None:
        """Connects the accumulator: the steps of the first pass are its cycles."""
        target = self.target
        m.d.comb += target.request.eq(self._current)
        m.d.comb += target.clear.eq(self._is_idle)
        m.d.comb += target.cycle.valid.eq(self.stack.step & self._is_first_pass)
        m.d.comb += target.cycle.payload.eq(self.stack.thread)

    @property
    def _has_bad_target(self) -> Value:
        return self.target.error != WarpError.NONE

    @property
    def _is_entry(self) -> Value:
        return self._operation == FlowOperation.ENTER_TRAP

    @property
    def _pushes_deferred(self) -> Value:
        """For a branch: the next token is for the deferred threads, with the branch's own pc. Else
        it is for the remaining threads, with the next pc. If there are both, the remaining threads'
        token is pushed first."""
        return self._is_followup | ~self._has_remaining

    @property
    def _is_trap_token(self) -> Value:
        """The next token is the TRAP token of a frame. It has the request's pc."""
        is_first = (self._pending_holes == 0) & (self._frame_token == 0)
        return self._is_entry & self._is_followup & is_first

    def _gather_token(self, m: Module) -> None:
        """Shifts the thread's bit into the token's mask, and into ``pc_mask``, which the MASKS
        tokens of a frame have in place of a pc. A hole has a mask of 0. The TRAP token's mask are
        the active threads. A MASKS token has the threads of one code in its mask, and the threads
        of another one in ``pc_mask``."""
        is_in_mask = Signal()
        is_in_pc = Signal()
        is_hole = self._is_entry & (self._pending_holes != 0)
        holds_codes = self._is_entry & (self._frame_token != 0)
        old_code = self._old.code.as_value()
        with m.If(~is_hole):
            with m.If(self._operation == FlowOperation.BRANCH):
                with m.If(self._pushes_deferred):
                    m.d.comb += is_in_mask.eq(self._role.is_deferred)
                with m.Else():
                    m.d.comb += is_in_mask.eq(self._role.remains)
            with m.Elif(holds_codes):
                mask_code = _code_of(FRAME_MASK_CODES, self._frame_token)
                pc_code = _code_of(FRAME_PC_CODES, self._frame_token)
                m.d.comb += is_in_mask.eq(old_code == mask_code)
                m.d.comb += is_in_pc.eq(old_code == pc_code)
            with m.Else():
                m.d.comb += is_in_mask.eq(self._role.in_group)
        mask = self.stack.request.payload.mask
        with m.If(self.stack.step & self._gathers):
            m.d.sync += mask.eq(Cat(mask[1:], is_in_mask))
            m.d.sync += self._pc_mask.eq(Cat(self._pc_mask[1:], is_in_pc))

    def _request(self, m: Module) -> None:
        """Drives the request's operation and kind, and the stack's configuration. Operation, kind,
        mask and operand are registers."""
        instruction = self._current.instruction
        stack_request = self.stack.request.payload
        configuration = self.stack.configuration
        m.d.comb += configuration.eq(self.launch.payload.stack)
        with m.If(~self._is_launch):
            m.d.comb += configuration.base.eq(self._current.operand)    # for SET_BASE
        needs_two_pushes = self._has_remaining & self._has_deferred
        m.d.comb += stack_request.warp.eq(self._current.warp)
        m.d.comb += stack_request.pair.eq(needs_two_pushes & ~self._is_followup)

        m.d.sync += stack_request.kind.eq(instruction.kind)
        with m.If(self._is_launch):
            m.d.sync += stack_request.operation.eq(StackOperation.LAUNCH)
        with m.Elif(~self._is_entry):
            m.d.sync += stack_request.operation.eq(instruction.stack_operation)
        with m.Elif(self._is_followup):
            m.d.sync += stack_request.operation.eq(StackOperation.PUSH)
        with m.Else():
            m.d.sync += stack_request.operation.eq(StackOperation.SET_MODE)
        with m.If(self._is_entry):
            with m.If(self._pending_holes != 0):
                m.d.sync += stack_request.kind.eq(TokenKind.NONE)
            with m.Elif(self._frame_token == 0):
                m.d.sync += stack_request.kind.eq(TokenKind.TRAP)
            with m.Else():
                m.d.sync += stack_request.kind.eq(TokenKind.MASKS)

    def _enable(self, m: Module) -> None:
        """The request's ``enable``. A branch that all active threads take with one target pushes no
        token. A LEAVE unwinds only if no active thread remains. With a bad target nothing is
        pushed."""
        enable = self.stack.request.payload.enable
        with m.Switch(self._operation):
            with m.Case(FlowOperation.BRANCH):
                m.d.comb += enable.eq(
                    self._takes_branch & (self._has_remaining | self._has_deferred))
            with m.Case(FlowOperation.CALL, FlowOperation.PUSH):
                m.d.comb += enable.eq(~self._has_bad_target)
            with m.Case(FlowOperation.LEAVE):
                m.d.comb += enable.eq(~self._has_remaining)
            with m.Case(FlowOperation.WRITE_BACK):
                m.d.comb += enable.eq(self._is_executed)
            with m.Case(FlowOperation.ENTER_TRAP):
                m.d.comb += enable.eq(self._is_followup | ~self._has_bad_target)
            with m.Default():
                m.d.comb += enable.eq(1)

    def _select_word(self, m: Module) -> None:
        """One multiplexer for two uses: in CONCLUDE, the pc at which the warp continues; in all
        other states, the request's ``operand``, which is a token's pc or the operand of a SET
        operation."""
        is_branch = self._operation == FlowOperation.BRANCH
        is_call = self._operation == FlowOperation.CALL
        leaves_trap = self._operation == FlowOperation.LEAVE_TRAP
        with m.If(self._concludes):
            m.d.comb += self._selected.eq(self._continuation)
        with m.Elif(self._is_trap_token | (is_branch & self._pushes_deferred) | leaves_trap):
            m.d.comb += self._selected.eq(_Word.PC)
        with m.Elif(self._is_entry):
            m.d.comb += self._selected.eq(_Word.PC_MASK)
        with m.Elif(is_branch | is_call):
            m.d.comb += self._selected.eq(_Word.NEXT_PC)
        with m.Else():
            m.d.comb += self._selected.eq(_Word.TARGET)
        words = {
            _Word.PC: self._current.pc,
            _Word.NEXT_PC: self.target.next_pc,
            _Word.TARGET: self.target.target,
            _Word.PC_MASK: self._pc_mask,
        }
        with m.Switch(self._selected):
            for name, word in words.items():
                with m.Case(name):
                    m.d.comb += self._selected_word.eq(word)

        # The low bits of a pc are 0. They hold the flags of a SET_MODE, or in a TRAP token the
        # number of holes under the frame.
        flags = Signal(HOLE_BITS)
        with m.If(self._is_trap_token):
            m.d.comb += flags.eq(self._holes_below)
        with m.Elif(self._is_entry & ~self._is_followup):
            m.d.comb += flags.eq(ENTER_IF_ROOM)
        m.d.sync += self.stack.request.payload.operand.eq(self._selected_word | flags)

    # The outcome.

    @property
    def _returns(self) -> Value:
        """An unwind has found a token: its threads resume at its pc. False for POP_QUAD, whose
        threads resume at the next instruction."""
        return self.stack.result.resume & (self._operation != FlowOperation.POP_QUAD)

    @property
    def _fails(self) -> Value:
        return self._error != WarpError.NONE

    def _decide(self, m: Module) -> None:
        """Whether a branch is taken, and the instruction's error. An error of the branch or of the
        target has priority over one of the stack."""
        instruction = self._current.instruction
        is_killed = instruction.limited & self.stack.killed
        may_branch = self._is_executed & ~is_killed
        diverges = instruction.uniform & self._has_remaining
        known_error = Signal(WarpError)
        with m.Switch(self._operation):
            with m.Case(FlowOperation.BRANCH), m.If(may_branch):
                m.d.comb += self._takes_branch.eq(~diverges & ~self._has_bad_target)
                m.d.comb += known_error.eq(
                    Mux(diverges, WarpError.DIVERGENT, self.target.error))
            with m.Case(FlowOperation.CALL, FlowOperation.PUSH, FlowOperation.ENTER_TRAP):
                m.d.comb += known_error.eq(self.target.error)

        m.d.comb += self._stack_error.eq(
            Mux(self._is_followup, self._first_error, self.stack.result.error))
        with m.If(self.stack.request.valid & self.stack.request.ready):
            m.d.sync += self._first_error.eq(self._stack_error)
        m.d.comb += self._error.eq(
            Mux(known_error != WarpError.NONE, known_error, self._stack_error))

    def _conclude(self, m: Module) -> None:
        """Selects the pc at which the warp continues, and whether COMMIT changes threads. After an
        error the warp continues at the next instruction (ours), but with a trap move at the
        request's pc."""
        operation = self._operation
        is_launch = operation == FlowOperation.LAUNCH
        jumps = self._takes_branch | self._is_entry | (operation == FlowOperation.CALL)
        with m.If(jumps & ~self._fails):
            m.d.comb += self._continuation.eq(_Word.TARGET)
        with m.Elif(operation.retries_on_error | is_launch):
            m.d.comb += self._continuation.eq(_Word.PC)
        with m.Else():
            m.d.comb += self._continuation.eq(_Word.NEXT_PC)

        some_leave = self._is_executed & self._has_remaining
        leaves_without_unwind = (operation == FlowOperation.LEAVE) & some_leave
        enters_trap = self._is_entry & ~self._fails
        sets_both = leaves_without_unwind | enters_trap | self._is_launch
        is_push_quad = operation == FlowOperation.PUSH_QUAD
        is_refused = self._stack_error != WarpError.NONE
        with m.If(self._concludes):
            m.d.sync += self._sets_codes.eq(sets_both)
            m.d.sync += self._sets_active.eq(
                ~is_refused & (sets_both | self._takes_branch | is_push_quad))

    def _answer(self, m: Module) -> None:
        """Drives the result, except for the threads. An error of ENTER_TRAP is reported with any
        report mask."""
        operation = self._operation
        answer = self.stack.result
        result = self.result.payload
        is_no_instruction = operation.retries_on_error | (operation == FlowOperation.LAUNCH)
        has_left = (operation == FlowOperation.LEAVE) & self._is_executed & (
            answer.empty | ~self._fails)
        resumes_at_token = self._returns & ~self._fails
        is_reported = self._is_entry | reported(self.report_mask, self._error)
        m.d.comb += result.request_pc.eq(self._current.pc)
        with m.If(self._concludes):
            m.d.sync += result.pc.eq(Mux(resumes_at_token, answer.pc, self._selected_word))
            m.d.sync += result.error.eq(Mux(is_reported, self._error, WarpError.NONE))
            m.d.sync += result.warp.eq(self._current.warp)
            m.d.sync += result.value.eq(answer.value)
            m.d.sync += result.terminated.eq(answer.empty)
            m.d.sync += result.kept.eq(
                has_left & self._current.instruction.keep_reference)
            m.d.sync += result.as_predicted.eq(~self._fails & ~is_no_instruction)

    # The states.

    def _sequence(self, m: Module) -> None:
        """The states of an instruction."""
        with m.FSM(name="step"):
            self._begin(m)
            self._prepare_request(m)
            self._complete_request(m)
            self._write_threads(m)
            self._finish(m)
        m.d.sync += Assert(
            (self._pending_holes == 0) | (self._frame_token == 0),
            "a hole is pushed in the midst of a frame")

    def _begin(self, m: Module) -> None:
        """Waits for a launch or a request; then the first pass."""
        with m.State("IDLE"):
            m.d.comb += self._is_idle.eq(1)
            m.d.sync += self._is_followup.eq(0)
            m.d.sync += self._pending_holes.eq(0)
            m.d.sync += self._frame_token.eq(0)
            m.d.sync += self._frame_word.eq(0)
            with m.If(self.launch.valid | self.request.valid):
                m.d.comb += self._starts_pass.eq(1)
                m.next = "FIRST"
        with m.State("FIRST"):
            m.d.comb += self._is_first_pass.eq(1)
            with m.If(self._is_last_step):
                m.next = "TOKEN"

    def _prepare_request(self, m: Module) -> None:
        """Collects the mask, if the request pushes a token, then registers the operand."""
        operation = self._operation
        has_token = operation.concerns_all | (operation == FlowOperation.BRANCH)
        sets_mode = self._is_entry & ~self._is_followup
        with m.State("TOKEN"):
            m.d.sync += Assert(
                ~(operation.concerns_all & self._has_remaining),
                "a push that not all active threads execute")
            with m.If(has_token & ~sets_mode):
                m.d.comb += self._starts_pass.eq(1)
                m.next = "GATHER"
            with m.Else():
                m.next = "OPERAND"
        with m.State("GATHER"):
            m.d.comb += self._gathers.eq(1)
            with m.If(self._is_last_step):
                m.next = "OPERAND"
        with m.State("OPERAND"):
            m.next = "REQUEST"

    def _complete_request(self, m: Module) -> None:
        """Waits until the stack has executed the request. An indexed branch may have a second
        request. ENTER_TRAP then has one for each hole and each token of the frame."""
        request = self.stack.request
        is_branch = self._operation == FlowOperation.BRANCH
        is_pushed = request.payload.enable & (self.stack.result.error == WarpError.NONE)
        with m.State("REQUEST"):
            m.d.comb += request.valid.eq(1)
            with m.If(request.ready):
                m.d.sync += self._is_followup.eq(1)
                m.next = "CONCLUDE"
                with m.If(is_branch & is_pushed & request.payload.pair):
                    m.next = "TOKEN"
                with m.Elif(self._is_entry & ~self._is_followup), m.If(is_pushed):
                    m.d.sync += self._holes_below.eq(self.stack.holes)
                    m.d.sync += self._pending_holes.eq(self.stack.holes)
                    m.next = "TOKEN"
                with m.Elif(self._is_entry & (self._pending_holes != 0)):
                    m.d.sync += self._pending_holes.eq(self._pending_holes - 1)
                    m.next = "TOKEN"
                with m.Elif(self._is_entry & (self._frame_token != _LAST_FRAME_TOKEN)):
                    m.d.sync += self._frame_token.eq(self._frame_token + 1)
                    m.next = "TOKEN"

    def _write_threads(self, m: Module) -> None:
        """Writes the threads; for a RESTORE then the codes of the frame, one word a pass. The
        stack's ``pc`` and ``value`` are valid for the last time in the first CONCLUDE."""
        is_restore = self._operation == FlowOperation.RESTORE
        is_last_word = self._frame_word == _FRAME_WORDS - 1
        has_frame = self.stack.result.resume & is_restore
        with m.State("CONCLUDE"):
            m.d.comb += self._starts_pass.eq(1)
            m.d.comb += self._concludes.eq(self._frame_word == 0)
            m.next = "COMMIT"
        with m.State("COMMIT"):
            m.d.comb += self._commits.eq(1)
            m.d.comb += self._restores.eq(self._frame_word != 0)
            with m.If(self._is_last_step):
                m.next = "DONE"
                with m.If(has_frame & ~is_last_word):
                    m.next = "CONCLUDE"
                    with m.If(self._frame_word == 0):
                        m.d.sync += self._frame_word.eq(_FIRST_CODE_WORD)
                    with m.Else():
                        m.d.sync += self._frame_word.eq(self._frame_word + 1)

    def _finish(self, m: Module) -> None:
        """Ends a launch or a request. WAIT makes the result of a launch come two cycles after
        ``launch.ready``."""
        result = self.result.payload
        is_at_next = instruction_address(result.pc) == instruction_address(self.target.next_pc)
        with m.State("DONE"):
            m.d.comb += self.launch.ready.eq(self._is_launch)
            m.d.sync += result.as_predicted.eq(result.as_predicted & is_at_next)
            m.next = "WAIT"
        with m.State("WAIT"):
            m.next = "RESULT"
        with m.State("RESULT"):
            m.d.comb += self.result.valid.eq(1)
            m.d.comb += self.request.ready.eq(~self._is_launch)
            m.next = "IDLE"
