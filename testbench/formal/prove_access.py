"""The access stage passes on each access of an instruction's threads once, and ends each
instruction once, in order.

Instructions of any kind arrive in the eight slots, with any set of threads that access global,
local or shared memory at any addresses, with or without errors, or without any access. Early
results, before all addresses of an instruction were checked, arrive at any time. The miss queue
accepts lines, the crossbar accepts beats and the atomic operations accept threads at any time. For
any one slot and any one thread:

1. A thread that accesses global or local memory is passed on with one line, the line of its
   address; if the instruction has an error, only threads below the failing one are. Other threads
   never are.
2. All threads of the same line are passed on with it, and every line has some. A line that is
   announced early is the line that is found.
3. Each word of a thread that accesses shared memory, or that shuffles, is passed on once, in order;
   an atomic operation in shared memory is passed on once. Both follow all lines of the instruction,
   and are suppressed if one of these had a fault or an address was wrong.
4. An instruction ends once: with its last line, its last beat, its operations, or because nothing
   remains; all its threads have been passed on then. The instruction in the next slot begins after
   it.
5. A line is found within two cycles more than a warp has beats, except for cycles in which the
   previous line waits to be accepted. The next instruction begins when its addresses are checked
   and the previous lines accepted. So instructions end.
6. The lines offered to the miss queue satisfy its assumptions.

Assumed: an instruction arrives in a slot when the previous one has ended there and nothing of it is
offered; the results of its addresses are consistent (`_well`); addresses and instructions do not
change; and, for the other slots, an early line is found before the end, as is proved for the
observed slot. Addresses of lines have five bits here: they are only compared and passed on, and 32
of them may all differ.
"""

from typing import Any

from amaranth.asserts import AnyConst  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Array, Assume, Cat, Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.memory.access import AccessStage, beats_of
from rtl.memory.instruction import MemoryOperation, slot_bits
from rtl.params import PRESETS, WARP_THREADS
from rtl.population import population
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import Past, can_happen, claim, free, no_reset, put
from sim.checks.formal.theorem import Theorem

_PARAMS = PRESETS["tiny"]
_BITS = slot_bits(_PARAMS)
_SLOTS = 1 << _BITS
_LANES = _PARAMS.lanes
_PLACE_BITS = ceil_log2(WARP_THREADS)
"""Width of line addresses: lines are only compared and passed on, and each thread may have another
one.
"""


def _bit(bits: Any, number: Any) -> Value:
    return Value.cast(bits).bit_select(number, 1)


class _Spec(Elaboratable):
    """The access stage and its assertions."""

    def __init__(self, examples: bool = False) -> None:
        self._examples = examples
        self.dut: Any = AccessStage(_PARAMS)
        self.slot, self.thread = Signal(_BITS), Signal(range(WARP_THREADS))
        self.came, self.said, self.over, self.is_idle = Signal(), Signal(), Signal(), Signal()
        self.shuffles, self.shuffled, self.modifies, self.lanes = (
            Signal(),
            Signal(),
            Signal(),
            Signal(_LANES),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        no_reset(m)
        entry = self.dut.judgements.read_port(domain="comb")
        self.at = put(m, "dut", self.dut)
        past = Past(m)
        m.d.comb += [
            self.slot.eq(AnyConst(_BITS)),
            self.thread.eq(AnyConst(len(self.thread))),
            entry.addr.eq(self.slot),
        ]
        self.entry: Any = entry.data
        self._surround(m, past)
        self._show_found(m, past)
        self._show_end(m, past)
        self._show_offers(m, past)
        self._show_bound(m, past)
        return m

    def _surround(self, m: Module, past: Past) -> None:
        """Drives instructions, one at a time in each slot, and the receiver of found lines."""
        dut, slot = self.dut, self.slot
        free(m, dut)
        instruction, judged, early = dut.instruction, dut.judged, dut.early
        operation, here = instruction.operation, dut.slot == slot
        self.here = here
        same = ~past.valid | (past(dut.slot) != dut.slot)

        # Addresses of the instruction that is accepted
        places: Any = Signal(data.ArrayLayout(_PLACE_BITS, WARP_THREADS))
        free(m, places)
        m.d.comb += [
            Assume(same | (places.as_value() == past(places.as_value())), "places stay"),
            Assume(
                same | (instruction.as_value() == past(instruction.as_value())),
                "an instruction stays",
            ),
            Assume(
                (instruction.words == 1) | (instruction.words == 2) | (instruction.words == 4),
                "so many words",
            ),
            Assume(operation.as_value() <= MemoryOperation.SHUFFLE.value, "some operation"),
        ]
        self.places = Array(list(places))
        m.d.comb += [
            Assume(
                dut.lines.lines[lane]
                == self.places[Cat(Const(lane, ceil_log2(_LANES)), dut.lines.beat)],
                "the line of a place",
            )
            for lane in range(_LANES)
        ]

        # Instructions arrive in the slot one at a time.
        found, ready = dut.found.payload, dut.is_judged
        comes, idles = (
            judged.valid & (judged.payload.slot == slot),
            dut.idle.valid & (dut.idle.payload == slot),
        )
        tells = early.valid & (early.payload.slot == slot)
        came, said, over, is_idle = self.came, self.said, self.over, self.is_idle
        under_way = dut.found.valid & found.complete & (found.slot == slot) | dut.finished.valid & (
            dut.finished.payload == slot
        )
        ends = dut.ends & here
        self.comes, self.ends = comes | idles, ends
        m.d.comb += [
            Assume(~judged.valid | ~_bit(ready, judged.payload.slot), "it is judged once"),
            Assume(~(comes | idles | tells) | ~came & ~under_way, "one after the other"),
            Assume(
                ~(comes & idles) & ~((idles | tells) & said) & ~(tells & (comes | idles)),
                "one is announced once",
            ),
            Assume(
                ~dut.found.ready | dut.found.valid & found.complete,
                "only what is complete is taken",
            ),
        ]
        with m.If(comes | idles):
            m.d.sync += [came.eq(1), said.eq(0), is_idle.eq(idles), over.eq(0)]
        with m.Elif(tells):
            m.d.sync += [said.eq(1), self.lanes.eq(early.payload.lanes)]
        with m.Elif(ends):
            m.d.sync += [came.eq(0), over.eq(1), self.shuffled.eq(self.shuffles)]

        # The instruction, and the results of its addresses
        free(m, self.shuffles, self.modifies)
        m.d.comb += [
            Assume(
                past(ends)
                | (self.shuffles == past(self.shuffles)) & (self.modifies == past(self.modifies)),
                "its kind",
            ),
            Assume(
                ~here
                | (self.shuffles == (operation == MemoryOperation.SHUFFLE))
                & (self.modifies == (operation == MemoryOperation.ATOMIC)),
                "it is that one",
            ),
            Assume(~comes | self._well(judged.payload, said), "what is judged fits together"),
        ]

    def _well(self, what: Any, said: Any) -> Value:
        """Returns whether the results of the address checks are consistent."""
        memory, local, shared = what.sets.memory, what.sets.local, what.sets.shared
        some = Cat(memory.any(), local.any() & ~self.shuffles, shared.any())
        below = Cat(~what.bad | (number < what.thread) for number in range(WARP_THREADS))
        apart = ~(memory & (local | shared)).any() & (self.shuffles | ~(local & shared).any())
        return (
            (what.some == some)
            & apart
            & ~(self.modifies & (local & below).any())
            & ~(self.shuffles & (what.bad | memory.any()))
            & (
                ~Value.cast(said)
                | (memory[:_LANES] == self.lanes) & (~what.bad | (what.thread >= _LANES))
            )
        )

    def _sets(self) -> tuple[Value, Value, Value]:
        """Returns whether the thread accesses memory, local memory, shared memory."""
        what, thread = self.entry, self.thread
        shuffled = Mux(self.over, self.shuffled, self.shuffles)
        does = (self.came | self.over) & ~self.is_idle & (~what.bad | (thread < what.thread))
        sets = what.sets
        return (
            does & _bit(sets.memory, thread),
            does & ~shuffled & _bit(sets.local, thread),
            does & ~what.bad & _bit(sets.shared, thread),
        )

    def _show_found(self, m: Module, past: Past) -> None:
        """Asserts the statements about lines."""
        dut, at, here, thread = self.dut, self.at, self.here, self.thread
        found = dut.found.payload
        done, waiting, left = dut.done_sets.as_value(), dut.pending, dut.pending_beats
        threads, line, announced_early = dut.collected.threads, dut.line, dut.is_announced
        hits, hit_beat = dut.matched, dut.matched_beat
        memory, local, shared = self._sets()
        ready, idle = _bit(dut.is_judged, self.slot), _bit(dut.is_idle, self.slot)
        claim(m, ready == self.came, "an instruction that is judged has arrived")
        claim(m, idle == self.is_idle, "who has nothing to do", when=ready)
        claim(
            m,
            self._well(self.entry, 0),
            "what is known fits together",
            when=self.came & ~self.is_idle,
        )
        collects, shares = at("PICK", "COLLECT", "COLLECTED"), at("SHARED", "ATOMIC")
        claim(m, ready & ~idle, "who is at work has come", when=here & (~at("TAKE") | (done != 0)))
        claim(m, (left == 0), "nothing is left", when=here & at("TAKE") & ~ready)
        claim(m, done == 0, "nothing is done", when=here & ~ready)
        claim(m, (done & 4 == 0) & (done & 3 != 0), "it is collected", when=here & collects)
        claim(m, (done & 4) == Mux(shares, 4, 0), "it is shared", when=here)
        some = self.entry.some
        claim(
            m,
            ~(done & ~some).any()
            & ~(done[1] & some[0] & ~done[0])
            & ~(done[2] & (some[:2] & ~done[:2]).any()),
            "one set after the other",
            when=here & self.came & ~self.is_idle,
        )
        claim(m, ~(self.came & (self.said | self.over)), "it has come after that")
        which = Mux(done[2], shared, Mux(done[1], local, memory))

        # The thread's access: passed on, offered, collected, or waiting
        taken, line_taken = Signal(), Signal()
        offered = (
            dut.found.valid
            & found.complete
            & (found.slot == self.slot)
            & _bit(found.threads, thread)
        )
        with m.If(offered & dut.found.ready):
            m.d.sync += taken.eq(1)
        with m.If(self.comes):
            m.d.sync += taken.eq(0)
        self.taken, self.handed = taken, taken | offered
        is_hit = _bit(Cat(hits & of.replicate(_LANES) for of in hit_beat), thread)
        waits, collected = _bit(waiting, thread), _bit(threads, thread)
        handed = taken | offered
        claim(m, ~(taken & offered), "it is handed on once")
        mine = here & collects
        claim(m, waits == (which & ~handed & ~(collected & ~at("PICK"))), "it waits", when=mine)
        claim(
            m,
            which & ~handed,
            "it is collected",
            when=mine & at("COLLECT", "COLLECTED") & collected,
        )
        claim(m, ~is_hit | waits, "it is compared once", when=mine & at("COLLECT", "COLLECTED"))
        before = (memory & done[0] & ~(collects & (done == 1))) | (
            local & done[1] & ~(collects & done[1])
        )
        claim(m, handed, "all of a set are handed on", when=here & before)
        claim(
            m,
            ~handed,
            "none before",
            when=self.came & ~(here & (memory & done[0] | local & done[1])),
        )

        # Its line: the line of the lowest waiting thread; all other threads of this line are found
        mark, leader, picking = self.places[thread], Signal(range(WARP_THREADS)), dut.candidates
        beat = thread[ceil_log2(_LANES) :]
        all_hits = Cat(hits & of.replicate(_LANES) for of in hit_beat)
        with m.If(at("PICK") | at("COLLECTED") & (announced_early | ~dut.found.valid)):
            m.d.sync += leader.eq(Cat(lowest(picking), dut.lines.beat))
        collecting = here & at("COLLECT", "COLLECTED")
        claim(m, line == self.places[leader], "whose line it is", when=collecting)
        claim(
            m,
            _bit(threads | all_hits, leader)
            | at("COLLECT") & _bit(waiting, leader) & _bit(left, leader[ceil_log2(_LANES) :]),
            "that thread is found",
            when=collecting,
        )
        claim(m, line == mark, "it is in the line", when=collecting & (collected | is_hit))
        claim(
            m,
            is_hit | at("COLLECT") & _bit(left, beat),
            "all of a line are found",
            when=collecting & waits & (line == mark),
        )
        claim(m, left == beats_of(waiting, _PARAMS), "where threads wait", when=here & at("PICK"))
        claim(m, left.any(), "there is something to compare", when=here & at("COLLECT"))
        claim(
            m,
            ~(left & ~(beats_of(waiting, _PARAMS) & ~hit_beat)).any(),
            "where others wait",
            when=here & at("COLLECTED"),
        )
        claim(m, announced_early == (dut.found.valid & ~found.complete), "the early line")
        claim(m, ~announced_early | (found.slot == dut.slot), "of the one that is taken")
        left_over = dut.ends & (announced_early | dut.announces) & ~at("COLLECTED")
        claim(m, ~left_over, "an early line is found before the end", when=here)
        m.d.comb += Assume(here | ~left_over, "so it is of every instruction")
        claim(
            m,
            collects | at("TAKE") & (done == 0),
            "when it is announced",
            when=here & announced_early,
        )
        claim(m, ~(hit_beat & left).any(), "a beat is compared once", when=here & at("COLLECT"))
        claim(m, found.line == line, "it is that line", when=collecting & announced_early)
        early = here & announced_early & at("TAKE", "PICK")
        claim(
            m,
            self.lanes.any()
            & (found.line == self.places[lowest(self.lanes)])
            & (self.came | self.said),
            "it is the first line",
            when=early,
        )
        claim(
            m,
            (self.entry.sets.memory[:_LANES] == self.lanes)
            & (~self.entry.bad | (self.entry.thread >= _LANES)),
            "it has those threads",
            when=early & self.came,
        )
        claim(
            m,
            (done == at("PICK")) & (~at("PICK") | (waiting[:_LANES] == self.lanes)),
            "it goes first",
            when=early,
        )
        claim(
            m,
            found.threads.any(),
            "a line has threads",
            when=dut.found.valid & found.complete & (found.slot == self.slot),
        )
        line_taken = Signal.like(mark)
        with m.If(here & self.came):
            m.d.sync += line_taken.eq(mark)
        can_happen(m, taken & collecting & announced_early, "another line is announced early")
        can_happen(
            m, early & self.came & ~at("PICK"), "a line is announced before its threads are judged"
        )
        claim(
            m,
            found.line == Mux(here & self.came, mark, line_taken),
            "it is the thread's",
            when=offered,
        )

    def _show_end(self, m: Module, past: Past) -> None:
        """Asserts the statements about words of shared memory, operations, and the end."""
        dut, at, here, thread = self.dut, self.at, self.here, self.thread
        beat, lane = thread[ceil_log2(_LANES) :], thread[: ceil_log2(_LANES)]
        waiting, left, step = dut.pending, dut.pending_beats, dut.word
        memory, local, shared = self._sets()
        job, atomic, found, words = dut.job, dut.atomic, dut.found, dut.instruction.words
        ends = dut.ends

        # Words are passed on in order
        count = Signal(3)
        sent = here & job.valid & job.ready
        in_it = (job.payload.beat == beat) & _bit(job.payload.lanes, lane)
        with m.If(self.comes):
            m.d.sync += count.eq(0)
        with m.Elif(sent & in_it):
            m.d.sync += count.eq(count + 1)
        shares = here & at("SHARED")
        claim(
            m,
            _bit(waiting, thread) == shared,
            "whose words they are",
            when=here & at("SHARED", "ATOMIC"),
        )
        claim(
            m,
            ~(left & ~beats_of(waiting, _PARAMS)).any() & left.any() & (step < words),
            "which beats",
            when=shares,
        )
        claim(m, waiting.any(), "operations of some threads", when=here & at("ATOMIC"))
        claim(m, step == 0, "the first word first", when=~at("SHARED"))
        claim(
            m,
            count
            == Mux(shared, Mux(_bit(left, beat), Mux(dut.lines.beat == beat, step, 0), words), 0),
            "so many words have passed",
            when=shares,
        )
        claim(m, count == 0, "none before", when=self.came & ~shares)
        claim(m, job.valid == at("SHARED"), "when they pass")
        claim(m, shared & (job.payload.word == count), "words pass in order", when=sent & in_it)
        claim(
            m,
            job.payload.lanes.any() & (job.payload.slot == self.slot),
            "some threads' words",
            when=here & job.valid,
        )
        claim(
            m,
            count + in_it == Mux(shared, words, 0),
            "all have passed",
            when=sent & job.payload.last,
        )
        claim(
            m,
            (_bit(atomic.payload.threads, thread) == shared) & (atomic.payload.slot == self.slot),
            "all operations are done",
            when=here & atomic.valid,
        )
        claim(
            m,
            ~(memory | local) | self.taken,
            "behind memory's lines",
            when=here & (job.valid | atomic.valid),
        )

        # It ends once
        ended, finishes = Signal(2), dut.finished.valid & (dut.finished.payload == self.slot)
        offered = found.valid & found.payload.complete & (found.payload.slot == self.slot)
        last = offered & found.payload.last
        by_words, by_operations = sent & job.payload.last, here & atomic.valid & atomic.ready
        with m.If(self.comes):
            m.d.sync += ended.eq(0)
        with m.Else():
            m.d.sync += ended.eq(ended + (last & found.ready) + finishes + by_words + by_operations)
        claim(m, ended + finishes + last == self.over, "it ends once")
        claim(m, self.came, "it has begun", when=here & ends)
        claim(m, ends, "who has ended leaves", when=by_words | by_operations)
        claim(
            m,
            (memory | local) == self.handed,
            "all that it accesses in memory was found",
            when=self.over,
        )
        claim(
            m,
            ~shared | by_words | by_operations | _bit(dut.fault, self.slot),
            "shared memory, too, but for a fault",
            when=here & ends,
        )
        claim(
            m,
            dut.slot == past(dut.slot + ends)[:_BITS],
            "then the next one's turn",
            when=past.valid,
        )
        can_happen(m, by_words & (count == 1), "two words have passed")
        can_happen(m, here & job.valid & local, "shared memory comes behind local memory")
        can_happen(m, here & ends & shared & _bit(dut.fault, self.slot), "a fault rules it out")

    def _show_offers(self, m: Module, past: Past) -> None:
        """Asserts the miss queue's assumptions about found lines."""
        dut, at, here = self.dut, self.at, self.here
        valid, found = dut.found.valid, dut.found.payload
        waits, sets = past(valid & ~dut.found.ready), self.entry.sets
        early = ("slot", "line", "write", "modify", "local", "words", "size", "signed")
        claim(
            m,
            valid & Cat(found[name] == past(found[name]) for name in early).all(),
            "what is found stays",
            when=waits,
        )
        claim(
            m,
            found.as_value() == past(found.as_value()),
            "all of it",
            when=waits & past(found.complete),
        )
        claim(
            m,
            (found.words == 1) | (found.words == 2) | (found.words == 4),
            "so many words",
            when=valid,
        )
        claim(m, ~(found.write & found.modify), "what is done with it", when=valid)
        below = Cat(
            ~self.entry.bad | (number < self.entry.thread) for number in range(WARP_THREADS)
        )
        claim(
            m,
            ~(dut.pending & ~(sets.local & below)).any(),
            "threads of local memory",
            when=here & dut.done_sets.local & at("PICK", "COLLECT", "COLLECTED"),
        )
        claim(
            m,
            ~(found.local & found.modify),
            "local memory is not modified",
            when=valid & (found.slot == self.slot),
        )

    def _show_bound(self, m: Module, past: Past) -> None:
        """Asserts the bound. ``spent``: cycles since the last line was found, except those in which
        it waits to be accepted.
        """
        dut, at, here, spent = self.dut, self.at, self.here, Signal(5)
        collects, free_ = at("PICK", "COLLECT", "COLLECTED"), dut.is_announced | ~dut.found.valid
        with m.If(~collects | dut.line_is_complete):
            m.d.sync += spent.eq(0)
        with m.Elif(~at("COLLECTED") | free_):
            m.d.sync += spent.eq(spent + 1)
        beats_left = Mux(at("COLLECT"), population(dut.pending_beats), 0)
        claim(
            m, spent + beats_left <= _PARAMS.beats + 1, "a line is found soon", when=here & collects
        )
        claim(m, spent == 0, "it has begun", when=at("PICK"))
        claim(
            m,
            ~at("TAKE"),
            "who is next is taken",
            when=past(
                here & at("TAKE") & self.came & ~dut.ends & ~dut.found.valid & dut.no_line_waits
            ),
        )


THEOREM = Theorem(
    _Spec,
    depth=1,
    cover_depth=14,
    split=True,
    faults=(
        Fault(
            "rtl.memory.access",
            "self._unmatched.eq(self.pending & ~matched_threads)",
            "self._unmatched.eq(self.pending)",
        ),
        Fault(
            "rtl.memory.access",
            "self.pending_beats.eq(self._unmatched_beats & ~self._beat)",
            "self.pending_beats.eq(self._unmatched_beats)",
        ),
        Fault("rtl.memory.access", "(thread < judgement.thread)", "(thread <= judgement.thread)"),
        Fault(
            "rtl.memory.access",
            "with m.If(self.is_announced | ~self.found.valid):",
            "with m.If(1):",
        ),
        Fault("rtl.memory.access", "with m.If(~self._stalls):", "with m.If(1):"),
        Fault(
            "rtl.memory.access",
            "with m.Elif(next_set.shared & lines_are_answered):",
            "with m.Elif(next_set.shared):",
        ),
        Fault(
            "rtl.memory.access",
            "~self._unmatched_beats.any() & ~self.pending_sets.as_value().any())",
            "~self._unmatched_beats.any())",
        ),
        Fault(
            "rtl.memory.access",
            "early.valid & (early.payload.slot == self.slot) & early_lanes.any()",
            "early.valid & early_lanes.any()",
        ),
        Fault("rtl.memory.access", "            m.d.sync += self.pending_beats.eq(0)\n", ""),
    ),
)
