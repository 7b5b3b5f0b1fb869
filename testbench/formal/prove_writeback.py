"""Every instruction of the memory unit that gets a slot ends once, after all earlier ones of its
warp.

Instructions of two warps get eight slots in rotation, each when its slot is free; their accesses
end at any time, with an error, a fault, or neither; the lanes accept writes and request their data
at any time. For any one slot, and any other one:

1. An instruction ends once: with the last of its writes, or by a completion if it writes nothing,
   and then all its accesses have ended. A completion has the instruction's warp, sequence number
   and scoreboard.
2. It writes its registers one by one, each once, the first one first.
3. Its slot becomes free when it has ended and all its results are in the registers, not before; and
   it is freed only once.
4. All instructions of its warp that got a slot before it have ended before; if it writes nothing,
   their results are in the registers.
5. From the time when it gets its slot until it ends, at most 14 others end. If all its accesses
   have ended, and no older instruction of its warp has a slot, then one is chosen; a chosen
   instruction that writes nothing ends within three cycles.
6. Completions are at least three cycles apart.

So every instruction ends, if memory answers and the lanes accept offers. Accesses are assumed to
belong to an instruction with a slot; when they have ended no line of it is under way, and no new
error of it is reported, until the slot is used again. The queue of writes whose data are requested
is replaced here by one that exposes its entries.
"""

from functools import partial
from typing import Any

from amaranth.asserts import AnyConst  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Array, Assume, Cat, Const, Elaboratable, Module, Mux, Signal, Value

from rtl.memory.instruction import WORDS, slot_bits
from rtl.memory.writeback import WriteBack
from rtl.one_hot import one_hot
from rtl.params import PRESETS
from rtl.population import population
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import (
    Past,
    ShownQueue,
    can_happen,
    claim,
    ever,
    free,
    no_reset,
    presume,
)
from sim.checks.formal.theorem import Theorem

_PARAMS = PRESETS["tiny"]
_BITS = slot_bits(_PARAMS)
_SLOTS = 1 << _BITS
_OTHERS = 2 * (_SLOTS - 1)
"""Number of instructions that end before a given one: those in the other slots, and those that get
a slot before it is selected.
"""
_APART = 3


class _Spec(Elaboratable):
    """Writeback; the front, the access stage, the miss queue and the lanes are unconstrained except
    for their promises.

    Examples use the second slot and the first one; addresses report nothing, and the lanes are
    fast.
    """

    def __init__(self, examples: bool = False) -> None:
        self._examples = examples
        self.dut: Any = WriteBack(_PARAMS)
        queue = self.dut.write_queue
        self.queue = self.dut.write_queue = ShownQueue(width=queue.width, depth=queue.depth)
        self.record = self.dut.records.read_port(domain="comb")
        self.slot, self.other = Signal(_BITS), Signal(_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        presume(m, "dut", self.dut)
        past = Past(m)
        free(m, self.dut)
        no_reset(m)
        m.d.comb += [
            self.slot.eq(AnyConst(_BITS)),
            self.other.eq(AnyConst(_BITS)),
            Assume(self.slot != self.other, "another one"),
        ]
        if self._examples:
            dut = self.dut
            m.d.comb += Assume(
                (self.slot == 1)
                & (self.other == 0)
                & ~dut.judged.valid
                & ~dut.accesses.pending.any()
                & ~dut.result.as_value().any()
                & (dut.wanted.payload.beat == _PARAMS.beats - 1)
                & ~dut.masks.as_value().any(),
                "an example",
            )
        next_, over, known = self._surround(m, past)
        self._show_end(m, past, over, known)
        self._show_writes(m, past)
        self._show_freed(m)
        self._show_order(m, past, known)
        self._show_bound(m, past, next_, over)
        return m

    def _of(self, bits: Any) -> Value:
        """Returns the slot's bit."""
        return Value.cast(bits).bit_select(self.slot, 1)

    def _surround(self, m: Module, past: Past) -> tuple[Signal, Signal, Value]:
        """Assumes the promises of the other units.

        Returns the next slot that is given, and the slots whose accesses have ended since they were
        given: in an earlier cycle, or by this one.
        """
        dut, next_, ended, over = self.dut, Signal(_BITS), Signal(_SLOTS), Signal(_SLOTS)
        begun = dut.begun.payload
        enters, judged = (
            one_hot(event.payload.slot, _SLOTS, event.valid) for event in (dut.begun, dut.judged)
        )
        accesses = dut.accesses
        known = over | dut.busy & (ended | accesses.ended) & ~accesses.pending
        m.d.sync += [
            next_.eq(next_ + dut.begun.valid),
            ended.eq(ended & ~enters | accesses.issued | accesses.ended),
            over.eq(known & ~enters),
        ]
        claim(m, ended == dut.accesses_ended, "whose accesses have begun")
        claim(m, dut.done == known & dut.busy, "whose accesses have ended")
        m.d.comb += [
            Assume(~dut.begun.valid | (begun.slot == next_), "slots are given in rotation"),
            Assume(~(enters & dut.busy).any(), "none that is in use"),
            Assume(begun.instruction.results <= WORDS, "so many registers"),
            Assume(
                ~((accesses.issued | accesses.ended) & ~(dut.busy | enters)).any(),
                "accesses are of who has a slot",
            ),
            Assume(~(over & accesses.pending).any(), "no line comes later"),
            Assume(~(over & judged).any(), "no error comes later"),
            Assume(~(over & (accesses.fault ^ past(accesses.fault))).any(), "and no fault"),
        ]
        return next_, over, known

    def _show_end(self, m: Module, past: Past, over: Signal, known: Value) -> None:
        """The slot's instruction as it arrived, and whether it has ended."""
        dut, begun, slots = (
            self.dut,
            self.dut.begun.payload,
            one_hot(self.dut.chosen_slot, _SLOTS, self.dut.chosen),
        )
        record, kept, has_ended = self.record, Signal.like(begun.job), Signal()
        self.enters, self.ends = (
            (dut.begun.valid & (begun.slot == self.slot)),
            dut.retires & self._of(slots),
        )
        self.results, self.wrote, self.has_ended = Signal(3), Signal(), has_ended
        wrote, done, out = dut.write.payload, dut.completion.payload, self._of(slots)
        m.d.comb += record.addr.eq(self.slot)
        with m.If(self.enters):
            m.d.sync += [
                has_ended.eq(0),
                kept.eq(begun.job),
                self.results.eq(begun.instruction.results),
            ]
        with m.Elif(self.ends):
            m.d.sync += [has_ended.eq(1), self.wrote.eq(~dut.completes)]
        claim(
            m,
            ~(slots & ~(dut.busy & over & ~dut.retired)).any(),
            "who is chosen has not ended, but all its accesses",
        )
        claim(
            m,
            ~has_ended & self._of(dut.busy & over),
            "it ends once, behind its accesses",
            when=self.ends,
        )
        claim(
            m, has_ended == self._of(dut.retired), "whether it has ended", when=self._of(dut.busy)
        )
        same = Cat(
            record.data[name] == kept[name] for name in ("warp", "sequence", "write_barrier")
        ).all()
        claim(
            m, same & (record.data.results == self.results), "it is kept", when=self._of(dut.busy)
        )
        claim(
            m,
            (wrote.warp == kept.warp)
            & (wrote.sequence == kept.sequence)
            & (wrote.barrier == kept.write_barrier),
            "what is written is its",
            when=out,
        )
        claim(m, dut.completion.valid == past(dut.completes), "a completion is reported")
        claim(
            m,
            (done.warp == past(kept.warp))
            & (done.sequence == past(kept.sequence))
            & (done.write_barrier == past(kept.write_barrier)),
            "and it is its",
            when=past(self.ends & dut.completes),
        )
        faulty = self._of(dut.accesses.fault) & (self.results != 0)
        can_happen(m, self.ends & dut.completes & faulty, "it ends with a fault")

    def _show_writes(self, m: Module, past: Past) -> None:
        """``count``: number of registers of the slot's instruction that were written."""
        dut, count = self.dut, Signal(3)
        mine = dut.chosen & (dut.chosen_slot == self.slot)
        sent, write = mine & dut.write.valid & dut.write.ready, dut.write.payload
        m.d.sync += count.eq(Mux(self.enters, 0, count + sent))
        claim(m, self.results <= WORDS, "so many registers")
        claim(
            m,
            ~self._of(dut.has_results) | (self.results != 0),
            "who writes",
            when=self._of(dut.busy),
        )
        claim(m, dut.index == 0, "none is begun", when=~(dut.chosen & dut.write.valid))
        claim(
            m,
            (dut.index == count) & (count < self.results),
            "they are written in order",
            when=mine & dut.write.valid,
        )
        claim(
            m,
            count
            == Mux(
                self.has_ended & self.wrote, self.results, Mux(mine & dut.write.valid, dut.index, 0)
            ),
            "how many are written",
            when=self._of(dut.busy),
        )
        claim(
            m,
            (write.index == count) & (write.last == (count == self.results - 1)),
            "each once",
            when=sent,
        )
        can_happen(m, sent & write.last & (count == 3), "the fourth register is written")

    def _show_freed(self, m: Module) -> None:
        """Each slot in use that has ended with writes has one last write on its way to the
        registers.
        """
        dut, way, twice = self.dut, Const(0, _SLOTS), Const(0, _SLOTS)
        entries = [
            Cat(each[-_BITS:], each[-_BITS - 1] & (self.queue.level > number))
            for number, each in enumerate(self.queue.entries)
        ]
        beats = [Cat(stage.slot, stage.frees) for stage in dut.landing]
        for each in (*entries, *beats):
            here = one_hot(each[:_BITS], _SLOTS, each[_BITS])
            way, twice = way | here, twice | way & here
        claim(m, self.queue.level <= self.queue.depth, "so many places")
        claim(m, ~twice.any(), "a slot has one last write")
        claim(m, ~(way & ~(dut.busy & dut.retired)).any(), "it has ended then")
        claim(
            m,
            self._of(way) == (self.has_ended & self.wrote),
            "all that has ended with writes is on its way",
            when=self._of(dut.busy),
        )
        claim(
            m,
            self.has_ended,
            "it is freed when it has ended",
            when=~self._of(dut.busy) & ever(m, self.enters),
        )

    def _show_order(self, m: Module, past: Past, known: Value) -> None:
        """The other slot: its warp, whether this is the same warp, and whether its instruction is
        older.
        """
        dut, begun, warp, other_warp, before = (
            self.dut,
            self.dut.begun.payload,
            Signal(1),
            Signal(1),
            Signal(),
        )
        in_other = dut.begun.valid & (begun.slot == self.other)
        busy, given = (bits.bit_select(self.other, 1) for bits in (dut.busy, dut.retired))
        with m.If(self.enters):
            m.d.sync += [warp.eq(begun.job.warp), before.eq(busy & (other_warp == begun.job.warp))]
        with m.If(in_other):
            m.d.sync += [other_warp.eq(begun.job.warp), before.eq(0)]
        older = Array(dut.older)[self.slot].bit_select(self.other, 1)
        claim(m, (Array(dut.warps)[self.other] == other_warp), "whose it is", when=busy)
        claim(m, older == before, "it came before", when=self._of(dut.busy))
        claim(m, ~(busy & before) | given, "who came before has ended", when=self.ends)
        claim(
            m,
            ~(busy & before),
            "and what it wrote is in the registers",
            when=self.ends & dut.completes,
        )
        claim(
            m,
            ~(busy & before) | given,
            "who came before",
            when=dut.chosen & (dut.chosen_slot == self.slot),
        )
        can_happen(
            m,
            self.ends & dut.completes & ever(m, before & busy & given),
            "it has waited for registers",
        )

    def _show_bound(self, m: Module, past: Past, next_: Signal, over: Signal) -> None:
        """``ahead``: upper bound of the other instructions that may still end before it."""
        dut, passed, ahead, waits, apart = self.dut, Signal(5), Signal(5), Signal(2), Signal(2)
        older = Array(dut.older)[self.slot]
        m.d.comb += ahead.eq(
            population(dut.busy & ~dut.retired & ~one_hot(self.slot, _SLOTS))
            + (self.slot - next_)[:_BITS]
        )
        m.d.sync += [
            passed.eq(Mux(self.enters, 0, passed + (dut.retires & ~self.ends & ~self.has_ended))),
            waits.eq(Mux(dut.chosen & ~dut.write.valid & ~dut.retires, waits + 1, 0)),
            apart.eq(Mux(dut.completes, 0, apart + ~apart.all())),
        ]
        claim(
            m,
            passed + ahead <= _OTHERS,
            "so many end before",
            when=self._of(dut.busy) & ~self.has_ended,
        )
        claim(
            m,
            dut.chosen,
            "one is chosen",
            when=past(
                self._of(over & dut.busy & ~dut.retired) & ~(older & dut.busy).any() & ~self.ends
            ),
        )
        claim(m, waits < _APART, "who is chosen ends")
        claim(
            m,
            ~dut.completes | (apart >= _APART - 1),
            "completions are apart",
            when=ever(m, dut.completes),
        )
        can_happen(m, (passed == 2) & self.ends, "others end before")


THEOREM = Theorem(
    _Spec,
    depth=3,
    cover_depth=14,
    long=True,
    examples=partial(_Spec, examples=True),
    faults=(
        Fault(
            "rtl.memory.writeback",
            "can_retire & ~self.retired & ~self._chosen_mask",
            "can_retire & ~self.retired",
        ),
        Fault(
            "rtl.memory.writeback",
            "eq(older_in_flight.any())",
            "eq((older_in_flight & ~self.retired).any())",
        ),
        Fault(
            "rtl.memory.writeback",
            "self.older[slot].eq(self.busy & same_warp)",
            "self.older[slot].eq(self.busy & ~self.done & same_warp)",
        ),
        Fault(
            "rtl.memory.writeback",
            "frees.eq(self._last_beat & self._taken.is_last)",
            "frees.eq(self._last_beat)",
        ),
        Fault("rtl.memory.writeback", "last=is_last,", "last=1,"),
        Fault(
            "rtl.memory.writeback",
            "self.chosen & ~writes & ~recent_completions.any()",
            "self.chosen & ~writes",
        ),
    ),
)
