"""The front: instructions wait, are decoded, get a slot, and their registers are gathered."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.layouts import (
    BLOCK_ADDRESS_BITS,
    Event,
    dispatched,
    gathered_beat,
    register_gather,
)
from rtl.params import SmParams
from rtl.structs import struct_value

from .decode import MemoryDecoder
from .instruction import MemoryInstruction, MemoryOperation, entry_bits, queued, slot_bits

__all__ = ["MemoryFront", "begun_layout", "gather_layout", "matched_beat"]


def begun_layout(params: SmParams) -> data.StructLayout:
    """An instruction that gets a slot.

    Fields
    ------
    slot, job, instruction
        The slot; the instruction as it was queued, and decoded.
    idle : 1
        It has nothing to do, and no register is read for it.
    """
    return data.StructLayout({
        "slot": slot_bits(params),
        "job": queued(params),
        "instruction": MemoryInstruction,
        "idle": 1,
    })


def gather_layout(params: SmParams) -> data.StructLayout:
    """A gather that the lanes have taken.

    Fields
    ------
    slot
        Its instruction's.
    second : 1
        It is the second one of its instruction: words of data alone. Else the first one, which
        reads the address registers, too.
    last : 1
        Its instruction has no other one after it.
    """
    return data.StructLayout({"slot": slot_bits(params), "second": 1, "last": 1})


def matched_beat(params: SmParams) -> data.StructLayout:
    """Registers of a beat's threads that the lanes have read. The beats of a gather follow each
    other.

    Fields
    ------
    gather : gather_layout
        The gather that they belong to.
    data : gathered_beat
        As they come from the lanes.
    """
    return data.StructLayout({"gather": gather_layout(params), "data": gathered_beat(params)})


class MemoryFront(Component):
    """Gives slots to instructions, and has their registers read. ::

        dispatch --> queue --> head ---> present instruction --> begun
                                 |               |
                                 '---------------+-------------> gather

    The head of the queue leaves it when the next slot and its place for operands are free and the
    last gather of the present instruction is taken. A cycle later it has its slot, and is decoded
    (``begun``). What its first gather reads was decoded before the queue.

    Slots are given in a ring, in the order of dispatch. Gathers return in the order in which they
    are requested. An instruction's first gather is offered in the cycle in which it leaves the
    queue, one cycle before its registers are known: no gather is accepted in the first cycle in
    which it is offered.

    Members
    -------
    dispatch, room : In(Event of dispatched), Out(1)
        A memory instruction. There will be room for one that issue selects in this cycle.
    local_base : In(BLOCK_ADDRESS_BITS)
        The settings of the dispatched instruction's warp.
    busy, kept : In(1 bit a slot), In(1 bit an entry)
        The slots, and the places for operands, that are in use.
    begun : Out(Event of begun_layout)
        An instruction gets a slot.
    gather, taken : Out(stream of register_gather), Out(Event of gather_layout)
        Its gathers.

    Attributes
    ----------
    queue : DispatchQueue
        Instructions that wait.
    has_slot : Signal
        Some instruction has got a slot since the reset.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self.has_slot = Signal()
        self.queue = DispatchQueue(queued(params), bypass=True)
        super().__init__({
            "dispatch": In(Event(dispatched(params))),
            "room": Out(1),
            "local_base": In(BLOCK_ADDRESS_BITS),
            "busy": In(1 << slot_bits(params)),
            "kept": In(1 << entry_bits(params)),
            "begun": Out(Event(begun_layout(params))),
            "gather": Out(stream.Signature(register_gather(params))),
            "taken": Out(Event(gather_layout(params))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = self.queue

        # The present instruction: its slot, and whether a gather of it is still to be taken.
        self._slot = Signal(slot_bits(self._params))
        self._job: Any = Signal(queued(self._params))
        self._is_gathering = Signal()
        self._leaves_queue = Signal()
        self._queue(m)
        self._allocate_slot(m)
        self._begin(m)
        self._gather(m)
        return m

    def _queue(self, m: Module) -> None:
        """Dispatched instructions wait; of each it is decoded what its first gather reads."""
        m.submodules.decoder = decoder = MemoryDecoder(self._params.floats)
        arriving = self.dispatch.payload
        entry = self.queue.arriving.payload
        instruction = decoder.instruction
        m.d.comb += decoder.word.eq(arriving.word)
        m.d.comb += self.queue.arriving.valid.eq(self.dispatch.valid)
        threads = arriving.active & arriving.guard
        has_operation = instruction.operation != MemoryOperation.NONE
        m.d.comb += entry.eq(struct_value(
            queued(self._params),
            warp=arriving.warp,
            sequence=arriving.sequence,
            pc=arriving.pc,
            word=arriving.word,
            gather=instruction.gathers[0],
            second=instruction.second,
            idle=~(threads.any() & has_operation),
            threads=threads,
            write_barrier=arriving.write_barrier,
            read_barrier=arriving.read_barrier,
            local_base=self.local_base))
        m.d.comb += self.room.eq(self.queue.room)

    def _allocate_slot(self, m: Module) -> None:
        """The head of the queue gets the next slot when that is free, and so is the place for its
        operands."""
        head = self.queue.head
        next_slot = Signal.like(self._slot)
        entry = next_slot[:entry_bits(self._params)]
        is_done = ~self._is_gathering | (self.gather.ready & self.taken.payload.last)
        slot_is_free = ~self.busy.bit_select(next_slot, 1)
        entry_is_free = ~self.kept.bit_select(entry, 1)
        if len(self._slot) == 0:
            # The one slot is busy from the next cycle on.
            slot_is_free &= ~self.begun.valid
        m.d.comb += next_slot.eq(self._slot + self.has_slot)
        m.d.comb += head.ready.eq(is_done & slot_is_free & entry_is_free)
        m.d.comb += self._leaves_queue.eq(head.valid & head.ready)
        with m.If(self._leaves_queue):
            m.d.sync += self._job.eq(head.payload)
            m.d.sync += self._slot.eq(next_slot)
            m.d.sync += self.has_slot.eq(1)

    def _begin(self, m: Module) -> None:
        """The present instruction is decoded in its first cycle."""
        m.submodules.whole = decoder = MemoryDecoder(self._params.floats)
        self._second_gather = Signal.like(decoder.instruction.gathers[1])
        m.d.comb += decoder.word.eq(self._job.word)
        m.d.sync += self._second_gather.eq(decoder.instruction.gathers[1])
        m.d.sync += self.begun.valid.eq(self._leaves_queue)
        m.d.comb += self.begun.payload.eq(struct_value(
            begun_layout(self._params),
            slot=self._slot,
            job=self._job,
            instruction=decoder.instruction,
            idle=self._job.idle))
        with m.If(self.begun.valid):
            m.d.sync += Assert(
                ~self.busy.bit_select(self._slot, 1), "a slot in use is allocated again")

    def _gather(self, m: Module) -> None:
        """The gathers of the present instruction, one or two; or the first one of that which leaves
        the queue. What that one reads is not needed yet."""
        job = self._job
        taken = self.taken
        is_second = Signal()
        is_last = is_second == job.second
        is_idle = self.queue.head.payload.idle
        m.d.comb += taken.valid.eq(self._is_gathering & self.gather.ready)
        m.d.comb += taken.payload.eq(struct_value(
            gather_layout(self._params), slot=self._slot, second=is_second, last=is_last))
        with m.If(taken.valid):
            m.d.sync += is_second.eq(~is_last)
        with m.If(self._leaves_queue):
            m.d.sync += self._is_gathering.eq(~is_idle)
        with m.Elif(taken.valid):
            m.d.sync += self._is_gathering.eq(~is_last)

        m.d.comb += self.gather.valid.eq(self._is_gathering | (self._leaves_queue & ~is_idle))
        m.d.comb += self.gather.payload.eq(struct_value(
            register_gather(self._params),
            warp=job.warp,
            sequence=job.sequence,
            index=is_second,
            last=is_last,
            barrier=job.read_barrier,
            registers=Mux(is_second, self._second_gather.as_value(), job.gather.as_value())))
        m.d.sync += Assert(
            self._is_gathering | ~(self.gather.valid & self.gather.ready),
            "a gather taken when it is first offered")
