"""No instruction issues before its stall count and its scoreboards allow it, and never two in one
cycle.

Two warps get any instructions at any time; flow results, completions and the units' reports arrive
at any time. For any one warp and any one scoreboard:

1. At most one warp issues in a cycle, and no operation of a unit issues beside it.
2. An instruction that waits for the scoreboard issues only when it was lowered as often as it was
   raised, by all preceding instructions of the warp.
3. An instruction that waits until all before it are complete issues only then; and when the warp is
   reported as drained, they are complete.
4. After an instruction the warp's next one issues at least as many cycles later as its control code
   requires, unless the warp has entered or left the trap in between.
5. After a DEPBAR.LE it issues only when the scoreboard is at most at its limit.

With any content of the counters' memories at reset, all of this holds after the sweep; during the
sweep no unit has an event.

The scoreboard is lowered no more often than it was raised, and its count is at most 62: an
instruction that would exceed it waits, and a complete instruction has lowered all. That the store's
data belong to the instructions is another theorem.
"""

from functools import partial
from typing import Any

from amaranth.asserts import AnyConst  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Array, Assume, Cat, Elaboratable, Fragment, Module, Mux, Signal, Value

from rtl.isa.control_code import SCOREBOARDS
from rtl.issue import IssueUnit
from rtl.issue.records import COUNTER_BITS, INCOMPLETE, TIME_BITS
from rtl.issue.scoreboards import Scoreboards
from rtl.issue.warp import ReadyWarp
from rtl.params import PRESETS
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
    presumed,
)
from sim.checks.formal.theorem import Theorem

_PARAMS = PRESETS["tiny"]
_WARPS = _PARAMS.warps
_LONG = (1 << TIME_BITS) - 3
"""Longest stall of an instruction, in cycles."""
_MOST = (1 << COUNTER_BITS) - 1
_COUNT_BITS = COUNTER_BITS + 1


class _Warp(ReadyWarp):
    """A warp; the promises of fetch, the flow unit and launches are assumed."""

    def elaborate(self, platform: object) -> Any:
        return presumed(Fragment.get(super().elaborate(platform), platform))


class _Scoreboards(Scoreboards):
    """The scoreboards; the promises of the units are assumed."""

    def elaborate(self, platform: object) -> Any:
        return presumed(Fragment.get(super().elaborate(platform), platform))


class _Spec(Elaboratable):
    """The issue unit. Its store, its flow results and its redirects are unconstrained.

    In examples one warp and one scoreboard are observed, and no warp enters the trap.
    """

    def __init__(self, examples: bool = False) -> None:
        self._examples = examples
        self.dut: Any = IssueUnit(_PARAMS)
        self.dut.store, self.dut.results = Anything(self.dut.store), Anything(self.dut.results)
        self.dut.redirects = Anything(self.dut.redirects)
        self.dut.warps = [_Warp() for _ in range(_WARPS)]
        self.dut.scoreboards = _Scoreboards(_PARAMS, len(self.dut.units))
        self.warp, self.number = Signal(_PARAMS.warp_bits), Signal(range(SCOREBOARDS))
        # The scoreboard's count, the number of incomplete instructions, and the cycles since the
        # warp's last one
        self.high, self.open, self.age = (
            Signal(_COUNT_BITS),
            Signal(_COUNT_BITS),
            Signal(TIME_BITS + 1, init=-1),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.dut = dut = self.dut
        past, store, number = Past(m), dut.store, self.number
        free(m, dut)
        no_reset(m)
        self.restored = ~dut.scoreboards.sweep.active
        can_happen(
            m, past(dut.scoreboards.sweep.active) & self.restored, "counters are as after power-up"
        )
        self.events, self.head, self.blocks, self.pending = (
            self._mine(name) for name in ("events", "requirements", "blocks", "pending")
        )
        taken, ready, injected = (Signal(name=name) for name in ("taken", "ready", "injected"))
        m.d.comb += [
            self.warp.eq(AnyConst(len(self.warp))),
            number.eq(AnyConst(len(number))),
            Assume(number < SCOREBOARDS, "there is such a scoreboard"),
            injected.eq(self._mine("is_injected")),
            taken.eq(self.events.is_selected & ~injected),
            ready.eq(self._mine("may_be_ready") & ~injected),
            Assume(
                store.bus_has_arriving | (store.bus == store.following),
                "what is behind is on the bus",
            ),
            Assume(
                store.following.has_waits == store.following.waits_for.any(), "what waits says so"
            ),
            Assume(
                (store.effects.stall != 0) & (store.effects.stall <= _LONG),
                "what an instruction may ask for",
            ),
            Assume(
                ~(dut.control.enter & dut.control.leave).any(),
                "a warp does not enter the trap and leave it",
            ),
        ]
        if self._examples:
            governed = dut.control.hold | dut.control.enter | dut.control.leave
            m.d.comb += Assume(~(self.warp | number).any() & ~governed.any(), "an example")

        self._show_one(m)
        self._show_scoreboard(m, past, taken, ready)
        self._show_completion(m, past, taken, ready)
        self._show_time(m, past, taken, ready)
        self._show_limit(m, taken, ready)
        return m

    def _mine(self, name: str) -> Any:
        """Returns the warp's signal of this name."""
        return Array(getattr(each, name) for each in self.dut.warps)[self.warp]

    def _its(self, bits: Any) -> Value:
        """Returns the scoreboard's bit."""
        return Value.cast(bits).bit_select(self.number, 1)

    def _leaving(self, raised: Any, counted: Any) -> tuple[Value, Value]:
        """Returns whether the warp's issuing instruction raises a scoreboard, and whether that is
        counted, a cycle later.
        """
        store, count = self.dut.store, self.dut.scoreboards.counted
        return (
            self.events.has_issued & ~store.is_injected & raised,
            count.valid & (count.payload.warp == self.warp) & counted,
        )

    def _show_one(self, m: Module) -> None:
        dut = self.dut
        claim(m, population(Cat(each.events.is_selected for each in dut.warps)) <= 1, "one issues")
        claim(
            m,
            ~(dut.instruction.valid & (dut.gather.valid | dut.write.valid)),
            "no operation goes beside it",
        )
        for name, chosen in (
            ("last", dut.priority.last),
            ("favoured", dut.priority.favoured),
            ("preferred", dut.priority.preferred),
        ):
            claim(m, ~(chosen & (chosen - 1)[:_WARPS]).any(), f"one is {name}")
        for index, each in enumerate(dut.warps):
            claim(m, dut.store.warp == index, "who issues", when=each.events.has_issued)

    def _show_scoreboard(self, m: Module, past: Past, taken: Signal, ready: Signal) -> None:
        """An instruction that has just issued is counted a cycle later."""
        scoreboards, high = self.dut.scoreboards, self.high
        event = scoreboards._step
        raises, counting = self._leaving(
            *(
                self._its(each.raises)
                for each in (self.dut.store.effects, scoreboards.counted.payload)
            )
        )
        ups, downs = (
            Array(words[each].read(m, self.warp) for each in range(SCOREBOARDS))[self.number]
            for words in (scoreboards.ups, scoreboards.downs)
        )
        m.d.sync += high.eq(high + raises - ((event.warp == self.warp) & self._its(event.lowers)))
        m.d.comb += Assume(high < _MOST, "not raised too often")
        claim(m, counting == past(raises), "it is counted")
        claim(
            m,
            (high - counting)[:COUNTER_BITS] == (ups + 1 - downs)[:COUNTER_BITS],
            "how often",
            when=self.restored,
        )
        claim(
            m,
            high == 0,
            "it is zero",
            when=scoreboards.lowered.bit_select(self.warp, 1) & self._its(scoreboards.zero),
        )
        claim(m, self._its(self.pending), "it is high", when=high != 0)
        waits = self._its(self.head.waits_for)
        claim(m, ~waits | (high == 0), "a ready warp waits for nothing", when=ready)
        claim(m, ~waits | (high == 0), "a warp that issues waits for nothing", when=taken)
        can_happen(m, taken & waits & ever(m, high != 0), "it has waited for the scoreboard")

    def _show_completion(self, m: Module, past: Past, taken: Signal, ready: Signal) -> None:
        """A unit that releases the warp has completed its instruction, which may be counted later."""
        scoreboards, open_ = self.dut.scoreboards, self.open
        passed, event, over, freed, waits = (
            scoreboards._lane_event,
            scoreboards._step,
            Signal(),
            Signal(),
            Signal(),
        )
        begins, counting = self._leaving(
            *(
                each.raises[INCOMPLETE]
                for each in (self.dut.store.effects, scoreboards.counted.payload)
            )
        )
        ends = sum((each.warp == self.warp) & each.completes for each in (passed, event))
        begun, *done = (
            words.read(m, self.warp)
            for words in (scoreboards.ups[INCOMPLETE], *scoreboards.completed.values())
        )
        m.d.sync += [
            open_.eq(open_ + begins - ends),
            freed.eq(self.events.is_resumed & self.blocks.until_resumed | freed & (open_ != 0)),
        ]
        m.d.comb += [
            over.eq((open_ == 0) | freed),
            waits.eq(self.head.waits_for[INCOMPLETE]),
            Assume(open_ < _MOST, "not too many"),
            Assume(ends <= open_ - counting, "who is complete has issued"),
        ]
        claim(m, counting == past(begins), "it is counted as well")
        claim(
            m,
            (open_ - counting)[:COUNTER_BITS] == (begun - sum(done))[:COUNTER_BITS],
            "how many",
            when=self.restored,
        )
        claim(m, open_ == 0, "all is complete", when=self.events.is_complete)
        claim(m, over | self.pending[INCOMPLETE], "something is not complete")
        claim(m, over, "nothing is under way", when=self.dut.drained.bit_select(self.warp, 1))
        claim(
            m,
            (over | ~waits) & ~self.blocks.until_drained,
            "a ready warp waits for no completion",
            when=ready,
        )
        claim(m, over | ~waits, "a warp that issues waits for no completion", when=taken)
        can_happen(m, taken & waits & ever(m, open_ != 0), "it has waited for all")

    def _show_time(self, m: Module, past: Past, taken: Signal, ready: Signal) -> None:
        """``asked``: stall cycles of the last instruction; 0 after trap entry and exit."""
        age, asked, left, short = (
            self.age,
            Signal(TIME_BITS),
            Signal(TIME_BITS),
            past(self.head.has_short_stall),
        )
        store, issued = self.dut.store, self.events.has_issued
        m.d.sync += age.eq(Mux(self.events.is_selected, 1, age + ~age.all()))
        with m.If(issued):
            m.d.sync += asked.eq(Mux(store.is_injected, 0, Mux(short, 2, store.effects.stall + 2)))
        m.d.comb += [
            left.eq(self._mine("stall_end") - self.dut.warps[0].broadcast.time),
            Assume(
                ~(issued & short & ~store.is_injected) | ~store.effects.blocks.as_value().any(),
                "what is short",
            ),
        ]
        claim(m, issued == (age == 1), "when it issued")
        claim(m, ~issued & (age >= asked), "a ready warp has waited", when=ready)
        stall_is_left = (age < asked) & (left == (asked - age - 1)[:TIME_BITS])
        claim(
            m,
            Mux(self._mine("stall_was_over"), age >= asked, stall_is_left),
            "the time",
            when=(age > 1) & (asked != 0),
        )
        claim(m, age >= asked, "a warp that issues has waited", when=taken)
        can_happen(m, past(taken) & past(past(past(taken))), "one behind the other")

    def _show_limit(self, m: Module, taken: Signal, ready: Signal) -> None:
        """A DEPBAR.LE is counted a cycle after it has issued."""
        limit, behind = self.dut.scoreboards.limits.read(m, self.warp), Signal()
        low, named = (
            self.high <= limit.most,
            (limit.scoreboard == self.number) & behind & (self.age > 2),
        )
        with m.If(self.events.is_launched):
            m.d.sync += behind.eq(0)
        with m.Elif(self.events.has_issued):
            m.d.sync += behind.eq(
                self.dut.store.effects.blocks.until_limit & ~self.dut.store.is_injected
            )
        claim(m, ~self.blocks.until_limit, "nothing is ready behind it", when=ready)
        claim(m, behind, "who waits for a limit", when=self.blocks.until_limit)
        claim(m, low, "it is low", when=named & self.events.meets_limit)
        claim(m, low, "it stays low", when=named & ~self.blocks.until_limit)
        claim(m, low, "who issues behind it", when=named & taken)
        can_happen(m, taken & named & ever(m, self.high != 0), "it has waited behind a DEPBAR.LE")


THEOREM = Theorem(
    _Spec,
    depth=4,
    cover_depth=13,
    long=True,
    examples=partial(_Spec, examples=True),
    faults=(
        Fault("rtl.sweep", "content.eq(initial)", "content.eq(word)"),
        Fault("rtl.issue.warp", "can_follow & broadcast.bus.can_issue", "can_follow"),
        Fault(
            "rtl.issue.warp",
            "time + self.broadcast.effects.stall",
            "time + self.broadcast.effects.stall - 1",
        ),
        Fault(
            "rtl.issue.scoreboards",
            "(ahead == behind) & ~(raises & raises_now)",
            "(ahead == behind)",
        ),
        Fault("rtl.issue.scoreboards", "self.zero.eq(zero & ~raised.raises)", "self.zero.eq(zero)"),
        Fault(
            "rtl.issue.scoreboards",
            "is_low & ~sets_limit & ~recent.any()",
            "is_low & ~sets_limit & ~recent[0]",
        ),
        Fault(
            "rtl.issue.scoreboards", "is_over & ~(raises & (raised_warp == warp_late))", "is_over"
        ),
        Fault(
            "rtl.issue.select",
            "self.selected.eq(first_lanes)",
            "self.selected.eq(first_lanes | first_others)",
        ),
    ),
)
