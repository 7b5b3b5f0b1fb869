"""The memory unit, joined."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import enum, fifo
from amaranth.lib.wiring import connect, flipped
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.layouts import Event
from rtl.one_hot import chosen_of, one_hot
from rtl.params import SmParams
from rtl.pick import pick
from rtl.structs import common_fields, struct_value
from rtl.words import Words

from .access import AccessInstruction, AccessStage
from .addresses import AddressStage, address_job
from .atomic import AtomicPipeline
from .banks import SharedBanks
from .crossbar import Crossbar, beat_half, half_content
from .front import MemoryFront, gather_layout, matched_beat
from .instruction import (
    BeatKind,
    BeatOwner,
    MemoryEvents,
    MemoryOperation,
    entry_bits,
    row_bits,
    slot_bits,
)
from .limits import AddressLimits
from .lines import MissQueue
from .operands import OperandMemory, PlaceMemory, slot_base
from .ports import unit_ports
from .writeback import ResultMasks, WriteBack, slot_accesses

__all__ = ["MemoryUnit"]

_GATHERS = 8
"""Gathers that the lanes have taken and not brought yet, at most."""


class CrossbarGrant(enum.Enum, shape=3):
    """The client whose beat passes the crossbar, one-hot."""

    NONE = 0
    ANSWER = 1
    """The miss queue's: words of a line that was read."""
    FILL = 2
    """The miss queue's: words that threads store, on their way into a line's buffer. Nothing comes
    from memory."""
    SHARED = 4
    """The access stage's: words of shared memory or of a shuffle."""


class MemoryUnit(Component):
    """Executes the instructions of pipe MEMORY, several at a time. ::

        dispatch --> FRONT --> gathers --> ADDRESSES --> ACCESS ---> MISS QUEUE <--> memory
                                  |                         |          |    |
                                  v                         v          v    |
                              operands ----------------> CROSSBAR <----'    |
                                  |                       ^    |            |
                                  '--> ATOMIC <-----------|----|------------'
                                                          v    v
                                       banks: shared memory,   WRITEBACK --> lanes
                                       lines, answer, operands

    A warp's instructions access memory, and complete, in program order. Accesses of different warps
    to one line of memory, or to shared memory, happen one instruction after the other, in the order
    of dispatch. If several threads of an instruction store to one address, the highest thread's
    value remains; atomic operations are executed thread by thread, ascending.

    Error: an error in an address is the lowest thread's. Then nothing is written: no register, no
    memory. Threads below the failing one still read their lines, also in a store, since a fault of
    theirs would be the lower thread's error. A fault that memory reports (MMU_FAULT) comes before
    any register is written; but a store or an atomic operation may have changed other lines by then
    (ours). An instruction is complete when memory has answered all its lines.

    Local memory is interleaved: word k of thread t is word 32 * k + t of the warp's block. Constant
    banks begin at multiples of 16 bytes.

    Priority: the crossbar is granted to an answer of memory first, then to a line that is filled,
    then to shared memory. Atomic operations have it for themselves: they begin when no beat and no
    filled line is half done, and nothing else is granted from then on.

    Members
    -------
    dispatch : In(Event of dispatched)
        An instruction of kind MEMORY.
    room : Out(1)
        The unit will have room for an instruction that issue selects in this cycle.
    port : Out(LaneClientPort)
        Registers. An instruction's last gather frees its read barrier; its last write completes it.
    completion : Out(Event of completion)
        An instruction without a write is complete. One with an error is, too.
    error : Out(Event of error_event)
        In the cycle of its instruction's completion.
    report_mask : In(32)
        Bit n: warp errors of code n are reported. An instruction with one that is not does nothing.
    grid : In(GridConfiguration)
    launch : In(Event of warp_launch)
    local_base : In(Event of local_move)
        SETLMEMBASE; it applies to later instructions.
    clear : In(stream of shared_clear)
        Fills shared memory with zeros, before a CTA starts; the transfer acknowledges it.
    memory : Out(MemoryPort)
    events : Out(MemoryEvents)

    Attributes
    ----------
    jobs, instructions : Words
        By slot: what the address stage needs of an instruction, and which threads execute it; what
        the stages behind it need.
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
        slots = 1 << slot_bits(params)
        self.jobs = Words(address_job(params), slots)
        self.instructions = Words(AccessInstruction, slots)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.front = self.front
        m.submodules.limits = self.limits
        m.submodules.addresses = self.addresses
        m.submodules.places = self.places
        m.submodules.operands = self.operands
        m.submodules.access = self.access
        m.submodules.queue = self.queue
        m.submodules.crossbar = self.crossbar
        m.submodules.atomic = self.atomic
        m.submodules.banks = self.banks
        m.submodules.write_back = self.write_back
        m.submodules.jobs = self.jobs
        m.submodules.instructions = self.instructions
        self._connect_dispatch(m)
        self._keep_instruction(m)
        self._connect_registers(m)
        self._connect_addresses(m)
        self._connect_access(m)
        self._track_operands(m)
        self._grant_crossbar(m)
        self._connect_atomic(m)
        self._select_threads(m)
        self._connect_banks(m)
        self._connect_write_back(m)
        self._connect_events(m)
        return m

    def _connect_dispatch(self, m: Module) -> None:
        """Instructions are dispatched, get a slot, and are gathered for; limits of warps."""
        front = self.front
        limits = self.limits
        connect(m, flipped(self.dispatch), front.dispatch)
        m.d.comb += self.room.eq(front.room)
        m.d.comb += front.busy.eq(self.write_back.busy)
        m.d.comb += front.local_base.eq(limits.local_base)
        m.d.comb += limits.dispatched_warp.eq(self.dispatch.payload.warp)
        m.d.comb += limits.grid.eq(self.grid)
        m.d.comb += limits.report_mask.eq(self.report_mask)
        connect(m, flipped(self.launch), limits.launch)
        connect(m, flipped(self.local_base), limits.move)
        connect(m, front.gather, flipped(self.port.gather))
        connect(m, front.begun, self.write_back.begun)

    def _keep_instruction(self, m: Module) -> None:
        """What is kept of an instruction that gets a slot."""
        valid = self.front.begun.valid
        begun = self.front.begun.payload
        job = struct_value(
            address_job(self._params),
            instruction=begun.instruction,
            threads=begun.job.threads,
            local_base=begun.job.local_base)
        self.jobs.write(m, valid, begun.slot, job)
        access_instruction: Any = Signal(AccessInstruction)
        m.d.comb += common_fields(access_instruction, begun.instruction)
        self.instructions.write(m, valid, begun.slot, access_instruction)
        access = self.access
        atomic = self.atomic
        m.d.comb += access.instruction.eq(self.instructions.read(m, access.slot))
        m.d.comb += atomic.instruction.eq(self.instructions.read(m, atomic.next_slot))

        # Where shared memory of its CTA begins, in rows.
        new_base = self.places.new_base
        shared_row = self.limits.shared_base[-row_bits(self._params):]
        m.d.comb += self.limits.allocated_warp.eq(begun.job.warp)
        m.d.comb += new_base.valid.eq(valid)
        m.d.comb += new_base.payload.eq(struct_value(
            slot_base(self._params), slot=begun.slot, base=shared_row))

        m.d.comb += self.queue.begun.valid.eq(valid)
        m.d.comb += self.queue.begun.payload.eq(begun.slot)
        m.d.comb += self.access.idle.valid.eq(valid & begun.idle)
        m.d.comb += self.access.idle.payload.eq(begun.slot)

    def _connect_registers(self, m: Module) -> None:
        """Registers that the lanes have read, to the address stage and the operands. Gathers return
        in the order in which the lanes accepted them."""
        gathered = self.port.data.gathered
        taken = self.front.taken
        gather_width = gather_layout(self._params).size
        registers: Any = Event(matched_beat(self._params)).create()
        m.submodules.gathers = gathers = fifo.SyncFIFO(width=gather_width, depth=_GATHERS)
        is_last_beat = gathered.payload.beat == self._params.beats - 1
        m.d.comb += gathers.w_en.eq(taken.valid)
        m.d.comb += gathers.w_data.eq(taken.payload)
        m.d.comb += gathers.r_en.eq(gathered.valid & is_last_beat)
        m.d.comb += registers.valid.eq(gathered.valid)
        m.d.comb += registers.payload.eq(struct_value(
            matched_beat(self._params), gather=gathers.r_data, data=gathered.payload))
        connect(m, registers, self.addresses.registers, self.operands.registers)
        m.d.sync += Assert(
            ~taken.valid | gathers.w_rdy, "more gathers than there can be under way")
        m.d.sync += Assert(
            ~gathered.valid | gathers.r_rdy, "a gather that was not requested")

    def _connect_addresses(self, m: Module) -> None:
        """Addresses that a gather has brought are judged; places of threads are kept."""
        stage = self.addresses
        job = self.jobs.read(m, stage.registers.payload.gather.slot)
        m.d.comb += stage.job.eq(job)
        m.d.comb += self.limits.bank.eq(job.instruction.bank)
        m.d.comb += stage.limits.eq(self.limits.limits)
        connect(m, stage.places, self.places.places)
        m.d.comb += self.places.sources.eq(stage.sources)

    def _connect_access(self, m: Module) -> None:
        """Instructions in order, into lines of memory and beats of shared memory."""
        access = self.access
        queue = self.queue
        connect(m, self.addresses.judged, access.judged, self.write_back.judged)
        connect(m, self.addresses.early, access.early)
        connect(m, access.found, queue.found)
        connect(m, queue.memory, flipped(self.memory))
        connect(m, access.lines, self.places.lines)
        m.d.comb += access.fault.eq(queue.fault)
        m.d.comb += access.lines_busy.eq(
            queue.busy | queue.pending.bit_select(access.slot, 1))

    def _track_operands(self, m: Module) -> None:
        """Which instructions still need their entry: its operands and the lines of its threads. A
        load needs it until its lines have tags, a store until its words are in lines or banks,
        others until they are done. Slots with the same low bits share an entry."""
        front = self.front
        queue = self.queue
        crossbar = self.crossbar
        back = self.write_back
        begun = front.begun.payload
        slots = 1 << slot_bits(self._params)
        entries = 1 << entry_bits(self._params)

        def slot_of(event: Any) -> Value:
            return one_hot(event.payload, slots, event.valid)

        def access_of(event: Any) -> Value:
            is_access = event.payload.owner == BeatOwner.ACCESS
            return one_hot(event.payload.slot, slots, event.valid & is_access)

        begins = Signal(slots)
        ended = Signal(slots)
        loads = Signal(slots)
        in_use = Signal(slots)
        issued = slot_of(queue.issued)
        is_load = begun.instruction.operation == MemoryOperation.LOAD
        m.d.comb += begins.eq(one_hot(begun.slot, slots, front.begun.valid))
        m.d.comb += ended.eq(
            slot_of(self.access.finished) | slot_of(self.atomic.done)
            | access_of(crossbar.closing) | access_of(crossbar.closed))
        m.d.sync += loads.eq((loads & ~begins) | Mux(is_load, begins, 0))
        needless = ended | slot_of(queue.filled) | (issued & loads) | back.done
        m.d.sync += in_use.eq((in_use | begins) & ~needless)
        for entry in range(entries):
            sharing = Cat(in_use[slot] for slot in range(entry, slots, entries))
            m.d.comb += front.kept[entry].eq(sharing.any())
        m.d.comb += back.accesses.eq(struct_value(
            slot_accesses(self._params),
            ended=ended,
            issued=issued,
            pending=queue.pending,
            fault=queue.fault))

    def _grant_crossbar(self, m: Module) -> None:
        """Whose beat passes the crossbar next. The second half of a beat follows the first one."""
        queue = self.queue
        crossbar = self.crossbar
        atomic = self.atomic
        grant = Signal(CrossbarGrant)
        last_grant = Signal(CrossbarGrant)
        m.d.sync += last_grant.eq(grant)
        with m.If(crossbar.continues):
            m.d.comb += grant.eq(last_grant)
        with m.Elif(queue.answer.valid):
            m.d.comb += grant.eq(CrossbarGrant.ANSWER)
        with m.Elif(queue.fill.valid):
            m.d.comb += grant.eq(CrossbarGrant.FILL)
        with m.Elif(self.access.job.valid):
            m.d.comb += grant.eq(CrossbarGrant.SHARED)

        # Atomic operations wait until nothing is half done, and keep others back from then on.
        nothing_is_half_done = ~crossbar.continues & ~queue.filling
        is_open = Signal()
        m.d.comb += is_open.eq(~atomic.busy & ~(atomic.job.valid & nothing_is_half_done))
        m.d.comb += atomic.ready.eq(nothing_is_half_done & ~crossbar.busy)

        jobs = (queue.answer, queue.fill, self.access.job)
        granted = grant.as_value()
        m.d.comb += crossbar.job.valid.eq(is_open & granted.any())
        m.d.comb += crossbar.job.payload.eq(
            chosen_of(granted, [job.payload.as_value() for job in jobs]))
        for job, is_granted in zip(jobs, granted, strict=True):
            is_last_half = crossbar.continues | job.payload.single
            m.d.comb += job.ready.eq(is_granted & is_open & crossbar.free & is_last_half)
        connect(m, crossbar.passed, queue.passed)
        connect(m, crossbar.closing, queue.closing)

    def _connect_atomic(self, m: Module) -> None:
        """Atomic operations in lines have priority over those in shared memory."""
        queue = self.queue
        access = self.access
        crossbar = self.crossbar
        atomic = self.atomic
        with m.If(queue.atomic.valid):
            connect(m, queue.atomic, atomic.job)
        with m.Else():
            connect(m, access.atomic, atomic.job)
        m.d.comb += queue.quiet.eq(~crossbar.busy & ~atomic.busy)
        connect(m, atomic.modified, queue.modified)
        connect(m, atomic.crossbar, crossbar.atomic)

    def _select_threads(self, m: Module) -> None:
        """Whose places and operands are read: the atomic operations' or the crossbar's."""
        places = self.places
        operands = self.operands
        crossbar = self.crossbar
        atomic = self.atomic
        half: Any = Signal(beat_half(self._params))
        with m.If(atomic.busy):
            m.d.comb += half.eq(atomic.half)
        with m.Else():
            m.d.comb += half.eq(crossbar.half)
        m.d.comb += places.slot.eq(half.slot)
        m.d.comb += places.beat.eq(half.beat)
        m.d.comb += places.upper.eq(half.upper)
        m.d.comb += operands.place.eq(crossbar.operand)
        m.d.comb += operands.mixed.eq(crossbar.mixed)
        for beat, row in zip(operands.beats, crossbar.read.rows, strict=True):
            m.d.comb += beat.eq(row)
        content = struct_value(
            half_content(self._params),
            inner=places.inner,
            base=places.base,
            values=operands.values)
        m.d.comb += crossbar.content.eq(content)
        m.d.comb += atomic.content.eq(content)

    def _connect_banks(self, m: Module) -> None:
        """The banks: shared memory, lines, memory's answer, and for shuffles the lanes' operands.
        Each gives 0 where another one is read, so that what was read is the OR of all."""
        lines = self.queue.lines
        crossbar = self.crossbar
        banks = self.banks
        read = Signal.like(crossbar.read)
        with m.If(self.atomic.busy):
            m.d.comb += read.eq(self.atomic.read)
        with m.Else():
            m.d.comb += read.eq(crossbar.read)

        # A row that is copied takes the place of what is stored, which is 0 then.
        write = Signal.like(crossbar.write)
        m.d.comb += write.eq(crossbar.write)
        m.d.comb += write.used.eq(crossbar.write.used | lines.copied)
        for bank, (stored, copied) in enumerate(
                zip(crossbar.write.banks, lines.values, strict=True)):
            m.d.comb += write.banks[bank].value.eq(
                stored.value.as_value() | Mux(lines.copied, copied, 0))

        connect(m, flipped(self.clear), banks.clear)
        for part in (banks, lines):
            m.d.comb += part.read.eq(read)
            m.d.comb += part.write.eq(write)
        from_lines = self._read_lines(m, read)
        from_lanes = self._read_lanes(m, read)
        m.d.comb += crossbar.found.eq(
            banks.values.as_value() | lines.values.as_value() | from_lines | from_lanes)

    def _read_lines(self, m: Module, read: Any) -> Signal:
        """Words of the line of a tag, a cycle later."""
        words = Signal(32 * self._params.lanes)
        is_read = read.kind == BeatKind.LINE
        for lane, value in enumerate(self.queue.lines.words):
            m.d.sync += words.word_select(lane, 32).eq(Mux(is_read, value, 0))
        return words

    def _read_lanes(self, m: Module, read: Any) -> Signal:
        """First operands of threads, for shuffles, a cycle later; 0 for threads that do not execute
        the instruction. A thread's bank and row are its lane and beat."""
        lanes = self._params.lanes
        words = Signal(32 * lanes)
        job = self.jobs.read_port(domain="comb")
        is_read = read.kind == BeatKind.LANES
        m.d.comb += job.addr.eq(read.slot)
        for lane, value in enumerate(self.operands.first):
            beat = read.rows[lane][:ceil_log2(self._params.beats)]
            executes = pick(list(job.data.threads[lane::lanes]), beat)
            m.d.sync += words.word_select(lane, 32).eq(Mux(is_read & executes, value, 0))
        return words

    def _connect_write_back(self, m: Module) -> None:
        """Results, to the lanes."""
        port = self.port
        back = self.write_back
        stage = self.addresses
        with m.If(self.atomic.busy):
            m.d.comb += back.result.eq(self.atomic.result)
        with m.Else():
            m.d.comb += back.result.eq(self.crossbar.result)
        m.d.comb += back.masks.eq(struct_value(
            ResultMasks, loaded=stage.loaded, inside=stage.inside))
        m.d.comb += back.report_mask.eq(self.report_mask)
        connect(m, flipped(port.data.wanted), back.wanted)
        connect(m, back.write, flipped(port.write))
        m.d.comb += port.data.values.eq(back.values)
        m.d.comb += port.data.flags.eq(back.flags)
        connect(m, back.completion, flipped(self.completion))
        connect(m, back.error, flipped(self.error))

    def _connect_events(self, m: Module) -> None:
        """Events, for counters."""
        request = self.memory.request
        m.d.comb += self.events.eq(struct_value(
            MemoryEvents,
            line=request.valid & request.ready,
            write=request.payload.write,
            shared=self.crossbar.shared,
            atomic=self.atomic.event))
