"""The memory unit, joined."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import (
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
from .banks import SharedBanks, bank_access, clear_request
from .coalescer import MEMORY_UNIT_TAG_BITS, Coalescer
from .decode import MemoryDecoder
from .exchange import WordExchange
from .front import MemoryFront
from .gather import RegisterGather
from .instruction import MemoryEvents, MemoryInstruction, MemoryOperation, queued
from .limits import REPORT_BITS, AddressLimits, local_move
from .line import LineRegister
from .places import PlaceBuffer
from .queue import MemoryQueue
from .results import ResultWriter
from .sequence import MemorySequence
from .shuffle import ShuffleEngine
from .switch import WordSwitch
from .words import OperandBuffer, ResultBuffer

__all__ = ["MemoryUnit"]


class MemoryUnit(Component):
    """Executes the instructions of pipe MEMORY, one at a time and in order; they complete in that order too. While one
    is under way, the next one's registers are read and its addresses judged.

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
    local_base : In(local_move)
        SETLMEMBASE; it is for instructions that come later.
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
            "error": Out(error_event(params)), "report_mask": In(REPORT_BITS), "grid": In(GridConfiguration),
            "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)})),
            "local_base": In(local_move(params)),
            "clear": In(stream.Signature(clear_request(params))), "memory": Out(MemoryPort(MEMORY_UNIT_TAG_BITS)),
            "events": Out(MemoryEvents)})

    def elaborate(self, platform: object) -> Module:
        params = self._params
        m = Module()
        m.submodules.queue = queue = MemoryQueue(params)
        m.submodules.decoder = decoder = MemoryDecoder()
        m.submodules.front = front = MemoryFront(params)
        m.submodules.sequence = sequence = MemorySequence(params)
        m.submodules.gather = gather = RegisterGather(params)
        m.submodules.limits = limits = AddressLimits(params)
        m.submodules.addresses = addresses = AddressStage(params)
        m.submodules.places = places = PlaceBuffer(params)
        m.submodules.operands = operands = OperandBuffer(params)
        m.submodules.coalescer = coalescer = Coalescer(params)
        m.submodules.line = line = LineRegister(params)
        m.submodules.answers = answers = AnswerStage()
        m.submodules.banks = banks = SharedBanks(params)
        m.submodules.exchange = exchange = WordExchange(params)
        m.submodules.atomic = atomic = AtomicEngine(params)
        m.submodules.shuffle = shuffle = ShuffleEngine(params)
        m.submodules.switch = switch = WordSwitch(params)
        m.submodules.words = words = ResultBuffer(params)
        m.submodules.results = results = ResultWriter(params)

        # The next instruction, and the one that is under way.
        next_job: Any = Signal(queued(params))
        next_instruction: Any = Signal(MemoryInstruction)
        job: Any = Signal(queued(params))
        instruction: Any = Signal(MemoryInstruction)
        head, side = queue.head, Signal()
        m.d.comb += [
            queue.dispatch.eq(self.dispatch), self.room.eq(queue.room), decoder.word.eq(head.payload.word),
            head.ready.eq(front.begin), front.head_valid.eq(head.valid), sequence.ready.eq(front.ready),
            front.take.eq(sequence.take), operands.side.eq(side), places.side.eq(side)]
        with m.If(front.begin):
            m.d.sync += [next_job.eq(head.payload), next_instruction.eq(decoder.instruction)]
        with m.If(sequence.take):
            m.d.sync += [
                job.eq(next_job), instruction.eq(next_instruction), side.eq(~side), sequence.idle.eq(front.idle),
                sequence.spaces.eq(addresses.spaces), sequence.address_error.eq(addresses.error),
                sequence.address_thread.eq(addresses.thread)]
        for part in (front, gather, limits):
            m.d.comb += [part.job.eq(next_job), part.instruction.eq(next_instruction)]
        for part in (sequence, results):
            m.d.comb += [part.job.eq(job), part.instruction.eq(instruction)]
        for part in (atomic, shuffle):
            m.d.comb += part.instruction.eq(instruction)
        m.d.comb += [
            addresses.instruction.eq(next_instruction), sequence.report_mask.eq(self.report_mask),
            self.completion.eq(sequence.completion), self.error.eq(sequence.error)]

        # Registers: addresses and operands in, results out.
        self._lanes(m, gather, results)
        gathered, final = self.port.gathered, params.beats - 1
        m.d.comb += [
            gather.start.eq(front.gather), addresses.start.eq(front.gather),
            gather.arrived.eq(gathered.valid & (gathered.beat == final)),
            front.gathered.eq(gather.done & ~addresses.busy),
            addresses.valid.eq(gathered.valid & (gathered.index == 0)), addresses.beat.eq(gathered.beat),
            addresses.threads.eq(next_job.threads)]
        self._fill(m, operands, next_instruction)
        for lane in range(params.lanes):
            m.d.comb += [addresses.low[lane].eq(gathered.values[lane][0]),
                         addresses.high[lane].eq(gathered.values[lane][1])]
        m.d.comb += [
            limits.grid.eq(self.grid), limits.report_mask.eq(self.report_mask), limits.launch.eq(self.launch),
            limits.move.eq(self.local_base), limits.warp.eq(self.dispatch.payload.warp),
            queue.local_base.eq(limits.local_base), addresses.limits.eq(limits.limits)]
        m.d.comb += [
            places.write.eq(addresses.write), places.write_beat.eq(addresses.write_beat),
            places.written.eq(addresses.places)]

        # Lines of memory.
        request, access = self.memory.request, sequence.access
        asked, serving = Signal(), Signal()
        connect(m, coalescer.request, flipped(request))
        connect(m, flipped(self.memory.response), answers.response)
        m.d.comb += [
            asked.eq(request.valid & request.ready), serving.eq(exchange.busy | atomic.busy),
            coalescer.start.eq(sequence.lines), coalescer.job.eq(access), coalescer.places.eq(places.places),
            places.beat.eq(coalescer.beat), coalescer.tag.eq(answers.tag), coalescer.tag_free.eq(answers.tag_free),
            coalescer.stop.eq(answers.fault), coalescer.line.eq(line.line), coalescer.written.eq(line.written),
            coalescer.filling.eq(serving), coalescer.modified.eq(atomic.done), answers.start.eq(sequence.take),
            answers.note.eq(asked), answers.threads.eq(coalescer.threads), answers.serving.eq(serving),
            line.clear.eq(coalescer.clear), line.load.eq(answers.load),
            line.loaded.eq(self.memory.response.payload.data), sequence.fault.eq(answers.fault),
            sequence.lines_busy.eq(coalescer.busy | answers.busy | serving), sequence.shared_busy.eq(serving)]

        # The words of threads, and those of a line or of shared memory.
        serves, reads_line = sequence.shared | answers.serve, Signal()
        banked = Signal(bank_access(params))
        m.d.comb += [
            exchange.start.eq(coalescer.fill | serves & ~access.modify), exchange.job.eq(access),
            exchange.threads.eq(Mux(coalescer.fill, coalescer.threads, atomic.threads)),
            exchange.places.eq(places.inner), atomic.start.eq(serves & access.modify), atomic.line.eq(access.line),
            atomic.threads.eq(Mux(access.line, answers.served_threads, access.threads)),
            atomic.places.eq(places.inner), shuffle.start.eq(sequence.shuffle),
            shuffle.threads.eq(job.threads), sequence.shuffle_busy.eq(shuffle.busy),
            line.access.eq(banked), banks.access.eq(banked),
            banked.eq(Mux(atomic.busy, atomic.access.as_value(), exchange.access.as_value())),
            switch.words.eq(Mux(reads_line, line.values.as_value(), banks.values.as_value()))]
        m.d.sync += reads_line.eq(banked.line)
        with m.If(shuffle.busy | atomic.fetching):
            m.d.comb += switch.words.eq(operands.values)
        for part, turn in ((exchange, ~atomic.busy & ~shuffle.busy), (atomic, atomic.busy), (shuffle, shuffle.busy)):
            m.d.comb += [part.values.eq(operands.values), part.found.eq(switch.values)]
            with m.If(turn):
                m.d.comb += [
                    operands.beat.eq(part.beat), operands.word.eq(part.word), places.inner_beat.eq(part.beat),
                    switch.sources.eq(part.sources), words.write.eq(part.write)]
        connect(m, flipped(self.clear), banks.clear)

        # Results.
        spaces: Any = sequence.spaces
        m.d.comb += [
            results.start.eq(sequence.results), sequence.results_done.eq(results.done),
            results.inside.eq(shuffle.inside),
            results.loaded.eq(Mux(instruction.operation == MemoryOperation.SHUFFLE, shuffle.given,
                                  spaces.memory | spaces.local | spaces.shared)),
            words.beat.eq(results.beat), words.word.eq(results.word), results.words.eq(words.values),
            self.events.line.eq(asked), self.events.write.eq(request.payload.write),
            self.events.shared.eq(banked.used & ~banked.line), self.events.atomic.eq(atomic.event)]
        return m

    def _lanes(self, m: Module, gather: RegisterGather, results: ResultWriter) -> None:
        """A write goes before a gather, unless the gather has been offered already."""
        port, offered, gathers = self.port, Signal(), Signal()
        m.d.comb += [
            gathers.eq(offered | ~results.operation.valid),
            port.operation.valid.eq(gather.operation.valid | results.operation.valid),
            port.operation.payload.eq(Mux(
                gathers, gather.operation.payload.as_value(), results.operation.payload.as_value())),
            gather.operation.ready.eq(port.operation.ready & gathers),
            results.operation.ready.eq(port.operation.ready & ~gathers), results.wanted.eq(port.wanted),
            port.values.eq(results.values), port.flags.eq(results.flags)]
        m.d.sync += offered.eq(gathers & gather.operation.valid & ~port.operation.ready)

    def _fill(self, m: Module, operands: OperandBuffer, instruction: Any) -> None:
        """The first gather brings the first word behind the address, unless it is a shuffle's, which has none."""
        gathered, fill = self.port.gathered, operands.fill
        first = (gathered.index == 0) & (instruction.operation != MemoryOperation.SHUFFLE)
        m.d.comb += [
            fill.beat.eq(gathered.beat), fill.words.eq(Mux(gathered.valid, Mux(first, 0b0001, 0b1110), 0))]
        for lane, values in enumerate(gathered.values):
            m.d.comb += fill.values[0][lane].eq(values[2])
            m.d.comb += [fill.values[word + 1][lane].eq(value) for word, value in enumerate(values)]
