"""The memory unit, joined."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import (
    BLOCK_ADDRESS_BITS,
    CONSTANT_BANKS,
    GridConfiguration,
    LaneClientPort,
    MemoryPort,
    completion,
    dispatched,
    error_event,
    warp_launch,
)
from rtl.params import SmParams

from .addresses import AddressStage
from .answers import AnswerStage
from .atomic import AtomicEngine
from .banks import SharedBanks, clear_request
from .choose import pick
from .coalescer import MEMORY_UNIT_TAG_BITS, Coalescer
from .decode import MemoryDecoder
from .gather import RegisterGather
from .instruction import MemoryEvents, MemoryInstruction, MemoryOperation, queued
from .line import LineRegister
from .places import PlaceBuffer
from .queue import MemoryQueue
from .results import ResultWriter
from .sequence import MemorySequence, WordUser
from .shared import SharedPass
from .shuffle import SHUFFLE_CLAMP, SHUFFLE_STEP, SHUFFLE_VALUE, ShuffleEngine
from .words import WordBuffer

__all__ = ["MemoryUnit"]

_REPORT_BITS = 32


class MemoryUnit(Component):
    """Executes the instructions of pipe MEMORY, one at a time and in order; they complete in that order too.

    A warp's accesses happen in program order, each as a whole before the next begins. Of one instruction's threads the
    highest one's store stays where several meet, and atomic operations go thread by thread, ascending. An error in an
    address is the lowest thread's, and nothing has happened then. A fault that memory tells of (MMU_FAULT) comes before
    any register is written; but a store or an atomic operation may have changed other lines by then (ours).

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
    local_base : In(valid, warp, base)
        A warp's block of local memory is elsewhere for instructions that come later (SETLMEMBASE), in units of the CRS
        granule.
    clear : In(stream of clear_request)
        Fills shared memory with zeros, as a CTA expects it; the transfer tells that it is done.
    memory : Out(MemoryPort)
    events : Out(MemoryEvents)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})), "room": Out(1),
            "port": Out(LaneClientPort(params)), "completion": Out(completion(params)),
            "error": Out(error_event(params)), "report_mask": In(_REPORT_BITS), "grid": In(GridConfiguration),
            "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)})),
            "local_base": In(data.StructLayout({
                "valid": 1, "warp": params.warp_bits, "base": BLOCK_ADDRESS_BITS})),
            "clear": In(stream.Signature(clear_request(params))), "memory": Out(MemoryPort(MEMORY_UNIT_TAG_BITS)),
            "events": Out(MemoryEvents)})

    def elaborate(self, platform: object) -> Module:
        params = self._params
        m = Module()
        m.submodules.queue = queue = MemoryQueue(params)
        m.submodules.decoder = decoder = MemoryDecoder()
        m.submodules.sequence = sequence = MemorySequence(params)
        m.submodules.gather = gather = RegisterGather(params)
        m.submodules.addresses = addresses = AddressStage(params)
        m.submodules.places = places = PlaceBuffer(params)
        m.submodules.words = words = WordBuffer(params)
        m.submodules.coalescer = coalescer = Coalescer(params)
        m.submodules.line = line = LineRegister(params)
        m.submodules.answers = answers = AnswerStage(params)
        m.submodules.shared = shared = SharedPass(params)
        m.submodules.atomic = atomic = AtomicEngine(params)
        m.submodules.banks = banks = SharedBanks(params)
        m.submodules.shuffle = shuffle = ShuffleEngine(params)
        m.submodules.results = results = ResultWriter(params)

        # The instruction that is under way.
        job: Any = Signal(queued(params))
        instruction: Any = Signal(MemoryInstruction)
        head = queue.head
        m.d.comb += [
            queue.dispatch.eq(self.dispatch), self.room.eq(queue.room), decoder.word.eq(head.payload.word),
            head.ready.eq(sequence.begin), sequence.head_valid.eq(head.valid)]
        with m.If(sequence.begin):
            m.d.sync += [job.eq(head.payload), instruction.eq(decoder.instruction)]
        for part in (sequence, gather, results):
            m.d.comb += [part.job.eq(job), part.instruction.eq(instruction)]
        for part in (addresses, atomic, shuffle):
            m.d.comb += part.instruction.eq(instruction)
        m.d.comb += [
            sequence.report_mask.eq(self.report_mask), self.completion.eq(sequence.completion),
            self.error.eq(sequence.error)]

        # Registers: addresses and operands in, results out.
        self._lanes(m, gather, results)
        gathered, final = self.port.gathered, params.beats - 1
        m.d.comb += [
            gather.start.eq(sequence.gather), addresses.start.eq(sequence.gather),
            gather.arrived.eq(gathered.valid & (gathered.beat == final)),
            sequence.gathered.eq(gather.done & ~addresses.busy),
            addresses.valid.eq(gathered.valid & (gathered.index == 0)), addresses.beat.eq(gathered.beat),
            addresses.threads.eq(job.threads)]
        self._fill(m, words, instruction)
        for lane in range(params.lanes):
            m.d.comb += [addresses.low[lane].eq(gathered.values[lane][0]),
                         addresses.high[lane].eq(gathered.values[lane][1])]
        self._limits(m, queue, addresses, job, instruction.bank)
        m.d.comb += [
            places.write.eq(addresses.write), places.write_beat.eq(addresses.write_beat),
            places.written.eq(addresses.places), sequence.spaces.eq(addresses.spaces),
            sequence.address_error.eq(addresses.error), sequence.address_thread.eq(addresses.thread)]

        # Lines of memory.
        request = self.memory.request
        connect(m, coalescer.request, flipped(request))
        connect(m, flipped(self.memory.response), answers.response)
        m.d.comb += [
            coalescer.start.eq(sequence.lines), answers.start.eq(sequence.gather), coalescer.job.eq(sequence.line_job),
            answers.job.eq(sequence.line_job), answers.signed.eq(instruction.is_signed),
            coalescer.tag.eq(answers.tag), coalescer.tag_free.eq(answers.tag_free), coalescer.stop.eq(answers.fault),
            answers.note.eq(request.valid & request.ready), answers.threads.eq(coalescer.threads),
            line.clear.eq(coalescer.clear), line.load.eq(answers.load), line.loaded.eq(
                self.memory.response.payload.data),
            line.merge.eq(Mux(atomic.busy, atomic.merge.as_value(), coalescer.merge.as_value())),
            coalescer.line.eq(line.line), coalescer.written.eq(line.written), answers.line.eq(line.line),
            places.offset_beat.eq(answers.offset_beat), answers.offsets.eq(places.offsets),
            coalescer.modified.eq(atomic.done), sequence.lines_busy.eq(coalescer.busy | answers.busy),
            sequence.fault.eq(answers.fault)]

        # Shared memory, and atomic operations there or on a line.
        m.d.comb += [
            shared.start.eq(sequence.shared), shared.job.eq(sequence.shared_job), sequence.shared_busy.eq(shared.busy),
            atomic.start.eq(sequence.atomic | answers.modify), atomic.shared.eq(sequence.atomic),
            atomic.threads.eq(Mux(sequence.atomic, addresses.spaces.shared, answers.modify_threads)),
            atomic.line.eq(line.line), sequence.atomic_busy.eq(atomic.busy), banks.used.eq(shared.used | atomic.used),
            banks.access.eq(Mux(atomic.busy, atomic.access.as_value(), shared.access.as_value())),
            shared.read.eq(banks.values), atomic.read.eq(banks.values)]
        connect(m, flipped(self.clear), banks.clear)

        # Shuffles, and whose turn with the words it is.
        m.d.comb += [
            shuffle.start.eq(sequence.shuffle), sequence.shuffle_busy.eq(shuffle.busy),
            results.start.eq(sequence.results), sequence.results_done.eq(results.done),
            results.inside.eq(shuffle.inside), words.beat.eq(results.beat)]
        users = {WordUser.LINES: coalescer, WordUser.SHARED: shared, WordUser.ATOMIC: atomic,
                 WordUser.SHUFFLE: shuffle}
        user = Signal(WordUser)
        m.d.comb += user.eq(Mux(atomic.busy, WordUser.ATOMIC, sequence.user))
        with m.Switch(user):
            for name, part in users.items():
                with m.Case(name):
                    m.d.comb += [
                        words.beat.eq(part.beat), words.write.eq((answers if part is coalescer else part).write),
                        places.beat.eq(shared.beat if part is shuffle else part.beat)]
        for part in (coalescer, shared, atomic):
            m.d.comb += [part.places.eq(places.places), part.values.eq(words.values)]
        m.d.comb += [
            shuffle.values.eq(words.values), results.words.eq(words.values),
            self.events.line.eq(request.valid & request.ready), self.events.write.eq(request.payload.write),
            self.events.shared.eq(shared.used), self.events.atomic.eq(atomic.event)]
        return m

    def _lanes(self, m: Module, gather: RegisterGather, results: ResultWriter) -> None:
        """A gather and a write never want the lanes at the same time."""
        port = self.port
        m.d.comb += [
            port.operation.valid.eq(gather.operation.valid | results.operation.valid),
            port.operation.payload.eq(Mux(
                gather.operation.valid, gather.operation.payload.as_value(), results.operation.payload.as_value())),
            gather.operation.ready.eq(port.operation.ready), results.operation.ready.eq(port.operation.ready),
            results.wanted.eq(port.wanted), port.values.eq(results.values), port.flags.eq(results.flags)]

    def _fill(self, m: Module, words: WordBuffer, instruction: Any) -> None:
        """The first gather brings the first word, and zeros for the others; a shuffle has a way of its own."""
        gathered, fill = self.port.gathered, words.fill
        shuffles = instruction.operation == MemoryOperation.SHUFFLE
        m.d.comb += [
            fill.beat.eq(gathered.beat),
            fill.words.eq(Mux(gathered.valid, Mux(gathered.index == 0, 0b1111, 0b1110), 0))]
        for lane, values in enumerate(gathered.values):
            with m.If(gathered.index != 0):
                m.d.comb += [fill.values[word + 1][lane].eq(values[word]) for word in range(len(values))]
            with m.Elif(shuffles):
                m.d.comb += [fill.values[word][lane].eq(value) for word, value in zip(
                    (SHUFFLE_VALUE, SHUFFLE_STEP, SHUFFLE_CLAMP), values, strict=True)]
            with m.Else():
                m.d.comb += fill.values[0][lane].eq(values[2])

    def _limits(self, m: Module, queue: MemoryQueue, addresses: AddressStage, job: Any, bank: Signal) -> None:
        """What addresses count from, and where they end. A move of local memory is for instructions that come later."""
        params, launch, moved, limits = self._params, self.launch, self.local_base, addresses.limits
        ports = []
        for name, shape in (("shared_base", params.shared_bits), ("local_base", BLOCK_ADDRESS_BITS)):
            m.submodules[name] = kept = memory.Memory(shape=shape, depth=params.warps, init=[])
            write, read = kept.write_port(), kept.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(launch.valid), write.addr.eq(launch.payload.warp), write.data.eq(launch.payload[name])]
            ports.append((write, read))
        (_, shared), (local_write, local) = ports
        with m.If(moved.valid):
            m.d.comb += [local_write.en.eq(1), local_write.addr.eq(moved.warp), local_write.data.eq(moved.base)]
        m.d.comb += [
            shared.addr.eq(job.warp), local.addr.eq(self.dispatch.payload.warp), queue.local_base.eq(local.data),
            limits.shared_base.eq(shared.data), limits.local_base.eq(job.local_base),
            limits.shared.eq(self.grid.shared), limits.local.eq(self.grid.local),
            limits.report_constants.eq(self.report_mask[WarpError.INVALID_CONST_ADDR_LDC.value])]
        with m.If(bank < CONSTANT_BANKS):
            m.d.comb += limits.bank.eq(pick(self.grid.banks, bank))
