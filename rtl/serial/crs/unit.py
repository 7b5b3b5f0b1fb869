"""The call/return stack of a serial machine: one operation at a time, step by step."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.crs.tokens import LAST_PLACE, PLACE_BITS, POINTER_CALLS, STEP_BITS, STUCK, role_of, steps_on_chip
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
    StackEvents,
    StackOperation,
    ThreadCode,
    ends_answer,
)
from rtl.params import LINE_ADDRESS_BITS, WARP_THREADS, SmParams

from .records import BlockWords, StackSizes, TokenWord, serial_stack_state

__all__ = ["SerialStack"]

_GRANULE_LINE_BITS = LINE_ADDRESS_BITS - BLOCK_ADDRESS_BITS
_ALIGNMENT_BITS = (INSTRUCTION_BYTES - 1).bit_length()
_PUSHES = (StackOperation.PUSH, StackOperation.CALL, StackOperation.PREPARE_CALL)
_COUNTS = (StackOperation.CALL, StackOperation.PREPARE_CALL)
_UNWINDS = (StackOperation.UNWIND, StackOperation.POP_QUAD, StackOperation.RESTORE)


class SerialStack(Component):
    """The call/return stacks of all warps, as :class:`CallReturnStack`, of which one does something at a time.

    A warp's state is a word in block RAM; each step of an operation ends with the state written as it is then, so that
    what is read again is always true. Lines move only when somebody needs it: a push that finds all lines dirty writes
    the lowest one, an unwind below the lines on chip writes all dirty ones, forgets them and reads one after the other;
    a topmost line that has room is read when something is to be put into it.

    Members
    -------
    stack : In(SerialStackPort)
    committed : Out(Event(warp, last))
        The number of the topmost token that an unwind, SET_POINTER or a launch has left, before its request is taken;
        all ones when the stack is empty.
    write_fault : Out(Event(warp))
        Memory could not take a line of the warp's.
    events : Out(StackEvents)
    port : Out(BeatPort)
    """

    def __init__(self, params: SmParams) -> None:
        warps, bits, count = params.warps, params.warp_bits, params.stack_count_bits
        state = serial_stack_state(params)
        self.params = params
        self._free_bits = PLACE_BITS + params.stack_slot_bits
        """Of a token's number, what says where it lies on chip."""
        super().__init__({
            "stack": In(SerialStackPort(params)),
            "committed": Out(Event(data.StructLayout({"warp": bits, "last": DEPTH_BITS}))),
            "write_fault": Out(Event(bits)), "events": Out(StackEvents), "port": Out(BeatPort(bits))})
        self.states = BlockWords(unsigned(max(state.size, StackSizes.as_shape().size)), 2 * warps)
        """Of each warp its state, and its sizes."""
        self.places = BlockWords(unsigned(BLOCK_ADDRESS_BITS), 2 * warps)
        """Where its local memory begins, and how much of that lies before the stack."""
        self.tokens = BlockWords(TokenWord, 2 * params.stack_tokens * warps)
        """Of each token on chip its mask, and its pc."""
        self._state: Any = data.View(state, self.states.out[:state.size])
        self._new: Any = Signal(state)
        """What is written."""
        self._sizes: Any = Signal(StackSizes)
        self._top, self._calls = Signal(DEPTH_BITS), Signal(8)
        """The depth, and that of calls, as far as the operation has come."""
        self._lines, self._dirty = Signal(count), Signal(count)
        """Lines on chip from the topmost token down, and dirty ones: those, and one more where that token is the last
        of its line, for the one that begins there."""
        self._next, self._rises, self._is_whole = Signal(DEPTH_BITS), Signal(), Signal()
        """The depth without the topmost token, or with one more if it ``rises``; the topmost line is full."""
        self._next_lines, self._next_dirty = Signal(count), Signal(count)
        """The same, without the topmost token."""
        self._lost, self._spills, self._missing = Signal(), Signal(), Signal()
        """Memory could not give the line that is needed; a line is on its way out, not in; the topmost line has room,
        and is not on chip."""
        self._error = Signal(WarpError)
        self._resume, self._empty, self._kind = Signal(), Signal(), Signal(TokenKind)
        self._frame = Signal(params.stack_slot_bits)
        """Where the line of a frame lies on chip that a RESTORE has found."""
        self._alive, self._passed, self._stuck, self._returned = (Signal(name=name) for name in (
            "alive", "passed", "stuck", "returned"))
        """Of the threads of a pass: one goes on at the token; one has synchronised past it; one waits for a token of
        another kind than RETURN, or for one of that kind."""
        self._ends = Signal()
        """Of a pass."""
        self._line, self._beat = Signal(LINE_BITS), Signal(BEAT_NUMBER_BITS)
        """The line that moves; a beat of it."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ("states", "places", "tokens"):
            blocks = getattr(self, name)
            m.submodules[name] = blocks.memory
            blocks.add(m)
        stack, asked = self.stack, self.stack.request.payload
        m.d.comb += [
            self._new.eq(self._state), self.states.word.eq(self._new),
            stack.holes.eq(-self._state.depth[:HOLE_BITS]), stack.result.error.eq(self._error),
            stack.result.kind.eq(self._kind), stack.result.resume.eq(self._resume), stack.result.empty.eq(self._empty),
            stack.result.pc.eq(Cat(self.tokens.out.bits[:HOLE_BITS] & ~self._asks(StackOperation.RESTORE).replicate(
                HOLE_BITS), self.tokens.out.bits[HOLE_BITS:])),
            self.committed.payload.warp.eq(asked.warp), self.committed.payload.last.eq(self._top - 1),
            self.write_fault.payload.eq(asked.warp), stack.pushed.payload.warp.eq(asked.warp),
            stack.pushed.payload.kind.eq(asked.kind), self.events.push.eq(stack.pushed.valid)]
        self._count(m)
        self._threads(m)
        self._address(m)
        with m.FSM(name="step"):
            self._begin(m)
            self._decide(m)
            self._unwind(m)
            self._leave(m)
            self._spill(m)
            self._fill(m)
        return m

    def _asks(self, *operations: StackOperation) -> Any:
        """Whether the request is one of these."""
        return self.stack.request.payload.operation.as_value().matches(*(each.value for each in operations))

    def _read_state(self, m: Module, which: int = 0) -> None:
        """Reads the warp's state, or its sizes; besides, where its memory begins."""
        warp = self.stack.request.payload.warp
        m.d.comb += [
            self.states.at.eq(Cat(Const(which, 1), warp)), self.states.reads.eq(1),
            self.places.at.eq(Cat(Const(0, 1), warp)), self.places.reads.eq(1)]

    def _write_state(self, m: Module, **fields: Any) -> None:
        """Writes the warp's state, of which these are new."""
        m.d.comb += [self.states.to.eq(Cat(Const(0, 1), self.stack.request.payload.warp)), self.states.writes.eq(1)]
        m.d.comb += [self._new[name].eq(value) for name, value in fields.items()]

    def _read_token(self, m: Module, number: Any, word: Any) -> None:
        """Reads a word of a token: its mask (0), or its pc (1)."""
        m.d.comb += [self.tokens.reads.eq(1), self.tokens.at.eq(
            Cat(word, number[:self._free_bits], self.stack.request.payload.warp))]

    def _write_token(self, m: Module, number: Any, word: int, bits: Any, note: Any) -> None:
        """Writes one."""
        m.d.comb += [
            self.tokens.writes.eq(1), self.tokens.word.bits.eq(bits), self.tokens.word.note.eq(note),
            self.tokens.to.eq(Cat(Const(word, 1), number[:self._free_bits], self.stack.request.payload.warp))]

    def _fail(self, m: Module, error: WarpError) -> None:
        """The operation is over, in error."""
        m.d.sync += self._error.eq(error)
        m.next = "DONE"

    def _move(self, m: Module, spills: int) -> None:
        """A line is to leave, or to come."""
        m.d.sync += self._spills.eq(spills)
        m.next = "BASE"

    def _count(self, m: Module) -> None:
        """Up or down by a token."""
        top, dirty, whole = self._top, self._dirty, self._is_whole
        m.d.comb += [
            self._next.eq(top + Cat(Const(1, 1), (~self._rises).replicate(DEPTH_BITS - 1))),
            whole.eq(top[:PLACE_BITS] == 0), self._next_lines.eq(self._lines - whole),
            self._next_dirty.eq(dirty - (whole & (dirty != 0))),
            self._missing.eq(~whole & (self._state.lines == 0))]

    def _threads(self, m: Module) -> None:
        """A token against the codes of threads, one after the other."""
        stack, tokens = self.stack, self.tokens
        self._judges = judges = Signal(name="judges")
        matching, role, code = Signal(WARP_THREADS), Signal(ThreadCode), stack.code
        frame, waits = self._asks(StackOperation.RESTORE), Signal()
        fits = stack.bit & (frame | (code == role))
        m.d.comb += [
            role.as_value().eq(role_of(TokenKind(tokens.out.note))), waits.eq(code == ThreadCode.NONE),
            stack.bit.eq(tokens.out.bits.bit_select(stack.thread, 1)), stack.revived.eq(matching[0]),
            self._ends.eq(stack.step & (stack.thread == WARP_THREADS - 1))]
        with m.If(stack.step):
            m.d.sync += [
                matching.eq(Cat(matching[1:], Mux(judges, fits, matching[0]))), self._alive.eq(self._alive | fits),
                self._passed.eq(self._passed | (stack.bit & waits & (role != ThreadCode.NONE))),
                self._stuck.eq(self._stuck | code.as_value().matches(*(each.value for each in STUCK))),
                self._returned.eq(self._returned | (code == ThreadCode.RETURN))]
        with m.If(stack.looks):
            m.d.sync += [flag.eq(0) for flag in (self._alive, self._passed, self._stuck, self._returned)]

    def _begin(self, m: Module) -> None:
        """What is known of the warp. Meanwhile the words of a frame may be looked at."""
        stack, state, whole = self.stack, self._state, self._state.depth[:PLACE_BITS] == 0
        with m.State("IDLE"):
            self._read_token(m, Cat(stack.word[1:], self._frame), stack.word[0])
            with m.If(stack.request.valid):
                self._read_state(m, 1)
                m.d.sync += [self._lost.eq(0), self._error.eq(WarpError.NONE), self._resume.eq(0), self._empty.eq(0)]
                m.next = "SIZES"
        with m.State("SIZES"):
            m.d.sync += self._sizes.eq(self.states.out)
            self._read_state(m)
            m.next = "STATE"
        with m.State("STATE"):     # whether a branch is taken comes from a register: block RAM is late
            m.d.sync += stack.killed.eq(state.kill)
            m.next = "LOAD"
        with m.State("READ"):
            self._read_state(m)
            m.next = "LOAD"
        with m.State("LOAD"):
            m.d.sync += [
                self._top.eq(state.depth), self._calls.eq(state.calls), self._lines.eq(state.lines + whole),
                self._dirty.eq(state.dirty + whole), self._granule.eq(0)]
            m.next = "DECIDE"

    def _decide(self, m: Module) -> None:
        """What is asked."""
        stack, asked, state, sizes, top = self.stack, self.stack.request.payload, self._state, self._sizes, self._top
        operand, missing, over, trap = asked.operand, self._missing, Signal(), Signal()
        enters = self._asks(StackOperation.SET_MODE)
        counts = self._asks(*_COUNTS)
        # Without a region the tokens on chip are all, in any mode: whole steps, or a part of one.
        whole = min(self._free_bits, STEP_BITS)
        part = top[whole:STEP_BITS]
        low = Cat(top[:whole], part | (~sizes.memory).replicate(len(part)))
        begins = (asked.pair & low.all()) | (enters & (low > (1 << STEP_BITS) - TOKENS_PER_LINE))
        m.d.comb += [
            trap.eq(Mux(sizes.memory, state.trap | enters, steps_on_chip(self.params) > 1)),
            over.eq((Cat(begins, top[STEP_BITS:]) > Cat(Const(0, 1), trap, sizes.less))
                    | (part.any() & ~sizes.memory))]

        with m.State("DECIDE"):
            m.next = "DONE"
            with m.If(asked.enable), m.Switch(asked.operation):
                with m.Case(*_PUSHES):
                    with m.If(counts & sizes.checks_calls & (state.calls >= API_CALL_LIMIT)):
                        with m.If(self._asks(StackOperation.CALL)):
                            self._fail(m, WarpError.API_STACK_ERROR)
                        with m.Else():
                            self._write_state(m, kill=1)
                    with m.Elif(over):
                        self._fail(m, WarpError.STACK_OVERFLOW)
                    with m.Elif(missing & self._lost):
                        self._fail(m, WarpError.MMU_FAULT)
                    with m.Elif(missing):
                        self._move(m, 0)
                    with m.Elif(self._is_whole & (state.dirty == self.params.stack_lines)):
                        self._move(m, 1)
                    with m.Else():
                        self._write_token(m, top, 0, asked.mask, asked.kind)
                        m.next = "PUSH"
                with m.Case(StackOperation.SET_MODE):
                    self._write_state(m, trap=operand[0])
                    with m.If(operand[0] & (over | missing)):
                        self._write_state(m, trap=~operand[1])
                        with m.If(over):
                            self._fail(m, WarpError.STACK_OVERFLOW)
                        with m.Elif(self._lost):
                            self._fail(m, WarpError.MMU_FAULT)
                        with m.Else():
                            self._write_state(m, trap=state.trap)
                            self._move(m, 0)
                with m.Case(StackOperation.GET_POINTER):
                    m.next = "ROUND"
                with m.Case(StackOperation.SET_POINTER):
                    m.d.sync += [top.eq(operand), self._calls.eq(operand[POINTER_CALLS:]), self._lines.eq(1),
                                 self._dirty.eq(0)]
                    m.next = "CLAMP"
                with m.Case(StackOperation.SET_BASE):
                    m.d.comb += [self.places.writes.eq(1), self.places.to.eq(Cat(Const(0, 1), asked.warp)),
                                 self.places.word.eq(stack.configuration.base)]
                with m.Case(StackOperation.WRITE_BACK):
                    with m.If(sizes.memory & missing & ~self._lost):
                        self._move(m, 0)
                    with m.Elif(sizes.memory & (state.dirty != 0)):
                        self._move(m, 1)
                with m.Case(StackOperation.LAUNCH):
                    m.d.comb += [self.places.writes.eq(1), self.places.to.eq(Cat(Const(0, 1), asked.warp)),
                                 self.places.word.eq(stack.configuration.base)]
                    m.next = "LAUNCH"
                with m.Case(StackOperation.CLEAR):
                    m.d.sync += self._empty.eq(1)
                    m.next = "EMPTY"
                with m.Case(*_UNWINDS):
                    m.next = "WALK"
                    with m.If(self._asks(StackOperation.RESTORE) & state.trap):
                        self._write_state(m, trap=0)
                        m.next = "READ"
        with m.State("PUSH"):
            self._write_token(m, top, 1, operand, counts)
            m.d.comb += [stack.pushed.valid.eq(1), self._rises.eq(1)]
            m.d.sync += [top.eq(self._next), self._calls.eq(self._calls + counts)]
            m.next = "COMMIT"
        with m.State("CLAMP"):
            with m.If(~sizes.memory):
                m.d.sync += [top.eq(0), self._error.eq(WarpError.STACK_ERROR)]
            with m.Elif(over):
                m.d.sync += top.eq(Cat(Const(~0, STEP_BITS), trap, sizes.less))
            m.next = "ROUND"
        with m.State("ROUND"):
            m.d.comb += self._rises.eq(1)
            with m.If(self._is_whole):
                m.next = "DONE"
                with m.If(self._asks(StackOperation.SET_POINTER)):
                    m.next = "COMMIT"
            with m.Else():
                m.d.sync += top.eq(self._next)
        with m.State("LAUNCH"):
            size, on_chip = stack.configuration.size, (steps_on_chip(self.params) - 1) // 2
            m.d.comb += [
                self.places.writes.eq(1), self.places.to.eq(Cat(Const(1, 1), asked.warp)),
                self.places.word.eq(stack.configuration.local), self.states.writes.eq(1),
                self.states.to.eq(Cat(Const(1, 1), asked.warp)),
                self.states.word.eq(Cat(Mux(size == 0, on_chip, (size - 1)[:CRS_GRANULE_BITS]), size != 0,
                                        stack.configuration.check_calls))]
            m.next = "EMPTY"
        with m.State("EMPTY"):
            m.d.sync += [top.eq(0), self._calls.eq(0), self._lines.eq(1), self._dirty.eq(0)]
            m.next = "COMMIT"

    def _unwind(self, m: Module) -> None:
        """One token after the other. Nothing is lost before the outcome is known: where the warp's state is, there is
        what an error leaves."""
        stack, state, tokens, next_ = self.stack, self._state, self.tokens, self._next
        quad, frame = self._asks(StackOperation.POP_QUAD), self._asks(StackOperation.RESTORE)
        kind, framed, counted, pc = Signal(TokenKind), Signal(), Signal(), Signal(_ALIGNMENT_BITS, name="low_pc")
        place, halts, fits = next_[:PLACE_BITS], Signal(), Signal()
        holes = Signal(HOLE_BITS)
        m.d.comb += [
            kind.as_value().eq(tokens.out.note),
            fits.eq(Mux(quad, kind == TokenKind.QUAD, kind.as_value() < TokenKind.QUAD.value)),
            halts.eq(Mux(frame, (kind == TokenKind.TRAP) & (place == 0), kind != TokenKind.NONE))]
        with m.State("WALK"):
            with m.If(self._top == 0):
                m.d.comb += stack.looks.eq(1)
                m.next = "BOTTOM"
            with m.Elif(self._next_lines != 0):
                self._read_token(m, next_, 1)
                m.next = "NOTE"
            with m.Elif(self._lost):
                self._fail(m, WarpError.MMU_FAULT)
            with m.Else():
                m.d.comb += self.events.miss.eq(1)
                m.d.sync += self._spills.eq(state.dirty != 0)
                m.next = "BASE"
        with m.State("NOTE"):
            m.d.sync += [counted.eq(tokens.out.note[0]), pc.eq(tokens.out.bits)]
            self._read_token(m, next_, 0)
            m.next = "LOOK"
        with m.State("LOOK"):
            m.d.sync += [framed.eq((kind == TokenKind.MASKS) & (framed | (place == LAST_PLACE))),
                         self._calls.eq(self._calls - (counted & (kind == TokenKind.RETURN)))]
            with m.If(~halts):
                m.next = "PASS"
            with m.Elif(Mux(frame, ~framed, ~fits)):
                self._fail(m, WarpError.STACK_ERROR)
            with m.Else():
                m.d.comb += stack.looks.eq(1)
                m.next = "JUDGE"
        with m.State("JUDGE"):
            m.d.comb += self._judges.eq(1)
            with m.If(self._ends):
                m.next = "VERDICT"
        with m.State("VERDICT"):
            with m.If(self._passed | ((quad | frame) & ~self._alive)):
                self._fail(m, WarpError.STACK_ERROR)
            with m.Elif(~self._alive):
                m.next = "PASS"
            with m.Elif(~quad & (pc[HOLE_BITS:].any() | (pc[:HOLE_BITS].any() & ~frame))):
                self._fail(m, WarpError.MISALIGNED_PC)
            with m.Else():
                self._read_token(m, next_, 1)
                m.d.sync += [
                    self._resume.eq(1), self._kind.eq(kind), self._frame.eq(next_[PLACE_BITS:]),
                    holes.eq(pc & (frame & (next_[PLACE_BITS:] != 0)).replicate(HOLE_BITS))]
                m.d.comb += self.events.hit.eq(1)
                m.next = "PASS"
        with m.State("PASS"):
            m.d.sync += [self._top.eq(next_), self._lines.eq(self._next_lines), self._dirty.eq(self._next_dirty)]
            with m.If(~self._resume):
                m.next = "WALK"
            with m.Elif(holes != 0):
                m.d.sync += holes.eq(holes - 1)
            with m.Else():
                m.next = "COMMIT"
        with m.State("BOTTOM"), m.If(self._ends):
            m.next = "BOTTOMED"
        with m.State("BOTTOMED"):
            with m.If(quad | frame | self._stuck):
                self._fail(m, WarpError.STACK_ERROR)
            with m.Else():
                with m.If(self._returned):
                    m.d.sync += self._error.eq(WarpError.RET_EMPTY_STACK_ERROR)
                m.d.sync += self._empty.eq(1)
                m.next = "EMPTY"

    def _leave(self, m: Module) -> None:
        """What an operation leaves, if it leaves anything. A topmost line that has room is dirty, whatever memory has
        behind its tokens."""
        stack, asked, whole, state = self.stack, self.stack.request.payload, self._is_whole, self._state
        sets, pushes = self._asks(StackOperation.SET_POINTER), self._asks(*_PUSHES)
        prepares, launches = self._asks(StackOperation.PREPARE_CALL), self._asks(StackOperation.LAUNCH)
        all_lines = self.params.stack_lines
        dirty = Cat(self._dirty[0] | (self._dirty == 0) & (self._lines != 0), self._dirty[1:])
        m.d.comb += stack.result.value.eq(Mux(
            self._asks(StackOperation.GET_BASE), self.places.out,
            Cat(self._top, Const(0, POINTER_CALLS - DEPTH_BITS), self._calls, state.kill)))
        with m.State("COMMIT"):
            self._write_state(
                m, depth=self._top, calls=self._calls,
                kill=Mux(sets, asked.operand[-1], state.kill & ~(prepares | launches | self._empty)),
                trap=state.trap & ~launches,
                lines=Mux(pushes, Mux(self._lines > all_lines, all_lines, self._lines), self._next_lines),
                dirty=Mux(~pushes & whole, self._next_dirty, dirty))
            m.d.comb += self.committed.valid.eq(~pushes)
            m.next = "DONE"
        with m.State("DONE"):
            m.d.comb += stack.request.ready.eq(1)
            m.next = "IDLE"

    def _address(self, m: Module) -> None:
        """Where a line lies: the base of the warp's memory, behind its threads', and so many granules further."""
        port, state, places, line, asked = (
            self.port.request, self._state, self.places, self._line, self.stack.request.payload)
        room = state.depth[:PLACE_BITS] != 0
        self._granule = granule = Signal(BLOCK_ADDRESS_BITS, name="granule", reset_less=True)
        self._adds_line = adds_line = Signal(name="adds_line")
        self._sum = Signal(BLOCK_ADDRESS_BITS, name="sum")
        m.d.comb += [
            line.eq(Mux(self._spills, state.depth[PLACE_BITS:] - (state.dirty - room), self._next[PLACE_BITS:])),
            self._sum.eq(granule + Mux(adds_line, line[_GRANULE_LINE_BITS:], places.out)),
            port.payload.write.eq(self._spills), port.payload.tag.eq(asked.warp), port.payload.beat.eq(self._beat),
            port.payload.address.eq(Cat(line[:_GRANULE_LINE_BITS], granule)), port.payload.mask.eq(~0)]

    def _spill(self, m: Module) -> None:
        """The lowest dirty line goes to memory, token by token; those that are not on the stack as zeros, which is
        NONE."""
        port, state, tokens, beat, asked = (
            self.port, self._state, self.tokens, self._beat, self.stack.request.payload)
        content, counted, kind = Signal(8 * BEAT_BYTES, reset_less=True), Signal(), Signal(4)
        # The first beat of a token, and its second one.
        second: Any = Signal(MemoryToken)
        first: Any = data.View(MemoryToken, Cat(content, second.as_value()[8 * BEAT_BYTES:]))
        room = state.depth[:PLACE_BITS] != 0
        number = Cat(beat[1:], self._line[:self.params.stack_slot_bits])
        keep = ~(room & (state.dirty == 1) & (beat[1:] >= state.depth[:PLACE_BITS]))
        m.d.comb += [
            port.request.payload.data.eq(content), second.counted.eq(counted), second.kind.eq(kind)]
        with m.State("BASE"):
            m.d.comb += [self.places.at.eq(Cat(Const(1, 1), asked.warp)), self.places.reads.eq(1)]
            m.d.sync += [self._granule.eq(self._sum), self._beat.eq(0)]
            m.next = "LOCAL"
        with m.State("LOCAL"):
            m.d.sync += self._granule.eq(self._sum)
            m.next = "LINE"
        with m.State("LINE"):
            m.d.comb += self._adds_line.eq(1)
            m.d.sync += self._granule.eq(self._sum)
            m.next = "ASK"
            with m.If(self._spills):
                m.next = "SEND_PC"
        with m.State("SEND_PC"):
            self._read_token(m, number, 1)
            m.next = "SEND_MASK"
        with m.State("SEND_MASK"):
            m.d.sync += [first.pc.eq(Mux(keep, tokens.out.bits, 0)), counted.eq(tokens.out.note[0] & keep)]
            self._read_token(m, number, 0)
            m.next = "SEND_KIND"
        with m.State("SEND_KIND"):
            m.d.sync += [first.mask.eq(Mux(keep, tokens.out.bits, 0)), kind.eq(Mux(keep, tokens.out.note, 0))]
            m.next = "SEND"
        with m.State("SEND"):
            m.d.comb += port.request.valid.eq(1)
            with m.If(port.request.ready):
                m.d.sync += [beat.eq(beat + 1), content.eq(second.as_value()[8 * BEAT_BYTES:])]
                with m.If(beat.all()):
                    m.d.comb += self.events.spill.eq(1)
                    m.next = "WRITTEN"
                with m.Elif(beat[0]):
                    m.next = "SEND_PC"
        with m.State("WRITTEN"):
            m.d.comb += port.response.ready.eq(1)
            with m.If(port.response.valid):
                m.d.comb += self.write_fault.valid.eq(port.response.payload.error)
                self._write_state(m, dirty=state.dirty - 1)
                m.next = "MOVED"
        with m.State("MOVED"):
            self._read_state(m)
            m.d.sync += self._granule.eq(0)
            m.next = "LOAD"
            with m.If(self._asks(*_UNWINDS)):
                m.next = "WALK"

    def _fill(self, m: Module) -> None:
        """A line comes from memory: of an unwind, which has left all lines behind that were on chip, or the topmost
        one, which has room."""
        port, answer, unwinds, whole = (
            self.port, self.port.response.payload, self._asks(*_UNWINDS), self._is_whole)
        came, number = Signal(8 * BEAT_BYTES), Cat(answer.beat[1:], self._line[:self.params.stack_slot_bits])
        token: Any = data.View(MemoryToken, Cat(came, answer.data))
        known = token.kind.matches(*(each.value for each in TokenKind if each is not TokenKind.ILLEGAL))
        with m.State("ASK"):
            m.d.comb += port.request.valid.eq(1)
            with m.If(port.request.ready):
                m.d.comb += self.events.fill.eq(1)
                m.next = "RECEIVE"
        with m.State("RECEIVE"):
            m.d.comb += port.response.ready.eq(~answer.beat[0])
            with m.If(port.response.valid & ~answer.beat[0]):
                m.d.sync += came.eq(answer.data)
            with m.Elif(port.response.valid):
                self._write_token(m, number, 1, token.pc, token.counted)
                m.next = "RECEIVE_MASK"
        with m.State("RECEIVE_MASK"):
            m.d.comb += port.response.ready.eq(1)
            self._write_token(m, number, 0, token.mask, Mux(known, token.kind, TokenKind.ILLEGAL.value))
            m.d.sync += self._lost.eq(answer.error)
            m.next = "RECEIVE"
            with m.If(ends_answer(answer)):
                m.next = "FILLED"
        with m.State("FILLED"):
            self._write_state(m, lines=~unwinds & ~self._lost, dirty=~unwinds & ~self._lost)
            with m.If(~self._lost):
                m.d.sync += [self._lines.eq(whole + 1), self._dirty.eq(whole)]
            m.next = "MOVED"
