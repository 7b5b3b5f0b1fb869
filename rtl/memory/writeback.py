"""Writeback: results on their way to registers, and the end of instructions."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, fifo, memory, stream
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT
from rtl.layouts import SERIAL_BITS, Event, completion, error_event, register_write
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams
from rtl.wires import IN_BLOCKS

from .crossbar import result_write
from .front import begun_layout
from .instruction import WORDS, judged_layout, port_count, slot_bits

__all__ = ["ResultMemory", "WriteBack"]

_WRITE_CYCLES = 7
"""From the cycle in which the last beat of a write is wanted to the one in which it is surely written."""
_APART = 3
"""Cycles from a completion to the next one, at least: issue relies on it."""


class ResultMemory(Component):
    """Four words of 32 bits for each thread of each slot.

    Members
    -------
    write : In(result_write)
    slot, beat, word, lanes, values : In, In, In, In(1 bit a lane), Out(a word for each lane)
        In the next cycle; 0 for those that are not in ``lanes``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "write": In(result_write(params)), "slot": In(slot_bits(params)), "beat": In(range(params.beats)),
            "word": In(range(WORDS)), "lanes": In(params.lanes), "values": Out(data.ArrayLayout(32, params.lanes))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports = port_count(self._params)
        for lane, value in enumerate(self.values):
            m.submodules[f"lane_{lane}"] = kept = memory.Memory(
                shape=32, depth=WORDS * self._params.beats << slot_bits(self._params), init=[],
                attrs=IN_BLOCKS)
            write, read = kept.write_port(), kept.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(self.write.lanes[lane]), write.data.eq(self.write.values[lane % ports]),
                write.addr.eq(Cat(self.write.beat, self.write.words[lane % ports], self.write.slot)),
                read.addr.eq(Cat(self.beat, self.word, self.slot))]
            m.d.sync += value.eq(Mux(self.lanes[lane], read.data, 0))
        return m


def _record(params: SmParams) -> data.StructLayout:
    """What an instruction ends with."""
    return data.StructLayout({
        "warp": params.warp_bits, "serial": SERIAL_BITS, "pc": 32, "threads": WARP_THREADS, "write_barrier": 3,
        "read_barrier": 3, "destination": 8, "results": range(WORDS + 1), "predicate": 3})


class WriteBack(Component):
    """Instructions of a warp end in the order in which they came, those of several warps in any. An instruction that
    writes nothing ends when what its warp has written before is in the registers.

    Members
    -------
    begun : In(Event of begun_layout)
    judged, loaded, inside : In(Event of judged_layout), In(32), In(32)
        Its error; the threads that get something but 0; what goes to the predicate.
    ended, issued : In(1 bit a slot)
        All accesses of an instruction end now; or they have ended, or will when nothing of it is ``pending``.
    pending, fault : In(1 bit a slot)
    busy, done : Out(1 bit a slot)
        Slots that are in use; those whose accesses are all over.
    result : In(result_write)
    write, wanted, values, flags
        Of a LaneClientPort.
    report_mask : In(32)
    completion, error : Out(completion), Out(error_event)
        A cycle after an instruction has ended without a write.

    Attributes
    ----------
    chosen, chosen_slot : Signal
        The next one that ends.
    ends, completes : Signal
        It does; without a write.
    index : Signal
        Which of its registers is written.
    accessed : Signal(1 bit a slot)
        Its accesses have ended, but for those that are pending.
    writes : Signal(1 bit a slot)
        It writes registers, unless it has an error.
    given : Signal(1 bit a slot)
        It has ended; if it wrote, that may be on its way to the registers.
    older : Signal(a bit a slot, for each slot)
        Those of the same warp that had a slot before it.
    warps : Signal(a warp for each slot)
    records : Memory
        What is needed of each instruction until it ends.
    asked : SyncFIFO
        Writes that the lanes have taken, whose data they have not wanted yet: which register, whether it is the last
        one, and the slot.
    passing : list of Signal
        On the way to the registers: the slot, and whether it was its last write; the last stage is written.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        bits = slot_bits(params)
        count = 1 << bits
        super().__init__({
            "begun": In(Event(begun_layout(params))), "judged": In(Event(judged_layout(params))),
            "loaded": In(WARP_THREADS), "inside": In(WARP_THREADS), "ended": In(count), "issued": In(count),
            "pending": In(count), "fault": In(count), "busy": Out(count), "done": Out(count),
            "result": In(result_write(params)),
            "write": Out(stream.Signature(register_write(params))),
            "wanted": In(data.StructLayout({"valid": 1, "index": 4, "beat": range(params.beats)})),
            "values": Out(data.ArrayLayout(32, params.lanes)), "flags": Out(params.lanes),
            "report_mask": In(32), "completion": Out(completion(params)), "error": Out(error_event(params))})
        self.chosen, self.chosen_slot, self.ends, self.completes = Signal(), Signal(bits), Signal(), Signal()
        self.index = Signal(range(WORDS))
        self.accessed, self.writes, self.given = Signal(count), Signal(count), Signal(count)
        self.older = Signal(data.ArrayLayout(count, count))
        self.warps = Signal(data.ArrayLayout(params.warp_bits, count))
        self.records = memory.Memory(shape=_record(params), depth=count, init=[])
        self.asked: Any = fifo.SyncFIFO(width=bits + 3, depth=8)
        self.passing = [Signal(bits + 1, name="later") for _ in range(_WRITE_CYCLES)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, bits = self._params, slot_bits(self._params)
        count, begun = 1 << bits, self.begun.payload

        # What is known of each slot.
        slots = range(count)
        accessed, writes, given, warps, older = self.accessed, self.writes, self.given, self.warps, self.older
        wrong, settled = Signal(count), Signal(count)
        enters = one_hot(begun.slot, count, self.begun.valid)
        writing = writes & ~wrong & ~self.fault
        m.d.comb += self.done.eq(self.busy & (accessed | self.ended) & ~self.pending)
        m.d.sync += [
            self.busy.eq((self.busy | enters) & ~settled),
            accessed.eq((accessed & ~enters) | self.issued | self.ended),
            writes.eq((writes & ~enters) | Mux(begun.instruction.results.any() & ~begun.idle, enters, 0)),
            wrong.eq((wrong & ~enters) | one_hot(
                self.judged.payload.slot, count, self.judged.valid & self.judged.payload.bad)),
            Assert(~((self.issued | self.ended) & ~self.busy & ~enters).any(), "an access of no instruction")]
        for slot in slots:
            with m.If(enters[slot]):
                m.d.sync += [
                    warps[slot].eq(begun.job.warp),
                    older[slot].eq(self.busy & Cat(other == begun.job.warp for other in warps))]
            with m.Else():
                m.d.sync += older[slot].eq(older[slot] & ~enters)

        # The next one that ends: after those of its warp that are older, and once it is known whether it writes. What
        # it ends with is in the registers later.
        chosen, chosen_slot, ends, free = self.chosen, self.chosen_slot, self.ends, Signal(count)
        mine, choice = one_hot(chosen_slot, count, chosen), Signal(count)
        judged = one_hot(self.judged.payload.slot, count, self.judged.valid)
        m.d.comb += choice.eq(self.done & ~judged & ~given & ~mine & ~Cat(
            (older[slot] & self.busy & Mux(writing[slot], ~given, ~0)).any() for slot in slots))
        with m.If(ends | ~chosen):
            m.d.sync += [chosen.eq(choice.any()), chosen_slot.eq(lowest(choice))]
        m.d.sync += given.eq((given & ~enters) | Mux(ends, mine, 0))

        m.submodules.records = records = self.records
        note, record = records.write_port(), records.read_port(domain="comb")
        m.d.comb += [note.en.eq(self.begun.valid), note.addr.eq(begun.slot), record.addr.eq(chosen_slot)]
        m.d.comb += [note.data[name].eq(begun.job[name]) for name in (
            "warp", "serial", "pc", "threads", "write_barrier")]
        m.d.comb += [note.data[name].eq(begun.instruction[name]) for name in ("destination", "results", "predicate")]
        m.d.comb += note.data.read_barrier.eq(Mux(begun.idle, begun.job.read_barrier, NO_BARRIER))

        # Registers are written one by one.
        writes_it, index, write, of = Signal(), self.index, self.write.payload, record.data
        recent, sent, completes = Signal(_APART - 1), Signal(), self.completes
        last = index == of.results - 1
        m.d.comb += [
            writes_it.eq(writing.bit_select(chosen_slot, 1)), self.write.valid.eq(chosen & writes_it),
            write.warp.eq(of.warp), write.serial.eq(of.serial),
            write.register.eq(of.destination | index),      # a group begins at a multiple of its size
            write.predicate.eq(Mux(last, of.predicate, PT)), write.threads.eq(of.threads), write.index.eq(index),
            write.last.eq(last), write.barrier.eq(of.write_barrier), sent.eq(self.write.valid & self.write.ready),
            completes.eq(chosen & ~writes_it & ~recent.any()), ends.eq(completes | sent & last)]
        m.d.sync += recent.eq(Cat(completes, recent))
        with m.If(sent):
            m.d.sync += index.eq(Mux(last, 0, index + 1))

        # Their data, in the order in which the lanes want them.
        m.submodules.asked = asked = self.asked
        m.submodules.results = results = ResultMemory(params)
        m.submodules.masks = masks = memory.Memory(
            shape=data.StructLayout({"loaded": WARP_THREADS, "inside": WARP_THREADS}), depth=count, init=[])
        keep, mask = masks.write_port(), masks.read_port(domain="comb")
        wanted, slot, final, final_beat = self.wanted, Signal(bits), Signal(), Signal()
        m.d.comb += [
            asked.w_en.eq(sent), asked.w_data.eq(Cat(index, last, chosen_slot)),
            Cat(results.word, final, slot).eq(asked.r_data), results.slot.eq(slot), results.beat.eq(wanted.beat),
            final_beat.eq(wanted.valid & (wanted.beat == params.beats - 1)), asked.r_en.eq(final_beat),
            results.write.eq(self.result), keep.en.eq(self.judged.valid), keep.addr.eq(self.judged.payload.slot),
            results.lanes.eq(mask.data.loaded.word_select(wanted.beat, params.lanes)), self.values.eq(results.values),
            keep.data.loaded.eq(self.loaded), keep.data.inside.eq(self.inside), mask.addr.eq(slot)]
        m.d.sync += [
            self.flags.eq(mask.data.inside.word_select(wanted.beat, params.lanes)),
            Assert(~wanted.valid | asked.r_rdy, "data wanted that nobody offered"),
            Assert(~asked.w_en | asked.w_rdy, "more writes than there can be under way")]
        passing: Value = Cat(slot, final_beat & final)
        for later in self.passing:
            m.d.sync += later.eq(passing)
            passing = later
        m.d.comb += [
            free.eq(one_hot(passing[:bits], count, passing[bits])),
            settled.eq(free | Mux(completes, mine, 0))]

        # What ends without a write.
        m.submodules.errors = errors = memory.Memory(shape=WarpError, depth=count, init=[])
        mark, judgement = errors.write_port(), errors.read_port(domain="comb")
        faulty, fails = (slots.bit_select(chosen_slot, 1) for slots in (self.fault, wrong))
        code, reported = judgement.data.as_value(), self.report_mask
        m.d.comb += [
            mark.en.eq(self.judged.valid), mark.addr.eq(self.judged.payload.slot),
            mark.data.eq(self.judged.payload.error), judgement.addr.eq(chosen_slot)]
        m.d.sync += [
            self.completion.valid.eq(completes), self.error.valid.eq(completes & Mux(
                faulty, reported[WarpError.MMU_FAULT.value], fails & reported.bit_select(code[:5], 1))),
            self.error.warp.eq(of.warp), self.error.pc.eq(of.pc),
            self.error.error.eq(Mux(faulty, WarpError.MMU_FAULT, Mux(fails, code, 0)))]
        m.d.sync += [self.completion[name].eq(of[name]) for name in ("warp", "serial", "write_barrier", "read_barrier")]
        return m
