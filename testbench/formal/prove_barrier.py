"""No warp passes a CTA barrier before all participants have arrived; then all waiting warps are
released together, within a bounded time.

Two warps, of one CTA or two, begin, execute BAR, B2R and R2B in any order and with any operands,
are withdrawn while they wait, and end, at any time. For any one barrier, BAR.SYNCALL's included,
while no R2B sets it:

1. It releases warps only when the number of arrivals, without withdrawn ones, is the number that
   its last arrival named: that count, or all warps of the CTA that are live or about to begin.
2. Then all warps that wait there continue, in the same cycle; no other warp does, except one whose
   instruction has ended without a wait.
3. When the unit selects its next task, too few warps have arrived, unless the CTA has lost a warp
   since its barriers were checked. They are checked before any other instruction is accepted,
   except in the very next cycle.
4. Tasks are bounded: an instruction takes 6 cycles, a withdrawal 7, the barriers of a CTA 6 each
   and 3 more. Recording of results adds a cycle for each warp, and another one. Cycles of launches
   are not counted, nor are those in which the lanes do not accept B2R's write.

The unit's inputs are those that its queue passes on; that the queue keeps their order is another
theorem.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from amaranth.asserts import AnyConst  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Assume, Cat, Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, enum

from rtl.barrier import BarrierUnit
from rtl.barrier.queue import BarrierQueue
from rtl.barrier.stages import BarrierTask
from rtl.component import Component
from rtl.isa.barriers import BARRIERS, SYNCALL_BARRIER
from rtl.isa.kinds import BarrierMode, BarrierRead
from rtl.one_hot import one_hot
from rtl.params import PRESETS
from rtl.population import population
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import Past, can_happen, claim, ever, free, no_reset, put
from sim.checks.formal.theorem import Theorem

_PARAMS = PRESETS["tiny"]
_WARPS = _PARAMS.warps
_PLACES = SYNCALL_BARRIER + 1
_ONE_BARRIER = 6 + _WARPS + 1
"""Largest number of cycles for a barrier of a CTA that has lost a warp."""
_CYCLE_BITS = 8
_FROM_FETCH = ("FETCH", "READ", "UPDATE", "DECIDE", "ACT")


class _Place(enum.Enum, shape=2):
    """State of a warp. ACTS: the unit executes its instruction."""

    DEAD = 0
    RUNS = 1
    ACTS = 2
    WAITS = 3


class _Queue(Component):
    """Replaces the unit's queue: its output is unconstrained; in examples it is BAR.SYNC at barrier
    0.
    """

    def __init__(self, examples: bool) -> None:
        self._examples = examples
        super().__init__({**BarrierQueue(_PARAMS).signature.members})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        asked = self.request.payload
        free(m, self.request.valid)
        if self._examples:
            free(m, asked.warp)
            m.d.comb += asked.executes.eq(1)
        else:
            free(m, asked)
        return m


class _Spec(Elaboratable):
    """The barrier unit with unconstrained warps; in examples warps of one CTA that begin at once."""

    def __init__(self, examples: bool = False) -> None:
        bits, self._examples = _PARAMS.warp_bits, examples
        self.dut: Any = BarrierUnit(_PARAMS)
        self.dut.queue = self.queue = _Queue(examples)
        # Each warp's state, its CTA, and the barrier at which it waits
        self.places, self.ctas, self.numbers = (
            [Signal(shape, name=f"{name}_{warp}") for warp in range(_WARPS)]
            for name, shape in (("place", _Place), ("cta", bits), ("number", range(_PLACES)))
        )
        # The observed barrier: warps that have arrived, the number that the last arrival named, the
        # warps that wait there; warps of its CTA that are live or about to begin
        self.cta, self.number = Signal(bits), Signal(range(_PLACES))
        self.came, self.asked, self.held = Signal(8), Signal(7), Signal(_WARPS)
        self.live, self.to_come = Signal(range(4 * _WARPS)), Signal(range(_WARPS + 1))
        # The instruction that the unit executes: whether it arrives at this barrier, and then waits
        self.acting: Any = Signal(
            data.StructLayout(
                {
                    "valid": 1,
                    "warp": bits,
                    "number": range(_PLACES),
                    "count": 7,
                    "arrives": 1,
                    "here": 1,
                    "stays": 1,
                }
            )
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        dut, past = self.dut, Past(m)
        free(m, dut)
        no_reset(m)
        m.d.comb += [
            self.cta.eq(AnyConst(len(self.cta))),
            self.number.eq(AnyConst(len(self.number))),
            Assume(self.number < _PLACES, "there is such a barrier"),
            Assume(dut.barriers == AnyConst(len(dut.barriers)), "barriers of the grid"),
            Assume(dut.barriers <= BARRIERS, "not more than there are"),
            Assume(
                ~(dut.sweep.active & dut.launch.valid), "no warp begins in the sweep after a reset"
            ),
        ]
        self._begin(m)
        self._act(m, past)
        self._move(m, past)
        if self._examples:
            begun, warp = dut.launch, Signal(range(_WARPS + 1))
            m.d.sync += warp.eq(warp + begun.valid)
            m.d.comb += [
                begun.payload.eq(0),
                begun.valid.eq((warp < _WARPS) & ~dut.sweep.active),
                begun.payload.warp.eq(warp),
                begun.payload.number.eq(warp),
                begun.payload.cta_warps.eq(_WARPS),
                self.cta.eq(0),
                self.number.eq(0),
                dut.barriers.eq(BARRIERS),
                dut.inside.eq(0),
                dut.report_mask.eq(0),
                dut.port.write.ready.eq(1),
                dut.withdraw.payload.eq(0),
                dut.terminated.payload.eq(0),
            ]
            at = put(m, "dut", dut)
        else:
            known = self._known(m)
            at = put(m, "dut", dut)
            self._agree(m, at, known)
        self._show(m, past, at)
        return m

    def _of_cta(self, warp: int) -> Value:
        return (self.places[warp] != _Place.DEAD) & (self.ctas[warp] == self.cta)

    def _waits(self, warp: int) -> Value:
        """Returns whether a warp waits and is not released in this cycle."""
        return (self.places[warp] == _Place.WAITS) & ~self.dut.resume[warp]

    def _begin(self, m: Module) -> None:
        """Warps begin and end. A CTA begins when no warp of its slot is live or about to begin."""
        dut, begun, to_come, dead = self.dut, self.dut.launch.payload, self.to_come, _Place.DEAD
        begins = dut.launch.valid & (begun.cta == self.cta)
        m.d.comb += [
            self.live.eq(to_come + population(Cat(self._of_cta(warp) for warp in range(_WARPS)))),
            self.held.eq(
                Cat(
                    self._waits(warp) & self._of_cta(warp) & (self.numbers[warp] == self.number)
                    for warp in range(_WARPS)
                )
            ),
            Assume(
                ~begins
                | Mux(
                    begun.number == 0,
                    (self.live == 0) & (begun.cta_warps != 0) & (begun.cta_warps <= _WARPS),
                    to_come != 0,
                ),
                "a CTA begins, warp after warp",
            ),
        ]
        with m.If(begins):
            m.d.sync += to_come.eq(Mux(begun.number == 0, begun.cta_warps, to_come) - 1)
        for warp, place in enumerate(self.places):
            ends = dut.terminated.valid & (dut.terminated.payload == warp)
            starts = dut.launch.valid & (begun.warp == warp)
            m.d.comb += [
                Assume(~starts | (place == dead), "a warp begins once"),
                Assume(~ends | (place == _Place.RUNS), "a warp ends that has nothing under way"),
            ]
            with m.If(starts):
                m.d.sync += [place.eq(_Place.RUNS), self.ctas[warp].eq(begun.cta)]
            with m.Elif(ends):
                m.d.sync += place.eq(dead)
        claim(m, self.live <= _WARPS, "a CTA has its warps")

    def _act(self, m: Module, past: Past) -> None:
        """An instruction is accepted and ends."""
        dut, acting, request, kind = self.dut, self.acting, self.queue.request, BarrierTask
        asked, takes = request.payload, request.valid & request.ready
        meets, arrives = asked.mode == BarrierMode.SYNCALL, asked.operation == kind.ARRIVE
        here = (Cat(self.ctas).word_select(asked.warp, len(self.cta)) == self.cta) & (
            asked.number == self.number
        )
        sets = (asked.operation == kind.WRITE) & (asked.selection == BarrierRead.BARRIER)
        inside = dut.inside.bit_select(asked.warp, 1)
        legal = asked.executes & Mux(
            meets, inside, (asked.number < dut.barriers) & ~asked.count_is_wrong
        )
        m.d.comb += [
            Assume(asked.operation.as_value() < kind.NOTHING.value, "what instructions ask for"),
            Assume(
                ~meets
                | (
                    arrives
                    & asked.executes
                    & (asked.number == SYNCALL_BARRIER)
                    & (asked.count == 0)
                ),
                "BAR.SYNCALL",
            ),
            Assume(~(here & sets), "no R2B sets the barrier"),
            Assume(
                ~acting.valid | ~(dut.inside ^ past(dut.inside)).bit_select(acting.warp, 1),
                "who executes an instruction neither enters the trap handler nor leaves it",
            ),
        ]
        for warp, place in enumerate(self.places):
            comes = takes & (asked.warp == warp)
            m.d.comb += Assume(~comes | (place == _Place.RUNS), "an instruction after the other")
            ends = dut.terminated.valid & (dut.terminated.payload == warp)
            m.d.comb += Assume(~(comes & ends), "who ends asks for nothing")
            with m.If(comes):
                m.d.sync += place.eq(_Place.ACTS)

        written = dut.port.write.valid & dut.port.write.ready
        with m.If(takes):
            m.d.sync += [
                acting.valid.eq(1),
                acting.warp.eq(asked.warp),
                acting.number.eq(asked.number),
                acting.count.eq(asked.count),
                acting.arrives.eq(arrives & legal),
                acting.here.eq(here),
                acting.stays.eq(arrives & legal & (asked.mode != BarrierMode.ARV)),
            ]
        with m.Elif(dut.completion.valid | written):
            m.d.sync += acting.valid.eq(0)
        claim(
            m,
            acting.valid & (dut.completion.payload.warp == acting.warp),
            "what is over was taken",
            when=dut.completion.valid,
        )
        claim(m, acting.valid & ~dut.completion.valid, "what is written was taken", when=written)
        claim(m, ~acting.arrives, "an arrival is no error", when=dut.error.valid)
        for warp, place in enumerate(self.places):
            with m.If((dut.completion.valid | written) & (acting.warp == warp)):
                m.d.sync += place.eq(Mux(acting.stays, _Place.WAITS, _Place.RUNS))
                m.d.sync += self.numbers[warp].eq(acting.number)

    def _move(self, m: Module, past: Past) -> None:
        """Warps are withdrawn or continue; updates the arrivals at the barrier."""
        dut, acting, view, withdraw, begun = (
            self.dut,
            self.acting,
            self.dut.view,
            self.dut.withdraw,
            self.dut.launch.payload,
        )
        now, warp = Cat(withdraw.valid, withdraw.payload), dut.withdrawn.payload
        before = past(now)
        waited = past(
            dut.waiting.bit_select(withdraw.payload, 1) & withdraw.valid & ~dut.withdrawn.valid
        )
        m.d.comb += Assume(
            ~(waited & dut.waiting.bit_select(before[1:], 1)) | (now == before),
            "a requested warp waits, or is withdrawn",
        )
        for number, place in enumerate(self.places):
            gone = dut.withdrawn.valid & (warp == number)
            claim(m, self._waits(number), f"who is taken back waits, {number}", when=gone)
            with m.If(dut.resume[number] & (place == _Place.WAITS) | gone):
                m.d.sync += place.eq(_Place.RUNS)

        arrives = dut.completion.valid & acting.arrives & acting.here
        leaves = dut.withdrawn.valid & self.held.bit_select(warp, 1)
        came, asked, held = (
            Signal.like(each, name=f"next_{each.name}")
            for each in (self.came, self.asked, self.held)
        )
        releases = view["release"] & (view["cta"] == self.cta) & (view["number"] == self.number)
        begins = dut.launch.valid & (begun.cta == self.cta) & (begun.number == 0)
        m.d.comb += [
            came.eq(self.came + arrives - leaves),
            held.eq(
                (self.held & ~one_hot(warp, _WARPS, leaves))
                | one_hot(acting.warp, _WARPS, arrives & acting.stays)
            ),
            asked.eq(Mux(came == 0, 0, Mux(arrives, acting.count, self.asked))),
        ]
        m.d.sync += [
            self.came.eq(Mux(releases | begins, 0, came)),
            self.asked.eq(Mux(releases | begins, 0, asked)),
        ]
        claim(
            m,
            came >= Mux(asked.any(), asked, self.live),
            "enough have arrived",
            when=releases & (came != 0),
        )
        for number in range(_WARPS):
            ends = past(dut.completion.valid & ~acting.stays & (acting.warp == number))
            mine = acting.valid & (acting.warp == number)
            there = past(
                view["release"]
                & (view["cta"] == self.ctas[number])
                & (view["number"] == Mux(mine, acting.number, self.numbers[number]))
            )
            claim(m, dut.resume[number], f"all go on, {number}", when=past(releases & held[number]))
            claim(
                m,
                ends | (there & (self.places[number] == _Place.WAITS)),
                f"which threads continue, {number}",
                when=dut.resume[number],
            )
        can_happen(m, releases & held.all() & dut.completion.valid, "the last one arrives")
        can_happen(m, releases & held.any() & ~dut.completion.valid, "the last one ends")
        can_happen(
            m,
            leaves & (self.live == _WARPS),
            "one is taken back for whom another one would have to come",
        )

    def _known(self, m: Module) -> dict[str, Any]:
        """Returns the unit's state: of all barriers, of the observed barrier, of the one that is
        processed, of each warp.
        """
        dut = self.dut

        def row_of(cta: Any, number: Any) -> Any:
            row = Signal.like(dut.work.row)
            place = Signal(len(self.cta) + len(self.number))
            m.d.comb += [
                place.eq(Cat(cta, number)),
                row.as_value().eq(Cat(part.read(m, place) for part in dut.rows)),
            ]
            return row

        used = [dut.used.read(m, cta) for cta in range(_WARPS)]

        def is_used(cta: Any, number: Any) -> Value:
            return Mux(cta, used[1], used[0]).bit_select(number, 1)

        return {
            "rows": [
                (
                    cta,
                    number,
                    used[cta][number],
                    row_of(Const(cta, len(self.cta)), Const(number, 5)).waiting,
                )
                for cta in range(_WARPS)
                for number in range(_PLACES)
            ],
            "row": row_of(self.cta, self.number),
            "used": is_used(self.cta, self.number),
            "now": row_of(dut.work.barrier.cta, dut.work.barrier.number),
            "now_used": is_used(dut.work.barrier.cta, dut.work.barrier.number),
            "live": (dut.totals.read(m, self.cta) - dut.terminations.read(m, self.cta))[
                : len(dut.live_warps)
            ],
            "ctas": [dut.ctas.read(m, warp) for warp in range(_WARPS)],
            "arrivals": [dut.arrivals.read(m, warp).number for warp in range(_WARPS)],
        }

    def _agree(self, m: Module, at: Callable[..., Value], known: dict[str, Any]) -> None:
        """Asserts that the unit's state agrees with the events so far, which the induction needs."""
        dut, acting, row, request, held, came = (
            self.dut,
            self.acting,
            self.dut.work.row,
            self.dut.work.request,
            self.held,
            self.came,
        )
        settles, withdraws, arrives, writes, reads = (
            dut.work.task == task
            for task in (
                BarrierTask.SETTLE,
                BarrierTask.WITHDRAW,
                BarrierTask.ARRIVE,
                BarrierTask.WRITE,
                BarrierTask.READ,
            )
        )
        executes, looked = at("CHECK"), at("READ", "UPDATE", "DECIDE", "ACT")
        here = (dut.work.barrier.cta == self.cta) & (dut.work.barrier.number == self.number)

        # The barrier, and the warps that wait at each barrier. A CTA's state is undefined before
        # its slot has had one.
        launch = dut.launch.payload
        first = dut.launch.valid & (launch.number == 0)
        had = Cat(ever(m, first & (launch.cta == cta)) for cta in range(_WARPS))
        begun = had.bit_select(self.cta, 1)
        m.d.comb += Assume(
            ~dut.launch.valid | first | had.bit_select(launch.cta, 1),
            "a CTA begins with its warp 0",
        )
        for warp, place in enumerate(self.places):
            claim(
                m,
                had.bit_select(self.ctas[warp], 1),
                f"it is of a CTA that has begun, {warp}",
                when=place != _Place.DEAD,
            )
        claim(m, ~(dut.unsettled & ~had).any(), "a CTA has lost a warp that has begun")
        claim(
            m,
            had.bit_select(dut.lowest_unsettled, 1),
            "the next one that has lost a warp",
            when=dut.has_unsettled,
        )
        claim(
            m,
            had.bit_select(dut.work.barrier.cta, 1),
            "what is worked on",
            when=looked | at("SETTLE", "SETTLE_NEXT", "FETCH", "RESULTS"),
        )
        claim(
            m,
            ~had.any() & Cat(place == _Place.DEAD for place in self.places).all(),
            "nothing in the sweep",
            when=dut.sweep.active,
        )
        claim(m, begun, "a CTA has begun", when=(self.live != 0) | (came != 0))
        claim(m, known["live"] == self.live, "live warps are counted", when=begun)
        claim(
            m,
            (known["row"].state.arrived == came)
            & (known["row"].state.expected == self.asked)
            & (known["row"].waiting == held),
            "the barrier",
            when=known["used"] & begun,
        )
        claim(m, came == 0, "a barrier that is not used", when=~known["used"] | ~begun)
        claim(m, came >= population(held), "waiting warps have arrived")
        claim(m, came < Mux(self.asked.any(), self.asked, _WARPS), "no barrier is forgotten")
        claim(m, self.asked == 0, "no warp has arrived", when=came == 0)
        for cta, number, used, waiting in known["rows"]:
            may = Cat(
                self._waits(warp) & (self.ctas[warp] == cta) & (self.numbers[warp] == number)
                for warp in range(_WARPS)
            )
            claim(
                m, ~(waiting & ~may).any(), f"who waits at {number} of {cta}", when=used & had[cta]
            )

        # Each warp
        for warp, place in enumerate(self.places):
            mine, waits = acting.valid & (acting.warp == warp), self._waits(warp)
            claim(m, (place == _Place.ACTS) == mine, f"whose instruction it is, {warp}")
            claim(
                m,
                known["ctas"][warp] == self.ctas[warp],
                f"whose warp it is, {warp}",
                when=place != _Place.DEAD,
            )
            stands = waits | (mine & acting.stays & at("DECIDE", "ACT"))
            number = Mux(mine, acting.number, self.numbers[warp])
            claim(m, known["arrivals"][warp] == number, f"what it came for, {warp}", when=stands)
            meets = number == SYNCALL_BARRIER
            claim(
                m,
                (dut.waiting[warp] == (stands & ~meets)) & (dut.meeting[warp] == (stands & meets)),
                f"it waits, {warp}",
            )
            there = (
                waits
                & (self.ctas[warp] == dut.work.barrier.cta)
                & (self.numbers[warp] == dut.work.barrier.number)
            )
            read = (
                at("READ")
                & dut.is_present
                & (dut.work.barrier.number < _PLACES)
                & known["now"].waiting[warp]
            )
            claim(
                m,
                there,
                f"it waits at this barrier, {warp}",
                when=(at("UPDATE") & row.waiting[warp]) | read,
            )
            claim(
                m,
                there & ~(withdraws & (request.warp == warp)) | (mine & acting.stays),
                f"it waits at this barrier now, {warp}",
                when=at("DECIDE", "ACT") & row.waiting[warp],
            )
            taken_back = (
                withdraws
                & (request.warp == warp)
                & at("LOCATE", "FETCH", "READ", "UPDATE", "DECIDE", "ACT")
            )
            claim(
                m,
                waits & (self.numbers[warp] != SYNCALL_BARRIER) & (at("LOCATE") | there),
                f"it is taken back, {warp}",
                when=taken_back,
            )

        # The instruction
        instruction = looked & ~settles & ~withdraws
        claim(
            m, acting.valid == (executes | at("SEND") | instruction), "an instruction is executed"
        )
        claim(
            m,
            (request.warp == acting.warp)
            & (
                acting.here
                == (
                    (Cat(self.ctas).word_select(acting.warp, len(self.cta)) == self.cta)
                    & (acting.number == self.number)
                )
            ),
            "it is this one",
            when=acting.valid,
        )
        claim(
            m,
            (request.number == acting.number) & (request.count == acting.count),
            "its barrier",
            when=acting.valid,
        )
        acting_cta = Cat(self.ctas).word_select(acting.warp, len(self.cta))
        claim(
            m,
            (dut.work.barrier.cta == acting_cta) & (dut.work.barrier.number == acting.number),
            "its barrier is worked on",
            when=instruction,
        )
        claim(
            m,
            (acting.arrives == arrives)
            & (acting.stays == (arrives & (request.mode != BarrierMode.ARV)))
            & ~(acting.arrives & dut.work.error.as_value().any())
            & ~(acting.here & writes & (request.selection == BarrierRead.BARRIER)),
            "it arrives",
            when=instruction,
        )
        claim(
            m,
            request.operation == BarrierTask.ARRIVE,
            "what arrives was to",
            when=instruction & arrives,
        )
        claim(m, ~(acting.arrives | acting.stays), "a read does not arrive", when=at("SEND"))
        claim(m, settles, "barriers are looked at", when=at("SETTLE", "SETTLE_NEXT"))
        claim(m, withdraws, "a warp is taken back", when=at("LOCATE"))
        claim(m, settles | withdraws, "a barrier is fetched", when=at("FETCH"))
        claim(
            m,
            ~(withdraws & dut.work.completes),
            "no warp is released with a withdrawn one",
            when=at("ACT"),
        )
        claim(m, arrives | settles | writes, "results are noted", when=at("RESULTS"))
        claim(m, reads, "a barrier is read", when=at("SEND"))

        # The row that is processed. A row that was read before the CTA began again has no warps.
        old = settles & (came == 0) & ~row.waiting.any()
        same = (
            (row.state.arrived == came) & (row.state.expected == self.asked) & (row.waiting == held)
        )
        there_is = at("READ") & (dut.work.barrier.number < _PLACES)
        claim(m, dut.row_read == known["now"].as_value(), "what is read", when=there_is)
        claim(m, dut.is_present, "a barrier that is used", when=there_is & known["now_used"])
        claim(
            m,
            known["now_used"] | settles,
            "a barrier that was used",
            when=at("READ") & here & dut.is_present,
        )
        claim(m, same | old, "the row as it is", when=at("UPDATE") & here)
        one = Mux(came == 1, 0, self.asked)
        changed = Mux(
            arrives,
            (row.state.arrived == came + 1)
            & (row.state.expected == acting.count)
            & (row.waiting == held | one_hot(acting.warp, _WARPS, acting.stays)),
            Mux(
                withdraws,
                (row.state.arrived == came - 1)
                & (row.waiting == held & ~one_hot(request.warp, _WARPS))
                & (row.state.expected == Mux(at("ACT"), one, self.asked)),
                same | old,
            ),
        )
        claim(m, changed, "the row as it will be", when=at("DECIDE", "ACT") & here)
        enough = row.state.arrived >= Mux(row.state.expected.any(), row.state.expected, self.live)
        claim(
            m,
            Mux(
                dut.work.completes,
                ~withdraws & (enough | old),
                withdraws
                | ~enough
                | old
                | (
                    dut.unsettled.bit_select(self.cta, 1)
                    & ~row.state.expected.any()
                    & (row.state.arrived < _WARPS)
                ),
            ),
            "whether it is complete",
            when=at("ACT") & here,
        )

    def _show(self, m: Module, past: Past, at: Callable[..., Value]) -> None:
        """Asserts when the unit examines the barrier, and how long it takes."""
        dut, row, settles, withdraws = (
            self.dut,
            self.dut.work.row,
            *(self.dut.work.task == task for task in (BarrierTask.SETTLE, BarrierTask.WITHDRAW)),
        )
        here, came, asked = dut.work.barrier.number == self.number, self.came, self.asked
        wanted = Mux(asked.any(), asked, self.live)
        settling = (
            settles
            & (dut.work.barrier.cta == self.cta)
            & (
                at("SETTLE")
                | (
                    at("SETTLE_NEXT", "RESULTS", *_FROM_FETCH)
                    & dut.unchecked.bit_select(self.number, 1)
                )
                | (at(*_FROM_FETCH) & here)
            )
        )
        claim(
            m,
            (came < wanted) | (came == 0) | dut.unsettled.bit_select(self.cta, 1) | settling,
            "too few have arrived",
        )
        takes = self.queue.request.valid & self.queue.request.ready
        lost = dut.unsettled.bit_select(self.cta, 1) & ~(
            dut.starts_settling & (dut.lowest_unsettled == self.cta)
        )
        claim(m, ~takes, "first its barriers are looked at", when=past(lost))

        # Cycles of a task up to this one, and an upper bound of those from this one on
        cycles, left = Signal(_CYCLE_BITS), Signal(_CYCLE_BITS, name="rest")
        with m.If(at("SELECT")):
            m.d.sync += cycles.eq(1)
        with m.Elif(~dut.launch.valid & ~(at("SEND") & ~dut.port.write.ready)):
            m.d.sync += cycles.eq(cycles + 1)
        notes, others = (
            population(row.waiting) + 1,
            Mux(settles, 1 + population(dut.unchecked) * _ONE_BARRIER, 0),
        )
        some = Mux(at("RESULTS"), notes, _WARPS + 1)
        behind = {"FETCH": 5, "READ": 4, "UPDATE": 3, "DECIDE": 2, "ACT": 1, "RESULTS": 0}
        for state, steps in behind.items():
            with m.If(at(state)):
                m.d.comb += left.eq(steps + some + others)
        before = {
            "CHECK": 5 + _WARPS + 1,
            "LOCATE": 6 + _WARPS + 1,
            "SEND": 1,
            "SETTLE": 2 + _PLACES * _ONE_BARRIER,
        }
        for state, steps in before.items():
            with m.If(at(state)):
                m.d.comb += left.eq(steps)
        with m.If(at("SETTLE_NEXT")):
            m.d.comb += left.eq(others)
        instruction = at("CHECK") | ~(settles | withdraws)
        most = (
            Mux(instruction, 6, Mux(settles, 3 + _PLACES * _ONE_BARRIER - _WARPS - 1, 7))
            + _WARPS
            + 1
        )
        claim(m, at("SELECT", "SETTLE_NEXT", *behind, *before), "one of its states")
        claim(m, cycles + left <= most, "a task has its end", when=~at("SELECT"))
        claim(
            m,
            (dut.has_waiting == row.waiting.any())
            & ~(row.waiting.any() & ~row.waiting.bit_select(dut.lowest_waiting, 1)),
            "who gets a result",
            when=at("RESULTS"),
        )


THEOREM = Theorem(
    _Spec,
    depth=2,
    cover_depth=20,
    long=True,
    examples=partial(_Spec, examples=True),
    faults=(
        Fault(
            "rtl.barrier.unit",
            "quorum = Mux(state.expected.any(), state.expected, live)",
            "quorum = Mux(state.expected.any(), state.expected, live - 1)",
        ),
        Fault(
            "rtl.barrier.unit",
            "with m.If(self.has_unsettled):",
            "with m.If(self.has_unsettled & ~queue.valid):",
        ),
        Fault(
            "rtl.barrier.unit",
            "Mux(self.release, work.row.waiting, 0)",
            "Mux(self.release, work.row.waiting & -work.row.waiting, 0)",
        ),
        Fault(
            "rtl.barrier.unit",
            "Mux(self.release, work.row.waiting, 0)",
            "Mux(self.release | self.is_complete, work.row.waiting, 0)",
        ),
        Fault("rtl.barrier.unit", "self.unsettled[cta].eq(1)", "self.unsettled[cta].eq(0)"),
    ),
)
