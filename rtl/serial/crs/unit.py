"""The call/return stack of the serial machine: one operation at a time."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value, ValueLike, unsigned
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.crs.tokens import (
    LAST_PLACE,
    PLACE_BITS,
    POINTER_CALLS,
    STEP_BITS,
    STUCK,
    role_of,
    steps_on_chip,
)
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.tokens import API_CALL_LIMIT, HOLE_BITS, TOKENS_PER_LINE, MemoryToken, TokenKind
from rtl.layouts import (
    BEAT_BYTES,
    BEAT_NUMBER_BITS,
    BLOCK_ADDRESS_BITS,
    CRS_GRANULE_BITS,
    DEPTH_BITS,
    LINE_BITS,
    BeatPort,
    Event,
    SerialStackPort,
    SerialStackResult,
    StackEvents,
    StackOperation,
    ThreadCode,
    beat_request,
    ends_answer,
)
from rtl.params import LINE_ADDRESS_BITS, WARP_THREADS, SmParams
from rtl.structs import common_fields, struct_value

from .records import BlockWords, StackSizes, TokenWord, serial_stack_state

__all__ = ["SerialStack"]

_BEAT_BITS = 8 * BEAT_BYTES
_GRANULE_LINE_BITS = LINE_ADDRESS_BITS - BLOCK_ADDRESS_BITS
"""Width of a line's number in its granule."""
_ALIGNMENT_BITS = (INSTRUCTION_BYTES - 1).bit_length()
_STATE, _SIZES = 0, 1
"""The words of a warp in ``states``."""
_BASE, _LOCAL_SIZE = 0, 1
"""The words of a warp in ``places``."""
_MASK, _PC = 0, 1
"""The words of a token in ``tokens``."""
_PUSHES = (StackOperation.PUSH, StackOperation.CALL, StackOperation.PREPARE_CALL)
_COUNTS = (StackOperation.CALL, StackOperation.PREPARE_CALL)
_UNWINDS = (StackOperation.UNWIND, StackOperation.POP_QUAD, StackOperation.RESTORE)


class _ThreadsOfPass(data.Struct):
    """The result of a pass: for each property, whether some thread has it."""

    revived: unsigned(1)
    """The thread resumes at the token."""
    past_token: unsigned(1)
    """The thread is in the token's mask, but its code is NONE and the token's role is not: it waits
    at a SYNC or DIVERGE token further down, which is an error."""
    stuck: unsigned(1)
    """The thread waits for a token of another kind than RETURN (see ``STUCK``)."""
    returning: unsigned(1)
    """The thread waits for a RETURN token."""


class SerialStack(Component):
    """The call/return stacks of all warps: executes the operations of
    :class:`~rtl.crs.CallReturnStack`, one at a time.

    ===================  =====================================================================
    operation            states
    ===================  =====================================================================
    all                  IDLE, SIZES, STATE, LOAD, DECIDE, then those below; at the end DONE
    pushes               PUSH, COMMIT
    unwinds              (READ, LOAD, DECIDE, for a RESTORE in the trap handler); for each token
                         WALK, READ_PC, READ_MASK, COMPARE, COMPARED, POP; COMMIT
    unwind, no token     BOTTOM, BOTTOM_COMPARED, EMPTY, COMMIT
    LAUNCH; CLEAR        LAUNCH, EMPTY, COMMIT; EMPTY, COMMIT
    SET_POINTER          CLAMP, ROUND, COMMIT
    GET_POINTER          ROUND
    GET_BASE, SET_BASE   none
    SET_MODE             none, or a fill
    WRITE_BACK           a fill of the topmost line, if needed; then spills
    spill                BASE, LOCAL, LINE; SEND_PC to SEND for each token; WRITTEN, MOVED
    fill                 BASE, LOCAL, LINE, REQUEST_FILL; RECEIVE, RECEIVE_MASK for each token;
                         FILLED, MOVED
    ===================  =====================================================================

    After a spill or a fill the warp's state is written to block RAM. The operation then continues
    from that state: an unwind at WALK, all others at LOAD, so that they are decided again.

    Lines move only on demand:

    - A push that needs a new line spills the lowest line, if all lines on chip are dirty.
    - An unwind that has popped all lines on chip spills the dirty ones. Then the state has no line
      on chip, and one line after the other is filled.
    - The topmost line, if it has room but is not on chip, is filled before a push, a write-back or
      an entry of the trap handler.

    If a fill has an error, the operation ends with MMU_FAULT; a WRITE_BACK ends without an error,
    since it then has nothing to write. If a spill has an error, the operation continues as if the
    line had been written, and ``write_fault`` is valid for one cycle. An operation that fails does
    not commit, with the exceptions of ``stack_result``: the warp's depth is as before. After a
    reset, the words of a warp are undefined until its LAUNCH has written them.

    Members
    -------
    stack : In(SerialStackPort)
        A request is executed from its first cycle on; ``ready`` in the last cycle, in DONE.
    committed : Out(Event(warp, last))
        The number of the topmost token after an unwind, SET_POINTER, LAUNCH or CLEAR; all ones when
        the stack is empty. Valid in COMMIT, the cycle before ``ready``.
    write_fault : Out(Event(warp))
        Memory has answered the write of a line of this warp with an error.
    events : Out(StackEvents)
    port : Out(BeatPort)
    """

    def __init__(self, params: SmParams) -> None:
        warps = params.warps
        warp_bits = params.warp_bits
        count_bits = params.stack_count_bits
        state = serial_stack_state(params)
        committed = data.StructLayout({"warp": warp_bits, "last": DEPTH_BITS})
        self.params = params
        self._slot_bits = PLACE_BITS + params.stack_slot_bits
        """The number of low bits of a token's number that are its address on chip."""
        super().__init__({
            "stack": In(SerialStackPort(params)),
            "committed": Out(Event(committed)),
            "write_fault": Out(Event(warp_bits)),
            "events": Out(StackEvents),
            "port": Out(BeatPort(warp_bits)),
        })
        self.states = BlockWords(
            unsigned(max(state.size, StackSizes.as_shape().size)), 2 * warps)
        """For each warp its state (serial_stack_state) and its sizes (StackSizes)."""
        self.places = BlockWords(unsigned(BLOCK_ADDRESS_BITS), 2 * warps)
        """For each warp the base of its local memory, and the size of the part before its stack."""
        self.tokens = BlockWords(TokenWord, 2 * params.stack_tokens * warps)
        """For each token on chip its mask and its pc."""

        # The warp.
        self._state: Any = data.View(state, self.states.read_data[:state.size])
        self._new_state: Any = Signal(state, name="new_state")
        self._sizes: Any = Signal(StackSizes, name="sizes")

        # The working copy of the warp's state, changed by the operation; COMMIT writes it.
        self._depth = Signal(DEPTH_BITS, name="depth")
        self._calls = Signal(8, name="calls")
        self._lines = Signal(count_bits, name="lines")
        """The number of lines on chip, from the topmost one down, plus 1 if ``is_line_end``: then
        the line of the next token, which is empty, counts too. ``dirty`` counts in the same way."""
        self._dirty = Signal(count_bits, name="dirty")
        self._is_line_end = Signal(name="is_line_end")
        """The topmost token is the last one of its line, or the stack is empty."""
        self._top_line_is_missing = Signal(name="top_line_is_missing")
        """The topmost line has room, and is not on chip."""
        self._counts_up = Signal(name="counts_up")
        """``next_depth`` is one more than ``depth``, not one less."""
        self._next_depth = Signal(DEPTH_BITS, name="next_depth")
        self._next_lines = Signal(count_bits, name="next_lines")
        """``lines`` after a pop of the topmost token; ``next_dirty`` likewise."""
        self._next_dirty = Signal(count_bits, name="next_dirty")

        # Whether there is room.
        self._has_reserve = Signal(name="has_reserve")
        """The request may use the entries that are reserved for the trap handler."""
        self._overflows = Signal(name="overflows")
        """The tokens of the request exceed the limit."""

        # A pass over the threads.
        self._is_last_step = Signal(name="is_last_step")
        """The step is thread 31's."""
        self._compares = Signal(name="compares")
        """The state is COMPARE: the pass compares the threads with a token."""
        self._found: Any = Signal(_ThreadsOfPass, name="found")

        # The token of the current step of an unwind.
        self._token_kind = Signal(TokenKind, name="token_kind")
        self._in_frame = Signal(name="in_frame")
        """The tokens above this one, in its line, are the MASKS tokens of a trap frame."""
        self._stops = Signal(name="stops")
        """The token has to be compared with the threads; else it is popped at once."""
        self._is_wrong_kind = Signal(name="is_wrong_kind")
        """If the token ``stops`` the unwind: it is an error."""
        self._pc_alignment = Signal(_ALIGNMENT_BITS, name="pc_alignment")
        """The lowest bits of the token's pc; of a trap frame, the number of holes under it."""

        # The line that is spilled or filled.
        self._spills = Signal(name="spills")
        """The line is spilled, not filled."""
        self._fill_failed = Signal(name="fill_failed")
        """A fill of this operation had an error."""
        self._line = Signal(LINE_BITS, name="line")
        """The number of the line."""
        self._beat = Signal(BEAT_NUMBER_BITS, name="beat")
        self._content = Signal(_BEAT_BITS, name="content", reset_less=True)
        """The data of the beat that is sent to memory."""
        self._granule = Signal(BLOCK_ADDRESS_BITS, name="granule", reset_less=True)
        """The address of the line's granule, accumulated in BASE, LOCAL and LINE. 0 before."""
        self._granule_sum = Signal(BLOCK_ADDRESS_BITS, name="granule_sum")
        """``granule``, plus the term of this state."""
        self._adds_line = Signal(name="adds_line")
        """The term is the line's granule in the stack, not a word of ``places``."""

        # The result.
        self._error = Signal(WarpError, name="error")
        self._resume = Signal(name="resume")
        self._empty = Signal(name="empty")
        self._kind = Signal(TokenKind, name="kind")
        self._frame_slot = Signal(params.stack_slot_bits, name="frame_slot")
        """The slot of the trap frame that a RESTORE has found."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.states = self.states.memory
        m.submodules.places = self.places.memory
        m.submodules.tokens = self.tokens.memory
        self.states.connect(m)
        self.places.connect(m)
        self.tokens.connect(m)
        self._answer(m)
        self._report(m)
        self._count(m)
        self._run_pass(m)
        self._address(m)
        self._limit(m)
        self._classify_token(m)
        with m.FSM(name="step"):
            self._begin(m)
            self._decide(m)
            self._push(m)
            self._set_pointer(m)
            self._launch(m)
            self._walk(m)
            self._read_top_token(m)
            self._judge(m)
            self._reach_bottom(m)
            self._commit(m)
            self._find_line(m)
            self._spill(m)
            self._fill(m)
        return m

    # Helpers of the states.

    @property
    def _warp(self) -> Value:
        return self.stack.request.payload.warp

    def _is(self, *operations: StackOperation) -> Any:
        """Whether the request is one of these."""
        operation = self.stack.request.payload.operation.as_value()
        return operation.matches(*(each.value for each in operations))

    def _read_state(self, m: Module, word: int = _STATE) -> None:
        """Reads the warp's state or its sizes, and the base of its local memory."""
        m.d.comb += self.states.read_enable.eq(1)
        m.d.comb += self.states.read_address.eq(Cat(Const(word, 1), self._warp))
        m.d.comb += self.places.read_enable.eq(1)
        m.d.comb += self.places.read_address.eq(Cat(Const(_BASE, 1), self._warp))

    def _write_state(self, m: Module) -> None:
        """Writes the warp's state: the stored state, except the fields of ``_new_state`` that the
        caller assigns."""
        m.d.comb += self.states.write_enable.eq(1)
        m.d.comb += self.states.write_address.eq(Cat(Const(_STATE, 1), self._warp))

    def _write_place(self, m: Module, word: int, value: Value) -> None:
        """Writes the base of the warp's local memory, or the size of the part before the stack."""
        m.d.comb += self.places.write_enable.eq(1)
        m.d.comb += self.places.write_address.eq(Cat(Const(word, 1), self._warp))
        m.d.comb += self.places.write_data.eq(value)

    def _token_address(self, number: Value, word: ValueLike) -> Value:
        return Cat(word, number[:self._slot_bits], self._warp)

    def _read_token(self, m: Module, number: Value, word: Value) -> None:
        """Reads a word of a token: its mask, or its pc."""
        m.d.comb += self.tokens.read_enable.eq(1)
        m.d.comb += self.tokens.read_address.eq(self._token_address(number, word))

    def _write_token(
            self, m: Module, number: Value, word: int, bits: Value, note: ValueLike) -> None:
        tokens = self.tokens
        m.d.comb += tokens.write_enable.eq(1)
        m.d.comb += tokens.write_address.eq(self._token_address(number, Const(word, 1)))
        m.d.comb += tokens.write_data.eq(struct_value(TokenWord, bits=bits, note=note))

    def _fail(self, m: Module, error: WarpError) -> None:
        """Ends the operation with an error, without COMMIT."""
        m.d.sync += self._error.eq(error)
        m.next = "DONE"

    def _start_spill(self, m: Module) -> None:
        m.d.sync += self._spills.eq(1)
        m.next = "BASE"

    def _start_fill(self, m: Module) -> None:
        m.d.sync += self._spills.eq(0)
        m.next = "BASE"

    # What does not depend on the state.

    def _answer(self, m: Module) -> None:
        """Drives the result. The low bits of a TRAP token's pc hold the number of holes under the
        frame."""
        state = self._state
        pc = self.tokens.read_data.bits
        pc_of_frame = Cat(Const(0, HOLE_BITS), pc[HOLE_BITS:])
        unused = Const(0, POINTER_CALLS - DEPTH_BITS)
        pointer = Cat(self._depth, unused, self._calls, state.kill)
        m.d.comb += self._new_state.eq(state)
        m.d.comb += self.states.write_data.eq(self._new_state)
        m.d.comb += self.stack.holes.eq(-state.depth[:HOLE_BITS])
        m.d.comb += self.stack.result.eq(struct_value(
            SerialStackResult,
            resume=self._resume,
            empty=self._empty,
            error=self._error,
            kind=self._kind,
            pc=Mux(self._is(StackOperation.RESTORE), pc_of_frame, pc),
            value=Mux(self._is(StackOperation.GET_BASE), self.places.read_data, pointer)))

    def _report(self, m: Module) -> None:
        """Drives the payloads of the events."""
        committed = self.committed.payload
        pushed = self.stack.pushed
        m.d.comb += committed.eq(struct_value(
            committed.shape(), warp=self._warp, last=self._depth - 1))
        m.d.comb += common_fields(pushed.payload, self.stack.request.payload)
        m.d.comb += self.write_fault.payload.eq(self._warp)
        m.d.comb += self.events.push.eq(pushed.valid)

    def _count(self, m: Module) -> None:
        """Depth, lines and dirty lines with one token more or less."""
        ends_dirty_line = self._is_line_end & (self._dirty != 0)
        minus_one = (~self._counts_up).replicate(DEPTH_BITS - 1)
        m.d.comb += self._next_depth.eq(self._depth + Cat(Const(1, 1), minus_one))
        m.d.comb += self._is_line_end.eq(self._depth[:PLACE_BITS] == 0)
        m.d.comb += self._next_lines.eq(self._lines - self._is_line_end)
        m.d.comb += self._next_dirty.eq(self._dirty - ends_dirty_line)
        m.d.comb += self._top_line_is_missing.eq(~self._is_line_end & (self._state.lines == 0))

    def _run_pass(self, m: Module) -> None:
        """Compares a token with the threads' codes, one a step. In COMPARE the bits ``revived`` are
        shifted into a register. In later passes the register rotates, so that the flow unit reads
        one bit a step."""
        stack = self.stack
        code = stack.code
        token = self.tokens.read_data
        role = Signal(ThreadCode)
        revivable = Signal(WARP_THREADS)
        revives = Signal()
        is_past_token = Signal()
        found = self._found
        is_stuck = code.as_value().matches(*(each.value for each in STUCK))
        is_frame = self._is(StackOperation.RESTORE)
        m.d.comb += role.as_value().eq(role_of(TokenKind(token.note)))
        m.d.comb += stack.bit.eq(token.bits.bit_select(stack.thread, 1))
        m.d.comb += revives.eq(stack.bit & (is_frame | (code == role)))
        m.d.comb += is_past_token.eq(
            stack.bit & (code == ThreadCode.NONE) & (role != ThreadCode.NONE))
        m.d.comb += stack.revived.eq(revivable[0])
        m.d.comb += self._is_last_step.eq(stack.step & (stack.thread == WARP_THREADS - 1))
        with m.If(stack.step):
            m.d.sync += revivable.eq(
                Cat(revivable[1:], Mux(self._compares, revives, revivable[0])))
        with m.If(stack.looks):
            m.d.sync += found.eq(0)
        with m.Elif(stack.step):
            m.d.sync += found.revived.eq(found.revived | revives)
            m.d.sync += found.past_token.eq(found.past_token | is_past_token)
            m.d.sync += found.stuck.eq(found.stuck | is_stuck)
            m.d.sync += found.returning.eq(found.returning | (code == ThreadCode.RETURN))

    def _address(self, m: Module) -> None:
        """The number of the line that is spilled or filled, and its address: base of the warp's
        local memory + size of the part before the stack + granule of the line in the stack."""
        state = self._state
        has_room = state.depth[:PLACE_BITS] != 0
        lowest_dirty = state.depth[PLACE_BITS:] - (state.dirty - has_room)
        with m.If(self._spills):
            m.d.comb += self._line.eq(lowest_dirty)
        with m.Else():
            m.d.comb += self._line.eq(self._next_depth[PLACE_BITS:])
        with m.If(self._adds_line):
            m.d.comb += self._granule_sum.eq(self._granule + self._line[_GRANULE_LINE_BITS:])
        with m.Else():
            m.d.comb += self._granule_sum.eq(self._granule + self.places.read_data)
        m.d.comb += self.port.request.payload.eq(struct_value(
            beat_request(self.params.warp_bits),
            write=self._spills,
            tag=self._warp,
            address=Cat(self._line[:_GRANULE_LINE_BITS], self._granule),
            beat=self._beat,
            data=self._content,
            mask=Const(-1, BEAT_BYTES)))

    def _classify_token(self, m: Module) -> None:
        """Whether an unwind stops at the token. An UNWIND or POP_QUAD stops at each token but
        holes; a RESTORE only at the TRAP token of a frame, in the first place of a line."""
        kind = self._token_kind
        next_place = self._next_depth[:PLACE_BITS]
        m.d.comb += kind.as_value().eq(self.tokens.read_data.note)
        with m.If(self._is(StackOperation.RESTORE)):
            m.d.comb += self._stops.eq((kind == TokenKind.TRAP) & (next_place == 0))
            m.d.comb += self._is_wrong_kind.eq(~self._in_frame)
        with m.Else():
            m.d.comb += self._stops.eq(kind != TokenKind.NONE)
            with m.If(self._is(StackOperation.POP_QUAD)):
                m.d.comb += self._is_wrong_kind.eq(kind != TokenKind.QUAD)
            with m.Else():
                m.d.comb += self._is_wrong_kind.eq(kind.as_value() >= TokenKind.QUAD.value)

    # The states.

    def _begin(self, m: Module) -> None:
        """Reads the warp's sizes and state. In IDLE, the word ``stack.word`` of the frame that a
        RESTORE has found is read."""
        stack = self.stack
        state = self._state
        is_line_end = state.depth[:PLACE_BITS] == 0
        with m.State("IDLE"):
            self._read_token(m, Cat(stack.word[1:], self._frame_slot), stack.word[0])
            with m.If(stack.request.valid):
                self._read_state(m, _SIZES)
                m.d.sync += self._fill_failed.eq(0)
                m.d.sync += self._error.eq(WarpError.NONE)
                m.d.sync += self._resume.eq(0)
                m.d.sync += self._empty.eq(0)
                m.next = "SIZES"
        with m.State("SIZES"):
            m.d.sync += self._sizes.eq(self.states.read_data)
            self._read_state(m)
            m.next = "STATE"
        with m.State("STATE"):
            # A register, since the output of the block RAM comes late in the cycle.
            m.d.sync += stack.killed.eq(state.kill)
            m.next = "LOAD"
        with m.State("READ"):
            self._read_state(m)
            m.next = "LOAD"
        with m.State("LOAD"):
            # Before a warp's first launch its state is undefined.
            m.d.sync += Assert(
                self._is(StackOperation.LAUNCH) | (state.dirty <= state.lines),
                "a dirty line is not on chip")
            m.d.sync += self._depth.eq(state.depth)
            m.d.sync += self._calls.eq(state.calls)
            m.d.sync += self._lines.eq(state.lines + is_line_end)
            m.d.sync += self._dirty.eq(state.dirty + is_line_end)
            m.d.sync += self._granule.eq(0)
            m.next = "DECIDE"

    def _limit(self, m: Module) -> None:
        """Whether the request overflows the stack: it pushes a token, a pair, or a trap frame with
        the holes under it. The limit is counted in steps of half a granule (16 tokens). A stack
        without a region has only the tokens on chip, in any mode, which may be less than a
        step."""
        request = self.stack.request.payload
        depth = self._depth
        has_memory = self._sizes.memory
        enters = self._is(StackOperation.SET_MODE)
        whole_bits = min(self._slot_bits, STEP_BITS)
        part = depth[whole_bits:STEP_BITS]
        low = Cat(depth[:whole_bits], part | (~has_memory).replicate(len(part)))
        pair_crosses_step = request.pair & low.all()
        frame_crosses_step = enters & (low > (1 << STEP_BITS) - TOKENS_PER_LINE)
        steps = Cat(pair_crosses_step | frame_crosses_step, depth[STEP_BITS:])
        limit = Cat(Const(0, 1), self._has_reserve, self._sizes.less)
        with m.If(has_memory):
            m.d.comb += self._has_reserve.eq(self._state.trap | enters)
            m.d.comb += self._overflows.eq(steps > limit)
        with m.Else():
            m.d.comb += self._has_reserve.eq(steps_on_chip(self.params) > 1)
            m.d.comb += self._overflows.eq((steps > limit) | part.any())

    def _decide(self, m: Module) -> None:
        """Starts the operation, or starts it again after a spill or a fill. Without ``enable`` it
        ends at once."""
        stack = self.stack
        request = stack.request.payload
        state = self._state
        sizes = self._sizes
        with m.State("DECIDE"):
            m.next = "DONE"
            with m.If(request.enable), m.Switch(request.operation):
                with m.Case(*_PUSHES):
                    self._decide_push(m)
                with m.Case(StackOperation.SET_MODE):
                    self._set_mode(m)
                with m.Case(StackOperation.GET_POINTER):
                    m.next = "ROUND"
                with m.Case(StackOperation.SET_POINTER):
                    m.d.sync += self._depth.eq(request.operand)
                    m.d.sync += self._calls.eq(request.operand[POINTER_CALLS:])
                    m.d.sync += self._lines.eq(1)
                    m.d.sync += self._dirty.eq(0)
                    m.next = "CLAMP"
                with m.Case(StackOperation.SET_BASE):
                    self._write_place(m, _BASE, stack.configuration.base)
                with m.Case(StackOperation.WRITE_BACK):
                    with m.If(sizes.memory & self._top_line_is_missing & ~self._fill_failed):
                        self._start_fill(m)
                    with m.Elif(sizes.memory & (state.dirty != 0)):
                        self._start_spill(m)
                with m.Case(StackOperation.LAUNCH):
                    self._write_place(m, _BASE, stack.configuration.base)
                    m.next = "LAUNCH"
                with m.Case(StackOperation.CLEAR):
                    m.d.sync += self._empty.eq(1)
                    m.next = "EMPTY"
                with m.Case(*_UNWINDS):
                    m.next = "WALK"
                    with m.If(self._is(StackOperation.RESTORE) & state.trap):
                        self._write_state(m)
                        m.d.comb += self._new_state.trap.eq(0)
                        m.next = "READ"

    def _decide_push(self, m: Module) -> None:
        """Fails, starts a spill or a fill, or writes the token's mask; its pc is written in the
        next state. At the limit of calls a PREPARE_CALL sets the kill bit and pushes nothing."""
        request = self.stack.request.payload
        state = self._state
        is_counted = self._is(*_COUNTS)
        is_at_limit = self._sizes.checks_calls & (state.calls >= API_CALL_LIMIT)
        all_are_dirty = state.dirty == self.params.stack_lines
        with m.If(is_counted & is_at_limit):
            with m.If(self._is(StackOperation.CALL)):
                self._fail(m, WarpError.API_STACK_ERROR)
            with m.Else():
                self._write_state(m)
                m.d.comb += self._new_state.kill.eq(1)
        with m.Elif(self._overflows):
            self._fail(m, WarpError.STACK_OVERFLOW)
        with m.Elif(self._top_line_is_missing & self._fill_failed):
            self._fail(m, WarpError.MMU_FAULT)
        with m.Elif(self._top_line_is_missing):
            self._start_fill(m)
        with m.Elif(self._is_line_end & all_are_dirty):
            self._start_spill(m)
        with m.Else():
            self._write_token(m, self._depth, _MASK, request.mask, request.kind)
            m.next = "PUSH"

    def _set_mode(self, m: Module) -> None:
        """Operand bit 0: the warp enters the trap handler, or leaves it. Operand bit 1: it enters
        only if the frame has room and the topmost line can be read; without bit 1 it enters anyway.
        In both cases the error is reported."""
        operand = self.stack.request.payload.operand
        enters = operand[0]
        enters_anyway = ~operand[1]
        with m.If(enters & self._overflows):
            self._write_state(m)
            m.d.comb += self._new_state.trap.eq(enters_anyway)
            self._fail(m, WarpError.STACK_OVERFLOW)
        with m.Elif(enters & self._top_line_is_missing & self._fill_failed):
            self._write_state(m)
            m.d.comb += self._new_state.trap.eq(enters_anyway)
            self._fail(m, WarpError.MMU_FAULT)
        with m.Elif(enters & self._top_line_is_missing):
            self._start_fill(m)
        with m.Else():
            self._write_state(m)
            m.d.comb += self._new_state.trap.eq(enters)

    def _push(self, m: Module) -> None:
        """Writes the token's pc."""
        is_counted = self._is(*_COUNTS)
        with m.State("PUSH"):
            self._write_token(
                m, self._depth, _PC, self.stack.request.payload.operand, is_counted)
            m.d.comb += self.stack.pushed.valid.eq(1)
            m.d.comb += self._counts_up.eq(1)
            m.d.sync += self._depth.eq(self._next_depth)
            m.d.sync += self._calls.eq(self._calls + is_counted)
            m.next = "COMMIT"

    def _set_pointer(self, m: Module) -> None:
        """CLAMP: a pointer that is set is at most the limit, and 0 without a region, which is an
        error. ROUND: a pointer that is set or read is rounded up to a whole number of lines, one
        token a cycle."""
        highest = Cat(Const(~0, STEP_BITS), self._has_reserve, self._sizes.less)
        with m.State("CLAMP"):
            with m.If(~self._sizes.memory):
                m.d.sync += self._depth.eq(0)
                m.d.sync += self._error.eq(WarpError.STACK_ERROR)
            with m.Elif(self._overflows):
                m.d.sync += self._depth.eq(highest)
            m.next = "ROUND"
        with m.State("ROUND"):
            m.d.comb += self._counts_up.eq(1)
            with m.If(~self._is_line_end):
                m.d.sync += self._depth.eq(self._next_depth)
            with m.Elif(self._is(StackOperation.SET_POINTER)):
                m.next = "COMMIT"
            with m.Else():
                m.next = "DONE"

    def _launch(self, m: Module) -> None:
        """LAUNCH: writes a new warp's sizes. EMPTY: empties the stack."""
        configuration = self.stack.configuration
        has_region = configuration.size != 0
        granules_on_chip_less_1 = (steps_on_chip(self.params) - 1) // 2
        less = Mux(
            has_region, (configuration.size - 1)[:CRS_GRANULE_BITS], granules_on_chip_less_1)
        with m.State("LAUNCH"):
            self._write_place(m, _LOCAL_SIZE, configuration.local)
            m.d.comb += self.states.write_enable.eq(1)
            m.d.comb += self.states.write_address.eq(Cat(Const(_SIZES, 1), self._warp))
            m.d.comb += self.states.write_data.eq(
                Cat(less, has_region, configuration.check_calls))
            m.next = "EMPTY"
        with m.State("EMPTY"):
            m.d.sync += self._depth.eq(0)
            m.d.sync += self._calls.eq(0)
            m.d.sync += self._lines.eq(1)
            m.d.sync += self._dirty.eq(0)
            m.next = "COMMIT"

    def _walk(self, m: Module) -> None:
        """Reads the topmost token of the working copy, or its line; at depth 0 starts a pass for
        BOTTOM. The warp's state keeps its depth until COMMIT, so an error loses no token."""
        with m.State("WALK"):
            with m.If(self._depth == 0):
                m.d.comb += self.stack.looks.eq(1)
                m.next = "BOTTOM"
            with m.Elif(self._next_lines != 0):
                self._read_token(m, self._next_depth, Const(_PC, 1))
                m.next = "READ_PC"
            with m.Elif(self._fill_failed):
                self._fail(m, WarpError.MMU_FAULT)
            with m.Else():
                m.d.comb += self.events.miss.eq(1)
                m.d.sync += self._spills.eq(self._state.dirty != 0)
                m.next = "BASE"

    def _read_top_token(self, m: Module) -> None:
        """Reads the topmost token's pc and its mask. A token that does not stop the unwind is popped,
        one that stops it but is of the wrong kind is an error; the others are compared with the
        threads."""
        token = self.tokens.read_data
        is_counted = Signal(name="is_counted")
        continues_frame = self._in_frame | (self._next_depth[:PLACE_BITS] == LAST_PLACE)
        with m.State("READ_PC"):
            m.d.sync += is_counted.eq(token.note[0])
            m.d.sync += self._pc_alignment.eq(token.bits)
            self._read_token(m, self._next_depth, Const(_MASK, 1))
            m.next = "READ_MASK"
        with m.State("READ_MASK"):
            ends_call = is_counted & (self._token_kind == TokenKind.RETURN)
            m.d.sync += self._in_frame.eq((self._token_kind == TokenKind.MASKS) & continues_frame)
            m.d.sync += self._calls.eq(self._calls - ends_call)
            with m.If(~self._stops):
                m.next = "POP"
            with m.Elif(self._is_wrong_kind):
                self._fail(m, WarpError.STACK_ERROR)
            with m.Else():
                m.d.comb += self.stack.looks.eq(1)
                m.next = "COMPARE"

    def _judge(self, m: Module) -> None:
        """Whether a token ends the unwind: the unwind stops at it, and it revives some thread. POP
        then removes it, and after a RESTORE the holes under the frame, one a cycle. A token that
        does not end the unwind is removed, too. It is an error if a thread has passed the token, or
        if a POP_QUAD or RESTORE revives none."""
        is_quad = self._is(StackOperation.POP_QUAD)
        is_restore = self._is(StackOperation.RESTORE)
        next_depth = self._next_depth
        pc_alignment = self._pc_alignment
        line = next_depth[PLACE_BITS:]
        found = self._found

        pending_holes = Signal(HOLE_BITS, name="pending_holes")
        has_holes = is_restore & (line != 0)
        must_revive = is_quad | is_restore
        is_misaligned = pc_alignment[HOLE_BITS:].any() | (
            pc_alignment[:HOLE_BITS].any() & ~is_restore)

        with m.State("COMPARE"):
            m.d.comb += self._compares.eq(1)
            with m.If(self._is_last_step):
                m.next = "COMPARED"
        with m.State("COMPARED"):
            with m.If(found.past_token | (must_revive & ~found.revived)):
                self._fail(m, WarpError.STACK_ERROR)
            with m.Elif(~found.revived):
                m.next = "POP"
            with m.Elif(~is_quad & is_misaligned):
                self._fail(m, WarpError.MISALIGNED_PC)
            with m.Else():
                self._read_token(m, next_depth, Const(_PC, 1))
                m.d.comb += self.events.hit.eq(1)
                m.d.sync += self._resume.eq(1)
                m.d.sync += self._kind.eq(self._token_kind)
                m.d.sync += self._frame_slot.eq(line)
                m.d.sync += pending_holes.eq(pc_alignment & has_holes.replicate(HOLE_BITS))
                m.next = "POP"
        with m.State("POP"):
            m.d.sync += self._depth.eq(next_depth)
            m.d.sync += self._lines.eq(self._next_lines)
            m.d.sync += self._dirty.eq(self._next_dirty)
            with m.If(~self._resume):
                m.next = "WALK"
            with m.Elif(pending_holes != 0):
                m.d.sync += pending_holes.eq(pending_holes - 1)
            with m.Else():
                m.next = "COMMIT"

    def _reach_bottom(self, m: Module) -> None:
        """No token has ended the unwind. If a thread is stuck, it is STACK_ERROR. Else the warp
        ends; with RET_EMPTY_STACK_ERROR, if a thread waits for a RETURN token."""
        must_find_token = self._is(StackOperation.POP_QUAD, StackOperation.RESTORE)
        with m.State("BOTTOM"), m.If(self._is_last_step):
            m.next = "BOTTOM_COMPARED"
        with m.State("BOTTOM_COMPARED"):
            with m.If(must_find_token | self._found.stuck):
                self._fail(m, WarpError.STACK_ERROR)
            with m.Else():
                with m.If(self._found.returning):
                    m.d.sync += self._error.eq(WarpError.RET_EMPTY_STACK_ERROR)
                m.d.sync += self._empty.eq(1)
                m.next = "EMPTY"

    def _commit(self, m: Module) -> None:
        """Writes the warp's new state. A topmost line that has room always becomes dirty, since the
        line in memory may have other tokens above the topmost one."""
        request = self.stack.request.payload
        state = self._state
        is_push = self._is(*_PUSHES)
        is_launch = self._is(StackOperation.LAUNCH)
        clears_kill = self._is(StackOperation.PREPARE_CALL) | is_launch | self._empty
        all_lines = self.params.stack_lines
        kill = Mux(
            self._is(StackOperation.SET_POINTER), request.operand[-1], state.kill & ~clears_kill)
        lines = Mux(
            is_push, Mux(self._lines > all_lines, all_lines, self._lines), self._next_lines)
        top_is_dirty = self._dirty[0] | (self._dirty == 0) & (self._lines != 0)
        dirty = Mux(
            ~is_push & self._is_line_end, self._next_dirty, Cat(top_is_dirty, self._dirty[1:]))
        with m.State("COMMIT"):
            self._write_state(m)
            m.d.comb += self._new_state.eq(struct_value(
                state.shape(),
                depth=self._depth,
                lines=lines,
                dirty=dirty,
                calls=self._calls,
                kill=kill,
                trap=state.trap & ~is_launch))
            m.d.comb += self.committed.valid.eq(~is_push)
            m.next = "DONE"
        with m.State("DONE"):
            m.d.comb += self.stack.request.ready.eq(1)
            m.next = "IDLE"

    def _find_line(self, m: Module) -> None:
        """Accumulates the granule's address. In BASE ``places`` has the base of the warp's local
        memory, read before; in LOCAL, the size of the part before the stack."""
        with m.State("BASE"):
            m.d.comb += self.places.read_enable.eq(1)
            m.d.comb += self.places.read_address.eq(Cat(Const(_LOCAL_SIZE, 1), self._warp))
            m.d.sync += self._granule.eq(self._granule_sum)
            m.d.sync += self._beat.eq(0)
            m.next = "LOCAL"
        with m.State("LOCAL"):
            m.d.sync += self._granule.eq(self._granule_sum)
            m.next = "LINE"
        with m.State("LINE"):
            m.d.comb += self._adds_line.eq(1)
            m.d.sync += self._granule.eq(self._granule_sum)
            with m.If(self._spills):
                m.next = "SEND_PC"
            with m.Else():
                m.next = "REQUEST_FILL"

    def _spill(self, m: Module) -> None:
        """Writes the lowest dirty line to memory, two beats for each token. Places above the
        topmost token are written as zeros: holes. The line is clean when memory has answered, even
        with an error."""
        port = self.port
        state = self._state
        beat = self._beat
        token = self.tokens.read_data
        is_counted = Signal(name="spilled_is_counted")
        kind = Signal(4, name="spilled_kind")
        second_beat: Any = Signal(MemoryToken, name="second_beat")
        second_content = second_beat.as_value()[_BEAT_BITS:]
        first_beat: Any = data.View(MemoryToken, Cat(self._content, second_content))
        token_place = beat[1:]
        number = Cat(token_place, self._line[:self.params.stack_slot_bits])
        depth_in_line = state.depth[:PLACE_BITS]
        is_top_line = (depth_in_line != 0) & (state.dirty == 1)
        is_on_stack = ~(is_top_line & (token_place >= depth_in_line))
        m.d.comb += second_beat.counted.eq(is_counted)
        m.d.comb += second_beat.kind.eq(kind)
        with m.State("SEND_PC"):
            self._read_token(m, number, Const(_PC, 1))
            m.next = "SEND_MASK"
        with m.State("SEND_MASK"):
            m.d.sync += first_beat.pc.eq(Mux(is_on_stack, token.bits, 0))
            m.d.sync += is_counted.eq(token.note[0] & is_on_stack)
            self._read_token(m, number, Const(_MASK, 1))
            m.next = "SEND_KIND"
        with m.State("SEND_KIND"):
            m.d.sync += first_beat.mask.eq(Mux(is_on_stack, token.bits, 0))
            m.d.sync += kind.eq(Mux(is_on_stack, token.note, 0))
            m.next = "SEND"
        with m.State("SEND"):
            m.d.comb += port.request.valid.eq(1)
            with m.If(port.request.ready):
                m.d.sync += beat.eq(beat + 1)
                m.d.sync += self._content.eq(second_content)
                with m.If(beat.all()):
                    m.d.comb += self.events.spill.eq(1)
                    m.next = "WRITTEN"
                with m.Elif(beat[0]):
                    m.next = "SEND_PC"
        with m.State("WRITTEN"):
            m.d.comb += port.response.ready.eq(1)
            with m.If(port.response.valid):
                m.d.comb += self.write_fault.valid.eq(port.response.payload.error)
                self._write_state(m)
                m.d.comb += self._new_state.dirty.eq(state.dirty - 1)
                m.next = "MOVED"

    def _fill(self, m: Module) -> None:
        """Reads a line from memory: for an unwind the line of the next token; else the topmost one.
        During an unwind the warp's state has no line on chip; only the working copy has this
        one. A topmost line becomes dirty, as in COMMIT."""
        port = self.port
        answer = port.response.payload
        is_unwind = self._is(*_UNWINDS)
        first_beat = Signal(_BEAT_BITS, name="filled_first_beat")
        number = Cat(answer.beat[1:], self._line[:self.params.stack_slot_bits])
        token: Any = data.View(MemoryToken, Cat(first_beat, answer.data))
        kinds = [each.value for each in TokenKind if each is not TokenKind.ILLEGAL]
        kind = Mux(token.kind.matches(*kinds), token.kind, TokenKind.ILLEGAL.value)
        tops_stack = ~is_unwind & ~self._fill_failed
        with m.State("REQUEST_FILL"):
            m.d.comb += port.request.valid.eq(1)
            with m.If(port.request.ready):
                m.d.comb += self.events.fill.eq(1)
                m.next = "RECEIVE"
        with m.State("RECEIVE"):
            m.d.comb += port.response.ready.eq(~answer.beat[0])
            with m.If(port.response.valid & ~answer.beat[0]):
                m.d.sync += first_beat.eq(answer.data)
            with m.Elif(port.response.valid):
                self._write_token(m, number, _PC, token.pc, token.counted)
                m.next = "RECEIVE_MASK"
        with m.State("RECEIVE_MASK"):
            m.d.comb += port.response.ready.eq(1)
            self._write_token(m, number, _MASK, token.mask, kind)
            m.d.sync += self._fill_failed.eq(answer.error)
            with m.If(ends_answer(answer)):
                m.next = "FILLED"
            with m.Else():
                m.next = "RECEIVE"
        with m.State("FILLED"):
            self._write_state(m)
            m.d.comb += self._new_state.lines.eq(tops_stack)
            m.d.comb += self._new_state.dirty.eq(tops_stack)
            with m.If(~self._fill_failed):
                m.d.sync += self._lines.eq(self._is_line_end + 1)
                m.d.sync += self._dirty.eq(self._is_line_end)
            m.next = "MOVED"
        with m.State("MOVED"):
            self._read_state(m)
            m.d.sync += self._granule.eq(0)
            with m.If(is_unwind):
                m.next = "WALK"
            with m.Else():
                m.next = "LOAD"
