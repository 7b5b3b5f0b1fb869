"""The crossbar: words on their way between threads and banks, one word of every bank a cycle."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.layouts import Event
from rtl.one_hot import chosen_of, one_hot
from rtl.params import SmParams
from rtl.pick import pick

from .instruction import (
    OFFSET_BITS,
    WORDS,
    BeatKind,
    BeatOwner,
    bank_read,
    bank_write,
    beat_job,
    memory_tag_bits,
    port_count,
    row_bits,
    slot_bits,
)
from .operands import inner_layout, operand_place

__all__ = ["Crossbar", "change_layout", "passed_layout", "result_write"]


def passed_layout(params: SmParams) -> data.StructLayout:
    """The last of some beats has passed; see :func:`beat_job`."""
    return data.StructLayout({
        "owner": BeatOwner, "slot": slot_bits(params), "tag": memory_tag_bits(params), "final": 1})


def result_write(params: SmParams) -> data.StructLayout:
    """Words that are loaded, for some ``lanes`` of a beat: a port has one, which is the same word of the thread's four
    for both of its lanes."""
    ports = port_count(params)
    return data.StructLayout({
        "lanes": params.lanes, "slot": slot_bits(params), "beat": range(params.beats),
        "words": data.ArrayLayout(range(WORDS), ports), "values": data.ArrayLayout(32, ports)})


def change_layout(params: SmParams) -> data.StructLayout:
    """Atomic operations use the crossbar: the banks whose words they read are ``source`` and the next one, if one
    ``wants`` them. If ``valid``, the number that one of them leaves is written in the next cycle, in two words if it is
    ``wide``."""
    return data.StructLayout({
        "busy": 1, "source": ceil_log2(params.lanes), "wants": 1, "valid": 1, "wide": 1, "line": 1,
        "tag": memory_tag_bits(params), "place": params.shared_bits, "value": 64})


class Crossbar(Component):
    """Serves half of a beat in as many cycles as a bank has different words to give; the next one follows without a
    gap. If all threads in the upper half of a beat read at the places of those in the lower half, they are served with
    them.

    Stages: the half's places are read; each bank serves the word of the lowest port that waits, and all ports that
    want the same one; banks are read or written; what was read is extended and written. Threads that write the same
    word write it together: the highest one's bytes stay.

    Members
    -------
    job : In(stream of beat_job)
        Another one may be offered in the place of one of which nothing was taken.
    continues, free : Out(1)
        The lower half of the job that is offered was taken already; a half is taken if one is offered.
    slot, beat, upper, inner, base : Out, Out, Out, In(inner_layout), In
        Places of the threads in half of a beat, and the row in which their CTA's shared memory begins.
    mixed, operand, values : Out(1), Out(operand_place), In(a word for each port)
        Their words, in the second stage; but if ``mixed``, a shuffle has the first words of that slot read.
    change, ahead, changed : In(change_layout), In(operand_place), Out(64)
        Atomic operations, when nothing else is under way; the operand that they read in the next cycle; the number
        that one of them writes.
    read, write : Out(bank_read), Out(bank_write)
        Values that nobody writes are 0.
    found, words : In(a word for each bank), Out(a word for each port)
        What was read a cycle ago; those that were wanted.
    result : Out(result_write)
    passed : Out(Event of passed_layout)
        In the second stage.
    closing, closed : Out(Event of passed_layout)
        The same, one of the two: as soon as what was loaded will surely be there when it is wanted, the last beat's
        after the others'; or in the cycle after ``passed``.
    busy : Out(1)
        Something has been taken and is not through.
    shared : Out(1)
        Shared memory serves some threads.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        slot, beat, ports = slot_bits(params), range(params.beats), port_count(params)
        words = data.ArrayLayout(32, ports)
        super().__init__({
            "job": In(stream.Signature(beat_job(params))), "continues": Out(1), "free": Out(1),
            "slot": Out(slot), "beat": Out(beat),
            "upper": Out(1), "inner": In(inner_layout(params)), "base": In(row_bits(params)), "mixed": Out(1),
            "operand": Out(operand_place(params)), "values": In(words),
            "change": In(change_layout(params)), "ahead": In(operand_place(params)), "changed": Out(64),
            "read": Out(bank_read(params)), "write": Out(bank_write(params)),
            "found": In(data.ArrayLayout(32, params.lanes)), "words": Out(words), "result": Out(result_write(params)),
            "passed": Out(Event(passed_layout(params))), "closing": Out(Event(passed_layout(params))),
            "closed": Out(Event(passed_layout(params))), "busy": Out(1), "shared": Out(1)})
        bank_bits, row = ceil_log2(params.lanes), row_bits(params)
        self._access: Any = Signal(data.StructLayout({
            "used": 1, "writes": 1, "kind": BeatKind, "slot": slot, "tag": memory_tag_bits(params), "beat": beat,
            "size": 3, "signed": 1, "loads": ports, "lanes": params.lanes, "ports": data.ArrayLayout(data.StructLayout({
                "byte": 2, "bank": bank_bits, "row": row, "word": range(WORDS), "value": 32}), ports)}))
        self._leader = [Signal(ports, name=f"leader_{bank}") for bank in range(params.lanes)]
        self._chosen = [[Signal(ports, name=f"chosen_{bank}_{byte}") for byte in range(4)]
                        for bank in range(params.lanes)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, change, operand = self._params, self.change, self.operand
        half = data.StructLayout({"job": beat_job(params), "upper": 1, "whole": 1})
        offered, waiting, next_half = (Signal(half, name=name) for name in ("offered", "waiting", "next_half"))
        given, waits = next_half.job, Signal()
        ports, bank_bits = port_count(params), ceil_log2(params.lanes)
        pending, served, here = Signal(ports), Signal(ports), Signal(beat_job(params))
        fetched: Any = Signal(data.ArrayLayout(data.StructLayout({
            "byte": 2, "bytes": 4, "bank": bank_bits, "row": row_bits(params), "word": range(WORDS)}), ports))

        # The next half, when all threads of the last one are served; until then it waits here, and nobody else need
        # know. A shuffle reads words a stage later than a store.
        left, takes, clashes, access, comes, blocked, shuffles = (
            Signal(ports), Signal(), Signal(), self._access, Signal(), Signal(), Signal())
        lower, upper = given.lanes[:ports], given.lanes[ports:]
        m.d.comb += [
            left.eq(pending & ~served), shuffles.eq(pending.any() & (here.kind == BeatKind.LANES)),
            offered.job.eq(self.job.payload), offered.upper.eq(self.continues | self.job.payload.skips),
            offered.whole.eq(self.continues | self.job.payload.single), self.free.eq(~waits),
            self.job.ready.eq(self.job.valid & self.free & offered.whole),
            next_half.eq(Mux(waits, waiting.as_value(), offered.as_value())), comes.eq(self.job.valid | waits),
            blocked.eq(clashes | given.write & shuffles), takes.eq(comes & ~blocked),
            self.upper.eq(next_half.upper), self.slot.eq(given.slot), self.beat.eq(given.beat)]
        m.d.sync += [
            self.mixed.eq(shuffles), operand.slot.eq(Mux(clashes | shuffles, here.slot, given.slot)),
            pending.eq(Mux(takes, Mux(self.upper, upper, lower), left)), waits.eq(comes & blocked),
            self.continues.eq(Mux(self.job.valid & self.free, ~offered.whole, self.continues)),
            Assert(~takes | given.lanes.any(), "a beat without threads")]
        has_lower, has_upper, base = Signal(), Signal(), Signal(row_bits(params))
        with m.If(self.free):
            m.d.sync += waiting.eq(offered)
        # It is kept whether or not there is one. Threads of a line have the same rows beyond it, which nobody looks at;
        # but where it has less words than there are banks, they are in the first ones.
        in_line, banks_end = (given.kind == BeatKind.LINE) | (given.kind == BeatKind.ANSWER), 2 + bank_bits
        with m.If(~clashes):
            m.d.sync += [
                base.eq(self.base), here.eq(given), here.last.eq(given.last & next_half.whole),
                operand.beat.eq(given.beat), operand.upper.eq(self.upper), operand.word.eq(given.word),
                has_lower.eq(~self.upper), has_upper.eq(next_half.whole)]
            for port, kept in enumerate(fetched):
                place, half, quarter = self.inner[port], self.upper, Const(port)
                if ports == params.lanes:
                    half = quarter
                else:
                    quarter = Cat(port * WORDS // params.lanes, self.upper)
                word = given.word ^ Mux(given.spread[1], quarter, given.spread[0] & half)
                inner = place[2:]
                if banks_end > OFFSET_BITS:
                    inner = Cat(place[2:OFFSET_BITS], Mux(in_line, 0, place[OFFSET_BITS:banks_end]), place[banks_end:])
                m.d.sync += [
                    kept.byte.eq(place[:2]), kept.bytes.eq(byte_mask(place[:2], given.size)), kept.word.eq(word),
                    Cat(kept.bank, kept.row).eq(inner | Mux(given.local, 0, word))]

        with m.If(change.busy):
            m.d.sync += operand.eq(self.ahead)

        # In each bank the word of its lowest port: that port leads, and those with the same word are served with it. Of
        # these the highest one writes a byte.
        leads, writes = Signal(ports), Signal(data.ArrayLayout(4, ports))
        meets: dict[tuple[int, int], Value] = {}
        clashing: list[Value] = []
        for port, kept in enumerate(fetched):
            same_bank, same = Signal(port, name=f"same_bank_{port}"), Signal(port, name=f"same_{port}")
            m.d.comb += [
                same_bank.eq(Cat(other.bank == kept.bank for other in list(fetched)[:port])),
                same.eq(Cat(other.row == kept.row for other in list(fetched)[:port]) & same_bank),
                leads[port].eq(pending[port] & ~(pending[:port] & same_bank).any()),
                served[port].eq(pending[port] & (leads[port] | (leads[:port] & same).any()))]
            meets.update({(first, port): same[first] & pending[port] for first in range(port)})
            clashing.append((pending[:port] & same_bank & ~same).any() & pending[port])
        for port, kept in enumerate(fetched):
            over = [meets[port, higher].replicate(4) & fetched[higher].bytes for higher in range(port + 1, ports)]
            m.d.comb += writes[port].eq(
                kept.bytes & (served[port] & here.write).replicate(4) & ~reduce(or_, over, Const(0, 4)))
        m.d.comb += [
            clashes.eq(Cat(clashing).any()), self.passed.valid.eq(pending.any() & ~clashes & here.last),
            self.passed.payload.owner.eq(here.owner), self.passed.payload.final.eq(here.final),
            self.passed.payload.slot.eq(here.slot), self.passed.payload.tag.eq(here.tag)]
        # The last beat's data are wanted as many cycles after the first one's as there are other beats, and the ports'
        # words have come by then, if two of the ports are served together.
        came, told, quick = Signal(), Signal(), Const(ports < params.beats)
        if ports == params.beats:
            quick = ~pending.all() | (fetched[0].bank != fetched[1].bank) | (fetched[0].row == fetched[1].row)
        m.d.comb += [
            self.closing.valid.eq(came & ~here.write & here.last & (here.beat == params.beats - 1) & quick),
            self.closing.payload.eq(self.passed.payload)]
        m.d.sync += [
            came.eq(takes), told.eq((told | self.closing.valid) & ~self.passed.valid),
            self.closed.valid.eq(self.passed.valid & ~told & ~self.closing.valid),
            self.closed.payload.eq(self.passed.payload)]
        loads = served & ~here.write.replicate(ports)
        m.d.sync += [
            access.used.eq(pending.any()), access.writes.eq(pending.any() & here.write), access.loads.eq(loads),
            access.lanes.eq(Cat(loads & here.lanes[:ports] & has_lower.replicate(ports),
                                loads & here.lanes[ports:] & has_upper.replicate(ports)))]
        m.d.sync += [access[name].eq(here[name]) for name in ("kind", "slot", "tag", "beat", "size", "signed")]
        for port, (kept, then) in enumerate(zip(fetched, access.ports, strict=True)):
            m.d.sync += [
                then.byte.eq(kept.byte), then.bank.eq(kept.bank), then.row.eq(
                    kept.row + Mux(here.kind == BeatKind.SHARED, base, 0)),
                then.value.eq(repeated(self.values[port], here.size)),
                then.word.eq(Mux(here.local, here.word, kept.word))]
            self._choose(m, port, kept.bank, leads[port], writes[port])

        # What an atomic operation leaves takes the place of the first two ports' words.
        with m.If(change.busy):
            m.d.sync += [
                access.used.eq(change.valid), access.writes.eq(change.valid), access.tag.eq(change.tag),
                access.kind.eq(Mux(change.line, BeatKind.LINE, BeatKind.SHARED))]
            for port, then in enumerate(access.ports[:2]):
                place, valid = change.place[2:] | port, change.valid & (change.wide if port else 1)
                m.d.sync += [then.row.eq(place[bank_bits:]), then.value.eq(change.value.word_select(port, 32))]
                self._choose(m, port, place[:bank_bits], valid, valid.replicate(4))
        m.d.comb += self.changed.eq(Cat(then.value for then in access.ports[:2]))

        # Each bank has a word read, or written.
        read, write = self.read, self.write
        m.d.comb += [
            read.used.eq(access.loads.any()), read.kind.eq(access.kind), read.tag.eq(access.tag),
            read.slot.eq(access.slot), write.used.eq(access.writes), write.tag.eq(access.tag),
            write.line.eq(access.kind == BeatKind.LINE), self.shared.eq(access.used & (access.kind == BeatKind.SHARED))]
        rows, values = [then.row for then in access.ports], [then.value for then in access.ports]
        for bank, (leader, chosen, banked) in enumerate(zip(self._leader, self._chosen, write.banks, strict=True)):
            m.d.comb += [banked.row.eq(chosen_of(leader, rows)), read.rows[bank].eq(banked.row)]
            for byte, mine in enumerate(chosen):
                m.d.comb += [
                    banked.bytes[byte].eq(mine.any()),
                    banked.value[byte].eq(chosen_of(mine, [value.word_select(byte, 8) for value in values]))]

        # What was read, a cycle later; and another one later where each lane wants it.
        size, extends, gets, result = Signal(3), Signal(), Signal(ports), self.result
        begins, sources = Signal(data.ArrayLayout(2, ports)), Signal(data.ArrayLayout(params.lanes, ports))
        words = Signal(data.ArrayLayout(range(WORDS), ports))
        last: Any = Signal(data.StructLayout({
            "gets": ports, "size": 3, "extends": 1, "begins": data.ArrayLayout(2, ports),
            "words": data.ArrayLayout(32, ports)}))
        lanes, slot, beat = Signal(params.lanes), Signal.like(access.slot), Signal.like(access.beat)
        m.d.sync += [
            gets.eq(access.loads), lanes.eq(access.lanes), slot.eq(access.slot), beat.eq(access.beat),
            size.eq(access.size), extends.eq(access.signed), last.gets.eq(gets), last.size.eq(size),
            last.extends.eq(extends), last.begins.eq(begins), last.words.eq(self.words), result.lanes.eq(lanes),
            result.slot.eq(slot), result.beat.eq(beat), result.words.eq(words)]
        m.d.comb += self.busy.eq(waits | pending.any() | access.used | gets.any() | last.gets.any())
        for port, then in enumerate(access.ports):
            m.d.sync += [
                begins[port].eq(then.byte), words[port].eq(then.word),
                sources[port].eq(one_hot(then.bank, params.lanes, access.loads[port]))]
            if port < 2:
                with m.If(change.busy):
                    m.d.sync += sources[port].eq(one_hot(change.source | port, params.lanes, change.wants))
            m.d.comb += [
                self.words[port].eq(chosen_of(sources[port], self.found)),
                result.values[port].eq(extended(last.words[port], last.begins[port], last.size, last.extends))]
        return m

    def _choose(self, m: Module, port: int, bank: Value, leads: Value, writes: Value) -> None:
        """A port's word is in a bank: whether it leads there, and which of its bytes are written."""
        for number, (leader, chosen) in enumerate(zip(self._leader, self._chosen, strict=True)):
            mine = bank == number
            m.d.sync += leader[port].eq(mine & leads)
            m.d.sync += [chosen[byte][port].eq(mine & writes[byte]) for byte in range(4)]


def extended(word: Value, byte: Value, size: Value, signed: Value) -> Value:
    """What a load of ``1 << size`` bytes from ``byte`` on, a multiple of their number, makes of a word, the whole word
    for four bytes or more."""
    octet, whole = size == 0, size >= 2
    low = pick([word.word_select(number, 8) for number in range(4)], byte)
    middle = Mux(byte[1], word[24:], word[8:16])
    sign = signed & Mux(octet, low[-1], middle[-1])
    return Cat(low, Mux(octet, sign.replicate(8), middle), Mux(whole, word[16:], sign.replicate(16)))


def repeated(word: Value, size: Value) -> Value:
    """A word in which every place that a number of ``1 << size`` bytes can have holds the number."""
    low = Cat(word[:8], Mux(size == 0, word[:8], word[8:16]))
    return Cat(low, Mux(size >= 2, word[16:], low))


def byte_mask(byte: Value, size: Value) -> Value:
    """The bytes of its word that a number of ``1 << size`` bytes at ``byte`` takes, as four bits."""
    return (Mux(size >= 2, 15, Mux(size == 1, 3, 1)) << byte)[:4]
