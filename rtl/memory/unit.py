"""The memory unit, joined."""

from functools import reduce
from operator import or_

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, fifo, memory
from amaranth.lib.wiring import connect, flipped
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.layouts import BLOCK_ADDRESS_BITS
from rtl.one_hot import chosen_of, one_hot
from rtl.params import WARP_THREADS, SmParams
from rtl.pick import pick

from .access import AccessInstruction, AccessStage
from .addresses import AddressStage
from .atomic import AtomicPipeline
from .banks import SharedBanks
from .crossbar import Crossbar
from .front import MemoryFront, gather_layout
from .instruction import (
    BeatKind,
    BeatOwner,
    MemoryInstruction,
    MemoryOperation,
    entry_bits,
    row_bits,
    slot_bits,
)
from .limits import AddressLimits
from .lines import MissQueue
from .operands import OperandMemory, PlaceMemory
from .ports import unit_ports
from .writeback import WriteBack

__all__ = ["MemoryUnit"]

_GATHERS = 8
"""Gathers that the lanes have taken and not brought yet, at most."""


class MemoryUnit(Component):
    """Executes the instructions of pipe MEMORY, several at a time.

    A warp's instructions access memory, and complete, in program order. Accesses of different warps to one line of
    memory, or to shared memory, happen one instruction after the other, in the order of dispatch. Of one instruction's
    threads the highest one's store stays where several meet, and atomic operations go thread by thread, ascending. An
    error in an address is the lowest thread's, and nothing has happened then. A fault that memory tells of (MMU_FAULT)
    comes before any register is written; but a store or an atomic operation may have changed other lines by then
    (ours). An instruction is complete when memory has answered all its lines.

    Words of local memory lie so that word k of thread t is word 32 * k + t of the warp's block. Constant banks begin at
    multiples of 16 bytes.

    Members
    -------
    dispatch : In(valid and dispatched)
        An instruction of kind MEMORY.
    room : Out(1)
        There is room for one whenever it comes, if it is selected now.
    port : Out(LaneClientPort)
        Registers. An instruction's last gather frees its read barrier; its last write completes it.
    completion : Out(completion)
        An instruction without a write is complete. One with an error is, too.
    error : Out(error_event)
        In the cycle of its instruction's completion.
    report_mask : In(32)
        Bit n: warp errors of code n are reported. An instruction with one that is not does nothing.
    grid : In(GridConfiguration)
    launch : In(valid and warp_launch)
    local_base : In(local_move)
        SETLMEMBASE; it is for instructions that come later.
    clear : In(stream of clear_request)
        Fills shared memory with zeros, as a CTA expects it; the transfer tells that it is done.
    memory : Out(MemoryPort)
    events : Out(MemoryEvents)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__(unit_ports(params))
        self.front = MemoryFront(params)
        self.limits = AddressLimits(params)
        self.addresses = AddressStage(params)
        self.places = PlaceMemory(params)
        self.operands = OperandMemory(params)
        self.access = AccessStage(params)
        self.queue = MissQueue(params)
        self.crossbar = Crossbar(params)
        self.atomic = AtomicPipeline(params)
        self.banks = SharedBanks(params)
        self.write_back = WriteBack(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ("front", "limits", "addresses", "places", "operands", "access", "queue", "crossbar", "atomic",
                     "banks", "write_back"):
            m.submodules[name] = getattr(self, name)
        self._front(m)
        self._addresses(m)
        self._access(m)
        self._banks(m)
        self._write_back(m)
        return m

    def _front(self, m: Module) -> None:
        """Dispatch; what is kept of each instruction in flight; gathers."""
        front, limits, back = self.front, self.limits, self.write_back
        connect(m, front.begun, back.begun)
        m.d.comb += [
            front.dispatch.valid.eq(self.dispatch.valid), front.dispatch.payload.eq(self.dispatch.payload),
            self.room.eq(front.room), limits.grid.eq(self.grid), limits.report_mask.eq(self.report_mask),
            limits.launch.eq(self.launch), limits.move.eq(self.local_base),
            limits.warp.eq(self.dispatch.payload.warp), front.local_base.eq(limits.local_base),
            front.busy.eq(back.busy)]

        # Operands are kept until nobody needs them any more: those of loads until the lines are found.
        begun, access, queue, count = front.begun, self.access, self.queue, 1 << slot_bits(self._params)
        kept, loads, entries = Signal(count), Signal(count), 1 << entry_bits(self._params)
        begins = one_hot(begun.payload.slot, count, begun.valid)
        of_access = reduce(or_, (one_hot(event.payload.slot, count, event.valid & (
            event.payload.owner == BeatOwner.ACCESS)) for event in (self.crossbar.closing, self.crossbar.closed)))
        finished, done, issued, filled = (one_hot(event.payload, count, event.valid) for event in (
            access.finished, self.atomic.done, queue.issued, queue.filled))
        m.d.comb += [
            back.ended.eq(finished | of_access | done), back.issued.eq(issued),
            front.kept.eq(Cat(Cat(kept[slot] for slot in range(entry, count, entries)).any()
                              for entry in range(entries)))]
        m.d.sync += [
            kept.eq((kept | begins) & ~(finished | of_access | done | filled | issued & loads | back.done)),
            loads.eq((loads & ~begins) | Mux(
                begun.payload.instruction.operation == MemoryOperation.LOAD, begins, 0))]

    def _addresses(self, m: Module) -> None:
        """What gathers bring: addresses to be judged, and data."""
        params, port = self._params, self.port
        front, limits, stage, operands, places = self.front, self.limits, self.addresses, self.operands, self.places
        gathered, begun, taken = port.gathered, front.begun.payload, front.taken
        m.submodules.gathers = gathers = fifo.SyncFIFO(width=gather_layout(params).size, depth=_GATHERS)
        gather, final = Signal(gather_layout(params)), gathered.beat == params.beats - 1
        m.d.comb += [
            gathers.w_en.eq(taken.valid), gathers.w_data.eq(taken.payload), gather.eq(gathers.r_data),
            gathers.r_en.eq(gathered.valid & final)]
        m.d.sync += [
            Assert(~taken.valid | gathers.w_rdy, "more gathers than there can be under way"),
            Assert(~gathered.valid | gathers.r_rdy, "a gather that nobody has asked for")]

        # The instruction that a gather is of.
        layout = data.StructLayout({
            "instruction": MemoryInstruction, "threads": WARP_THREADS, "local_base": BLOCK_ADDRESS_BITS})
        m.submodules.jobs = jobs = memory.Memory(shape=layout, depth=1 << slot_bits(params), init=[])
        note, job = jobs.write_port(), jobs.read_port(domain="comb")
        self._executing = jobs.read_port(domain="comb")
        m.d.comb += [
            note.en.eq(front.begun.valid), note.addr.eq(begun.slot), note.data.instruction.eq(begun.instruction),
            job.addr.eq(gather.slot), limits.of_base.eq(job.data.local_base),
            limits.of_bank.eq(job.data.instruction.bank), stage.job.slot.eq(gather.slot),
            stage.job.instruction.eq(job.data.instruction), stage.job.threads.eq(job.data.threads),
            stage.job.limits.eq(limits.limits)]
        m.d.comb += [note.data[name].eq(begun.job[name]) for name in ("threads", "local_base")]
        m.d.comb += [
            stage.valid.eq(gathered.valid), stage.addresses.eq(~gather.second), stage.last.eq(gather.last),
            stage.beat.eq(gathered.beat), operands.fill.eq(gathered.valid), operands.fill_slot.eq(gather.slot),
            operands.fill_second.eq(gather.second), operands.fill_beat.eq(gathered.beat),
            operands.filled.eq(gathered.values), places.write.eq(stage.write), places.write_slot.eq(stage.write_slot),
            places.write_beat.eq(stage.write_beat), places.written.eq(stage.places),
            places.shuffled.eq(stage.shuffled), places.sources.eq(stage.sources)]
        for lane, values in enumerate(gathered.values):
            m.d.comb += [stage.low[lane].eq(values[0]), stage.high[lane].eq(values[1])]

    def _access(self, m: Module) -> None:
        """Instructions in order, into lines of memory and beats of shared memory."""
        access, queue, back, places, params = self.access, self.queue, self.write_back, self.places, self._params
        begun, stage = self.front.begun, self.addresses
        connect(m, stage.judged, access.judged)
        connect(m, stage.early, access.early)
        connect(m, access.found, queue.found)
        connect(m, queue.memory, flipped(self.memory))
        m.d.comb += [
            access.idle.valid.eq(begun.valid & begun.payload.idle), access.idle.payload.eq(begun.payload.slot),
            self.limits.of_warp.eq(begun.payload.job.warp), places.begun.valid.eq(begun.valid),
            places.begun.payload.eq(begun.payload.slot),
            places.begun_base.eq(self.limits.shared_base[-row_bits(params):]),
            queue.begun.valid.eq(begun.valid), queue.begun.payload.eq(begun.payload.slot),
            places.line_slot.eq(access.line_slot), places.line_beat.eq(access.line_beat), access.lines.eq(places.lines),
            access.same.eq(places.same),
            access.fault.eq(queue.fault), access.lines_busy.eq(
                queue.busy | queue.pending.bit_select(access.line_slot, 1))]
        m.submodules.instructions = kept = memory.Memory(
            shape=AccessInstruction, depth=1 << slot_bits(params), init=[])
        note = kept.write_port()
        m.d.comb += [note.en.eq(begun.valid), note.addr.eq(begun.payload.slot)]
        m.d.comb += [note.data[name].eq(begun.payload.instruction[name]) for name in (
            "operation", "size", "words", "is_signed", "atomic", "compare")]
        for part, slot in ((access, access.slot), (self.atomic, self.atomic.next_slot)):
            read = kept.read_port(domain="comb")
            m.d.comb += [read.addr.eq(slot), part.instruction.eq(read.data)]
        m.d.comb += [
            back.judged.valid.eq(stage.judged.valid), back.judged.payload.eq(stage.judged.payload),
            back.loaded.eq(stage.loaded), back.inside.eq(stage.inside), back.pending.eq(queue.pending),
            back.fault.eq(queue.fault)]

    def _banks(self, m: Module) -> None:
        """The crossbar and the atomic operations take turns at the banks. Of those that want to pass, answers of memory
        go first, then lines that are filled, then shared memory; but a beat, and a line, is not left half done."""
        params, access, queue, crossbar, atomic = self._params, self.access, self.queue, self.crossbar, self.atomic
        banks, operands, places, back = self.banks, self.operands, self.places, self.write_back
        jobs = (queue.answer, queue.fill, access.job)
        wants, turn, kept = Signal(len(jobs)), Signal(len(jobs)), Signal(len(jobs))
        whole, open_ = Signal(), Signal()
        m.d.comb += [
            whole.eq(~crossbar.continues & ~queue.filling), open_.eq(~atomic.busy & ~(atomic.job.valid & whole)),
            wants.eq(Cat(job.valid for job in jobs)),
            turn.eq(Mux(crossbar.continues, kept, Cat(
                wants[place] & ~wants[:place].any() for place in range(len(jobs))))),
            crossbar.job.valid.eq(open_ & turn.any()),
            crossbar.job.payload.eq(chosen_of(turn, [job.payload.as_value() for job in jobs]))]
        m.d.comb += [job.ready.eq(crossbar.free & (mine & open_ & (crossbar.continues | job.payload.single)))
                     for job, mine in zip(jobs, turn, strict=True)]
        m.d.sync += kept.eq(turn)
        m.d.comb += [
            atomic.ready.eq(~crossbar.busy & whole), atomic.job.valid.eq(queue.atomic.valid | access.atomic.valid),
            atomic.job.payload.eq(Mux(
                queue.atomic.valid, queue.atomic.payload.as_value(), access.atomic.payload.as_value())),
            queue.quiet.eq(~crossbar.busy & ~atomic.busy), queue.atomic.ready.eq(atomic.job.ready),
            access.atomic.ready.eq(atomic.job.ready & ~queue.atomic.valid)]
        connect(m, atomic.modified, queue.modified)
        connect(m, crossbar.passed, queue.passed)
        connect(m, crossbar.closing, queue.closing)
        connect(m, flipped(self.clear), banks.clear)

        # Places and operands.
        m.d.comb += [
            places.beat.eq(Mux(atomic.busy, atomic.beat, crossbar.beat)),
            places.upper.eq(Mux(atomic.busy, atomic.upper, crossbar.upper)),
            places.slot.eq(Mux(atomic.busy, atomic.slot, crossbar.slot)),
            operands.place.eq(crossbar.operand), operands.mixed.eq(crossbar.mixed), crossbar.ahead.eq(atomic.ahead)]
        m.d.comb += [beat.eq(row) for beat, row in zip(operands.beats, crossbar.read.rows, strict=True)]
        for part in (crossbar, atomic):
            m.d.comb += [part.inner.eq(places.inner), part.base.eq(places.base), part.values.eq(operands.values)]

        # Banks, and what they give a cycle later.
        read = Signal.like(crossbar.read)
        in_lines, in_lanes = (Signal(32 * params.lanes, name=name) for name in ("in_lines", "in_lanes"))
        m.d.comb += read.eq(Mux(atomic.busy, atomic.read.as_value(), crossbar.read.as_value()))
        executing = self._executing
        m.d.comb += executing.addr.eq(read.slot)
        for lane, (value, row) in enumerate(zip(operands.first, read.rows, strict=True)):
            executes = pick(list(executing.data.threads[lane::params.lanes]), row[:ceil_log2(params.beats)])
            m.d.sync += [
                in_lines.word_select(lane, 32).eq(Mux(read.kind == BeatKind.LINE, queue.words[lane], 0)),
                in_lanes.word_select(lane, 32).eq(Mux((read.kind == BeatKind.LANES) & executes, value, 0))]
        # A row that is copied takes the place of what is stored, which is 0 then.
        write = Signal.like(crossbar.write)
        m.d.comb += [write.eq(crossbar.write), write.used.eq(crossbar.write.used | queue.copied)]
        for stored, passed, copied in zip(write.banks, crossbar.write.banks, queue.values, strict=True):
            m.d.comb += stored.value.eq(passed.value.as_value() | Mux(queue.copied, copied, 0))
        for memory_ in (banks, queue):
            m.d.comb += [memory_.read.eq(read), memory_.write.eq(write)]
        m.d.comb += [
            crossbar.found.eq(banks.values.as_value() | queue.values.as_value() | in_lines | in_lanes),
            crossbar.change.eq(atomic.change), atomic.changed.eq(crossbar.changed),
            atomic.found.eq(Cat(crossbar.words[:2]))]
        m.d.comb += [
            back.result.eq(Mux(atomic.busy, atomic.result.as_value(), crossbar.result.as_value())),
            self.events.line.eq(queue.asked), self.events.write.eq(queue.asked_write),
            self.events.shared.eq(crossbar.shared), self.events.atomic.eq(atomic.event)]

    def _write_back(self, m: Module) -> None:
        """Gathers and results, to the lanes."""
        port, back = self.port, self.write_back
        connect(m, self.front.gather, flipped(port.gather))
        connect(m, back.write, flipped(port.write))
        m.d.comb += [
            back.wanted.eq(port.wanted), port.values.eq(back.values), port.flags.eq(back.flags),
            back.report_mask.eq(self.report_mask), self.completion.eq(back.completion), self.error.eq(back.error)]
