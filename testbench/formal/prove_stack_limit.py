"""No stack exceeds its region; user mode leaves the entries free that the trap handler needs;
SETCRSPTR clamps.

Any operation of any warp arrives at any time, any token is found, and the spill and fill engine is
unconstrained in the counters of lines and with parked operations. For any one warp:

1. Its stack has at most as many tokens as its region holds; without a region as many as fit on
   chip, in any mode.
2. A push outside the trap handler leaves the last TRAP_RESERVE entries free. So when a trap occurs
   with a stack that user mode has filled, there is room for its frame; SET_MODE reports it.
3. A push is refused for its depth if and only if it, or the second one of its instruction, would
   exceed what user mode, or the handler, may fill.
4. SET_POINTER sets the requested depth, in whole lines, or the limit if that is less; a stack
   without a region is empty after it.

While a warp is launched no other operation of it is under way. The promises between the unit's
parts are assumed; `stack` proves them.
"""

from functools import partial
from typing import Any

from amaranth.asserts import AnyConst, AnySeq  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Array, Assume, Cat, Elaboratable, Module, Mux, Signal, Value

from rtl.crs import CallReturnStack
from rtl.crs.operations import StepOperation
from rtl.crs.records import Parking
from rtl.crs.tokens import steps_on_chip
from rtl.isa.errors import WarpError
from rtl.isa.tokens import CRS_GRANULE, TOKEN_BYTES, TRAP_RESERVE
from rtl.layouts import DEPTH_BITS, StackOperation
from rtl.params import PRESETS, SmParams
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import (
    Anything,
    Past,
    can_happen,
    claim,
    free,
    no_reset,
    presume,
)
from sim.checks.formal.theorem import Theorem

_STEP = TRAP_RESERVE.bit_length() - 1
_GRANULE = CRS_GRANULE // TOKEN_BYTES
"""Number of tokens of a granule."""


class LimitSpec(Elaboratable):
    """The pipeline of the call/return stack, with an unconstrained engine and unconstrained tokens.

    Examples have one warp with a region of one granule, which may enter the trap handler, sets its
    pointer, and pushes.
    """

    def __init__(self, params: SmParams, examples: bool = False) -> None:
        self._params, self._examples = params, examples

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        past = Past(m)
        dut: Any = CallReturnStack(params)
        dut.engine, dut.tokens = Anything(dut.engine), Anything(dut.tokens)
        free(m, dut)
        no_reset(m)
        states, warp = dut.states, Signal(params.warp_bits)
        m.d.comb += warp.eq(AnyConst(len(warp)))
        if self._examples:
            self._do(m, dut)
            m.d.comb += [warp.eq(0), Assume(~dut.engine.replay.valid, "nothing comes back")]
        else:
            for words in (states.below, states.cleaned, states.acknowledged):
                words.write(
                    m,
                    AnySeq(1) & ~states.sweep.active,
                    AnySeq(params.warp_bits),
                    AnySeq(params.stack_count_bits),
                )
        sizes, state, origin, traps = (
            words.read(m, warp)
            for words in (states.sizes, states.states, states.origins, states.traps)
        )
        m.d.comb += Assume(
            past.valid | ~Cat(Value.cast(sizes), traps).any(),
            "what only a launch writes is that of a launch without a region",
        )
        memory, granules = sizes.has_region, sizes.granules

        def within(last: Value, reserve: Any = 1) -> Value:
            """Returns whether the topmost token, if any, is in the region, or, with ``reserve`` 0,
            in the part that user mode may fill.
            """
            return last.all() | Mux(
                memory, last[_STEP:] <= Cat(reserve, granules), last < params.stack_tokens
            )

        # State of the warp in the stages
        change, judge, left, replayed = (
            dut.change.stage,
            dut.judge.stage,
            dut.commit.stage,
            dut.access.arbiter.replayed,
        )
        step, back = change.step, replayed.payload
        operation, judges = step.operation, judge.step.operation
        here, judged, leaves = (each.step.warp == warp for each in (change, judge, left))
        starts = change.valid & here & (operation == StepOperation.LAUNCH)
        starting = Signal(2)
        m.d.sync += starting.eq(Cat(starts, starting))
        request, asked = dut.request, dut.request.payload
        takes = request.valid & request.ready & (asked.warp == warp)
        launches = takes & asked.enable & (asked.operation == StackOperation.LAUNCH)
        again, commit, changed = dut.engine.replay, dut.engine.commit.flags, dut.engine.change
        returns = again.valid & (again.payload.warp == warp)
        parks = (commit.parks & (commit.warp == warp)) | (
            changed.parks_write_back & (changed.warp == warp)
        )
        parked, parking = Signal(), Signal(Parking)
        waits = parked | (replayed.valid & (back.warp == warp)) | (commit.parks & leaves)
        others = waits | (change.valid & here) | (judge.valid & judged) | (left.writes & leaves)
        with m.If(parks):
            m.d.sync += [
                parked.eq(1),
                parking.eq(
                    Mux(commit.parks & (commit.warp == warp), commit.parking, Parking.WRITE_BACK)
                ),
            ]
        with m.Elif(returns):
            m.d.sync += parked.eq(0)
        launching, begun = starts | starting.any(), past(launches)
        m.d.comb += [
            Assume(
                ~returns | (parked & (again.payload.parking == parking)),
                "what comes back was parked",
            ),
            Assume(~launches | ~others, "a warp is launched that has nothing under way"),
            Assume(
                ~((launching | begun) & takes) & ~((launching | begun | launches) & returns),
                "a warp is launched alone",
            ),
        ]

        # 1
        restored = ~states.sweep.active
        claim(m, within(state.last), "in its region", when=restored & ~launching)
        claim(
            m,
            within(step.state.last),
            "in its region, changed",
            when=change.valid
            & here
            & (operation.is_push | operation.is_unwind | (operation == StepOperation.LOAD))
            & ~launching,
        )
        claim(
            m,
            within(judge.step.state.last),
            "in its region, judged",
            when=judge.valid
            & judged
            & ~launching
            & (
                (judges.is_unwind & (judge.has_token | ~judge.is_empty))
                | ((judges == StepOperation.SET_POINTER) & memory)
                | (judges == StepOperation.LOAD)
            ),
        )
        claim(
            m,
            within(left.step.state.last),
            "in its region, left",
            when=left.writes & leaves & ~left.rolls_back & (starting != 2),
        )
        claim(
            m,
            within(left.origin.last),
            "where it began",
            when=left.writes & leaves & left.rolls_back,
        )
        for name, sunk in (
            ("kept", restored & state.is_provisional & ~launching),
            ("changed", change.valid & here & step.state.is_provisional),
            ("judged", judge.valid & judged & judge.step.state.is_provisional),
        ):
            claim(m, within(origin.last), f"where it began, {name}", when=sunk & ~launching)

        # A launch is alone, and an unwind that resumes has begun.
        claim(
            m,
            ~(waits | (judge.valid & judged) | (left.writes & leaves)),
            "it is launched alone",
            when=starts,
        )
        claim(
            m,
            ~(waits | (change.valid & here) | (left.writes & leaves))
            & judge.valid
            & judged
            & (judges == StepOperation.LAUNCH),
            "it is launched alone, judged",
            when=starting[0],
        )
        claim(
            m,
            ~(waits | (change.valid & here) | (judge.valid & judged))
            & left.writes
            & leaves
            & ~left.rolls_back
            & ~left.step.state.is_provisional
            & left.step.state.last.all(),
            "it is launched alone, left",
            when=starting[1],
        )
        walking = (Parking.UNWIND, Parking.EVICT)
        for name, walks in (
            (
                "changed",
                change.valid & here & operation.is_unwind & (step.replayed | change.continues),
            ),
            ("judged", judge.valid & judged & judges.is_unwind),
            ("parked", parked & Cat(parking == kind for kind in walking).any()),
            (
                "parking",
                commit.parks & leaves & Cat(commit.parking == kind for kind in walking).any(),
            ),
            (
                "back",
                replayed.valid
                & (back.warp == warp)
                & Cat(back.parking == kind for kind in walking).any(),
            ),
        ):
            claim(m, within(origin.last), f"it has begun, {name}", when=walks & ~launching)

        # Effects of an unwind
        claim(m, operation.is_unwind, "an unwind follows", when=change.valid & change.continues)
        claim(
            m,
            judges.is_unwind & judge.has_token & ~judge.step.fault,
            "an unwind ends",
            when=judge.valid & (judge.must_end | judge.may_end),
        )
        claim(
            m,
            judges.is_unwind & ~judge.step.fault & ~judge.is_empty,
            "an unwind continues",
            when=judge.valid & judge.may_continue,
        )

        claim(
            m, ~granules.all() & (memory | (granules == (steps_on_chip(params) - 1) // 2)), "sizes"
        )

        # 2, 3
        pushed, before = dut.pushed.valid & here, Signal(DEPTH_BITS + 1)
        limited = dut.entry == WarpError.STACK_OVERFLOW
        room = Signal(DEPTH_BITS + 1)
        m.d.comb += [
            before.eq(Mux(step.state.last.all(), 0, step.state.last + 1)),
            room.eq(
                Mux(
                    memory,
                    granules * _GRANULE + _GRANULE - Mux(traps, 0, TRAP_RESERVE),
                    params.stack_tokens,
                )
            ),
        ]
        claim(m, before < room, "no push goes beyond", when=pushed)
        missing = dut.entry == WarpError.MMU_FAULT
        claim(
            m,
            limited == (before + 1 + step.pair > room),
            "who is refused",
            when=change.valid & here & operation.is_push & ~missing,
        )
        enters = change.valid & here & (operation == StepOperation.SET_MODE) & change.token.pc[0]
        kept = within(step.state.last, 0)
        claim(m, ~limited, "there is room for the frame", when=enters & kept & memory & ~launching)
        # 4, where the commit rounds to whole lines
        asked_for, set_to = step.state.last, dut.change.result.step.state.last
        sets = change.valid & here & (operation == StepOperation.SET_POINTER)
        claim(
            m,
            set_to == Mux(asked_for < room, asked_for - 1, room - 1)[:DEPTH_BITS],
            "where the pointer is set",
            when=sets & memory & ~launching & (asked_for.any()),
        )
        claim(
            m,
            left.step.state.last.all(),
            "without a region the stack is emptied",
            when=left.writes
            & leaves
            & ~left.rolls_back
            & (left.step.operation == StepOperation.SET_POINTER)
            & ~memory
            & (starting != 2),
        )

        presume(m, "dut", dut)
        last = before[2:] == (room - 1)[2:]
        can_happen(m, pushed & memory & last & ~traps, "a push into the last line")
        can_happen(
            m, pushed & memory & last & traps, "a push into the last line of the trap handler"
        )
        can_happen(m, sets & memory & (asked_for > room), "a pointer that is too large")
        return m

    def _do(self, m: Module, dut: CallReturnStack) -> None:
        """Makes the requests of examples."""
        asked, number, enters = dut.request.payload, Signal(2), Signal()
        free(m, enters)
        m.d.sync += number.eq(number + (dut.request.valid & dut.request.ready & (number != 3)))
        m.d.comb += [
            dut.request.valid.eq(1),
            asked.eq(0),
            asked.enable.eq(1),
            asked.pair.eq(AnySeq(1)),
            asked.operation.eq(
                Array(
                    (
                        StackOperation.LAUNCH,
                        Mux(enters, StackOperation.SET_MODE, StackOperation.NONE),
                        StackOperation.SET_POINTER,
                        StackOperation.PUSH,
                    )
                )[number]
            ),
            asked.operand.eq(Mux(number == 1, 1, AnySeq(6))),
            dut.configuration.eq(0),
            dut.configuration.size.eq(1),
        ]


FAULTS = (
    Fault(
        "rtl.crs.change",
        "before.last[STEP_BITS:] > stage.limit",
        "before.last[STEP_BITS:] > stage.limit + 1",
    ),
    Fault(
        "rtl.crs.access", "sizes.has_region, in_handler | enters_handler,", "sizes.has_region, 1,"
    ),
    Fault("rtl.crs.change", "ends_half & ~limit_is_upper_half", "ends_half"),
    Fault(
        "rtl.crs.change", "SET_POINTER) & exceeds_limit", "SET_POINTER) & exceeds_limit & step.pair"
    ),
)


def theorem(params: SmParams) -> Theorem:
    """Returns the theorem of the stack's limit for a machine."""
    spec = partial(LimitSpec, params)
    return Theorem(
        spec,
        depth=3,
        cover_depth=18,
        long=True,
        examples=partial(spec, examples=True),
        faults=FAULTS,
    )


THEOREM = theorem(PRESETS["tiny"])
