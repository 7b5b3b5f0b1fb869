"""Each line of memory is read or written once, and accesses to the same line happen in the order of
discovery.

Lines of any instructions are found, some of them requested before all their threads are known;
memory answers and confirms in any order and after any time, or reports a fault. The crossbar passes
beats in order, with any stalls; the atomic operations use the banks exclusively. There are eight
tags. For any two of them:

1. A line gets a tag that is free. It is read once, or filled and written once, or read, modified
   and written once each; then its tag is free. Nothing is lost, and no thread is served without a
   request.
2. While a line is to be written or modified, no line found later requests it from memory, and while
   it is read, it is not written: until memory has answered or confirmed. So accesses to a line
   happen in the order in which it was found, and none happens between an atomic operation's read
   and its write.
3. A write that waits for others waits for writes that memory has accepted already: none of them is
   queued after it.
4. The address requested from memory is the one that was found; in local memory each word has its
   own line.
5. For any one thread: each of its words passes once, in order, if the line is the thread's, and
   none if it is not, and all have passed when the last beat has. Its operations are done if it is
   one of those that modify.
6. The words of an answer are read while the answer is available. Between the completion of two
   lines, all writes are to the second one: that is what the theorem `line_memory` assumes.
7. Whether lines are under way, and whether some were not mapped, is reported for the slot; offers
   do not change.

Assumed: a found line does not change, except that its threads follow later; memory answers each
request; crossbar and atomic operations behave as in `_Around`, which is not proved for them.
"""

from functools import partial
from typing import Any

from amaranth.asserts import AnyConst  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Array, Assume, Cat, Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.utils import ceil_log2

from rtl.memory.access import beats_of
from rtl.memory.instruction import BeatKind, BeatOwner, memory_tag_bits, slot_bits
from rtl.memory.line_hazards import COMPARED_BITS
from rtl.memory.line_memory import row_count
from rtl.memory.lines import MissQueue
from rtl.one_hot import one_hot
from rtl.params import LINE_ADDRESS_BITS, PRESETS, WARP_THREADS
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import Past, ShownQueue, can_happen, claim, free, no_reset
from sim.checks.formal.theorem import Theorem

_PARAMS = PRESETS["tiny"]
_BITS = memory_tag_bits(_PARAMS)
_TAGS = 1 << _BITS
_SLOTS = 1 << slot_bits(_PARAMS)
_PASSING = data.StructLayout(
    {
        "valid": 1,
        "owner": BeatOwner,
        "tag": _BITS,
        "last": 1,
        "final": 1,
        "slot": slot_bits(_PARAMS),
    }
)
"""Half of a beat."""


def _bit(bits: Any, number: Any) -> Value:
    return Value.cast(bits).bit_select(number, 1)


class _Around:
    """The environment of the miss queue: the access stage that finds lines, memory, and the units
    that pass beats on.
    """

    def __init__(self, m: Module, past: Past, dut: Any) -> None:
        self.m, self.past, self.dut = m, past, dut
        free(m, dut)
        self._found()
        self._memory()
        self._banks()

    def _found(self) -> None:
        """Lines are found: an offer does not change, except fields that are unknown before it is
        complete.
        """
        m, past, dut = self.m, self.past, self.dut
        found, waits = dut.found.payload, past(dut.found.valid & ~dut.found.ready)
        early = ("slot", "line", "write", "modify", "local", "words", "size", "signed")
        same = Cat(found[name] == past(found[name]) for name in early).all()
        m.d.comb += [
            Assume(~waits | dut.found.valid & same, "what is found stays"),
            Assume(
                ~(waits & past(found.complete)) | (found.as_value() == past(found.as_value())),
                "all of it",
            ),
            Assume((found.words == 1) | (found.words == 2) | (found.words == 4), "so many words"),
            Assume(
                ~(found.write & found.modify) & ~(found.local & found.modify),
                "what is done with it",
            ),
            Assume(~found.complete | found.threads.any(), "a line has threads"),
        ]

    def _memory(self) -> None:
        """Memory answers each request, at any time."""
        m, past, dut = self.m, self.past, self.dut
        request, response = dut.memory.request, dut.memory.response
        said = response.payload
        self.asked = one_hot(request.payload.tag, _TAGS, request.valid & request.ready)
        self.reading, self.writing = Signal(_TAGS), Signal(_TAGS)
        ends = one_hot(said.tag, _TAGS, response.valid & response.ready)
        m.d.sync += [
            self.reading.eq((self.reading | Mux(request.payload.write, 0, self.asked)) & ~ends),
            self.writing.eq((self.writing | Mux(request.payload.write, self.asked, 0)) & ~ends),
        ]
        stays = past(response.valid & ~response.ready)
        m.d.comb += [
            Assume(
                ~response.valid | _bit(Mux(said.write, self.writing, self.reading), said.tag),
                "what was asked",
            ),
            Assume(
                ~stays | response.valid & (said.as_value() == past(said.as_value())),
                "an answer stays",
            ),
        ]

    def _banks(self) -> None:
        """The crossbar passes one half of a beat after the other; atomic operations use the banks
        exclusively.
        """
        m, dut = self.m, self.dut
        jobs = (dut.answer, dut.fill)
        wait, pend, here = (Signal(_PASSING, name=name) for name in ("wait", "pend", "here"))
        self.wait, self.pend, self.here = wait, pend, here
        self.atomic, self.of_line, self.atomic_tag, self.age = (
            Signal(),
            Signal(),
            Signal(_BITS),
            Signal(2),
        )

        age = self.age

        # Half of a beat enters.
        who, enters, whole, rest, continues, kept = (
            Signal(2),
            Signal(),
            Signal(),
            Signal(),
            Signal(),
            Signal(2),
        )
        offered = Signal(_PASSING)
        free(m, who, enters, whole, rest)
        m.d.comb += [
            Assume(
                ~enters | Mux(who == 0, dut.answer.valid, (who != 1) | dut.fill.valid),
                "what is offered",
            ),
            Assume(~enters | ~(wait.valid | self.atomic) & (who != 3), "there is room for it"),
            Assume(~continues | (who == kept) & whole, "halves of a beat follow each other"),
            offered.valid.eq(enters),
        ]
        for number, job in enumerate(jobs):
            takes = enters & (who == number)
            m.d.comb += job.ready.eq(Mux(job.valid, takes & whole, rest))
            with m.If(takes):
                m.d.comb += [
                    offered.owner.eq(job.payload.owner),
                    offered.tag.eq(job.payload.tag),
                    offered.final.eq(job.payload.final),
                    offered.slot.eq(job.payload.slot),
                    offered.last.eq(job.payload.last & whole),
                ]
        with m.If(enters):
            m.d.sync += [continues.eq(~whole), kept.eq(who)]
        self.between, self.half_filled = continues | dut.filling, continues & (kept == 1)

        # It waits for those before it, and passes when all its threads are served.
        clashes, blocked, came = Signal(), Signal(), Signal()
        free(m, clashes, blocked)
        given = Mux(wait.valid, wait.as_value(), offered.as_value())
        takes = (wait.valid | enters) & ~(pend.valid & (clashes | blocked))
        m.d.sync += [
            wait.as_value().eq(Mux(takes, 0, given)),
            here.as_value().eq(pend),
            came.eq(takes),
        ]
        with m.If(takes):
            m.d.sync += pend.as_value().eq(given)
        with m.Elif(~clashes):
            m.d.sync += pend.valid.eq(0)
        passed, closing = dut.passed, dut.closing
        m.d.comb += [
            passed.valid.eq(pend.valid & ~clashes & pend.last),
            closing.payload.eq(passed.payload),
            Assume(
                ~closing.valid | came & pend.last & (pend.owner != BeatOwner.FILL), "when it closes"
            ),
        ]
        m.d.comb += [
            passed.payload[name].eq(pend[name]) for name in ("owner", "tag", "final", "slot")
        ]

        # Atomic operations of a line, or of shared memory, when no other unit uses the banks
        starts, others, ends, idle = (
            Signal(),
            Signal(),
            Signal(),
            ~(wait.valid | pend.valid | here.valid),
        )
        mine = dut.atomic.valid & dut.atomic.ready
        free(m, starts, others, ends)
        m.d.comb += [
            Assume(
                ~starts | idle & ~self.between & ~enters & (~self.atomic | ends),
                "the banks are free",
            ),
            Assume(~(mine & enters), "one of the two"),
            Assume(~ends | self.atomic & (age == 3), "it takes its time"),
            Assume(~dut.quiet | idle & ~self.atomic, "no other unit uses the banks"),
            dut.atomic.ready.eq(starts),
            dut.modified.valid.eq(ends & self.of_line),
            dut.modified.payload.eq(self.atomic_tag),
        ]
        with m.If(ends):
            m.d.sync += self.atomic.eq(0)
        with m.If(mine | others & starts & ~dut.atomic.valid):
            m.d.sync += [
                self.atomic.eq(1),
                self.of_line.eq(mine),
                self.atomic_tag.eq(dut.atomic.payload.tag),
                age.eq(0),
            ]
        with m.Elif(self.atomic & (age != 3)):
            m.d.sync += age.eq(age + 1)

        # Their reads and writes
        read, write = dut.lines.read, dut.lines.write
        reads = here.valid & (here.owner != BeatOwner.FILL)
        written = Cat(bank.bytes for bank in write.banks).any()
        self.writes = write.line & written
        m.d.comb += [
            Assume(~read.used | reads | self.atomic & (age >= 2) & ~ends, "who reads"),
            Assume(
                ~(reads & (here.owner == BeatOwner.ANSWER))
                | (read.kind == BeatKind.ANSWER) & (read.tag == here.tag),
                "an answer is read",
            ),
            Assume(
                ~written | here.valid & (here.owner != BeatOwner.ANSWER) | self.atomic & (age == 3),
                "who writes",
            ),
            Assume(
                ~self.writes
                | Mux(
                    self.atomic,
                    self.of_line & (write.tag == self.atomic_tag),
                    (here.owner == BeatOwner.FILL) & (write.tag == here.tag),
                ),
                "a line is written",
            ),
        ]


class _Spec(Elaboratable):
    """The miss queue and its assertions."""

    def __init__(self, examples: bool = False) -> None:
        self._examples = examples
        self.dut: Any = MissQueue(_PARAMS)
        queue = self.dut.requests
        self.queue = self.dut.requests = ShownQueue(width=queue.width, depth=queue.depth)
        self.one, self.other = Signal(_BITS), Signal(_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        no_reset(m)
        past = Past(m)
        m.submodules.dut = self.dut
        self.around = _Around(m, past, self.dut)
        m.d.comb += [
            self.one.eq(AnyConst(_BITS)),
            self.other.eq(AnyConst(_BITS)),
            Assume(self.one != self.other, "another one"),
        ]
        self._show_offers(m, past)
        self._show_stages(m)
        self._show_fills(m)
        self._show_answers(m)
        self._show_order(m)
        kept = self._show_threads(m)
        self._show_slots(m, past, kept.slot)
        if self._examples:
            self._choose_example(m)
        return m

    def _of(self, bits: Any) -> Value:
        """Returns the observed line's bit."""
        return _bit(bits, self.one)

    def _show_offers(self, m: Module, past: Past) -> None:
        """Offers do not change until they are accepted. Requests are compared without their words,
        which belong to a line that is no longer written.
        """
        dut, request = self.dut, self.dut.memory.request
        what = Cat(getattr(request.payload, name) for name in ("write", "tag", "address"))
        for stream, payload in (
            (request, what),
            *((each, each.payload.as_value()) for each in (dut.fill, dut.answer, dut.atomic)),
        ):
            claim(
                m,
                stream.valid & (payload == past(payload)),
                "what is offered stays",
                when=past(stream.valid & ~stream.ready),
            )

    def _show_stages(self, m: Module) -> None:
        """The state of each line: it waits for its read, memory reads it, it was read; it is
        filled; it waits for its write, memory writes it.
        """
        dut, around = self.dut, self.around
        request, response, pend = dut.memory.request, dut.memory.response, around.pend
        said, asked, found = response.payload, around.asked, dut.found.payload
        given, used, completed = dut.allocated, dut.used, dut.completed
        waiting, filling, here, sends, modifies = (
            Signal(_TAGS, name=name)
            for name in ("waiting", "being_filled", "is_here", "sends", "modifies")
        )
        self.waiting, self.filling, self.read_here, self.sends, self.modifies = (
            waiting,
            filling,
            here,
            sends,
            modifies,
        )
        writes = request.payload.write
        self.ends = one_hot(
            said.tag, _TAGS, response.valid & response.ready & (said.write | said.error)
        )
        comes = one_hot(
            said.tag, _TAGS, response.valid & response.ready & ~said.write & ~said.error
        )
        self.finish = one_hot(completed.payload, _TAGS, completed.valid)
        served = one_hot(pend.tag, _TAGS, dut.passed.valid & (pend.owner == BeatOwner.ANSWER))
        m.d.sync += [
            waiting.eq((waiting | Mux(found.write, 0, given)) & ~Mux(writes, 0, asked)),
            filling.eq((filling | Mux(found.write, given, 0)) & ~self.finish),
            here.eq((here | comes) & ~(served | self.finish)),
            sends.eq((sends | self.finish) & ~Mux(writes, asked, 0)),
            modifies.eq(modifies & ~given | Mux(found.modify, given, 0)),
        ]
        once, twice = Const(0, _TAGS), Const(0, _TAGS)
        for stage in (waiting, filling, here, sends, around.reading, around.writing):
            once, twice = once | stage, twice | once & stage
        claim(m, ~(given & used).any(), "a tag is given when it is free")
        claim(m, ~(dut.has_free_tag & _bit(used, dut.free_tag)), "the next one is free")
        claim(m, once == used, "a tag is used until its line is done")
        claim(m, ~twice.any(), "each line is in one stage")
        claim(
            m,
            ~(Mux(writes, 0, asked) & ~(waiting | Mux(found.write, 0, given))).any(),
            "a line is read once",
        )
        claim(
            m,
            ~(Mux(writes, asked, 0) & ~sends).any(),
            "a line is written once, when its words are in it",
        )
        claim(m, response.ready, "what confirms is taken", when=self.ends)
        claim(m, ~(served & ~((here | comes) & ~modifies)).any(), "who is served")
        claim(m, ~(self.finish & ~(filling | here & modifies)).any(), "who has its words")
        claim(m, ~((filling | waiting & sends) & modifies).any(), "what is filled is not modified")

        # Requests wait in a queue
        in_queue, again, read_waits, write_waits = (
            Const(0, _TAGS),
            Const(0, _TAGS),
            Const(0, _TAGS),
            Const(0, _TAGS),
        )
        for number, place in enumerate(self.queue.entries):
            tag = one_hot(place[:_BITS], _TAGS, self.queue.level > number)
            in_queue, again = in_queue | tag, again | in_queue & tag
            read_waits, write_waits = (
                read_waits | Mux(place[_BITS], 0, tag),
                write_waits | Mux(place[_BITS], tag, 0),
            )
        claim(m, self.queue.level <= _TAGS, "so many places")
        claim(m, ~again.any(), "a tag is in the queue once")
        claim(m, (read_waits == waiting) & (write_waits == sends), "all who wait are in the queue")

    def _show_fills(self, m: Module) -> None:
        """The location of lines that are filled: one at a time, and between the last beat and the
        request.
        """
        dut, around = self.dut, self.around
        kept_tag, fill_passed, completed = dut.fills.line.tag, dut.fill_passed, dut.completed
        wait, pend = around.wait, around.pend
        stage, twice = one_hot(kept_tag, _TAGS, dut.fill.valid), Const(0, _TAGS)
        for tag in (
            *(
                one_hot(each.tag, _TAGS, each.valid & (each.owner == BeatOwner.FILL) & each.last)
                for each in (wait, pend)
            ),
            one_hot(fill_passed.payload, _TAGS, fill_passed.valid),
            self.finish & ~self.modifies,
        ):
            stage, twice = stage | tag, twice | stage & tag
        claim(m, (stage == self.filling) & ~twice.any(), "where a line is that is filled")
        mine = Mux(
            wait.valid & (wait.owner == BeatOwner.FILL),
            wait.tag == pend.tag,
            dut.fill.valid & (pend.tag == kept_tag),
        )
        claim(
            m,
            mine,
            "halves of the line that is filled",
            when=pend.valid & (pend.owner == BeatOwner.FILL) & ~pend.last,
        )
        claim(
            m,
            dut.fill.valid & (wait.tag == kept_tag),
            "halves of it wait",
            when=wait.valid & (wait.owner == BeatOwner.FILL) & ~wait.last,
        )
        claim(m, dut.fill.valid, "some of its words are on their way", when=dut.filling)

        # Between the completion of two lines all writes are to the second one.
        open_, open_tag, fills, there = Signal(), Signal(_BITS), kept_tag, dut.fill.valid
        for each in (wait, pend):
            mine = each.valid & (each.owner == BeatOwner.FILL)
            fills, there = Mux(mine, each.tag, fills), there | mine
        with m.If(around.writes):
            m.d.sync += [open_.eq(1), open_tag.eq(dut.lines.write.tag)]
        with m.Elif(completed.valid):
            m.d.sync += open_.eq(0)
        begun = (
            open_ & (open_tag == kept_tag)
            | Cat(
                each.valid & (each.owner == BeatOwner.FILL) & (each.tag == kept_tag)
                for each in (wait, pend, around.here)
            ).any()
        )
        claim(
            m,
            dut.filling | around.half_filled,
            "it is not left half done",
            when=dut.fill.valid & begun,
        )
        modifies = around.atomic & around.of_line
        oldest = Mux(
            modifies, around.atomic_tag, Mux(fill_passed.valid, fill_passed.payload, fills)
        )
        there = there | fill_passed.valid | modifies
        claim(
            m,
            there & (oldest == around.here.tag),
            "who is written",
            when=around.here.valid & (around.here.owner == BeatOwner.FILL),
        )
        claim(
            m,
            Mux(completed.valid, completed.payload == open_tag, there & (oldest == open_tag)),
            "who was written is not finished",
            when=open_,
        )
        claim(
            m,
            ~(open_ & ~completed.valid) | (dut.lines.write.tag == open_tag),
            "one line after the other",
            when=around.writes,
        )
        request = dut.memory.request
        claim(
            m,
            dut.line_memory.tag == request.payload.tag,
            "whose words are sent",
            when=request.valid,
        )

    def _show_answers(self, m: Module) -> None:
        """The location of lines that were read."""
        dut, around, answers = self.dut, self.around, self.dut.answers
        wait, pend, said = around.wait, around.pend, dut.memory.response.payload
        more, ahead, stays = answers.has_beats, answers.sent_early, answers.occupied
        kept_tag, begun, step = answers.held_tag, answers.has_begun, answers.step
        here, modifies, row, last_row = (
            self.read_here,
            self.modifies,
            answers.row,
            row_count(_PARAMS) - 1,
        )
        comes = dut.memory.response.valid & ~said.write & ~said.error
        left, passing, twice = one_hot(kept_tag, _TAGS, more), Const(0, _TAGS), Const(0, _TAGS)
        out = dut.answer.payload
        claim(
            m,
            (out.owner == BeatOwner.ANSWER) & (out.kind == BeatKind.ANSWER),
            "whose beats they are",
            when=dut.answer.valid,
        )
        beats = [
            (out.tag, out.last, dut.answer.valid),
            *(
                (each.tag, each.last, each.valid & (each.owner == BeatOwner.ANSWER))
                for each in (wait, pend)
            ),
        ]
        for tag, last, valid in beats:
            mine = one_hot(tag, _TAGS, valid & last)
            passing, twice = passing | mine, twice | passing & mine
        early, read = one_hot(said.tag, _TAGS, ahead), here & ~modifies
        self.current, self.tag = more | comes & ~ahead, Mux(more, kept_tag, said.tag)
        claim(m, ~twice.any(), "a line is served once")
        claim(m, read == (left & ~modifies | passing & ~early), "where a line is that was read")
        claim(m, ~(passing & (modifies | left)).any(), "who passes")
        claim(m, comes & ~more, "an answer passes early", when=ahead)
        claim(
            m, ~(early & ~(passing & around.reading & ~modifies)).any(), "then it is not taken yet"
        )
        claim(m, stays == (read | left).any(), "an answer stays until its words have passed")
        claim(m, ~((read | left) & ~one_hot(kept_tag, _TAGS, stays)).any(), "it is that one's")
        claim(m, ~(left & ~here).any(), "that is here")
        behind, behind_tag = self.current, self.tag
        for tag, last, valid in beats:
            claim(
                m,
                behind & (tag == behind_tag),
                "behind a beat that is not the last is one of the same line",
                when=valid & ~last,
            )
            behind, behind_tag = behind | valid, Mux(valid, tag, behind_tag)
        for number, (tag, _, valid) in enumerate(beats):
            for front_tag, _, front in beats[number + 1 :]:
                claim(
                    m,
                    _bit(around.reading, tag),
                    "beats of an answer that is not taken yet come last",
                    when=valid & front & _bit(around.reading, front_tag),
                )
        claim(
            m,
            ~stays,
            "the one before has passed",
            when=pend.valid & (pend.owner == BeatOwner.ANSWER) & _bit(around.reading, pend.tag),
        )

        # The words that are read are those of the answer
        holder = Signal(_BITS)
        with m.If(answers.take.valid):
            m.d.sync += holder.eq(said.tag)
        claim(m, holder == kept_tag, "whose answer it is", when=stays)
        claim(
            m,
            holder == around.here.tag,
            "its words are read",
            when=around.here.valid & (around.here.owner == BeatOwner.ANSWER),
        )

        # Lines that are modified
        atomic = one_hot(around.atomic_tag, _TAGS, around.atomic & around.of_line)
        claim(
            m,
            (here & modifies) == (left & modifies | atomic | self.finish & modifies),
            "where a line is that is modified",
        )
        claim(m, ~(self.finish & modifies & (left | atomic)).any(), "it is finished once")
        claim(
            m, (row == last_row) == (left & atomic).any(), "it is copied while its operations begin"
        )
        claim(m, more & _bit(modifies, kept_tag), "only what is modified is copied", when=row != 0)
        claim(m, around.age == 0, "the last row when they have just begun", when=row == last_row)
        claim(
            m,
            ~around.atomic | ~(wait.valid | pend.valid | around.here.valid),
            "one of the two is at the banks",
        )
        claim(m, ~around.atomic | ~dut.fill_passed.valid, "no line is filled meanwhile")

        # Invariants of each line
        found, known, alike = dut.found.payload, Signal(_TAGS), Const(1)
        m.d.comb += known.eq(dut.used & ~one_hot(dut.early.payload, _TAGS, dut.early.valid))
        self.known = known
        for tag in range(_TAGS):
            info = dut.infos.read_port(domain="comb")
            m.d.comb += info.addr.eq(tag)
            alike = alike & (~known[tag] | (info.data.modify == modifies[tag]))
        claim(m, alike, "what is modified")
        early = dut.early.valid
        lives = _bit(dut.used, dut.early.payload)
        claim(
            m,
            dut.found.valid
            & ~found.write
            & (dut.word == 0)
            & ~(lives & (found.modify != _bit(modifies, dut.early.payload))),
            "a line that is asked for early",
            when=early,
        )
        claim(
            m,
            ~_bit(passing | atomic | self.filling | self.sends | around.writing, dut.early.payload),
            "it waits",
            when=early,
        )
        claim(
            m,
            self.current & _bit(known & ~modifies, self.tag),
            "beats are of a line",
            when=begun | (step != 0),
        )
        for tag, _, valid in beats:
            claim(m, _bit(known & ~modifies, tag), "they are of one that is known", when=valid)
        claim(m, _bit(known, kept_tag), "so is what is copied", when=row != 0)

    def _show_order(self, m: Module) -> None:
        """Two tags with the same line: their order."""
        dut, hazards = self.dut, self.dut.hazards
        found, given, used, word, line = (
            dut.found.payload,
            dut.allocated,
            dut.used,
            dut.word,
            dut.line,
        )
        claim(
            m,
            dut.found.valid & found.complete & found.local & (word < found.words),
            "words of local memory",
            when=word != 0,
        )
        claim(
            m,
            line == (found.line + (word << 1))[:LINE_ADDRESS_BITS],
            "each word has its line",
            when=dut.found.valid,
        )

        # The state of each of the two
        places, writes, alters, marks = [], [], [], (self.one, self.other)
        for number, tag in enumerate(marks):
            place, write, alter = (
                Signal(LINE_ADDRESS_BITS, name=f"place_{number}"),
                Signal(name=f"writes_{number}"),
                Signal(name=f"alters_{number}"),
            )
            with m.If(_bit(given, tag)):
                m.d.sync += [
                    place.eq(line),
                    write.eq(found.write),
                    alter.eq(found.write | found.modify),
                ]
            address = dut.addresses.read_port(domain="comb")
            m.d.comb += address.addr.eq(tag)
            claim(
                m,
                (address.data == place)
                & (Array(hazards.lines)[tag] == place[:COMPARED_BITS])
                & (_bit(hazards.is_changed, tag) == alter)
                & (_bit(hazards.is_written, tag) == write)
                & (alter == (write | _bit(self.modifies, tag))),
                "what a line is",
                when=_bit(used, tag),
            )
            claim(
                m,
                ~_bit(self.around.reading | self.waiting | self.read_here, tag),
                "a line is only written",
                when=_bit(used, tag) & write,
            )
            claim(
                m,
                ~_bit(self.filling, tag),
                "only such a line is filled",
                when=_bit(used, tag) & ~write,
            )
            places.append(place)
            writes.append(write)
            alters.append(alter)
        request = dut.memory.request.payload
        claim(
            m,
            request.address == Mux(self._of(given), line, places[0]),
            "that line is asked for",
            when=dut.memory.request.valid & (request.tag == self.one),
        )

        # Which line was found first
        first, (one, other) = Signal(), marks
        with m.If(_bit(given, other)):
            m.d.sync += first.eq(_bit(used & ~self.ends, one))
        with m.Elif(_bit(given, one)):
            m.d.sync += first.eq(0)
        before = (
            first
            & _bit(used, one)
            & _bit(used, other)
            & (places[0] == places[1])
            & (alters[0] | alters[1])
        )
        held, unconfirmed = hazards.held, hazards.unconfirmed
        claim(
            m,
            ~_bit(self.around.reading | self.around.writing | self.read_here, other),
            "no line is requested while it is changed, or changed while it is read",
            when=before,
        )
        claim(
            m,
            writes[0] & writes[1] & _bit(held, other) & _bit(unconfirmed, one),
            "it is held",
            when=before,
        )
        claim(
            m,
            _bit(used, one) & writes[0] & ~_bit(held, one),
            "whose write it waits for",
            when=_bit(unconfirmed, one),
        )

        # A held line waits for writes to memory, none of which is queued after it.
        behind = [self._rank(tag) for tag in marks]
        claim(
            m,
            behind[0] < behind[1],
            "a held line is behind all others",
            when=_bit(used, one)
            & _bit(used, other)
            & writes[0]
            & writes[1]
            & _bit(held, other)
            & ~_bit(held, one),
        )
        claim(
            m,
            ~_bit(unconfirmed, one) | _bit(self.around.writing, one),
            "a held line waits for memory",
            when=(self.queue.level != 0)
            & (self.queue.entries[0][:_BITS] == other)
            & _bit(held, other),
        )
        claim(
            m,
            ~(held & ~(self.filling | self.sends)).any() & (writes[1] | ~_bit(held, other)),
            "who is held",
        )
        can_happen(m, before & (behind[1] == 1) & _bit(self.around.writing, one), "one is held")

    def _rank(self, tag: Value) -> Value:
        """Returns the distance of a line that is filled from memory: 0 when memory writes it."""
        around, ranks = self.around, Const(0, 4)
        fill_passed, fills = self.dut.fill_passed, self.dut.fills
        places = [
            (number < self.queue.level) & (place[:_BITS] == tag)
            for number, place in enumerate(self.queue.entries)
        ]
        passing = [
            each.valid & (each.owner == BeatOwner.FILL) & each.last & (each.tag == tag)
            for each in (around.pend, around.wait)
        ]
        for rank, there in enumerate(
            (
                *places,
                _bit(self.finish, tag),
                fill_passed.valid & (fill_passed.payload == tag),
                *passing,
                self.dut.fill.valid & (fills.line.tag == tag),
            ),
            1,
        ):
            ranks = ranks | Mux(there, rank, 0)
        return ranks

    def _show_threads(self, m: Module) -> Any:
        """The observed line and one thread: its words pass once, in order. Returns the thread's
        state when it was found.
        """
        dut, fills, answers = self.dut, self.dut.fills, self.dut.answers
        found, given, thread = (
            dut.found.payload,
            self._of(dut.allocated),
            Signal(range(WARP_THREADS)),
        )
        beat, lane = thread[ceil_log2(_PARAMS.lanes) :], thread[: ceil_log2(_PARAMS.lanes)]
        fields = ("slot", "modify", "local", "words", "size", "signed")
        kept: Any = Signal(
            data.StructLayout(
                {**{name: found.shape()[name].shape for name in fields}, "word": 2, "has": 1}
            ),
            name="kept",
        )
        m.d.comb += thread.eq(AnyConst(len(thread)))
        known = Mux(dut.early.valid, dut.early.payload, dut.free_tag) == self.one
        with m.If(given):
            m.d.sync += [kept[name].eq(found[name]) for name in fields]
        with m.If(dut.advance & known):
            m.d.sync += [kept.has.eq(found.threads.bit_select(thread, 1)), kept.word.eq(dut.word)]
        info = dut.infos.read_port(domain="comb")
        m.d.comb += info.addr.eq(self.one)
        here, used, all_words = (
            info.data,
            self._of(dut.used),
            Mux(kept.has, Mux(kept.local, 1, kept.words), 0),
        )
        same = Cat(here[name] == kept[name] for name in (*fields, "word")).all()
        first = (here.first.beat == beat) & _bit(here.first.lanes, lane) | _bit(
            here.first.others, beat
        )
        claim(
            m,
            same & self._well(here, beat, lane, kept.has) & (~kept.has | first),
            "what is kept of a line",
            when=self._of(self.known),
        )
        early = dut.early.valid & (dut.early.payload == self.one) & used
        claim(
            m,
            Cat(kept[name] == found[name] for name in fields).all(),
            "and of one that is asked for early",
            when=early,
        )
        claim(
            m, (kept.words == 1) | (kept.words == 2) | (kept.words == 4), "so many words", when=used
        )
        claim(
            m,
            (kept.word < kept.words) & (kept.local | (kept.word == 0)),
            "which of them",
            when=self._of(self.known),
        )

        # Beats: how many words of the thread have passed
        count = Signal(3)
        following = Mux(answers.has_begun, answers.following.as_value(), here.first.as_value())
        current = self.current & (self.tag == self.one) & self._of(self.known & ~self.modifies)
        for job, owner, now, step, info in (
            (dut.answer, BeatOwner.ANSWER, following, answers.step, here),
            (
                dut.fill,
                BeatOwner.FILL,
                fills.line.info.first.as_value(),
                fills.step,
                fills.line.info,
            ),
        ):
            beats = Signal.like(here.first)
            m.d.comb += beats.eq(now)
            payload = job.payload
            mine, sent = (
                job.valid & (payload.tag == self.one),
                job.valid & job.ready & (payload.tag == self.one),
            )
            in_it = (payload.beat == beat) & _bit(payload.lanes, lane)
            with m.If(sent & in_it):
                m.d.sync += count.eq(count + 1)
            if info is not here:
                current = mine
                same = Cat(info[name] == kept[name] for name in (*fields, "word")).all()
                claim(
                    m, same & self._well(info, beat, lane, kept.has), "what is filled", when=current
                )
            comes, later = (beats.beat == beat) & _bit(beats.lanes, lane), _bit(beats.others, beat)
            claim(
                m, self._next_well(beats, info, beat, lane, kept.has), "the next beat", when=current
            )
            claim(m, (step < kept.words) & (~kept.local | (step == 0)), "which word", when=current)
            passed = count + (mine & in_it if info is here else 0)
            claim(
                m,
                passed == Mux(comes, step, Mux(later & kept.has, 0, all_words)),
                "so many have passed",
                when=current,
            )
            claim(
                m,
                payload.lanes.any()
                & (payload.slot == kept.slot)
                & (payload.size == kept.size)
                & (payload.local == kept.local)
                & (payload.owner == owner),
                "a beat is the instruction's",
                when=mine,
            )
            claim(
                m,
                kept.has & (payload.word == Mux(kept.local, kept.word, count)),
                "its words pass in order",
                when=mine & in_it,
            )
            claim(
                m, count + in_it == all_words, "all of them have passed", when=mine & payload.last
            )
        given_out = dut.answer.valid & (dut.answer.payload.tag == self.one)
        claim(
            m, (count == 0) & ~given_out, "none has passed before all threads are known", when=early
        )
        begun = self.current & (self.tag == self.one) | answers.sent_early & (
            dut.memory.response.payload.tag == self.one
        )
        claim(
            m,
            (count == 0) & ~given_out,
            "none has passed yet",
            when=self._of(self.waiting | self.around.reading) & ~begun,
        )
        with m.If(given):
            m.d.sync += count.eq(0)
        atomic = dut.atomic.payload
        claim(
            m,
            self._of(self.read_here & self.known & self.modifies)
            & (_bit(atomic.threads, thread) == kept.has)
            & (atomic.slot == kept.slot)
            & atomic.line,
            "its operations are done",
            when=dut.atomic.valid & (atomic.tag == self.one),
        )

        can_happen(m, self._of(self.finish & self.modifies), "a line is modified")
        can_happen(m, answers.sent_early, "an answer passes before it is taken")
        can_happen(
            m,
            dut.answer.valid & (dut.answer.payload.tag == self.one) & (count == 1),
            "a second word passes",
        )
        return kept

    def _show_slots(self, m: Module, past: Past, slot: Value) -> None:
        """The reports to other stages about the slot of the line."""
        dut, closing, said = self.dut, self.dut.closing, self.dut.memory.response
        closes, is_closed = (
            closing.valid
            & (closing.payload.owner == BeatOwner.ANSWER)
            & (closing.payload.tag == self.one),
            Signal(),
        )
        used = self._of(dut.used)
        with m.If(closes):
            m.d.sync += is_closed.eq(1)
        with m.If(self._of(dut.released)):
            m.d.sync += is_closed.eq(0)
        pend = self.around.pend
        claim(
            m,
            used
            & pend.valid
            & pend.last
            & (pend.owner == BeatOwner.ANSWER)
            & (pend.tag == self.one),
            "who is through soon",
            when=is_closed,
        )
        claim(m, is_closed == self._of(dut.closed), "who is closed")
        claim(
            m,
            (Array(dut.slots)[self.one] == slot)
            & (Array(dut.slot_masks)[self.one] == one_hot(slot, _SLOTS)),
            "whose line it is",
            when=used,
        )
        claim(
            m,
            _bit(dut.pending, slot),
            "lines of a slot are under way",
            when=used & ~is_closed & ~closes,
        )
        fault = said.valid & said.payload.error & (said.payload.tag == self.one)
        claim(m, _bit(dut.fault, past(slot)), "its fault is reported", when=past(fault))
        claim(
            m,
            dut.issued.valid == past(dut.found.valid & dut.found.ready & dut.found.payload.last),
            "all lines have tags",
        )

    def _choose_example(self, m: Module) -> None:
        """Constrains examples to few threads and short latencies."""
        found = self.dut.found.payload
        m.d.comb += Assume(
            (self.one == 0)
            & (self.other == 1)
            & (found.threads[1:] == 0)
            & found.complete
            & ~found.local
            & (found.line[1:] == 0)
            & ~self.around.wait.valid,
            "an example",
        )

    def _well(self, info: Any, beat: Value, lane: Value, has: Value) -> Value:
        """Returns whether the line's threads, as stored, agree with whether the observed thread is
        one of them.
        """
        there = _bit(info.threads.word_select(beat, _PARAMS.lanes), lane)
        return (there == has) & self._next_well(info.first, info, beat, lane, has)

    def _next_well(self, beats: Any, info: Any, beat: Value, lane: Value, has: Value) -> Value:
        comes, later = (beats.beat == beat) & _bit(beats.lanes, lane), _bit(beats.others, beat)
        return (
            beats.lanes.any()
            & (~comes | has & ~later)
            & ~(beats.others & ~beats_of(info.threads, _PARAMS)).any()
        )


THEOREM = Theorem(
    _Spec,
    depth=2,
    cover_depth=18,
    split=True,
    long=True,
    examples=partial(_Spec, examples=True),
    faults=(
        Fault("rtl.memory.line_hazards", "~(self.is_written & ~self.held)", "~self.is_written"),
        Fault("rtl.memory.line_hazards", "~(changes | others_change)", "~changes"),
        Fault("rtl.memory.line_hazards", " | (self.allocate.valid & changes))", ")"),
        Fault(
            "rtl.memory.line_hazards",
            "Mux(self.unconfirmed.any(), self.held, 0)",
            "Mux(self.confirmed.any(), 0, self.held)",
        ),
        Fault("rtl.memory.line_hazards", "(followed | self.held).any()", "followed.any()"),
        Fault("rtl.memory.lines", "read & (queue.r_rdy | ~request.ready)", "read & ~request.ready"),
        Fault("rtl.memory.lines", "can_begin.eq(~self.completed.valid)", "can_begin.eq(1)"),
        Fault(
            "rtl.memory.line_beats",
            "~(self.incomplete.valid & (self.info_tag == self.incomplete.payload))",
            "1",
        ),
        Fault(
            "rtl.memory.line_beats",
            "with m.If(is_served | self._last_is_copied):",
            "with m.If(sends_last | self._last_is_copied):",
        ),
        Fault(
            "rtl.memory.lines",
            "~(open_tags & ~closing_tag & of_slot).any()",
            "~(open_tags & closing_tag).any()",
        ),
        Fault(
            "rtl.memory.line_beats",
            "first_beat(m, info, beat.others, self._params)",
            "first_beat(m, info, info.first.others, self._params)",
        ),
    ),
)
