"""Instructions on their way in: they wait, are decoded, get a slot, and have their registers read."""


from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.layouts import BLOCK_ADDRESS_BITS, Event, dispatched, register_gather
from rtl.params import SmParams

from .decode import MemoryDecoder
from .instruction import MemoryInstruction, MemoryOperation, entry_bits, queued, slot_bits

__all__ = ["MemoryFront", "begun_layout", "gather_layout"]


def begun_layout(params: SmParams) -> data.StructLayout:
    """An instruction that gets a slot. ``idle``: it has nothing to do, and no register is read for it."""
    return data.StructLayout({
        "slot": slot_bits(params), "job": queued(params), "instruction": MemoryInstruction, "idle": 1})


def gather_layout(params: SmParams) -> data.StructLayout:
    """A gather that the lanes have taken: the ``second`` of its instruction, and whether it is the ``last``."""
    return data.StructLayout({"slot": slot_bits(params), "second": 1, "last": 1})


class MemoryFront(Component):
    """Slots are given in a ring, in the order of dispatch. Gathers come back in the order in which they are asked for.

    Members
    -------
    dispatch, room : In(Event of dispatched), Out(1)
        A memory instruction; there is room for one whenever it comes, if it is selected now.
    local_base : In(BLOCK_ADDRESS_BITS)
        Of the warp that the dispatched instruction is of.
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
    here : Signal
        A slot has been given.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self.here = Signal()
        self.queue = DispatchQueue(queued(params), bypass=True)
        super().__init__({
            "dispatch": In(Event(dispatched(params))), "room": Out(1), "local_base": In(BLOCK_ADDRESS_BITS),
            "busy": In(1 << slot_bits(params)), "kept": In(1 << entry_bits(params)),
            "begun": Out(Event(begun_layout(params))), "gather": Out(stream.Signature(register_gather(params))),
            "taken": Out(Event(gather_layout(params)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self._params
        m.submodules.queue = queue = self.queue
        m.submodules.decoder = decoder = MemoryDecoder(params.floats)
        m.submodules.whole = whole = MemoryDecoder(params.floats)
        arriving, waits, head = self.dispatch.payload, queue.arriving.payload, queue.head
        m.d.comb += [
            queue.arriving.valid.eq(self.dispatch.valid), self.room.eq(queue.room),
            waits.threads.eq(arriving.active & arriving.guard), waits.local_base.eq(self.local_base),
            decoder.word.eq(arriving.word), waits.gather.eq(decoder.instruction.gathers[0]),
            waits.second.eq(decoder.instruction.second), waits.idle.eq(
                ~waits.threads.any() | (decoder.instruction.operation == MemoryOperation.NONE))]
        m.d.comb += [waits[name].eq(arriving[name]) for name in (
            "warp", "serial", "pc", "word", "write_barrier", "read_barrier")]

        # The instruction whose registers are being read; it takes its slot in its first cycle here. Its first gather is
        # offered a cycle before, if there is none of another one: what it reads need not be known by then.
        slot, here, asks, second, begun = Signal(slot_bits(params)), self.here, Signal(), Signal(), self.begun
        job, others = Signal(queued(params)), Signal.like(decoder.instruction.gathers[1])
        next_slot, ends, comes, idle = Signal.like(slot), Signal(), Signal(), head.payload.idle
        gather, taken = self.gather.payload, self.taken
        m.d.comb += [
            next_slot.eq(slot + here), ends.eq(~asks | (self.gather.ready & taken.payload.last)),
            head.ready.eq(ends & ~self.busy.bit_select(next_slot, 1) & (~begun.valid if len(slot) == 0 else 1)
                          & ~self.kept.bit_select(next_slot[:entry_bits(params)], 1)),
            comes.eq(head.valid & head.ready)]
        m.d.sync += [begun.valid.eq(comes), others.eq(whole.instruction.gathers[1]),
                     Assert(asks | ~(self.gather.valid & self.gather.ready), "a gather taken when it is first offered")]
        with m.If(taken.valid):
            m.d.sync += [second.eq(~taken.payload.last), asks.eq(~taken.payload.last)]
        with m.If(comes):
            m.d.sync += [job.eq(head.payload), slot.eq(next_slot), here.eq(1), asks.eq(~idle)]
        m.d.comb += [
            begun.payload.slot.eq(slot), begun.payload.job.eq(job), begun.payload.instruction.eq(whole.instruction),
            begun.payload.idle.eq(job.idle), whole.word.eq(job.word)]
        with m.If(begun.valid):
            m.d.sync += Assert(~self.busy.bit_select(slot, 1), "a slot in use is given again")

        m.d.comb += [
            self.gather.valid.eq(asks | comes & ~idle), gather.warp.eq(job.warp), gather.serial.eq(job.serial),
            gather.registers.eq(Mux(second, others.as_value(), job.gather.as_value())), gather.index.eq(second),
            gather.last.eq(taken.payload.last), gather.barrier.eq(job.read_barrier),
            taken.valid.eq(asks & self.gather.ready), taken.payload.slot.eq(slot), taken.payload.second.eq(second),
            taken.payload.last.eq(second == job.second)]
        return m
