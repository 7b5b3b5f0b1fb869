"""Each thread of a warp is in exactly one place: no unwind duplicates a thread, and none loses it.

Any warp executes any instructions, as early as permitted, and any operations of the trap unit; the
engine that moves lines is unconstrained. For any one thread of any one warp, from the warp's launch
to its end:

1. The thread is in exactly one place. It is active; or it has a code, of the token on which it is
   pending, or because it is dead; or a DIVERGE token holds it; or it has executed SYNC, and is
   pending on the token that has it. (Between the two requests of an indexed branch the flow unit
   holds it.) From SAM to RAM inactive threads are active, and keep their codes.
2. At most one DIVERGE token holds it, and no token above that one has it. All other tokens have all
   active threads.
3. After each instruction its place is the one that the rules of that instruction define. It becomes
   active only by the token at which an unwind ends, which has it in its mask, and on which it is
   pending; then its code is cleared. If the instruction fails its place is unchanged.
4. No unwind passes a token that has the thread and on which it is pending, nor one that has it if
   it is pending on SYNC: that is an error. When the warp ends, the thread has exited or was killed.
5. A QUAD token and a trap frame have the thread's place. RAM restores it unless the thread is dead,
   RESTORE always, and the stack below is unchanged, which may have another QUAD token or frame.

The stack is unbounded: its content as far as it concerns the thread is one word (``_PLACE``). The
token that is read is any one that this word permits, and so is the one below a QUAD token or a
frame. Nothing else is assumed of tokens: they are popped unchanged, in reverse order (which the
theorem ``stack`` proves). Of the stack's depth it is assumed that a second request has the room
that the first one's result reported (``stack_limit``). The promises between the unit's parts are
assumed.

The theorem excludes warps that execute SETCRSPTR or SETLMEMBASE, which drop or replace tokens. It
is assumed that all live threads execute RAM. QUAD tokens keep no codes: a thread with a code that
SAM makes active has to follow the others until RAM or its KIL.
"""

from functools import partial
from itertools import zip_longest
from typing import Any

from amaranth.asserts import AnyConst, AnySeq  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Array, Assume, Cat, Const, Elaboratable, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, enum
from amaranth.lib.wiring import Out

from rtl.crs.operations import StepOperation
from rtl.crs.records import Parking
from rtl.crs.tokens import PLACE_BITS, role_of
from rtl.flow import FlowDecoder
from rtl.flow.decode import INJECTED
from rtl.fpga.control_flow import ControlFlow
from rtl.isa.errors import WarpError
from rtl.isa.tokens import TOKENS_PER_LINE, TokenKind
from rtl.layouts import TRAP_FRAME, FlowOperation, StackOperation, ThreadCode
from rtl.params import PRESETS, WARP_THREADS
from rtl.population import population
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import (
    Anything,
    Past,
    can_happen,
    claim,
    ever,
    free,
    no_reset,
    presume,
)
from sim.checks.formal.theorem import Theorem
from testbench.words import encode

_PARAMS = PRESETS["tiny"]
_CODE_BITS = 3
_NONE, _EXIT, _KILLED, _RETURN = (
    code.value for code in (ThreadCode.NONE, ThreadCode.EXIT, ThreadCode.KILLED, ThreadCode.RETURN)
)
_USER = (
    TokenKind.SYNC,
    TokenKind.DIVERGE,
    TokenKind.BREAK,
    TokenKind.CONTINUE,
    TokenKind.RETURN,
    TokenKind.EXIT,
    TokenKind.LONGJMP,
)
_FRAME = (TokenKind.TRAP, TokenKind.MASKS)
_PUSHES = (StackOperation.PUSH, StackOperation.CALL, StackOperation.PREPARE_CALL)
_WALKS = {
    FlowOperation.LEAVE: StackOperation.UNWIND,
    FlowOperation.POP_QUAD: StackOperation.POP_QUAD,
    FlowOperation.RESTORE: StackOperation.RESTORE,
    FlowOperation.TERMINATE: StackOperation.CLEAR,
}
"""Flow operations that unwind, with their requests."""
_ASKS = {
    **{operation: (asked,) for operation, asked in _WALKS.items()},
    **{
        operation: (StackOperation[operation.name],)
        for operation in (
            FlowOperation.NONE,
            FlowOperation.GET_POINTER,
            FlowOperation.GET_BASE,
            FlowOperation.WRITE_BACK,
            FlowOperation.LAUNCH,
        )
    },
    **dict.fromkeys((FlowOperation.BRANCH, FlowOperation.PUSH_QUAD), (StackOperation.PUSH,)),
    FlowOperation.CALL: (StackOperation.PUSH, StackOperation.CALL),
    FlowOperation.PUSH: (StackOperation.PUSH, StackOperation.PREPARE_CALL),
    FlowOperation.ENTER_TRAP: (StackOperation.NONE,),
    FlowOperation.LEAVE_TRAP: (StackOperation.SET_MODE,),
}
"""The requests of instructions to the stack, as far as the theorem covers them."""
_CODED = {FlowOperation.LAUNCH: ThreadCode.KILLED, FlowOperation.TERMINATE: ThreadCode.EXIT}
"""The code that threads get from operations that always set the same one."""
_PUSHERS = (FlowOperation.BRANCH, FlowOperation.CALL, FlowOperation.PUSH_QUAD)
_WALKING = (Parking.UNWIND, Parking.EVICT)
_LATE = 4
_TOP_PLACE = TOKENS_PER_LINE - 1


class _StackSegment(enum.Enum, shape=2):
    """The content of the stack above the topmost frame or QUAD token, as far as it concerns the
    thread.

    From below: tokens with the thread, and DIVERGE tokens without it (``MEETS``); above these a
    DIVERGE token with it (``HELD``) or another token without it (``AWAY``), and from there on none
    with it.
    """

    MEETS = 0
    HELD = 1
    AWAY = 2


_PLACE = data.StructLayout({"part": _StackSegment, "synced": 1, "quad": 1, "quad_has": 1, "was": 3})
"""The place of the thread, besides its active bit and its code.

``synced``: it has executed SYNC since it was last active. ``quad``: the part of the stack is above
a QUAD token, which has the thread if ``quad_has``; ``was`` is its code at that time.
"""

_ALL, _SOME = ~0, ~1
_EXAMPLES = (
    (("SSY", _ALL), ("BRA", _SOME), ("SYNC", _ALL), ("SYNC", _ALL)),
    (("PBK", _ALL), ("BRK", _SOME), ("BRK", _ALL)),
    (("EXIT", _SOME), ("EXIT", _ALL)),
    (("BRX", _SOME), ("KIL", _ALL)),
    (
        ("PBK", _ALL),
        ("BRK", 1),
        ("SAM", _ALL),
        (FlowOperation.ENTER_TRAP, _ALL),
        (FlowOperation.RESTORE, _ALL),
        ("RAM", _ALL),
    ),
)
"""Operations of a warp in examples: instructions or operations of the trap unit, and the threads
whose guard is true.
"""
_SAME = 0x66666666
"""The threads whose register equals that of the lowest thread in these examples."""


def _is(value: Any, *cases: Any) -> Value:
    return Cat(value == case for case in cases).any()


def _dead(code: Any) -> Value:
    return _is(code, _EXIT, _KILLED)


def _code(code: Any) -> Value:
    return _is(code, *(each.value for each in ThreadCode))


def _right(active: Any, code: Any, place: Any, pending: Any = 0) -> Value:
    """Returns whether the thread is in one place. A thread with a code at SAM keeps it until RAM or
    death, and is active as well.
    """
    dead, was_dead, waits = (
        _dead(code),
        _dead(place.was),
        place.quad & (place.was != _NONE) & ~_dead(place.was),
    )
    places = Cat(
        active,
        (code != _NONE) & ~(waits & ~dead),
        ~dead & (place.part == _StackSegment.HELD),
        ~dead & place.synced,
        pending,
    )
    gone = (
        (code == place.was) & ~place.quad_has & ~place.synced & (place.part == _StackSegment.AWAY)
    )
    quad = (
        _code(place.was)
        & (~was_dead | gone)
        & (~waits | (code == _KILLED) | ((code == place.was) & active))
    )
    return (
        (population(places) == 1)
        & _is(place.part, *_StackSegment)
        & _code(code)
        & ((place.part == _StackSegment.MEETS) | ~active)
        & (quad | ~place.quad)
    )


class _Spec(Elaboratable):
    """The flow unit and the stack's pipeline.

    The engine, the tokens, and the adder of targets are unconstrained. Examples have one warp with
    a few operations and the real tokens.

    The warp's operation is ``on`` from its first request to its result. ``position`` is 1 to 3 in
    the stages of the stack, and _LATE after them.
    """

    def __init__(self, examples: bool = False) -> None:
        self._examples = examples
        self.dut: Any = ControlFlow(_PARAMS)
        self.flow, self.stack = self.dut.flow, self.dut.stack
        gather = self.flow.gather
        gather.resolver = Anything(gather.resolver)
        self.stack.engine = Anything(self.stack.engine)
        if not examples:
            self.stack.tokens = Anything(self.stack.tokens)
        self.warp, self.thread = Signal(_PARAMS.warp_bits), Signal(range(WARP_THREADS))
        self.active, self.code = Signal(), Signal(_CODE_BITS)
        self.place: Any = Signal(_PLACE)
        self.alive, self.pending = Signal(), Signal()
        """The warp is live; the second token of an indexed branch will hold the thread."""

        # The operation, its effect on the thread, and its request to the stack
        self.on, self.position, self.does = (
            Signal(),
            Signal(range(_LATE + 1)),
            Signal(FlowOperation),
        )
        self.walk, self.writes, self.quad, self.frame, self.clear = (
            Signal(name=name) for name in ("walk", "writes", "quad", "frame", "clear")
        )
        self.executes, self.rests, self.moves, self.marks = (
            Signal(name=name) for name in ("executes", "rests", "moves", "marks")
        )
        self.leaves_as, self.to_active, self.to_code = (
            Signal(_CODE_BITS),
            Signal(),
            Signal(_CODE_BITS),
        )
        self.asked_code = Signal(_CODE_BITS)
        self.refused, self.framed = Signal(), Signal()
        """Its token was refused; its frame is on the stack."""

        # An unwind: the tokens below those that it has passed, and below the lines that it has
        # dropped
        self.at: Any = Signal(_PLACE)
        self.sunk_at: Any = Signal(_PLACE)
        self.sunk, self.seen_kind, self.seen_has = Signal(), Signal(TokenKind), Signal()
        self.in_line, self.line_active, self.line_code = Signal(), Signal(), Signal(_CODE_BITS)
        """The thread is in a frame, with this active bit and code."""
        self.line_place: Any = Signal(_PLACE)
        self.parked, self.parking = Signal(), Signal(Parking)
        for name, value in vars(self).items():  # for readers of a trace
            if isinstance(value, Signal):
                value.name = name

    def elaborate(self, platform: object) -> Module:
        m = Module()
        no_reset(m)
        m.d.comb += [
            self.warp.eq(0 if self._examples else AnyConst(len(self.warp))),
            self.thread.eq(AnyConst(len(self.thread))),
        ]
        flow, states = self.flow, self.stack.states
        self.past = Past(m)
        for words in () if self._examples else (states.below, states.cleaned, states.acknowledged):
            words.write(
                m,
                AnySeq(1) & ~states.sweep.active,
                AnySeq(_PARAMS.warp_bits),
                AnySeq(_PARAMS.stack_count_bits),
            )
        own, self.waits, self.codes, self.seeks, self.busy, self.state = (
            words.read(m, self.warp)
            for words in (
                flow.states,
                flow.in_flight.parked,
                states.codes,
                states.goals,
                states.busy,
                states.states,
            )
        )
        m.d.comb += [self.active.eq(self._bit(own.active)), self.code.eq(self._code_of(own.codes))]
        self._name()
        self._come(m)
        self._rule(m)
        self._push(m)
        self._park(m)
        self._look(m)
        self._conclude(m)
        self._decide(m)
        self._keep_operation(m)
        self._keep_stages(m)
        self._keep_unwind(m)
        self._keep_pair(m)
        self._keep_frame(m)
        if self._examples:
            self._play(m)
        else:
            self._ask(m)
        presume(m, "dut", self.dut)
        return m

    def _bit(self, mask: Any) -> Any:
        return Value.cast(mask).bit_select(self.thread, 1)

    def _code_of(self, codes: Any) -> Any:
        return Value.cast(codes).word_select(self.thread, _CODE_BITS)

    def _doing(self, *operations: FlowOperation) -> Value:
        """Returns whether one of these operations is on and its last request was accepted."""
        return self.on & (self.position != 0) & _is(self.does, *operations)

    def _name(self) -> None:
        """Defines names for signals of the hardware."""
        stack, decision, warp = self.stack, self.flow.decide, self.warp
        self.gathered, self.asks, self.outcome = (
            decision.gathered.payload,
            decision.stack.request.payload,
            decision.decided.payload,
        )
        self.instruction = self.gathered.request.instruction
        self.op, self.begun = self.instruction.operation, decision.is_followup
        self.here = decision.gathered.valid & (self.gathered.request.warp == warp)
        self.taken = decision.decided.valid & self.here
        self.second = self.here & self.begun & (self.op == FlowOperation.BRANCH)
        self.telling = self.past(decision.decided.valid & ~decision.is_followup & ~decision.is_last)
        self.group, self.rest, self.left = (
            self._bit(mask)
            for mask in (self.gathered.group, self.gathered.deferred, self.gathered.remaining)
        )
        self.light = self.op == FlowOperation.PUSH
        self.walks = self.asks.enable & _is(self.asks.operation, *_WALKS.values())
        self.pushes = self.asks.enable & _is(self.asks.operation, *_PUSHES)
        self.beside = self.flow.in_flight.beside
        self.of_warp = [each.valid & (each.payload.warp == warp) for each in self.beside]
        self.first = self.taken & ~self.light & ~self.second
        self.tells = self.first & ~self.outcome.has_no_result

        change, judge, gone = stack.change.stage, stack.judge.stage, stack.commit.stage
        self.change, self.judge, self.gone = change, judge, gone
        self.step, self.judged = change.step.operation, judge.step.operation
        self.changes, self.judges, self.goes = (
            change.valid & (change.step.warp == warp),
            judge.valid & (judge.step.warp == warp),
            gone.step.warp == warp,
        )
        self.kind, self.has = change.token.kind, self._bit(change.token.mask)
        self.lies = (change.step.state.last[:PLACE_BITS] + 1)[:PLACE_BITS]
        self.pushed = stack.pushed.valid & self.changes
        self.result = stack.result.payload
        self.has_result = stack.result.valid & (self.result.warp == warp)
        self.over = self.has_result & self.on & (self.position >= len(self.beside))
        self.entering = self.on & (self.does == FlowOperation.ENTER_TRAP)
        replayed = stack.access.arbiter.replayed
        self.back, self.commit = replayed.payload, stack.engine.commit.flags
        self.returns = replayed.valid & (self.back.warp == warp)
        self.token, self.where = stack.change.result.token, change.step.state.last[:PLACE_BITS]
        self.looks = self.changes & self.step.is_unwind & change.has_token
        self.restores = self.step == StepOperation.RESTORE
        self.dead = _dead(self.code)
        # It has a code, and SAM has made it active.
        self.both = self.place.quad & (self.code != _NONE) & ~self.dead & (self.place.was != _NONE)

    def _come(self, m: Module) -> None:
        """Assumptions about the warp's instructions."""
        dut, leaves = self.dut, self.here & (self.op == FlowOperation.LEAVE)
        comes, launches = (
            port.valid & port.ready & (port.payload.warp == self.warp)
            for port in (dut.request, dut.launch)
        )
        m.d.comb += [
            Assume(
                ~comes | (self.alive & ~self.on & (~self.here | self.light | self.second)),
                "an instruction comes behind the result of the last one, or behind a push",
            ),
            Assume(
                ~launches | ~(self.alive | self.on | self.here | Cat(self.of_warp).any()),
                "a warp is launched when it has ended",
            ),
            Assume(
                ~self.here | ~_is(self.op, FlowOperation.SET_POINTER, FlowOperation.SET_BASE),
                "tokens stay",
            ),
            Assume(
                ~(self.here & (self.op == FlowOperation.POP_QUAD) & self.place.quad)
                | self.active
                | self.dead,
                "all who live execute RAM",
            ),
            Assume(
                ~(leaves & self.both & self.group) | (self.instruction.code.as_value() == _KILLED),
                "who has a code at SAM may be killed",
            ),
            Assume(
                ~(
                    self.taken
                    & self.both
                    & (self.op == FlowOperation.BRANCH)
                    & self.outcome.sets_active
                )
                | self.group,
                "who has a code at SAM goes where others go",
            ),
        ]

    def _rule(self, m: Module) -> None:
        """Computes the expected state of the thread when an operation's last request is accepted,
        and afterwards.
        """
        active, code, op, outcome, asks = self.active, self.code, self.op, self.outcome, self.asks
        to_active, to_code, asked_code = Signal(), Signal(_CODE_BITS), Signal(_CODE_BITS)
        m.d.comb += [to_active.eq(active), to_code.eq(code), asked_code.eq(code)]
        with m.Switch(op):
            with m.Case(FlowOperation.LEAVE):
                m.d.comb += [
                    to_active.eq(self.left),
                    asked_code.eq(to_code),
                    to_code.eq(Mux(self.group, self.instruction.code.as_value(), code)),
                ]
            with m.Case(FlowOperation.BRANCH):
                m.d.comb += to_active.eq(Mux(outcome.sets_active, self.group, active))
            with m.Case(FlowOperation.PUSH_QUAD):
                m.d.comb += to_active.eq(~self.dead)
            with m.Case(FlowOperation.POP_QUAD):
                m.d.comb += asked_code.eq(Mux(self.dead, code, _NONE))
            with m.Case(FlowOperation.ENTER_TRAP), m.If(outcome.sets_active):
                m.d.comb += [to_active.eq(~self.dead), to_code.eq(Mux(self.dead, code, _NONE))]
            with m.Case(FlowOperation.RESTORE):
                m.d.comb += asked_code.eq(_NONE)
            with m.Case(FlowOperation.TERMINATE):
                m.d.comb += asked_code.eq(_EXIT)
            with m.Case(FlowOperation.LAUNCH):
                m.d.comb += [to_active.eq(self.left), to_code.eq(Mux(self.group, _KILLED, _NONE))]
        tells, walks = self.tells, self.walks
        claim(
            m,
            Mux(outcome.sets_active, self._bit(outcome.active), active) == to_active,
            "which threads continue",
            when=tells & ~walks,
        )
        claim(
            m,
            Mux(outcome.sets_codes, self._code_of(asks.codes), code) == to_code,
            "who gets which code",
            when=tells & ~walks,
        )
        claim(
            m,
            (self._code_of(asks.codes) == asked_code) & ~outcome.sets_active & ~outcome.sets_codes,
            "codes of an unwind",
            when=tells & walks,
        )
        claim(
            m,
            ~self.left,
            "an unwind begins when nobody is active",
            when=tells & walks & (op == FlowOperation.LEAVE),
        )
        claim(
            m,
            ~outcome.sets_active & ~outcome.sets_codes & ~walks,
            "a push changes no thread",
            when=self.taken & (self.light | self.second),
        )
        held = self.pushes & (asks.kind == TokenKind.DIVERGE) & self._bit(asks.mask)
        branches = tells & outcome.sets_active & (op == FlowOperation.BRANCH)
        claim(
            m,
            held,
            "threads that do not branch are held",
            when=branches & (self.left | (self.rest & ~self.gathered.has_remaining)),
        )
        claim(m, held, "who branches later is held", when=self.taken & self.second & self.pending)

        with m.If(self.first):
            m.d.sync += [
                self.on.eq(1),
                self.does.eq(op),
                self.walk.eq(walks),
                self.refused.eq(0),
                self.writes.eq(asks.enable & (asks.operation == StackOperation.WRITE_BACK)),
                self.quad.eq(asks.operation == StackOperation.POP_QUAD),
                self.frame.eq(asks.operation == StackOperation.RESTORE),
                self.clear.eq(asks.operation == StackOperation.CLEAR),
                self.executes.eq(self.group),
                self.rests.eq(self.rest & self.gathered.has_remaining),
                self.leaves_as.eq(self.instruction.code.as_value()),
                self.moves.eq(outcome.sets_active),
                self.marks.eq(outcome.sets_codes),
                self.to_active.eq(to_active),
                self.to_code.eq(to_code),
                self.asked_code.eq(self._code_of(asks.codes)),
            ]
        with m.If(tells):
            m.d.sync += self.position.eq(1)
        with m.Elif(self.over):
            m.d.sync += [self.position.eq(0), self.on.eq(0), self.framed.eq(0)]
        with m.Elif((self.position != 0) & (self.position != _LATE)):
            m.d.sync += self.position.eq(self.position + 1)

    def _push(self, m: Module) -> None:
        """Checks tokens that are pushed."""
        kind, has, pushed, part, place = (
            self.kind,
            self.has,
            self.pushed,
            self.place.part,
            self.place,
        )
        in_frame, now = _is(kind, *_FRAME), self.changes & self.step.is_push & (self.position == 1)
        sure = self.past(self.taken & self.begun & self.pushes)
        m.d.comb += Assume(
            ~(self.changes & sure) | pushed, "there is room for what there was said to be room for"
        )
        with m.If(pushed), m.Switch(kind):
            with m.Case(TokenKind.DIVERGE), m.If(has):
                m.d.sync += [part.eq(_StackSegment.HELD), self.pending.eq(0)]
            with m.Case(TokenKind.QUAD):
                m.d.sync += [
                    part.eq(Mux(self.dead, _StackSegment.AWAY.value, _StackSegment.MEETS.value)),
                    place.synced.eq(0),
                    place.quad.eq(1),
                    place.quad_has.eq(has),
                    place.was.eq(self.code),
                ]
            with m.Case(TokenKind.MASKS), m.If(self.lies == _TOP_PLACE):
                m.d.sync += [part.eq(_StackSegment.MEETS), place.quad.eq(0), self.framed.eq(1)]
            with (
                m.Case(*(each for each in _USER if each is not TokenKind.DIVERGE)),
                m.If(~has & (part == _StackSegment.MEETS)),
            ):
                m.d.sync += part.eq(_StackSegment.AWAY)
        with m.If(pushed & now & (self.does == FlowOperation.BRANCH) & self.on & self.rests):
            m.d.sync += self.pending.eq(1)
        with m.If(now & ~pushed):
            m.d.sync += self.refused.eq(1)
        claim(
            m,
            has == self.active,
            "a token has who is active",
            when=pushed & ~_is(kind, TokenKind.NONE, TokenKind.DIVERGE, TokenKind.MASKS),
        )
        claim(
            m,
            ~has | (part == _StackSegment.MEETS),
            "no token has a thread that is held below it",
            when=pushed & ~_is(kind, TokenKind.NONE, *_FRAME),
        )
        claim(
            m,
            _is(kind, TokenKind.NONE, TokenKind.QUAD, *_FRAME, *_USER),
            "what is pushed",
            when=pushed,
        )
        claim(
            m,
            (kind == TokenKind.QUAD) == (self.on & (self.does == FlowOperation.PUSH_QUAD)),
            "who pushes a QUAD token",
            when=pushed,
        )
        claim(m, self.entering & ~self.framed, "who pushes a frame", when=pushed & in_frame)
        claim(m, self.lies == 0, "where a frame begins", when=pushed & (kind == TokenKind.TRAP))
        for number, (by_mask, by_pc) in enumerate(TRAP_FRAME, 1):
            valid_kind = (has == (self.code == by_mask.value)) & (
                self._bit(self.change.token.pc) == (self.code == by_pc.value)
            )
            claim(
                m,
                valid_kind,
                f"the frame has the thread's code, {number}",
                when=pushed & (kind == TokenKind.MASKS) & (self.lies == number),
            )

    def _park(self, m: Module) -> None:
        """Checks the warp's state in the engine, and where an unwind begins and resumes."""
        engine, commit, at, gone = self.stack.engine, self.commit, self.at, self.gone
        again, parks = engine.replay, commit.parks & (commit.warp == self.warp)
        returns = again.valid & (again.payload.warp == self.warp)
        with m.If(parks | (engine.change.parks_write_back & (engine.change.warp == self.warp))):
            m.d.sync += [
                self.parked.eq(1),
                self.parking.eq(Mux(parks, commit.parking, Parking.WRITE_BACK)),
            ]
        with m.Elif(returns):
            m.d.sync += self.parked.eq(0)
        m.d.comb += [
            Assume(
                ~returns | (self.parked & (again.payload.parking == self.parking)),
                "what comes back was parked",
            ),
            Assume(
                ~again.valid | engine.replay.soon, "the engine says that something may come back"
            ),
        ]
        with m.If(self.tells & self.walks):
            m.d.sync += [at.eq(self.place), self.sunk.eq(0), self.in_line.eq(0)]
        with m.Elif(
            self.returns & ~self.stack.access.unwind_is_granted & _is(self.back.parking, *_WALKING)
        ):
            m.d.sync += [at.eq(Mux(self.sunk, self.sunk_at, self.place)), self.in_line.eq(0)]
        with m.If(gone.writes & self.goes & gone.step.state.is_provisional & ~gone.rolls_back):
            m.d.sync += [self.sunk.eq(1), self.sunk_at.eq(at)]

    def _look(self, m: Module) -> None:
        """Constrains tokens that are read to those that may be there."""
        at, token, looks, step, where = self.at, self.token, self.looks, self.step, self.where
        found, has, frame_begins = token.kind, self._bit(token.mask), Signal()
        some_active, some_code, some_place = Signal(), Signal(_CODE_BITS), Signal(_PLACE)
        free(m, some_active, some_code, some_place, frame_begins)
        user, holder, of_frame = _is(found, *_USER), found == TokenKind.DIVERGE, _is(found, *_FRAME)
        held, away, seeks = (
            at.part == _StackSegment.HELD,
            at.part == _StackSegment.AWAY,
            looks & ~self.restores,
        )
        quad = looks & (step == StepOperation.POP_QUAD) & (found == TokenKind.QUAD)
        m.d.comb += [
            Assume(
                _right(some_active, some_code, some_place),
                "below a QUAD token or a frame it was right",
            ),
            Assume(
                ~looks | ((token.role.as_value() == role_of(found)) & (found != TokenKind.ILLEGAL)),
                "a token is unchanged since its push",
            ),
            Assume(
                ~(seeks & user) | Mux(held, ~has | holder, Mux(away, ~has, has != holder)),
                "what lies there",
            ),
            Assume(
                ~quad
                | (
                    at.quad
                    & (has == at.quad_has)
                    & Mux(_dead(at.was), away, ~held & ~away)
                    & (some_active == has)
                    & (some_code == at.was)
                ),
                "what pushed a QUAD token",
            ),
        ]
        with m.If(looks):
            m.d.sync += [self.seen_kind.eq(found), self.seen_has.eq(has)]
        with m.If(seeks & user):
            with m.If(held & has):
                m.d.sync += at.part.eq(_StackSegment.MEETS)
            with m.Elif(away & ~holder & ~(at.quad & _dead(at.was))):
                m.d.sync += at.part.eq(
                    Mux(AnySeq(1), _StackSegment.MEETS.value, _StackSegment.AWAY.value)
                )
        with m.If(quad):
            m.d.sync += at.eq(some_place)

        # Frames are a line each, from the topmost token down.
        for number, codes in enumerate((None, *TRAP_FRAME)):
            now = looks & self.restores & (where == number)
            inside, code = (
                (frame_begins, some_code)
                if number == _TOP_PLACE
                else (self.in_line, self.line_code)
            )
            if codes is None:
                valid_kind = (found == TokenKind.TRAP) & (has == self.line_active)
                with m.If(now):
                    m.d.sync += [self.in_line.eq(0), at.eq(self.line_place)]
            else:
                by_mask, by_pc = (code == each.value for each in codes)
                valid_kind = (
                    (found == TokenKind.MASKS) & (has == by_mask) & (self._bit(token.pc) == by_pc)
                )
            if number == _TOP_PLACE:
                with m.If(now):
                    m.d.sync += [
                        self.in_line.eq(frame_begins),
                        self.line_active.eq(some_active),
                        self.line_code.eq(some_code),
                        self.line_place.eq(some_place),
                    ]
            m.d.comb += Assume(
                ~now | Mux(inside, valid_kind, ~of_frame), f"what a frame has, {number}"
            )

        token = self.judge.token
        user, waits = (
            _is(token.kind, *_USER),
            (self.asked_code == _NONE) | (self.asked_code == role_of(token.kind)),
        )
        claim(
            m,
            ~(self._bit(token.mask) & user & waits),
            "no token is skipped",
            when=self.judges
            & self.judged.is_unwind
            & (self.judge.has_token & ~self.judged.needs_token & self.stack.judge.continues),
        )

    def _conclude(self, m: Module) -> None:
        """Checks the result, and the thread's place after it."""
        result, new, over, asked = self.result, self.flow.result.payload, self.over, self.asked_code
        now_active, now_code, role = Signal(), Signal(_CODE_BITS), Signal(_CODE_BITS)
        revived = self.seen_has & (role == asked)
        m.d.comb += [
            role.eq(role_of(self.seen_kind)),
            now_active.eq(self.active),
            now_code.eq(self.code),
        ]
        with m.If(~self.walk & ~self.refused):
            m.d.comb += [now_active.eq(self.to_active), now_code.eq(self.to_code)]
        with m.Elif(self.walk & result.empty):
            m.d.comb += [
                now_active.eq(0),
                now_code.eq(Mux(self.clear | (asked == _RETURN), _EXIT, asked)),
            ]
        with m.Elif(self.walk & result.resume & self.frame):
            m.d.comb += [now_active.eq(self.line_active), now_code.eq(self.line_code)]
        with m.Elif(self.walk & result.resume & self.quad):
            m.d.comb += now_active.eq(self.seen_has & ~self.dead)
        with m.Elif(self.walk & result.resume):
            m.d.comb += [now_active.eq(revived), now_code.eq(Mux(revived, _NONE, asked))]
        claim(m, self._bit(new.active) == now_active, "who is active then", when=over)
        claim(m, self._code_of(new.codes) == now_code, "who has which code then", when=over)
        stays = (self.active == self.past(self.active)) & (self.code == self.past(self.code))
        claim(m, stays, "by nothing else a thread moves", when=self.past.valid & ~self.past(over))
        claim(
            m,
            ~(result.resume | result.empty),
            "no other result ends an unwind",
            when=self.has_result & ~over,
        )
        claim(
            m,
            result.resume | result.empty | (result.error.as_value() != 0),
            "how an unwind ends",
            when=over & self.walk,
        )
        claim(m, _dead(now_code), "who is there when a warp ends", when=over & result.empty)

        synced, leaves = self.place.synced, self.does == FlowOperation.LEAVE
        with m.If(over):
            with m.If(result.empty):
                m.d.sync += self.alive.eq(0)
            with m.Elif(self.walk):
                with m.If(result.resume):
                    m.d.sync += self.place.eq(self.at)
                with m.If(result.resume & leaves):
                    m.d.sync += synced.eq(
                        ~now_active & (now_code == _NONE) & (synced | self.executes)
                    )
            with m.Elif(leaves & self.executes & (self.leaves_as == _NONE)):
                m.d.sync += synced.eq(1)
            with m.Elif((self.does == FlowOperation.ENTER_TRAP) & self.moves):
                m.d.sync += synced.eq(0)
            with m.Elif(self.does == FlowOperation.LAUNCH):
                m.d.sync += [self.place.eq(0), self.alive.eq(1)]

        # A push has its result in two cycles.
        settled = Signal()
        branched = (
            self._doing(FlowOperation.BRANCH, FlowOperation.PUSH_QUAD)
            & self.moves
            & ~self.refused
            & (self.position >= 2)
        )
        m.d.comb += settled.eq(Mux(branched, self.to_active, self.active))
        claim(
            m,
            _right(settled, self.code, self.place, self.pending),
            "it is in one place",
            when=self.alive & ~self.framed,
        )
        claim(
            m,
            (self.place.part == _StackSegment.MEETS) & ~self.place.quad & self.alive,
            "what lies on a frame",
            when=self.framed,
        )
        claim(
            m,
            self.alive & (self.place.part == _StackSegment.MEETS),
            "who is to be pushed",
            when=self.pending,
        )

        unwinds = over & self.walk & result.resume & leaves & now_active & ~self.executes
        for kind in (TokenKind.DIVERGE, TokenKind.SYNC, TokenKind.BREAK):
            can_happen(m, unwinds & (self.seen_kind == kind), f"{kind.name} brings a thread back")
        can_happen(
            m, over & result.empty & ~self.clear & ~self.executes, "others were the last to exit"
        )
        restored = ever(m, over & self.frame & result.resume)
        can_happen(
            m,
            over & self.quad & result.resume & restored & (now_code == ThreadCode.BREAK.value),
            "who waits for BREAK waits behind SAM, a trap, and RAM",
        )
        can_happen(
            m,
            self.pushed & self.pending & (self.kind == TokenKind.DIVERGE),
            "a branch pushes twice",
        )

    def _decide(self, m: Module) -> None:
        """Checks the second stage."""
        here, op, begun, gathered, kind = (
            self.here,
            self.op,
            self.begun,
            self.gathered,
            self.instruction.kind,
        )
        group, rest, left, launches = (
            self.group,
            self.rest,
            self.left,
            self.op == FlowOperation.LAUNCH,
        )
        threads = population(Cat(group, rest, left))
        claim(
            m,
            Mux(
                launches,
                (group ^ left) & ~rest,
                (threads == self.active) & (self._code_of(gathered.codes) == self.code),
            ),
            "who executes it",
            when=here & ~self.second,
        )
        claim(
            m,
            (threads <= 1)
            & (~(group | rest) | gathered.is_executed)
            & (~rest | gathered.has_deferred)
            & (~left | gathered.has_remaining),
            "who there is",
            when=here,
        )
        claim(
            m,
            (op == FlowOperation.BRANCH) & (kind == TokenKind.DIVERGE),
            "who branches to several targets",
            when=here & gathered.has_deferred,
        )
        asked, code = self.instruction.stack_operation, self.instruction.code
        later = _is(kind, *_USER) & (kind != TokenKind.DIVERGE)
        claim(
            m,
            Cat((op == one) & _is(asked, *what) for one, what in _ASKS.items()).any(),
            "what it asks",
            when=here,
        )
        claim(
            m,
            ~Cat((op == one) & (code != what) for one, what in _CODED.items()).any()
            & _code(code.as_value()),
            "its code",
            when=here,
        )
        claim(
            m,
            (later | ~_is(op, FlowOperation.PUSH, FlowOperation.CALL))
            & ((kind == TokenKind.QUAD) | (op != FlowOperation.PUSH_QUAD))
            & (
                (op != FlowOperation.BRANCH)
                | (kind == TokenKind.DIVERGE)
                | ((kind == TokenKind.NONE) & ~left)
            ),
            "its token",
            when=here,
        )
        claim(
            m,
            Mux(launches, ~self.alive & ~self.on & ~Cat(self.of_warp).any(), self.alive),
            "who lives",
            when=here,
        )
        same = self.does == op
        claim(
            m,
            Mux(
                begun,
                Mux(
                    op == FlowOperation.BRANCH,
                    ~self.on | (same & (self.position != 0)),
                    self.entering & same & (self.position == 0),
                ),
                ~self.on,
            ),
            "whose turn it is",
            when=here,
        )
        pairs = (op == FlowOperation.BRANCH) & gathered.has_remaining & gathered.has_deferred
        claim(
            m,
            (op == FlowOperation.ENTER_TRAP) | pairs,
            "who asks for several things",
            when=here & begun,
        )
        claim(m, self.flow.decide.gathered.valid, "what has begun is there", when=begun)

    def _keep_operation(self, m: Module) -> None:
        """Invariants of the operation and its result, while it is under way."""
        active, code, does, walk, doing = self.active, self.code, self.does, self.walk, self._doing
        on, position, moves, marks, dead = self.on, self.position, self.moves, self.marks, self.dead
        asked, to_active, to_code, executes = (
            self.asked_code,
            self.to_active,
            self.to_code,
            self.executes,
        )
        there, first = position != 0, self.changes & self.step.is_push & (position == 1)
        same, leaving = (
            (to_active == active) & (to_code == code),
            Mux(executes, self.leaves_as, code),
        )
        movers = (
            FlowOperation.LAUNCH,
            FlowOperation.LEAVE,
            FlowOperation.BRANCH,
            FlowOperation.ENTER_TRAP,
            FlowOperation.PUSH_QUAD,
        )
        claim(
            m,
            (position <= _LATE)
            & (on | ~there)
            & (there | (self.entering & self.here & self.begun) | ~on),
            "where it is",
        )
        claim(
            m,
            (self.alive == (does != FlowOperation.LAUNCH)) & (does != FlowOperation.PUSH),
            "who is on",
            when=on,
        )
        claim(m, ~(moves | marks | walk | self.writes), "who has more to ask", when=on & ~there)
        claim(
            m,
            (walk | self.writes) & ~Cat(self.of_warp).any() & ~self.here,
            "who is late",
            when=position == _LATE,
        )
        claim(
            m,
            (does == FlowOperation.BRANCH) | ~self.here,
            "no other operation is there",
            when=there,
        )
        walkers = [each for each in _WALKS if each is not FlowOperation.LEAVE]
        claim(
            m,
            (walk == (_is(does, *walkers) | (walk & (does == FlowOperation.LEAVE))))
            & (self.quad == (does == FlowOperation.POP_QUAD))
            & (self.frame == (does == FlowOperation.RESTORE))
            & (self.clear == (does == FlowOperation.TERMINATE))
            & (~self.clear | (position < _LATE))
            & ~(walk & (moves | marks | self.writes)),
            "what it is",
            when=there,
        )
        claim(
            m,
            (marks | (to_code == code)) & (moves | (to_active == active)),
            "what it changes",
            when=there & ~walk,
        )
        claim(
            m,
            _is(does, *_PUSHERS, FlowOperation.ENTER_TRAP),
            "who pushes",
            when=there & (self.refused | first),
        )
        claim(
            m,
            self.step != StepOperation.PREPARE_CALL,
            "no warp prepares a call and waits",
            when=self.changes & (position == 1),
        )
        claim(
            m,
            (to_active == (to_code == _NONE))
            & _is(to_code, _NONE, _KILLED)
            & moves
            & marks
            & ~self.refused,
            "a launch",
            when=doing(FlowOperation.LAUNCH),
        )
        claim(
            m,
            (~executes | (active & (~self.both | (self.leaves_as == _KILLED))))
            & _code(self.leaves_as)
            & Mux(
                walk,
                (active == executes) & (asked == leaving),
                (to_active == (active & ~executes)) & (to_code == leaving),
            ),
            "who leaves",
            when=doing(FlowOperation.LEAVE),
        )
        claim(
            m,
            (to_code == code) & (active | ~(to_active | self.rests)) & (~self.both | to_active),
            "a branch",
            when=doing(FlowOperation.BRANCH),
        )
        claim(
            m,
            first & (self.kind == TokenKind.DIVERGE) & (self.has ^ self.rests),
            "who is held by a branch",
            when=doing(FlowOperation.BRANCH) & moves & active & ~to_active & (position == 1),
        )
        claim(
            m,
            Mux(moves, (to_active == ~dead) & (to_code == Mux(dead, code, _NONE)), same)
            & ~self.refused
            & Mux(
                position == 1,
                ~moves | (first & (self.kind == TokenKind.MASKS) & (self.lies == _TOP_PLACE)),
                moves == self.framed,
            ),
            "who enters",
            when=doing(FlowOperation.ENTER_TRAP),
        )
        claim(
            m,
            doing(FlowOperation.ENTER_TRAP) & moves & (position >= 2),
            "who has entered",
            when=self.framed,
        )
        claim(
            m,
            (to_active == ~dead) & (to_code == code) & moves,
            "SAM",
            when=doing(FlowOperation.PUSH_QUAD),
        )
        claim(m, same & ~moves & ~marks, "all else", when=there & ~walk & ~_is(does, *movers))
        for operation, wanted in {
            FlowOperation.POP_QUAD: Mux(dead, code, _NONE),
            FlowOperation.RESTORE: _NONE,
            FlowOperation.TERMINATE: _EXIT,
        }.items():
            claim(m, asked == wanted, f"what {operation.name} looks for", when=doing(operation))
        claim(
            m,
            active | dead,
            "who executes RAM",
            when=doing(FlowOperation.POP_QUAD) & self.place.quad,
        )
        claim(m, does == FlowOperation.WRITE_BACK, "who writes back", when=on & self.writes)
        claim(
            m,
            self.refused == (self.judge.error.as_value() != 0),
            "who is refused, judge",
            when=(position == 2) & ~walk,
        )
        claim(
            m,
            (self.refused == (self.result.error.as_value() != 0)) & self.has_result,
            "who is refused, result",
            when=(position == 3) & ~walk & ~self.writes,
        )
        claim(
            m,
            self._code_of(self.codes) == asked,
            "the codes of the request",
            when=there & (walk | marks),
        )

    def _keep_stages(self, m: Module) -> None:
        """Invariants of the stack's stages and the state beside them."""
        change, judge, result, position, past = (
            self.change,
            self.judge,
            self.result,
            self.position,
            self.past,
        )
        starts = change.valid & ~change.continues & ~change.step.replayed
        started = past(starts)
        self.starts = starts
        for number, (comes, warp, valid) in enumerate(
            (
                (starts, change.step.warp, change.valid),
                (started, judge.step.warp, judge.valid),
                (past(started), result.warp, Const(1)),
            )
        ):
            beside, its = self.beside[number], self.on & (position == number + 1)
            outcome = beside.payload
            claim(
                m,
                (beside.valid == comes) & (~comes | ((warp == outcome.warp) & valid)),
                f"what is beside, {number}",
            )
            claim(
                m,
                self.of_warp[number]
                & ~outcome.has_no_result
                & (outcome.sets_active == self.moves)
                & (outcome.sets_codes == self.marks)
                & (~self.moves | (self._bit(outcome.active) == self.to_active))
                & (outcome.basic.is_pop_quad == self.quad),
                f"its outcome, {number}",
                when=its,
            )
            claim(
                m,
                ~(outcome.sets_active | outcome.sets_codes | outcome.basic.is_pop_quad),
                f"outcomes of pushes, {number}",
                when=self.of_warp[number] & ~its,
            )
        launches = self._doing(FlowOperation.LAUNCH)
        for name, stage, of_warp, number, first in (
            ("change", change, self.changes, 1, starts),
            ("judge", judge, self.judges, 2, started),
        ):
            does, its = stage.step.operation, position == number
            claim(
                m,
                does.is_blocking & ~does.is_push,
                f"what goes on holds, {name}",
                when=stage.valid & ~first,
            )
            claim(
                m,
                ~((does == StepOperation.SET_POINTER) | (does == StepOperation.SET_BASE))
                & ((does != StepOperation.LAUNCH) | (launches & its)),
                f"what a step holds, {name}",
                when=of_warp,
            )
            claim(
                m,
                of_warp
                & first
                & (does.is_unwind == self.walk)
                & (does.is_blocking == (self.walk | self.writes | launches))
                & ((does == StepOperation.LAUNCH) == launches)
                & (does != StepOperation.LOAD),
                f"its step, {name}",
                when=self.on & its,
            )
            claim(
                m,
                ((does == StepOperation.POP_QUAD) == self.quad)
                & ((does == StepOperation.RESTORE) == self.frame)
                & ((does == StepOperation.CLEAR) == self.clear),
                f"its unwind, {name}",
                when=of_warp & does.is_unwind,
            )
        seeing, clears = self.judged.is_unwind & ~judge.step.fault, StepOperation.CLEAR
        claim(
            m,
            self.step.is_unwind & (self.step != clears),
            "an unwind follows",
            when=change.valid & change.continues,
        )
        claim(
            m,
            self.step.is_unwind & (self.step != clears) & ~change.step.fault,
            "who looks",
            when=change.valid & change.has_token,
        )
        claim(
            m,
            seeing & (self.judged != clears),
            "who has looked",
            when=judge.valid & judge.has_token,
        )
        claim(
            m,
            judge.is_empty & ~judge.has_token,
            "who sees nothing",
            when=judge.valid & (self.judged == clears),
        )
        claim(
            m,
            seeing & judge.has_token,
            "an unwind ends",
            when=judge.valid & (judge.must_end | judge.may_end),
        )
        claim(
            m,
            seeing & ~judge.is_empty,
            "an unwind continues",
            when=judge.valid & judge.may_continue,
        )
        claim(
            m,
            self.goes & self.gone.is_done,
            "what came back is over",
            when=self.has_result & ~self.beside[2].valid,
        )
        claim(m, self.goes & self.gone.is_done, "a launch is over", when=launches & (position == 3))

    def _keep_unwind(self, m: Module) -> None:
        """Invariant: an unwind is in one place; so is every operation that the warp waits for."""
        walks, judged, back, at, place = (
            self.on & self.walk,
            self.judged,
            self.back,
            self.at,
            self.place,
        )
        judging, ending = self.judges & judged.is_unwind, self.over & self.walk
        moving = Cat(
            self.changes & self.step.is_unwind,
            judging,
            ending,
            self.commit.parks & self.goes & _is(self.commit.parking, *_WALKING),
            self.parked & _is(self.parking, *_WALKING),
            self.returns & _is(back.parking, *_WALKING),
        )
        claim(m, population(moving) == walks, "an unwind is in one place")
        claim(
            m,
            (self.seeks.quad == self.quad) & (self.seeks.frame == self.frame),
            "what is sought",
            when=walks & (self.position >= 2),
        )
        claim(m, self.waits.is_pop_quad == self.quad, "what waits beside", when=walks)

        def on_the_way(where: Any) -> Value:
            held = (where.part == _StackSegment.HELD) == (place.part == _StackSegment.HELD)
            return (
                _is(where.part, *_StackSegment)
                & (held | _dead(self.asked_code))
                & (where.quad == place.quad)
                & (where.quad_has == place.quad_has)
                & (where.was == place.was)
                & (~(place.quad & _dead(place.was)) | (where.part == _StackSegment.AWAY))
            )

        claim(m, on_the_way(at), "what is left", when=walks & ~self.frame & ~judging & ~ending)
        claim(
            m, on_the_way(self.sunk_at), "what is left below", when=walks & ~self.frame & self.sunk
        )
        claim(
            m,
            _right(self.line_active, self.line_code, self.line_place),
            "what a frame has",
            when=self.in_line,
        )
        given = Mux(
            self.where == 0,
            1,
            _dead(self.line_code)
            | ((self.where == 1) & _is(self.line_code, _RETURN, ThreadCode.LONGJMP.value)),
        )
        claim(
            m,
            self.change.continues
            & (self.where != _TOP_PLACE)
            & self.change.step.in_frame
            & (self._code_of(self.stack.change.result.codes) == Mux(given, self.line_code, _NONE)),
            "what a frame has given",
            when=self.looks & self.restores & self.in_line,
        )

        load = StepOperation.LOAD
        stays = Cat(
            self.judges & judged.is_blocking & (judged != StepOperation.WRITE_BACK),
            self.goes & (self.gone.is_done | self.gone.parks),
            self.parked,
            self.returns,
        )
        fresh, launches = self.changes & self.step.is_blocking, self._doing(FlowOperation.LAUNCH)
        self.loads = Cat(
            self.parked & (self.parking == Parking.LOAD),
            self.returns & (back.parking == Parking.LOAD),
            self.changes & (self.step == load),
            self.judges & (judged == load),
            self.goes & self.gone.is_done & (self.gone.step.operation == load),
        ).any()
        claim(m, population(Cat(stays, fresh)) <= 1, "the warp waits for one thing")
        claim(m, self.busy, "who waits is busy", when=stays.any() | (fresh & ~self.starts))
        claim(m, self.busy & ~self.on, "a line is loaded", when=self.loads)
        claim(
            m,
            self.on & (self.walk | self.writes | launches) & (self.position != 0),
            "who waits",
            when=(stays.any() | fresh) & ~self.loads,
        )

    def _keep_pair(self, m: Module) -> None:
        """Invariant: nothing changes between the two requests of an indexed branch."""
        gathered, entry, rest = self.gathered, self.flow.decide.progress, self.rest
        instruction, pending, branches = (
            self.instruction,
            self.pending,
            self.does == FlowOperation.BRANCH,
        )
        taken = self.past(self.taken & self.second)
        soon = self.on & (self.position == 1) & self.moves & self.rests & branches
        claim(m, ~self.loads, "no line is loaded", when=pending)
        claim(
            m,
            rest
            & gathered.is_executed
            & (gathered.target.error == WarpError.NONE)
            & ~(instruction.uniform & gathered.has_remaining)
            & ~(instruction.limited & self.state.kill),
            "who goes later",
            when=self.here & self.begun & (pending | soon) & ~taken,
        )
        claim(m, self.here & self.begun, "who is behind the first request", when=soon)
        claim(
            m,
            self.on
            & (self.position == 1)
            & branches
            & (self.rests == rest)
            & (self.moves == (self.changes & self.step.is_push)),
            "the first request",
            when=self.second & self.telling,
        )
        claim(
            m,
            ~rest | pending | entry.is_refused,
            "the second request",
            when=self.second & ~self.telling,
        )
        claim(
            m,
            Mux(
                taken,
                self.changes & self.step.is_push & (self.kind == TokenKind.DIVERGE) & self.has,
                self.second & rest & ~entry.is_refused,
            ),
            "who is still to be pushed",
            when=pending,
        )

    def _keep_frame(self, m: Module) -> None:
        """Invariants of a warp that enters the trap handler: its next token, and the place of that
        token.
        """
        entry = self.flow.decide.progress
        last = (self.state.last[:PLACE_BITS] + self.changes)[:PLACE_BITS]
        claim(
            m,
            Mux(
                entry.pending_holes != 0,
                (last + entry.pending_holes == _TOP_PLACE) & (entry.frame_token == 0),
                entry.frame_token == (last + 1)[:PLACE_BITS],
            ),
            "which token of the frame is next",
            when=self.here & self.entering & self.begun & ~self.telling & ~entry.is_refused,
        )

    def _request(self, m: Module, word: Any, injects: Any, operation: Any) -> None:
        """Makes a request for an instruction, or for an operation of the trap unit, in the format
        of the queue.
        """
        instruction = self.dut.request.payload.instruction
        m.submodules.decoder = decoder = FlowDecoder()
        m.d.comb += [decoder.word.eq(word), instruction.eq(decoder.instruction)]
        with m.If(injects):
            m.d.comb += [
                instruction.eq(0),
                instruction.operation.eq(operation),
                instruction.code.eq(ThreadCode.EXIT),
                instruction.constant.eq(1),
            ]
            with m.Switch(operation):
                for each, asked in INJECTED.items():
                    with m.Case(each):
                        m.d.comb += instruction.stack_operation.eq(asked)

    def _ask(self, m: Module) -> None:
        """Makes unconstrained requests."""
        dut, request, injects, operation = (
            self.dut,
            self.dut.request.payload,
            Signal(),
            Signal(FlowOperation),
        )
        free(
            m,
            dut.request.valid,
            request.warp,
            request.pc,
            request.operand,
            request.same,
            request.fault,
            dut.launch.valid,
            dut.launch.payload,
            dut.report_mask,
            injects,
            operation,
        )
        m.d.comb += [
            Assume(_is(operation, FlowOperation.ENTER_TRAP, *INJECTED), "what the trap unit does"),
            request.guard.eq(AnySeq(WARP_THREADS) | injects.replicate(WARP_THREADS)),
        ]
        self._request(m, AnySeq(64), injects, operation)

    def _play(self, m: Module) -> None:
        """Makes the requests of one example, by one warp; lines are not moved."""
        dut, request = self.dut, self.dut.request
        which, number, launched = Signal(range(len(_EXAMPLES))), Signal(range(8)), Signal()
        steps = list(zip_longest(*_EXAMPLES, fillvalue=("GETCRSPTR", _ALL)))
        step: Any = Array(Array(self._step(*each) for each in row) for row in steps)[number][which]
        word, guard, operation = step[:64], step[64 : 64 + WARP_THREADS], step[64 + WARP_THREADS :]
        m.d.comb += [
            which.eq(AnyConst(len(which))),
            Assume(which < len(_EXAMPLES), "one of them"),
            dut.launch.valid.eq(~launched),
            dut.launch.payload.threads.eq(~0),
            request.valid.eq(self.alive & ~self.on & ~self.here & (number < len(steps))),
            request.payload.guard.eq(guard),
            request.payload.same.eq(_SAME),
            *(
                Assume(~value.any(), "lines stay, and targets are right")
                for part in (self.stack.engine, self.flow.gather.resolver)
                for _, member, value in part.signature.flatten(part)
                for value in [Value.cast(value)]
                if member.flow is Out
            ),
        ]
        m.d.sync += [launched.eq(1), number.eq(number + (request.valid & request.ready))]
        self._request(m, word, operation.any(), operation)

    def _step(self, does: str | FlowOperation, guard: int) -> Value:
        """Returns a step of an example: its word or the trap unit's operation, and the threads
        whose guard is true.
        """
        injected = isinstance(does, FlowOperation)
        word = 0 if injected else encode(does, *_VARIANTS.get(does, ()))
        return Cat(
            Const(word, 64),
            Const(guard & (1 << WARP_THREADS) - 1, WARP_THREADS),
            Const(does.value if injected else 0, Shape.cast(FlowOperation)),
        )


_VARIANTS = {"BRX": ("r",), **dict.fromkeys(("SSY", "BRA", "PBK"), ("i",))}

THEOREM = Theorem(
    _Spec,
    depth=3,
    cover_depth=60,
    long=True,
    examples=partial(_Spec, examples=True),
    split=True,
    faults=(
        Fault(
            "rtl.flow.decide",
            "outcome.active.eq(stage.group)",
            "outcome.active.eq(stage.group | stage.remaining)",
        ),
        Fault(
            "rtl.flow.decide",
            "_token(stage.request.pc, stage.deferred)",
            "_token(stage.request.pc, stage.remaining)",
        ),
        Fault(
            "rtl.flow.decide",
            "self.stack.request.payload.enable.eq(~stage.has_remaining)",
            "self.stack.request.payload.enable.eq(1)",
        ),
        Fault(
            "rtl.flow.decide",
            "(operation.clears_living_codes & living[thread])",
            "operation.clears_living_codes",
        ),
        Fault(
            "rtl.flow.conclude",
            "sets_codes.eq(answer.empty | self._resumes | self.outcome.sets_codes)",
            "sets_codes.eq(answer.empty | self._resumes)",
        ),
        Fault(
            "rtl.crs.judge",
            "code.as_value() & ~revived.replicate(len(code.as_value()))",
            "code.as_value()",
        ),
        Fault("rtl.crs.judge", "self._revived[thread]", "self._matching[thread]"),
        Fault("rtl.crs.change", "Array(FRAME_MASK_CODES)[place]", "Array(FRAME_PC_CODES)[place]"),
    ),
)
