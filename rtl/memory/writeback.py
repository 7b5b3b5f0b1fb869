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
from rtl.layouts import (
    SERIAL_BITS,
    Event,
    completion,
    error_event,
    operation_beat,
    register_write,
)
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import common_fields
from rtl.wires import IN_BLOCKS

from .crossbar import result_write
from .front import begun_layout
from .instruction import WORDS, judged_layout, port_count, slot_bits

__all__ = ["ResultMemory", "WriteBack"]

_WRITE_CYCLES = 7
"""From the cycle in which the lanes request the last beat of a write to the one in which it is
surely in the registers."""
_WRITES_IN_FLIGHT = 8
"""Writes that the lanes have taken and not requested the data of, at most."""
_COMPLETION_DISTANCE = 3
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
            "write": In(result_write(params)),
            "slot": In(slot_bits(params)),
            "beat": In(range(params.beats)),
            "word": In(range(WORDS)),
            "lanes": In(params.lanes),
            "values": Out(data.ArrayLayout(32, params.lanes)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        written = self.write
        ports = port_count(self._params)
        depth = WORDS * self._params.beats << slot_bits(self._params)
        for lane, value in enumerate(self.values):
            port = lane % ports
            m.submodules[f"lane_{lane}"] = words = memory.Memory(
                shape=32, depth=depth, init=[], attrs=IN_BLOCKS)
            write = words.write_port()
            read = words.read_port(domain="comb")
            m.d.comb += write.en.eq(written.lanes[lane])
            m.d.comb += write.addr.eq(Cat(written.beat, written.words[port], written.slot))
            m.d.comb += write.data.eq(written.values[port])
            m.d.comb += read.addr.eq(Cat(self.beat, self.word, self.slot))
            m.d.sync += value.eq(Mux(self.lanes[lane], read.data, 0))
        return m


def _record(params: SmParams) -> data.StructLayout:
    """What is needed of an instruction when it retires, see :class:`WriteBack`. Its
    ``read_barrier`` is none if its gathers have lowered it."""
    return data.StructLayout({
        "warp": params.warp_bits,
        "serial": SERIAL_BITS,
        "pc": 32,
        "threads": WARP_THREADS,
        "write_barrier": 3,
        "read_barrier": 3,
        "destination": 8,
        "results": range(WORDS + 1),
        "predicate": 3,
    })


def _taken_write(params: SmParams) -> data.StructLayout:
    """A write that the lanes have taken: which of the slot's registers it is of, and whether it is
    the last one."""
    return data.StructLayout({"index": range(WORDS), "is_last": 1, "slot": slot_bits(params)})


def _landing(params: SmParams) -> data.StructLayout:
    """A beat on its way to the registers. ``frees``: it is the last one of its slot."""
    return data.StructLayout({"slot": slot_bits(params), "frees": 1})


class WriteBack(Component):
    """Retires instructions: those of a warp in program order, those of several warps in any.

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
    It completes, with an error if the error is reported; of both MMU_FAULT goes first.

    Members
    -------
    begun : In(Event of begun_layout)
        An instruction gets a slot.
    judged, loaded, inside : In(Event of judged_layout), In(32), In(32)
        Its error; the threads that get something but 0; what is written to the predicate.
    ended, issued : In(1 bit a slot)
        All accesses of an instruction end now; or they have ended, or will when nothing of it is
        ``pending``.
    pending, fault : In(1 bit a slot)
        Lines of it are in flight; memory could not access one.
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
        It does; it does without a write.
    index : Signal
        Which of its registers is written.
    accesses_ended : Signal(1 bit a slot)
        Its accesses have ended, but for those that are pending.
    has_results : Signal(1 bit a slot)
        It writes registers, unless it has an error.
    retired : Signal(1 bit a slot)
        It has retired; what it wrote may be on its way to the registers.
    older : Signal(a bit a slot, for each slot)
        Those of the same warp that had a slot before it.
    warps : Signal(a warp for each slot)
    records : Memory
        What is needed of each instruction until it retires.
    write_queue : SyncFIFO
        Writes that the lanes have taken, and not requested all data of.
    landing : list of Signal
        Beats on the way to the registers; that of the last one is written.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        bits = slot_bits(params)
        count = 1 << bits
        super().__init__({
            "begun": In(Event(begun_layout(params))),
            "judged": In(Event(judged_layout(params))),
            "loaded": In(WARP_THREADS),
            "inside": In(WARP_THREADS),
            "ended": In(count),
            "issued": In(count),
            "pending": In(count),
            "fault": In(count),
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
        self.records = memory.Memory(shape=_record(params), depth=count, init=[])
        self.write_queue: Any = fifo.SyncFIFO(
            width=_taken_write(params).size, depth=_WRITES_IN_FLIGHT)
        self.landing: list[Any] = [
            Signal(_landing(params), name=f"landing_{stage}") for stage in range(_WRITE_CYCLES)]
        self._count = count
        self._begins = Signal(count, name="begins")
        """The slot that is given in this cycle."""
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
        self._record: Any = Signal(_record(params), name="record")
        """Of the chosen slot."""
        self._is_sent = Signal(name="is_sent")
        """The lanes take a write."""
        self._taken: Any = Signal(_taken_write(params), name="taken")
        """The write whose data the lanes request."""
        self._last_beat = Signal(name="last_beat")
        """They request its last beat."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._track_slots(m)
        self._track_order(m)
        self._choose(m)
        self._keep_records(m)
        self._retire(m)
        self._queue_writes(m)
        self._give_data(m)
        self._free(m)
        self._complete(m)
        return m

    def _track_slots(self, m: Module) -> None:
        """What is known of each slot. An event of its instruction may come with its begin."""
        begun = self.begun.payload
        judged = self.judged.payload
        accesses_end = self.issued | self.ended
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
        m.d.comb += self._will_write.eq(self.has_results & ~self._is_bad & ~self.fault)
        m.d.comb += self.done.eq(
            self.busy & (self.accesses_ended | self.ended) & ~self.pending)
        m.d.sync += Assert(
            ~(accesses_end & ~self.busy & ~self._begins).any(), "an access of no instruction")

    def _track_order(self, m: Module) -> None:
        """Which instructions in flight are of the same warp and older."""
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

    def _keep_records(self, m: Module) -> None:
        """What is needed of each instruction when it retires."""
        job = self.begun.payload.job
        instruction = self.begun.payload.instruction
        m.submodules.records = self.records
        write = self.records.write_port()
        read = self.records.read_port(domain="comb")
        m.d.comb += write.en.eq(self.begun.valid)
        m.d.comb += write.addr.eq(self.begun.payload.slot)
        m.d.comb += write.data.warp.eq(job.warp)
        m.d.comb += write.data.serial.eq(job.serial)
        m.d.comb += write.data.pc.eq(job.pc)
        m.d.comb += write.data.threads.eq(job.threads)
        m.d.comb += write.data.write_barrier.eq(job.write_barrier)
        m.d.comb += write.data.destination.eq(instruction.destination)
        m.d.comb += write.data.results.eq(instruction.results)
        m.d.comb += write.data.predicate.eq(instruction.predicate)
        # The gathers of an instruction that has any lower its read barrier.
        m.d.comb += write.data.read_barrier.eq(
            Mux(self.begun.payload.idle, job.read_barrier, NO_BARRIER))
        m.d.comb += read.addr.eq(self.chosen_slot)
        m.d.comb += self._record.eq(read.data)

    def _retire(self, m: Module) -> None:
        """The chosen instruction writes its registers one by one, or completes."""
        record = self._record
        write = self.write.payload
        writes = self._will_write.bit_select(self.chosen_slot, 1)
        is_last = self.index == record.results - 1
        m.d.comb += self.write.valid.eq(self.chosen & writes)
        m.d.comb += self._is_sent.eq(self.write.valid & self.write.ready)
        m.d.comb += write.warp.eq(record.warp)
        m.d.comb += write.serial.eq(record.serial)
        # A group of registers begins at a multiple of its size: no sum is needed.
        m.d.comb += write.register.eq(record.destination | self.index)
        m.d.comb += write.predicate.eq(Mux(is_last, record.predicate, PT))
        m.d.comb += write.threads.eq(record.threads)
        m.d.comb += write.index.eq(self.index)
        m.d.comb += write.last.eq(is_last)
        m.d.comb += write.barrier.eq(record.write_barrier)
        with m.If(self._is_sent):
            m.d.sync += self.index.eq(Mux(is_last, 0, self.index + 1))

        recent_completions = Signal(_COMPLETION_DISTANCE - 1)
        m.d.sync += recent_completions.eq(Cat(self.completes, recent_completions))
        m.d.comb += self.completes.eq(self.chosen & ~writes & ~recent_completions.any())
        m.d.comb += self.retires.eq(self.completes | (self._is_sent & is_last))

    def _queue_writes(self, m: Module) -> None:
        """Writes that the lanes have taken wait until they have requested the last beat."""
        sent: Any = Signal(self._taken.shape(), name="sent")
        wanted = self.wanted
        m.submodules.write_queue = queue = self.write_queue
        m.d.comb += sent.index.eq(self.index)
        m.d.comb += sent.is_last.eq(self.write.payload.last)
        m.d.comb += sent.slot.eq(self.chosen_slot)
        m.d.comb += queue.w_en.eq(self._is_sent)
        m.d.comb += queue.w_data.eq(sent)
        m.d.comb += self._taken.eq(queue.r_data)
        m.d.comb += self._last_beat.eq(
            wanted.valid & (wanted.payload.beat == self._params.beats - 1))
        m.d.comb += queue.r_en.eq(self._last_beat)
        m.d.sync += Assert(~wanted.valid | queue.r_rdy, "data wanted that nobody offered")
        m.d.sync += Assert(
            ~queue.w_en | queue.w_rdy, "more writes than there can be under way")

    def _give_data(self, m: Module) -> None:
        """The beat that the lanes request, a cycle later."""
        lanes = self._params.lanes
        taken = self._taken
        beat = self.wanted.payload.beat
        layout = data.StructLayout({"loaded": WARP_THREADS, "inside": WARP_THREADS})
        m.submodules.masks = masks = memory.Memory(shape=layout, depth=self._count, init=[])
        write = masks.write_port()
        mask = masks.read_port(domain="comb")
        m.d.comb += write.en.eq(self.judged.valid)
        m.d.comb += write.addr.eq(self.judged.payload.slot)
        m.d.comb += write.data.loaded.eq(self.loaded)
        m.d.comb += write.data.inside.eq(self.inside)
        m.d.comb += mask.addr.eq(taken.slot)

        m.submodules.results = results = ResultMemory(self._params)
        m.d.comb += results.write.eq(self.result)
        m.d.comb += results.slot.eq(taken.slot)
        m.d.comb += results.word.eq(taken.index)
        m.d.comb += results.beat.eq(beat)
        m.d.comb += results.lanes.eq(mask.data.loaded.word_select(beat, lanes))
        m.d.comb += self.values.eq(results.values)
        m.d.sync += self.flags.eq(mask.data.inside.word_select(beat, lanes))

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

    def _complete(self, m: Module) -> None:
        """What retires without a write: the completion, and the error if it is reported."""
        record = self._record
        completed = self.completion
        error = self.error
        m.submodules.errors = errors = memory.Memory(
            shape=WarpError, depth=self._count, init=[])
        write = errors.write_port()
        read = errors.read_port(domain="comb")
        m.d.comb += write.en.eq(self.judged.valid)
        m.d.comb += write.addr.eq(self.judged.payload.slot)
        m.d.comb += write.data.eq(self.judged.payload.error)
        m.d.comb += read.addr.eq(self.chosen_slot)

        m.d.sync += completed.valid.eq(self.completes)
        m.d.sync += common_fields(completed.payload, record)

        code: Value = read.data.as_value()
        is_reported = Signal()
        m.d.sync += error.valid.eq(self.completes & is_reported)
        m.d.sync += common_fields(error.payload, record)
        with m.If(self.fault.bit_select(self.chosen_slot, 1)):
            m.d.comb += is_reported.eq(self.report_mask[WarpError.MMU_FAULT.value])
            m.d.sync += error.payload.error.eq(WarpError.MMU_FAULT)
        with m.Elif(self._is_bad.bit_select(self.chosen_slot, 1)):
            m.d.comb += is_reported.eq(self.report_mask.bit_select(code[:5], 1))
            m.d.sync += error.payload.error.eq(read.data)
        with m.Else():
            m.d.sync += error.payload.error.eq(WarpError.NONE)
