"""Writeback: writes results to registers, and completes instructions."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, fifo, stream
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT
from rtl.layouts import (
    SEQUENCE_BITS,
    Event,
    completion,
    error_event,
    operation_beat,
    register_write,
)
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import common_fields, struct_value
from rtl.wires import IN_BLOCKS
from rtl.words import Words

from .crossbar import result_write
from .front import begun_layout
from .instruction import WORDS, judged_layout, port_count, slot_bits

__all__ = ["ResultMasks", "ResultMemory", "WriteBack", "slot_accesses"]

_WRITE_CYCLES = 7
"""From the cycle in which the lanes request the last beat of a write to the one in which it
certainly is in the registers."""
_WRITES_IN_FLIGHT = 8
"""Writes that the lanes have taken and not requested the data of, at most."""
_COMPLETION_DISTANCE = 3
"""Cycles from a completion to the next one, at least: issue relies on it."""


class ResultMasks(data.Struct):
    """What the addresses of an instruction decide about its results."""

    loaded: unsigned(WARP_THREADS)
    """The threads that get something but 0."""
    inside: unsigned(WARP_THREADS)
    """What is written to the predicate of each thread."""


def _result_read(params: SmParams) -> data.StructLayout:
    """A word of each thread of a beat is read.

    Fields
    ------
    slot, beat
        The instruction, and its beat.
    word : 0 to 3
        Which of the threads' words.
    lanes : 1 bit a lane
        Lanes that get it; others get 0.
    """
    return data.StructLayout({
        "slot": slot_bits(params),
        "beat": range(params.beats),
        "word": range(WORDS),
        "lanes": params.lanes,
    })


class ResultMemory(Component):
    """Four words of 32 bits for each thread of each slot.

    Members
    -------
    write : In(result_write)
    read, values : In(result_read), Out(a word for each lane)
        What is read is there in the next cycle.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "write": In(result_write(params)),
            "read": In(_result_read(params)),
            "values": Out(data.ArrayLayout(32, params.lanes)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        written = self.write
        request = self.read
        ports = port_count(self._params)
        depth = WORDS * self._params.beats << slot_bits(self._params)
        for lane, value in enumerate(self.values):
            port = lane % ports
            m.submodules[f"lane_{lane}"] = words = Words(32, depth, **IN_BLOCKS)
            address = Cat(written.beat, written.words[port], written.slot)
            words.write(m, written.lanes[lane], address, written.values[port])
            word = words.read(m, Cat(request.beat, request.word, request.slot))
            m.d.sync += value.eq(Mux(request.lanes[lane], word, 0))
        return m


def slot_accesses(params: SmParams) -> data.StructLayout:
    """What is known of the accesses of instructions, a bit for each slot.

    Fields
    ------
    ended
        All its accesses end now.
    issued
        They have ended, or will when nothing of it is ``pending``.
    pending
        Lines of it are in flight.
    fault
        Memory could not access a line of it.
    """
    slots = 1 << slot_bits(params)
    return data.StructLayout({"ended": slots, "issued": slots, "pending": slots, "fault": slots})


def _record(params: SmParams) -> data.StructLayout:
    """What is needed of an instruction when it retires, see :class:`WriteBack`. Its
    ``read_barrier`` is none if its gathers have lowered it."""
    return data.StructLayout({
        "warp": params.warp_bits,
        "sequence": SEQUENCE_BITS,
        "pc": 32,
        "threads": WARP_THREADS,
        "write_barrier": 3,
        "read_barrier": 3,
        "destination": 8,
        "results": range(WORDS + 1),
        "predicate": 3,
    })


def _taken_write(params: SmParams) -> data.StructLayout:
    """A write that the lanes have taken: which of the slot's registers it writes, and whether it is
    the last one."""
    return data.StructLayout({"index": range(WORDS), "is_last": 1, "slot": slot_bits(params)})


def _landing(params: SmParams) -> data.StructLayout:
    """A beat that is being written to the registers. ``frees``: it is the last one of its slot."""
    return data.StructLayout({"slot": slot_bits(params), "frees": 1})


class WriteBack(Component):
    """Retires instructions: of one warp in program order, of several warps in any order.

    An instruction *retires*, and leaves here, when the lanes have taken its last write; it is
    complete when the execute unit has written the last beat of that. One without a write retires
    and completes in one step. ::

        accesses have ended --> CHOOSE --> RETIRE --> writes, to the lanes --> DATA --> free
                                               \\                                  ^
                                                `--> completion, without a write --'

    ========  ==============================================================================
    step      what happens
    ========  ==============================================================================
    choose    One of the slots whose accesses have ended, and that need not wait for an older
              instruction of the same warp, is chosen: the lowest one. Takes a cycle.
    retire    An instruction with results offers its writes to the lanes one by one, and retires
              with the last one. One without completes at once, but three cycles behind the last
              completion at least. The next one is chosen meanwhile.
    data      The lanes request each beat of the writes that they have taken, in order. A slot is
              free when its last write is in the registers, or with the completion.
    ========  ==============================================================================

    An instruction with results waits until the older ones of its warp have retired; one without,
    until what they wrote is in the registers.

    An instruction whose address was wrong, or whose line memory could not access, writes nothing.
    It completes, with an error if the error is reported; MMU_FAULT has priority if there are both.

    Members
    -------
    begun : In(Event of begun_layout)
        An instruction gets a slot.
    judged, masks : In(Event of judged_layout), In(ResultMasks)
        Its addresses are judged: its error, and what they decide about its results.
    accesses : In(slot_accesses)
    busy, done : Out(1 bit a slot)
        Slots that are in use; those whose accesses have all ended.
    result : In(result_write)
    write, wanted, values, flags
        Of a LaneClientPort.
    report_mask : In(32)
    completion, error : Out(Event of completion), Out(Event of error_event)
        A cycle after an instruction has retired without a write.

    Attributes
    ----------
    chosen, chosen_slot : Signal
        The next one that retires.
    retires, completes : Signal
        ``chosen_slot`` retires in this cycle; it retires without a write.
    index : Signal
        Which of its registers is written.
    accesses_ended : Signal(1 bit a slot)
        Its accesses have ended, except those in ``pending``.
    has_results : Signal(1 bit a slot)
        It writes registers, unless it has an error.
    retired : Signal(1 bit a slot)
        It has retired; its results may not be in the registers yet.
    older : Signal(a bit a slot, for each slot)
        Instructions of the same warp that had a slot before it.
    warps : Signal(a warp for each slot)
    records : Words
        What is needed of each instruction until it retires.
    write_queue : SyncFIFO
        Writes that the lanes have taken, and not requested all data of.
    landing : list of Signal
        Beats that are being written to the registers; the last one is written.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        bits = slot_bits(params)
        count = 1 << bits
        super().__init__({
            "begun": In(Event(begun_layout(params))),
            "judged": In(Event(judged_layout(params))),
            "masks": In(ResultMasks),
            "accesses": In(slot_accesses(params)),
            "busy": Out(count),
            "done": Out(count),
            "result": In(result_write(params)),
            "write": Out(stream.Signature(register_write(params))),
            "wanted": In(Event(operation_beat(params))),
            "values": Out(data.ArrayLayout(32, params.lanes)),
            "flags": Out(params.lanes),
            "report_mask": In(32),
            "completion": Out(Event(completion(params))),
            "error": Out(Event(error_event(params))),
        })
        self.chosen = Signal()
        self.chosen_slot = Signal(bits)
        self.retires = Signal()
        self.completes = Signal()
        self.index = Signal(range(WORDS))
        self.accesses_ended = Signal(count)
        self.has_results = Signal(count)
        self.retired = Signal(count)
        self.older = Signal(data.ArrayLayout(count, count))
        self.warps = Signal(data.ArrayLayout(params.warp_bits, count))
        self.records = Words(_record(params), count)
        self.write_queue: Any = fifo.SyncFIFO(
            width=_taken_write(params).size, depth=_WRITES_IN_FLIGHT)
        self.landing: list[Any] = [
            Signal(_landing(params), name=f"landing_{stage}") for stage in range(_WRITE_CYCLES)]
        self._count = count
        self._begins = Signal(count, name="begins")
        """The slot that an instruction gets in this cycle."""
        self._is_judged = Signal(count, name="is_judged")
        """The slot whose addresses are judged in this cycle."""
        self._is_bad = Signal(count, name="is_bad")
        """Slots with an error in an address."""
        self._will_write = Signal(count, name="will_write")
        """Slots that write registers, as far as is known."""
        self._is_freed = Signal(count, name="is_freed")
        """Slots that are free from the next cycle on."""
        self._chosen_mask = Signal(count, name="chosen_mask")
        """The chosen slot."""
        self._is_sent = Signal(name="is_sent")
        """The lanes take a write."""
        self._taken: Any = Signal(_taken_write(params), name="taken")
        """The write whose data the lanes request."""
        self._last_beat = Signal(name="last_beat")
        """They request its last beat."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.records = self.records
        record = self.records.read(m, self.chosen_slot)
        self._track_slots(m)
        self._track_order(m)
        self._choose(m)
        self._keep_record(m)
        self._retire(m, record)
        self._queue_writes(m)
        self._give_data(m)
        self._free(m)
        self._complete(m, record)
        return m

    def _track_slots(self, m: Module) -> None:
        """What is known of each slot. An event of its instruction may come with its begin."""
        begun = self.begun.payload
        judged = self.judged.payload
        accesses = self.accesses
        accesses_end = accesses.issued | accesses.ended
        is_remembered = ~self._begins
        has_results = begun.instruction.results.any() & ~begun.idle
        begins_with_results = self._begins & has_results.replicate(self._count)
        judged_bad = self._is_judged & judged.bad.replicate(self._count)
        m.d.comb += self._begins.eq(one_hot(begun.slot, self._count, self.begun.valid))
        m.d.comb += self._is_judged.eq(one_hot(judged.slot, self._count, self.judged.valid))
        m.d.sync += self.busy.eq((self.busy | self._begins) & ~self._is_freed)
        m.d.sync += self.accesses_ended.eq((self.accesses_ended & is_remembered) | accesses_end)
        m.d.sync += self.has_results.eq(
            (self.has_results & is_remembered) | begins_with_results)
        m.d.sync += self._is_bad.eq((self._is_bad & is_remembered) | judged_bad)
        m.d.comb += self._will_write.eq(self.has_results & ~self._is_bad & ~accesses.fault)
        m.d.comb += self.done.eq(
            self.busy & (self.accesses_ended | accesses.ended) & ~accesses.pending)
        m.d.sync += Assert(
            ~(accesses_end & ~self.busy & ~self._begins).any(), "an access of no instruction")

    def _track_order(self, m: Module) -> None:
        """Which instructions in flight are older ones of the same warp."""
        warp = self.begun.payload.job.warp
        same_warp = Cat(other == warp for other in self.warps)
        for slot in range(self._count):
            with m.If(self._begins[slot]):
                m.d.sync += self.warps[slot].eq(warp)
                m.d.sync += self.older[slot].eq(self.busy & same_warp)
            with m.Else():
                m.d.sync += self.older[slot].eq(self.older[slot] & ~self._begins)

    def _choose(self, m: Module) -> None:
        """The next one that retires. An instruction that is judged in this cycle waits, since it is
        not known whether it writes."""
        waits_for_older = Signal(self._count)
        for slot in range(self._count):
            older_in_flight = self.older[slot] & self.busy
            with m.If(self._will_write[slot]):
                m.d.comb += waits_for_older[slot].eq((older_in_flight & ~self.retired).any())
            with m.Else():
                m.d.comb += waits_for_older[slot].eq(older_in_flight.any())

        candidates = Signal(self._count)
        can_retire = self.done & ~self._is_judged & ~waits_for_older
        m.d.comb += self._chosen_mask.eq(
            one_hot(self.chosen_slot, self._count, self.chosen))
        m.d.comb += candidates.eq(can_retire & ~self.retired & ~self._chosen_mask)
        with m.If(self.retires | ~self.chosen):
            m.d.sync += self.chosen.eq(candidates.any())
            m.d.sync += self.chosen_slot.eq(lowest(candidates))
        retires_now = self._chosen_mask & self.retires.replicate(self._count)
        m.d.sync += self.retired.eq((self.retired & ~self._begins) | retires_now)

    def _keep_record(self, m: Module) -> None:
        """What is needed of each instruction when it retires."""
        begun = self.begun.payload
        record: Any = Signal(_record(self._params))
        m.d.comb += common_fields(record, begun.job)
        m.d.comb += common_fields(record, begun.instruction)
        with m.If(~begun.idle):
            # The gathers of the instruction lower its read barrier.
            m.d.comb += record.read_barrier.eq(NO_BARRIER)
        self.records.write(m, self.begun.valid, begun.slot, record)

    def _retire(self, m: Module, record: Any) -> None:
        """The chosen instruction writes its registers one by one, or completes."""
        writes = self._will_write.bit_select(self.chosen_slot, 1)
        is_last = self.index == record.results - 1
        m.d.comb += self.write.valid.eq(self.chosen & writes)
        m.d.comb += self._is_sent.eq(self.write.valid & self.write.ready)
        # A group of registers begins at a multiple of its size: no sum is needed.
        register = record.destination | self.index
        m.d.comb += self.write.payload.eq(struct_value(
            register_write(self._params),
            warp=record.warp,
            sequence=record.sequence,
            index=self.index,
            last=is_last,
            barrier=record.write_barrier,
            register=register,
            predicate=Mux(is_last, record.predicate, PT),
            conditional=0,
            threads=record.threads))
        with m.If(self._is_sent):
            m.d.sync += self.index.eq(Mux(is_last, 0, self.index + 1))

        recent_completions = Signal(_COMPLETION_DISTANCE - 1)
        m.d.sync += recent_completions.eq(Cat(self.completes, recent_completions))
        m.d.comb += self.completes.eq(self.chosen & ~writes & ~recent_completions.any())
        m.d.comb += self.retires.eq(self.completes | (self._is_sent & is_last))

    def _queue_writes(self, m: Module) -> None:
        """Writes that the lanes have taken wait until they have requested the last beat."""
        wanted = self.wanted
        m.submodules.write_queue = queue = self.write_queue
        m.d.comb += queue.w_en.eq(self._is_sent)
        m.d.comb += queue.w_data.eq(struct_value(
            _taken_write(self._params),
            index=self.index,
            is_last=self.write.payload.last,
            slot=self.chosen_slot))
        m.d.comb += self._taken.eq(queue.r_data)
        m.d.comb += self._last_beat.eq(
            wanted.valid & (wanted.payload.beat == self._params.beats - 1))
        m.d.comb += queue.r_en.eq(self._last_beat)
        m.d.sync += Assert(~wanted.valid | queue.r_rdy, "data wanted that was not offered")
        m.d.sync += Assert(
            ~queue.w_en | queue.w_rdy, "more writes than there can be under way")

    def _give_data(self, m: Module) -> None:
        """The beat that the lanes request, a cycle later."""
        lanes = self._params.lanes
        taken = self._taken
        beat = self.wanted.payload.beat
        m.submodules.masks = masks = Words(ResultMasks, self._count)
        masks.write(m, self.judged.valid, self.judged.payload.slot, self.masks)
        mask = masks.read(m, taken.slot)

        m.submodules.results = results = ResultMemory(self._params)
        m.d.comb += results.write.eq(self.result)
        m.d.comb += results.read.eq(struct_value(
            _result_read(self._params),
            slot=taken.slot,
            beat=beat,
            word=taken.index,
            lanes=mask.loaded.word_select(beat, lanes)))
        m.d.comb += self.values.eq(results.values)
        m.d.sync += self.flags.eq(mask.inside.word_select(beat, lanes))

    def _free(self, m: Module) -> None:
        """A slot is free when its last beat is in the registers, or its instruction completes."""
        m.d.sync += self.landing[0].slot.eq(self._taken.slot)
        m.d.sync += self.landing[0].frees.eq(self._last_beat & self._taken.is_last)
        for before, after in zip(self.landing[:-1], self.landing[1:], strict=True):
            m.d.sync += after.eq(before)
        written = self.landing[-1]
        completed = self._chosen_mask & self.completes.replicate(self._count)
        m.d.comb += self._is_freed.eq(
            one_hot(written.slot, self._count, written.frees) | completed)
        m.d.sync += Assert(~(self._is_freed & ~self.busy).any(), "a free slot is freed")

    def _complete(self, m: Module, record: Any) -> None:
        """What retires without a write: the completion, and the error if it is reported."""
        completed = self.completion
        error = self.error
        judged = self.judged.payload
        m.submodules.errors = errors = Words(WarpError, self._count)
        errors.write(m, self.judged.valid, judged.slot, judged.error)
        address_error = errors.read(m, self.chosen_slot)

        m.d.sync += completed.valid.eq(self.completes)
        m.d.sync += common_fields(completed.payload, record)

        code: Value = address_error.as_value()
        is_reported = Signal()
        m.d.sync += error.valid.eq(self.completes & is_reported)
        m.d.sync += common_fields(error.payload, record)
        with m.If(self.accesses.fault.bit_select(self.chosen_slot, 1)):
            m.d.comb += is_reported.eq(self.report_mask[WarpError.MMU_FAULT.value])
            m.d.sync += error.payload.error.eq(WarpError.MMU_FAULT)
        with m.Elif(self._is_bad.bit_select(self.chosen_slot, 1)):
            m.d.comb += is_reported.eq(self.report_mask.bit_select(code[:5], 1))
            m.d.sync += error.payload.error.eq(address_error)
        with m.Else():
            m.d.sync += error.payload.error.eq(WarpError.NONE)
