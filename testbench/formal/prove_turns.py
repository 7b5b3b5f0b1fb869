"""Every ready warp issues within a bounded time, with any priorities; and so do operations.

Four warps become ready at any time, with any instructions, and units request operations of the
lanes at any time; the policy may change in every cycle. This is proved for 4 lanes and for 32. For
any one warp:

1. The lanes are free again after the beats of the operation that they accepted, at most 4 * beats +
   1 cycles later.
2. Windows favour one warp after the other, one in an interval of eight windows. In its window a
   warp that is ready issues after at most 5 * beats cycles: those for which the full lanes are
   occupied, and those of at most one operation that goes first.
3. So a warp that remains ready issues within as many intervals as there are warps, and 5 * beats
   cycles.
4. While an operation is offered, and the queues that lower scoreboards for the lanes have room, at
   most seven instructions pass the lanes before an operation.

A warp that remains ready is ready with the same instruction; if it does not, for lack of room or
because the trap unit holds it, its wait starts again when it is ready again. The queue of warps
that wait for the result of their instruction is assumed to have room. The priority among warps that
are not favoured, and among operations, is another theorem, `order`.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from amaranth.asserts import AnyConst  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Array, Assume, Cat, Elaboratable, Module, Mux, Signal

from rtl.issue import FAVOUR_INTERVAL, IssueUnit, window_cycles
from rtl.one_hot import number_of, one_hot
from rtl.params import PRESETS, SmParams
from rtl.population import population
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

_SIZES = [replace(PRESETS["tiny"], warps=4, lanes=lanes) for lanes in (4, 32)]
_PATIENCE = 7


class _Spec(Elaboratable):
    """Issue units of both forms: on some lanes an instruction takes several cycles, on 32 of them
    one; examples are of the latter.
    """

    def __init__(self, examples: bool = False) -> None:
        self._examples = examples

    def elaborate(self, platform: object) -> Module:
        m = Module()
        no_reset(m)
        for params in _SIZES[-1:] if self._examples else _SIZES:
            m.submodules[f"lanes_{params.lanes}"] = _Unit(params, self._examples)
        return m


class _Unit(Elaboratable):
    """The issue unit with warps that are ready at any time; in examples a window begins soon."""

    def __init__(self, params: SmParams, examples: bool) -> None:
        self._params, self._beats = params, params.beats
        self._interval = FAVOUR_INTERVAL * window_cycles(params.beats)
        # A window takes effect two cycles after it has begun. Upper bounds: cycles in which the
        # lanes are not free, and cycles in which a favoured warp waits.
        self._shows = self._interval - window_cycles(params.beats) + 2
        self._held = params.quarter_cycles - 1
        self._in_time = self._held + params.beats
        self.dut: Any = IssueUnit(params)
        for name in ("store", "results", "scoreboards", "refill_queue"):
            setattr(self.dut, name, Anything(getattr(self.dut, name)))
        self.dut.warps = [Anything(warp) for warp in self.dut.warps]
        if examples:
            self.dut.priority.clock = Signal.like(self.dut.priority.clock, init=self._shows - 4)
        self.warp = Signal(params.warp_bits)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        presume(m, "dut", self.dut)
        dut, past = self.dut, Past(m)
        free(m, dut)
        m.d.comb += [
            self.warp.eq(AnyConst(len(self.warp))),
            Assume(dut.refill_queue.room, "there is room for who issues"),
        ]
        m.d.comb += [
            Assume(
                ~(each.ready_lanes & each.ready_others)
                & (each.may_be_ready | ~(each.ready_lanes | each.ready_others)),
                "who is ready",
            )
            for each in dut.warps
        ]
        lanes, others, taken = (
            Array(each)[self.warp]
            for each in zip(
                *(
                    (each.ready_lanes, each.ready_others, each.events.is_selected)
                    for each in dut.warps
                ),
                strict=True,
            )
        )
        waits = (lanes | others) & ~taken
        m.d.comb += Assume(
            ~past(waits) | ~(lanes | others) | (lanes == past(lanes)),
            "it stays ready with the same",
        )
        left = self._show_lanes(m, past)
        self._show_windows(m, past, lanes, others, waits, left)
        self._show_operations(m)
        return m

    def _show_lanes(self, m: Module, past: Past) -> Signal:
        """Returns the cycles until the lanes are free."""
        dut, left, beats = self.dut, Signal(range(self._held + 1)), self._beats
        busy, beyond = Cat(dut.lane_timer.beats_left, 0), dut.lane_timer.quarter_left
        m.d.comb += left.eq(
            Mux(beyond != 0, beyond, Mux(busy.any(), beats - 1 - number_of(busy), 0))
        )
        claim(m, population(busy) <= 1, "a beat is under way")
        claim(
            m,
            ~busy.any() | (beyond == 0) | (beyond + number_of(busy) == self._held),
            "or those of the full lanes",
        )
        claim(m, beyond <= self._held, "so long")
        claim(m, dut.lane_timer.free == (left == 0), "when the lanes are free")
        claim(m, left == past(left) - 1, "they become free", when=past(left) != 0)
        can_happen(m, past(left) == self._held, "the full lanes are used")
        return left

    def _show_windows(
        self, m: Module, past: Past, lanes: Any, others: Any, waits: Any, left: Signal
    ) -> None:
        """``age``: cycles since the warp's last window. ``waited``: cycles since it is ready;
        ``here``: it is in its window.
        """
        dut, priority, count = self.dut, self.dut.priority, self._params.warps
        clock, favoured = priority.clock, priority.favoured
        age, waited, here, operated = (
            Signal(range(count * self._interval)),
            Signal(16),
            Signal(16),
            Signal(),
        )
        window = favoured.bit_select(self.warp, 1) & (clock >= self._shows)
        stays = waits & window & ~clock.all()
        m.d.comb += age.eq(
            Cat(clock, (number_of(favoured) - self.warp - 1)[: self._params.warp_bits])
        )
        m.d.sync += [
            waited.eq(Mux(waits, waited + 1, 0)),
            here.eq(Mux(stays, here + 1, 0)),
            operated.eq(stays & (operated | dut.operations.granted)),
        ]
        claim(m, population(favoured) == 1, "one is favoured")
        claim(
            m,
            age == Mux(past(age) == count * self._interval - 1, 0, past(age) + 1),
            "each in its turn",
            when=past.valid,
        )
        claim(m, priority.preferred == one_hot(self.warp, count), "it goes first", when=window)
        claim(
            m,
            ~operated | (~dut.operations.is_due & (dut.operations.overtaken == 0)),
            "an operation goes once",
        )
        claim(
            m,
            here + left + Mux(operated, 0, self._beats) <= self._in_time,
            "it waits for the lanes",
            when=window & lanes,
        )
        claim(
            m,
            here + (dut.lane_timer.free & ~(operated & (self._beats == 1))) <= 1,
            "or for another one",
            when=window & others,
        )
        claim(
            m,
            here == Mux(window, Mux(waited < clock - self._shows, waited, clock - self._shows), 0),
            "since when",
            when=lanes | others,
        )
        claim(m, here <= self._in_time, "it issues in its window")
        claim(m, waited <= age + self._in_time + 1, "it issues in time")
        can_happen(m, past(here == self._in_time) & ~past(waits), "it has waited as long as it may")

    def _show_operations(self, m: Module) -> None:
        """``passed``: number of instructions since an operation is offered."""
        passed, operations = Signal(range(_PATIENCE + 2)), self.dut.operations
        offers = (*operations.gather_offers, *operations.write_offers)
        offered = Cat(offer.valid for offer in offers).any()
        waits = offered & operations.has_room & ~operations.granted
        m.d.sync += passed.eq(Mux(waits, passed + operations.instruction_passes, 0))
        claim(m, passed <= operations.overtaken, "they are counted", when=waits)
        claim(m, ~(passed == _PATIENCE) | operations.is_due, "it is due", when=waits)
        claim(m, passed <= _PATIENCE, "so many instructions go first")
        can_happen(m, operations.is_due & (passed == 2), "two instructions have gone first")


THEOREM = Theorem(
    _Spec,
    depth=3,
    cover_depth=22,
    examples=partial(_Spec, examples=True),
    faults=(
        Fault(
            "rtl.issue.order", "self.preferred.eq(self.favoured)", "self.preferred.eq(self.last)"
        ),
        Fault("rtl.issue.order", "self.favoured.rotate_left(1)", "self.favoured"),
        Fault(
            "rtl.issue.order",
            "Mux(preferred.any(), preferred, self._order.first(ready))",
            "self._order.first(ready)",
        ),
        Fault(
            "rtl.issue.select", "with m.Elif(quarter_left != 0):", "with m.Elif(quarter_left > 1):"
        ),
        Fault(
            "rtl.issue.operations",
            "m.d.sync += overtaken.eq(0)",
            "m.d.sync += overtaken.eq(overtaken)",
        ),
        Fault(
            "rtl.issue.operations",
            "self.is_due.eq(self.has_room & self._are_due(overtaken))",
            "self.is_due.eq(0)",
        ),
    ),
)
