"""The flow unit of a serial machine: one instruction at a time, one thread of it after the other."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, memory, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component, pass_on
from rtl.flow import FlowQueue
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import (
    REPORT_BITS,
    TRAP_FRAME,
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
from rtl.wires import IN_BLOCKS
from rtl.word import instruction_address

__all__ = ["SerialFlowQueue", "SerialFlowUnit"]

_PC_BITS = 32
_ENTERS = 0b11
"""What the operand of a SET_MODE ends in that enters the trap handler if there is room."""
_WORDS = (ThreadCode.NONE, ThreadCode.NONE, *(code for codes in TRAP_FRAME for code in codes))
"""The codes of the threads in a trap frame's words. The first two words are another thing: active threads, and a pc."""
_DEAD = (ThreadCode.EXIT.value, ThreadCode.KILLED.value)


class _Thread(data.Struct):
    """Whether a thread is active, and if not, why."""

    active: unsigned(1)
    code: ThreadCode


class _Place(enum.Enum, shape=2):
    """Words that the stack is given, and those where a warp goes on: the instruction's own pc, that of the one behind
    it, its target, what is in place of a pc in a frame."""

    OWN = 0
    FOLLOWING = 1
    TARGET = 2
    SAVED = 3


class SerialFlowQueue(FlowQueue):
    """A register: there is one instruction."""

    trusting = True
    places = 1

    def inject(self, m: Module, decoded: Any) -> None:
        """The unit knows itself what has no operand and no guard."""


class SerialFlowUnit(Component):
    """Keeps the threads' masks of all warps, and executes the instructions that change them or the pc.

    An instruction takes passes over the warp's threads, one thread a cycle: the first finds out who executes it, while
    its target is added up; one for each token that is pushed gathers the token's mask; the stack has one for each token
    that might end an unwind; the last writes what becomes of the threads. Where a frame is restored there is one for
    each word of it besides.

    Members
    -------
    request : In(stream of flow_request)
        Taken beside its result.
    launch : In(stream of flow_launch)
        A new warp; goes before ``request``. Its result tells where it begins.
    report_mask : In(32)
        See FlowUnit.
    result : Out(Event of flow_result)
        Of a launch: two cycles after it was taken.
    stack : Out(SerialStackPort)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "request": In(stream.Signature(flow_request(params))), "launch": In(stream.Signature(flow_launch(params))),
            "report_mask": In(REPORT_BITS), "result": Out(Event(flow_result(params))),
            "stack": Out(SerialStackPort(params))})
        self.threads = memory.Memory(shape=_Thread, depth=WARP_THREADS * params.warps, init=[], attrs=IN_BLOCKS)
        self._launches = Signal()
        """What is done is a launch."""
        self._operation = Signal(FlowOperation)
        self._pc = Signal(_PC_BITS)
        self._some, self._others, self._stay = Signal(), Signal(), Signal()
        """There are threads that execute it; of these such with another target; active ones that do not."""
        self._sum, self._following = Signal(_PC_BITS + 2, reset_less=True), Signal(_PC_BITS)
        """The target, in the end; the address behind the instruction."""
        self._wrong = Signal(WarpError)
        """Of the target."""
        self._begun, self._holes, self._token = Signal(), Signal(HOLE_BITS), Signal(range(TOKENS_PER_LINE))
        """Something was asked of the stack before. Of a frame: so many holes are to be pushed, then this token."""
        self._under = Signal(HOLE_BITS)
        self._word = Signal(range(len(_WORDS)))
        """The word of a frame that is restored."""
        self._passes, self._looks, self._ends = Signal(), Signal(), Signal()
        """A pass is to begin; a thread is read; the last one is looked at."""
        self._mask, self._saved = Signal(WARP_THREADS), Signal(WARP_THREADS)
        """Of the token that is pushed: its mask; of a frame's what is in place of a pc."""
        self._adds, self._gathers, self._commits, self._assigns = (
            Signal(name=name) for name in ("adds", "gathers", "commits", "assigns"))
        """What the pass is for, if not for the stack: the target is added up; a token's masks; what becomes of threads;
        that by a frame's word."""
        self._goes, self._moves, self._marks = Signal(), Signal(), Signal()
        """The branch is taken; threads become active or not as the instruction says; their codes change so, too."""
        self._failed = Signal(WarpError)
        """What the stack has said of the first that it was asked."""
        self._tells = Signal()
        """All is known, and kept for the result."""
        self._choice, self._goes_on, self._chosen = Signal(_Place), Signal(_Place), Signal(_PC_BITS)
        """A word; that where the warp goes on unless an unwind has found another."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, launch, instruction, launches = (
            self.request.payload, self.launch.payload, self.request.payload.instruction, self._launches)
        m.d.comb += [
            self._operation.eq(Mux(launches, FlowOperation.LAUNCH, instruction.operation)),
            self.stack.request.payload.warp.eq(Mux(launches, launch.warp, request.warp)),
            self._pc.eq(Mux(launches, launch.pc, request.pc))]
        self._pass(m)
        self._add(m)
        self._ask(m)
        self._conclude(m)
        self._sequence(m)
        return m

    def _does(self, *operations: FlowOperation) -> Any:
        """Whether it is one of these."""
        return self._operation.as_value().matches(*(each.value for each in operations))

    def _pass(self, m: Module) -> None:
        """A thread after the other: who executes the instruction, which code it leaves, what becomes of it."""
        m.submodules.threads = self.threads
        read, write = self.threads.read_port(domain="comb"), self.threads.write_port()
        stack, request, launches, result = self.stack, self.request.payload, self._launches, self.result.payload
        warp, thread, step, instruction = (
            stack.request.payload.warp, stack.thread, stack.step, request.instruction)
        next_ = Signal.like(thread)
        old: Any = Signal(_Thread)
        new: Any = Signal(_Thread)
        m.d.sync += [
            next_.eq(next_ + self._looks), thread.eq(next_), step.eq(self._looks), old.eq(read.data),
            self._looks.eq((self._looks & ~next_.all()) | self._passes | stack.looks)]
        m.d.comb += [
            read.addr.eq(Cat(next_, warp)), write.addr.eq(Cat(thread, warp)), write.data.eq(new),
            write.en.eq(step & self._commits), self._ends.eq(step & thread.all())]

        # Who executes it.
        threads, same, lives = Signal(), Signal(), Signal()
        group, rest, left = Signal(), Signal(), Signal()
        m.d.comb += [
            threads.eq((old.active | launches) & Mux(
                launches, ~self.launch.payload.threads.bit_select(thread, 1),
                request.guard.bit_select(thread, 1) | self._is_moved)),
            same.eq(request.same.bit_select(thread, 1) | ~instruction.indexed | launches),
            group.eq(threads & same), rest.eq(threads & ~same), left.eq((old.active | launches) & ~threads),
            lives.eq(~old.code.as_value().matches(*_DEAD))]
        with m.If(step):
            m.d.sync += [self._some.eq(self._some | threads), self._others.eq(self._others | rest),
                         self._stay.eq(self._stay | left)]

        # The masks of a token.
        branches, frame = self._does(FlowOperation.BRANCH), self._does(FlowOperation.ENTER_TRAP)
        saves = frame & (self._token != 0)
        high, low = (Array(code.value for code in (ThreadCode.NONE, *codes))[self._token]
                     for codes in zip(*TRAP_FRAME, strict=True))
        with m.If(step & self._gathers):
            m.d.sync += [
                self._mask.eq(Cat(self._mask[1:], ~self._is_hole & Mux(
                    branches, Mux(self._later, rest, left), Mux(saves, old.code.as_value() == high, group)))),
                self._saved.eq(Cat(self._saved[1:], saves & ~self._is_hole & (old.code.as_value() == low)))]

        # Threads that leave have their code before the stack looks at them. For a QUAD token only who lives counts,
        # and so for the trap handler. What a frame brings back, and a new warp, depends on nobody.
        leaves = self._does(FlowOperation.LEAVE, FlowOperation.LAUNCH) & group
        restores = self._does(FlowOperation.RESTORE, FlowOperation.LAUNCH)
        frees = self._does(FlowOperation.ENTER_TRAP, FlowOperation.POP_QUAD) & lives
        with m.If(self._does(FlowOperation.TERMINATE)):
            m.d.comb += stack.code.eq(ThreadCode.EXIT)
        with m.Elif(leaves):
            m.d.comb += stack.code.eq(Mux(launches, ThreadCode.KILLED, instruction.code))
        with m.Elif(restores | frees):
            m.d.comb += stack.code.eq(ThreadCode.NONE)
        with m.Else():
            m.d.comb += stack.code.eq(old.code)

        # What becomes of it. Who is in a frame's word has that code; but who is active is not dead.
        told, word = stack.result, self._word
        quad = self._does(FlowOperation.POP_QUAD)
        m.d.comb += [stack.word.eq(word), new.eq(old)]
        with m.If(self._assigns), m.If(stack.bit):
            dead = word >= len(_WORDS) - 2
            m.d.comb += new.code.as_value().eq(
                Mux(dead & old.active, ThreadCode.NONE.value, Array(each.value for each in _WORDS)[word]))
        with m.Else():
            with m.If(told.resume):
                m.d.comb += new.active.eq(stack.revived)
            with m.Elif(self._moves):
                m.d.comb += new.active.eq(Mux(branches, group, Mux(
                    self._does(FlowOperation.PUSH_QUAD, FlowOperation.ENTER_TRAP), lives, left)))
            with m.Elif(told.empty):
                m.d.comb += new.active.eq(0)
            with m.If(told.resume & ~quad & stack.revived):
                m.d.comb += new.code.eq(ThreadCode.NONE)
            with m.Elif(told.empty & (stack.code == ThreadCode.RETURN)):
                m.d.comb += new.code.eq(ThreadCode.EXIT)
            with m.Elif(told.empty | (told.resume & ~quad) | self._marks):
                m.d.comb += new.code.eq(stack.code)
        codes: Any = result.codes.as_value()
        with m.If(step & self._commits):
            m.d.sync += [result.active.eq(Cat(result.active[1:], new.active)), codes.eq(Cat(codes[3:], new.code))]

    def _add(self, m: Module) -> None:
        """The target, in the first cycles of the first pass: the sum of the next instruction's pc, the operand, the
        offset. What is added to the next instruction's pc is signed, wherever it comes from. What counts from the
        program's base is not, but an offset beside an index register is."""
        request, instruction, total = self.request.payload, self.request.payload.instruction, self._sum
        reads_operand, added, step = instruction.indexed | instruction.constant, Signal(_PC_BITS + 1), self.stack.thread
        with m.Switch(step):
            with m.Case(0):
                m.d.comb += added.eq(self._pc)
            with m.Case(1):
                m.d.comb += added.eq(INSTRUCTION_BYTES)
            with m.Case(3):
                m.d.comb += added.eq(Mux(reads_operand, Cat(
                    request.operand, request.operand[-1] & instruction.relative), 0))
            with m.Case(4):
                m.d.comb += added.eq(Mux(instruction.constant, 0, Cat(
                    instruction.offset, instruction.offset[-1] & (instruction.relative | instruction.indexed))))
        with m.If(self.stack.step & self._adds):
            m.d.sync += total.eq(total + added.as_signed())
            with m.If(step == 2):
                m.d.sync += self._following.eq(total)
                with m.If(~instruction.relative):
                    m.d.sync += total.eq(0)
        with m.If(reads_operand & ~self._is_moved & (request.fault != WarpError.NONE)):
            m.d.comb += self._wrong.eq(request.fault)
        with m.Elif(total[_PC_BITS:].any()):
            m.d.comb += self._wrong.eq(WarpError.PC_WRAP)
        with m.Elif(total[:(INSTRUCTION_BYTES - 1).bit_length()].any() & ~self._does(FlowOperation.PUSH)):
            m.d.comb += self._wrong.eq(WarpError.MISALIGNED_PC)

    @property
    def _is_moved(self) -> Any:
        """The trap unit makes the warp do it: no instruction but those by which threads leave has a code."""
        return ~self._does(FlowOperation.LEAVE) & (self.request.payload.instruction.code == ThreadCode.EXIT)

    @property
    def _is_hole(self) -> Any:
        """What is pushed is a hole under a frame."""
        return self._does(FlowOperation.ENTER_TRAP) & (self._holes != 0)

    @property
    def _later(self) -> Any:
        """The token is that of threads that branch later."""
        return self._begun | ~self._stay

    def _ask(self, m: Module) -> None:
        """What of the stack."""
        stack, asked, request, launch, launches, begun = (
            self.stack, self.stack.request.payload, self.request.payload, self.launch.payload, self._launches,
            self._begun)
        instruction, enters = request.instruction, self._does(FlowOperation.ENTER_TRAP)
        branches, right = self._does(FlowOperation.BRANCH), self._wrong == WarpError.NONE
        pass_on(m, launch.stack, stack.configuration, "local", "size", "check_calls")
        m.d.comb += [
            stack.configuration.base.eq(Mux(launches, launch.stack.base, request.operand)),
            asked.pair.eq(self._stay & self._others & ~begun), asked.mask.eq(self._mask), asked.enable.eq(1)]
        # What else is asked is in registers.
        m.d.sync += [
            asked.kind.eq(instruction.kind),
            asked.operation.eq(Mux(launches, StackOperation.LAUNCH, instruction.asked))]
        with m.If(enters):
            m.d.sync += [
                asked.operation.eq(Mux(begun, StackOperation.PUSH, StackOperation.SET_MODE)),
                asked.kind.eq(Mux(self._holes == 0, Mux(self._token == 0, TokenKind.TRAP, TokenKind.MASKS),
                                  TokenKind.NONE))]
            m.d.comb += asked.enable.eq(begun | right)
        # The operand; behind that the same words are those where the warp may go on.
        modes, lowest = enters & ~begun, enters & begun & (self._holes == 0) & (self._token == 0)
        low = self._chosen[:HOLE_BITS] | (self._under & lowest.replicate(HOLE_BITS)) | modes.replicate(HOLE_BITS)
        words = Array((self._pc, self._following, self._sum[:_PC_BITS], self._saved))
        m.d.comb += self._chosen.eq(words[self._choice.as_value()])
        m.d.sync += asked.operand.eq(Cat(low, self._chosen[HOLE_BITS:]))
        with m.If(self._tells):
            m.d.comb += self._choice.eq(self._goes_on)
        with m.Elif(lowest | (branches & self._later) | self._does(FlowOperation.LEAVE_TRAP)):
            m.d.comb += self._choice.eq(_Place.OWN)
        with m.Elif(enters):
            m.d.comb += self._choice.eq(_Place.SAVED)
        with m.Elif(branches | self._does(FlowOperation.CALL)):
            m.d.comb += self._choice.eq(_Place.FOLLOWING)
        with m.Else():
            m.d.comb += self._choice.eq(_Place.TARGET)
        with m.If(branches):
            m.d.comb += asked.enable.eq(self._goes & (self._stay | self._others))
        with m.Elif(self._does(FlowOperation.CALL, FlowOperation.PUSH)):
            m.d.comb += asked.enable.eq(right)
        with m.Elif(self._does(FlowOperation.LEAVE)):
            m.d.comb += asked.enable.eq(~self._stay)
        with m.Elif(self._does(FlowOperation.WRITE_BACK)):
            m.d.comb += asked.enable.eq(self._some)

    def _conclude(self, m: Module) -> None:
        """What the instruction comes to."""
        stack, told, result, instruction = (
            self.stack, self.stack.result, self.result.payload, self.request.payload.instruction)
        error, wrong, tells, refused = Signal(WarpError), Signal(WarpError), Signal(), Signal(WarpError)
        branches, enters = self._does(FlowOperation.BRANCH), self._does(FlowOperation.ENTER_TRAP)
        takes, strays = self._some & ~(instruction.limited & stack.killed), instruction.uniform & self._stay
        unwound = told.resume & ~self._does(FlowOperation.POP_QUAD)
        stays = self._does(
            FlowOperation.ENTER_TRAP, FlowOperation.LEAVE_TRAP, FlowOperation.RESTORE, FlowOperation.LAUNCH)
        jumps = self._goes | self._does(FlowOperation.CALL, FlowOperation.ENTER_TRAP)
        m.d.comb += self._goes.eq(branches & takes & ~strays & (self._wrong == WarpError.NONE))
        with m.If(branches), m.If(takes):
            m.d.comb += wrong.eq(Mux(strays, WarpError.DIVERGENT, self._wrong))
        with m.Elif(self._does(FlowOperation.CALL, FlowOperation.PUSH, FlowOperation.ENTER_TRAP)):
            m.d.comb += wrong.eq(self._wrong)
        fails, right = error != WarpError.NONE, refused == WarpError.NONE
        m.d.comb += [
            refused.eq(Mux(self._begun, self._failed, told.error)),
            error.eq(Mux(wrong != WarpError.NONE, wrong, refused)),
            tells.eq(enters | reported(self.report_mask, error))]
        leaves = self._does(FlowOperation.LEAVE) & self._some & self._stay
        with m.If(stack.request.valid & stack.request.ready):
            m.d.sync += self._failed.eq(refused)
        with m.If(self._tells):
            m.d.sync += [
                result.pc.eq(Mux(~fails & unwound, told.pc, self._chosen)),
                result.error.eq(Mux(tells, error, WarpError.NONE)),
                result.warp.eq(stack.request.payload.warp), result.value.eq(told.value),
                result.terminated.eq(told.empty), result.behind.eq(~(fails | stays)),
                result.kept.eq(self._does(FlowOperation.LEAVE) & self._some & instruction.keep_reference
                               & (told.empty | ~fails)),
                self._marks.eq(leaves | self._launches | (enters & ~fails)),
                self._moves.eq(right & (self._goes | leaves | self._launches | (enters & ~fails)
                                        | self._does(FlowOperation.PUSH_QUAD)))]
        # An instruction that failed is left behind, whether that is told or not.
        with m.If(jumps & ~fails):
            m.d.comb += self._goes_on.eq(_Place.TARGET)
        with m.Elif(stays):
            m.d.comb += self._goes_on.eq(_Place.OWN)
        with m.Else():
            m.d.comb += self._goes_on.eq(_Place.FOLLOWING)
        m.d.comb += result.own.eq(self._pc)

    def _sequence(self, m: Module) -> None:
        """The passes, one after the other."""
        stack, told, launch, request, result = (
            self.stack, self.stack.result, self.launch, self.request, self.result)
        branches, enters = self._does(FlowOperation.BRANCH), self._does(FlowOperation.ENTER_TRAP)
        right = told.error == WarpError.NONE
        with m.FSM(name="step"):
            with m.State("IDLE"):
                m.d.sync += [
                    self._launches.eq(launch.valid), self._some.eq(0), self._others.eq(0), self._stay.eq(0),
                    self._sum.eq(0), self._begun.eq(0), self._holes.eq(0), self._token.eq(0), self._word.eq(0)]
                with m.If(launch.valid | request.valid):
                    m.d.comb += self._passes.eq(1)
                    m.next = "FIRST"
            with m.State("FIRST"):
                m.d.comb += self._adds.eq(1)
                with m.If(self._ends):
                    m.next = "TOKEN"
            with m.State("TOKEN"):
                m.next = "WORD"
                with m.If(self._does(FlowOperation.BRANCH, FlowOperation.CALL, FlowOperation.PUSH,
                                     FlowOperation.PUSH_QUAD) | (enters & self._begun)):
                    m.d.comb += self._passes.eq(1)
                    m.next = "GATHER"
            with m.State("GATHER"):
                m.d.comb += self._gathers.eq(1)
                with m.If(self._ends):
                    m.next = "WORD"
            with m.State("WORD"):
                m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += stack.request.valid.eq(1)
                with m.If(stack.request.ready):
                    m.d.sync += self._begun.eq(1)
                    m.next = "LAST"
                    with m.If(branches & stack.request.payload.pair & stack.request.payload.enable & right):
                        m.next = "TOKEN"
                    with m.If(enters & ~self._begun & right & stack.request.payload.enable):
                        m.d.sync += [self._holes.eq(stack.holes), self._under.eq(stack.holes)]
                        m.next = "TOKEN"
                    with m.If(enters & self._begun):
                        with m.If(self._holes != 0):
                            m.d.sync += self._holes.eq(self._holes - 1)
                            m.next = "TOKEN"
                        with m.Elif(~self._token.all()):
                            m.d.sync += self._token.eq(self._token + 1)
                            m.next = "TOKEN"
            with m.State("LAST"):
                m.d.comb += [self._passes.eq(1), self._tells.eq(self._word == 0)]
                m.next = "COMMIT"
            with m.State("COMMIT"):
                m.d.comb += [self._commits.eq(1), self._assigns.eq(self._word != 0)]
                with m.If(self._ends):
                    m.next = "DONE"
                    with m.If(told.resume & self._does(FlowOperation.RESTORE) & ~self._word.all()):
                        m.d.sync += self._word.eq(Mux(self._word == 0, 2, self._word + 1))
                        m.next = "LAST"
            with m.State("DONE"):
                m.d.comb += launch.ready.eq(self._launches)
                m.d.sync += result.payload.behind.eq(result.payload.behind & (
                    instruction_address(result.payload.pc) == instruction_address(self._following)))
                m.next = "REST"
            with m.State("REST"):
                m.next = "TELL"
            with m.State("TELL"):
                m.d.comb += [result.valid.eq(1), request.ready.eq(~self._launches)]
                m.next = "IDLE"
