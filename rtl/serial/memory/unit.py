"""The memory unit of the serial machine."""

from typing import Any, cast

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import Out, connect, flipped
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.kinds import AtomicOperation, ShuffleMode
from rtl.isa.syntax import PT, RZ, WORD_BITS
from rtl.isa.tokens import CRS_GRANULE
from rtl.layouts import BLOCK_ADDRESS_BITS, CONSTANT_BANKS, SERIAL_BITS, BeatPort, ConstantBank
from rtl.memory.addresses import PAST_WINDOWS, WINDOW_BITS, in_segment, shuffle_reach
from rtl.memory.decode import MemoryDecoder, data_register
from rtl.memory.instruction import WORDS, MemoryOperation, MemorySpace, memory_tag_bits
from rtl.memory.ports import unit_ports
from rtl.params import ADDRESS_BITS, LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS, SmParams
from rtl.pick import pick
from rtl.sums import sum_with_carry
from rtl.wires import IN_BLOCKS, ONE_HOT

from .accumulator import Accumulator, Combination, Step
from .words import WordAccess

__all__ = ["SerialMemoryUnit"]

_THREAD_BITS = ceil_log2(WARP_THREADS)
_WORD_BITS = 2
"""Lower bits of an address, which tell where in its word it is."""
_ADDRESS, _DATA, _RESULT = 0, WORDS, 2 * WORDS
"""Where the notes of each thread are: its address, two words; its data; its results."""
_NOTE_BITS = 4
_BLOCK_SHIFT = ceil_log2(CRS_GRANULE) - _THREAD_BITS
"""Where a block of local memory begins, among the places of the words of one thread."""
_ERRORS = (WarpError.MMU_FAULT, WarpError.OOR_ADDR, WarpError.MISALIGNED_ADDR, WarpError.INVALID_ADDR_SPACE,
           WarpError.INVALID_CONST_ADDR_LDC)


class SerialMemoryUnit(Component):
    """Executes one instruction of pipe MEMORY, thread by thread, ascending, and word by word.

    Registers are gathered one by one into the notes of the threads. Then a thread's address is summed up, judged, and
    becomes a place; its words are read or written there, one after the other; what it gets goes to its notes. At the
    end these go to the registers. A store or an atomic operation judges all addresses before: if one is wrong, the
    threads below only read.

    Members are those of :class:`~rtl.memory.MemoryUnit`. There is always room.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            **unit_ports(params), "memory": Out(BeatPort(memory_tag_bits(params)))})
        self.decoder = MemoryDecoder(params.floats)
        self.accumulator = Accumulator()
        self.words = WordAccess(params)
        self.notes = memory.Memory(
            shape=data.StructLayout({"value": 32, "flag": 1}), depth=WARP_THREADS << _NOTE_BITS, init=[],
            attrs=IN_BLOCKS)
        job: Any = Signal(data.StructLayout({
            "warp": params.warp_bits, "serial": SERIAL_BITS, "pc": 32, "word": WORD_BITS, "threads": WARP_THREADS,
            "write_barrier": 3, "read_barrier": 3}))
        self._job = job
        self._instruction: Any = Signal(self.decoder.instruction.shape())
        self._note = self.notes.write_port()
        self._reads = self.notes.read_port(domain="comb")
        self._noted: Any = Signal(self.notes.shape)

        # Where it is: the thread, its word; whether addresses are judged, and whether one is wrong.
        self._thread, self._word = Signal(_THREAD_BITS), Signal(ceil_log2(WORDS))
        self._judged, self._bad = Signal(), Signal()
        self._executes, self._last_word, self._chosen = Signal(), Signal(), Signal(_THREAD_BITS)
        # A thread's address: the part above the accumulator, and what is above all addresses; then its place.
        self._high, self._above, self._carry = Signal(ADDRESS_BITS - 32), Signal(), Signal()
        self._in_shared, self._in_local, self._zero = Signal(), Signal(), Signal()
        self._place, self._source, self._inside = Signal(ADDRESS_BITS), Signal(_THREAD_BITS), Signal()
        # Of an atomic operation.
        self._compared, self._less, self._differs, self._old = Signal(), Signal(), Signal(), Signal()
        self._error, self._failed = Signal(WarpError), Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = self.decoder
        m.submodules.accumulator = self.accumulator
        m.submodules.words = self.words
        m.submodules.notes = self.notes
        self._limits(m)
        self._ports(m)
        with m.FSM() as steps:
            self._begin(m)
            self._threads(m)
            self._addresses(m)
            self._access(m)
            self._change(m)
            self._end(m)
        cast("Any", steps).state.attrs.update(ONE_HOT)
        m.d.sync += Assert(~self.dispatch.valid | steps.ongoing("IDLE"), "an instruction before the last one has ended")
        return m

    def _read(self, m: Module, kind: Any, thread: Any = None) -> None:
        """A note of a thread, in the next cycle."""
        m.d.comb += self._reads.addr.eq(Cat(self._thread if thread is None else thread, Value.cast(kind)))

    def _write(self, m: Module, kind: Any, value: Any, flag: Any = 0) -> None:
        m.d.comb += [
            self._note.en.eq(1), self._note.addr.eq(Cat(self._thread, Value.cast(kind))),
            self._note.data.value.eq(value), self._note.data.flag.eq(flag)]

    def _of_word(self, kind: int) -> Value:
        """The kind of note that a word has among those from this one on."""
        return Cat(self._word, Const(kind >> len(self._word), _NOTE_BITS - len(self._word)))

    def _limits(self, m: Module) -> None:
        """Where each warp's memory begins."""
        params, launch, move = self._params, self.launch, self.local_base
        for name, shape, target in (("shared_base", params.shared_bits, "shared"),
                                    ("local_base", BLOCK_ADDRESS_BITS, "local")):
            m.submodules[name] = kept = memory.Memory(shape=shape, depth=params.warps, init=[], attrs=IN_BLOCKS)
            write, read, base = kept.write_port(), kept.read_port(domain="comb"), Signal(shape, name=f"own_{name}")
            m.d.comb += [
                write.en.eq(launch.valid), write.addr.eq(launch.payload.warp), write.data.eq(launch.payload[name]),
                read.addr.eq(self.dispatch.payload.warp)]
            with m.If(self.dispatch.valid):
                m.d.sync += base.eq(read.data)
            if target == "local":
                with m.If(move.valid):
                    m.d.comb += [write.en.eq(1), write.addr.eq(move.warp), write.data.eq(move.base)]
                self._local_base = base
            else:
                self._shared_base = base
        number, bits = self._instruction.bank, ceil_log2(CONSTANT_BANKS)
        bank: Any = Signal(ConstantBank)
        self._bank, self._has_bank = bank, Signal()
        m.d.comb += [bank.eq(pick(self.grid.banks, number[:bits])),
                     self._has_bank.eq(bank.valid & ~number[bits:].any())]

    def _ports(self, m: Module) -> None:
        """What does not depend on the step that it is in."""
        port, job, instruction, words = self.port, self._job, self._instruction, self.words
        connect(m, flipped(self.clear), words.clear)
        connect(m, words.memory, flipped(self.memory))
        m.d.comb += [
            self.decoder.word.eq(job.word), self.room.eq(1), self._chosen.eq(self._thread),
            self._executes.eq(job.threads.bit_select(self._chosen, 1)),
            self._last_word.eq(self._word == instruction.words - 1),
            self.accumulator.word.eq(self._noted.value), words.shared.eq(self._in_shared),
            words.place.eq(self._place | Mux(
                self._in_local, self._word << _WORD_BITS + _THREAD_BITS, self._word << _WORD_BITS))]
        m.d.sync += [instruction.eq(self.decoder.instruction), self._noted.eq(self._reads.data)]
        m.d.comb += [
            port.values[0].eq(self._noted.value), port.flags.eq(self._noted.flag)]
        for operation in (port.write.payload, port.gather.payload):
            m.d.comb += [operation.warp.eq(job.warp), operation.serial.eq(job.serial)]
        write, last = port.write.payload, self._word == instruction.results - 1
        m.d.comb += [
            write.index.eq(self._word), write.last.eq(last), write.barrier.eq(job.write_barrier),
            write.register.eq(instruction.destination | self._word), write.threads.eq(job.threads),
            write.predicate.eq(Mux(last, instruction.predicate, PT))]
        for operation in (self.completion, self.error):
            m.d.comb += operation.warp.eq(job.warp)
        m.d.comb += [
            self.completion.serial.eq(job.serial), self.completion.write_barrier.eq(job.write_barrier),
            self.completion.read_barrier.eq(Mux(self._idle, job.read_barrier, NO_BARRIER)),
            self.error.pc.eq(job.pc), self.error.error.eq(self._error)]
        m.d.comb += [getattr(self.events, name).eq(getattr(words.events, name)) for name in ("line", "write", "shared")]

        # The word that is accessed, cut to its size.
        place, found, value = self._place, words.word, self.accumulator.value
        narrow, half = instruction.size == 0, instruction.size <= 1
        lower, sign = Mux(place[1], found[16:], found[:16]), Signal()
        octet = Mux(place[0], lower[8:], lower[:8])
        m.d.comb += sign.eq(instruction.is_signed & Mux(narrow, octet[7], lower[15]))
        self._loaded = Cat(octet, Mux(narrow, sign.replicate(8), lower[8:]),
                           Mux(half, sign.replicate(16), found[16:]))
        with m.If(words.write):
            m.d.comb += [
                words.value.eq(Cat(
                    value[:8], Mux(narrow, value[:8], value[8:16]), Mux(half, value[:8], value[16:24]),
                    Mux(half, Mux(narrow, value[:8], value[8:16]), value[24:]))),
                words.mask.eq(Mux(half, Mux(narrow, 1, 3) << Cat(place[0] & narrow, place[1]), 0xF))]

    @property
    def _idle(self) -> Value:
        """The instruction has nothing to do."""
        return ~self._job.threads.any() | (self._instruction.operation == MemoryOperation.NONE)

    def _begin(self, m: Module) -> None:
        """An instruction comes; its registers are gathered, one by one."""
        dispatch, job, instruction, data = self.dispatch.payload, self._job, self._instruction, self.decoder.data
        gather, gathered, index = self.port.gather, self.port.gathered, Signal(3)
        words, last = Signal(3), Signal()
        with m.State("IDLE"), m.If(self.dispatch.valid):
            m.d.sync += [job.threads.eq(dispatch.active & dispatch.guard), index.eq(0), self._thread.eq(0),
                         self._word.eq(0), self._bad.eq(0), self._failed.eq(0)]
            m.d.sync += [job[name].eq(dispatch[name]) for name in (
                "warp", "serial", "pc", "word", "write_barrier", "read_barrier")]
            m.next = "DECODE"
        with m.State("DECODE"):
            m.next = "BEGIN"
        with m.State("BEGIN"):
            m.d.sync += self._judged.eq((instruction.operation == MemoryOperation.LOAD)
                                        | (instruction.operation == MemoryOperation.SHUFFLE))
            m.next = "GATHER"
            with m.If(self._idle):
                m.next = "DONE"
        m.d.comb += [
            words.eq(Mux(instruction.compare, instruction.words << 1, data.end)),
            last.eq(Mux(words.any(), index == _DATA - 1 + words, index == instruction.wide)),
            gather.payload.index.eq(index), gather.payload.last.eq(last), gather.payload.barrier.eq(job.read_barrier)]
        registers = gather.payload.registers
        m.d.comb += [register.eq(RZ) for register in list(registers)[1:]]
        m.d.comb += registers[0].eq(Mux(
            index >= _DATA, data_register(data, index[:2]),
            Mux(index[0], instruction.gathers[0][1], instruction.gathers[0][0])))
        with m.State("GATHER"):
            m.d.comb += gather.valid.eq(1)
            with m.If(gather.ready):
                m.next = "GATHERED"
        with m.State("GATHERED"), m.If(gathered.valid):
            m.d.comb += [
                self._note.en.eq(1), self._note.addr.eq(Cat(gathered.beat, gathered.index)),
                self._note.data.value.eq(gathered.values[0][0])]
            with m.If(gathered.beat == WARP_THREADS - 1):
                m.d.sync += index.eq(Mux(index >= _DATA, index + 1, Mux(
                    index[0] | ~instruction.wide, _DATA, 1)))
                m.next = "GATHER"
                with m.If(last):
                    m.next = "THREAD"

    def _threads(self, m: Module) -> None:
        """The threads, ascending; those of a store or an atomic operation twice."""
        with m.State("THREAD"):
            m.d.sync += [
                self._compared.eq(0), self._differs.eq(0), self._old.eq(0), self._zero.eq(0)]
            self._read(m, Const(_ADDRESS, _NOTE_BITS))
            m.next = "NEXT"
            with m.If(self._executes):
                m.next = "LOW"
        with m.State("NEXT"):
            m.d.sync += self._thread.eq(self._thread + 1)
            m.next = "THREAD"
            with m.If(self._thread == WARP_THREADS - 1):
                m.d.sync += self._judged.eq(1)
                with m.If(self._judged):
                    m.next = "DONE"
                    with m.If(self._instruction.results.any()):
                        m.next = "WRITE"

    def _addresses(self, m: Module) -> None:
        """An address becomes a place, unless something is wrong with it."""
        instruction, sums, word = self._instruction, self.accumulator, self._noted.value
        space, low, high, above = instruction.space, sums.value, self._high, self._above
        constant, shuffles = space == MemorySpace.CONSTANT, instruction.operation == MemoryOperation.SHUFFLE
        outside = space == MemorySpace.OUTSIDE

        with m.State("LOW"):
            m.d.comb += [sums.step.eq(Step.COMBINE), sums.combination.eq(Combination.TAKE)]
            self._read(m, Const(_ADDRESS + 1, _NOTE_BITS))
            m.next = "OFFSET"
        with m.State("OFFSET"):
            m.d.comb += [sums.step.eq(Step.SUM), sums.term.eq(instruction.offset[:32])]
            m.d.sync += self._carry.eq(sums.above)
            self._read(m, Const(_ADDRESS + 1, _NOTE_BITS))
            m.next = "HIGH"
        with m.State("HIGH"):
            total = Signal(32, name="high_total")
            m.d.comb += total.eq(sum_with_carry(word, instruction.offset[32].replicate(32), self._carry))
            m.d.sync += [high.eq(0), above.eq(0)]
            with m.If(instruction.wide):
                m.d.sync += [high.eq(total[:len(high)]), above.eq(total[len(high):].any())]
            reached, end = shuffle_reach(m, instruction, self._thread, low[:_THREAD_BITS], word)
            inside = in_segment(instruction.mode == ShuffleMode.UP, reached, end)
            m.d.sync += [self._inside.eq(inside), self._source.eq(Mux(inside, reached, self._thread))]
            m.next = "SPACE"
            with m.If(shuffles):
                m.next = "SHUFFLE"

        # Which space it is in, and where in it.
        window, in_window, window_shared = low[WINDOW_BITS:PAST_WINDOWS], Signal(), Signal()
        windows = (space == MemorySpace.GENERIC) | outside
        past = low[PAST_WINDOWS:].any() | high.any() | above
        m.d.comb += [
            window_shared.eq(windows & ~past & (window == SHARED_WINDOW >> WINDOW_BITS)),
            in_window.eq(window_shared | windows & ~past & (window == LOCAL_WINDOW >> WINDOW_BITS))]
        low_mask = ((1 << instruction.size) - 1)[:4]
        with m.State("SPACE"):
            m.d.sync += [
                self._in_shared.eq(window_shared | (space == MemorySpace.SHARED)),
                self._in_local.eq(in_window & ~window_shared | (space == MemorySpace.LOCAL))]
            m.next = "BOUND"
            with m.If(in_window):       # the window's number goes
                m.d.comb += [sums.step.eq(Step.SUM), sums.term.eq(Mux(window_shared, -SHARED_WINDOW, -LOCAL_WINDOW))]
            with m.If(in_window & outside):
                self._fail(m, WarpError.INVALID_ADDR_SPACE)
            with m.Elif((low & low_mask).any()):
                self._fail(m, WarpError.MISALIGNED_ADDR)

        # Whether its last byte is there; of a constant, the first one of its last word.
        in_second = self._in_local | constant
        bank: Any = self._bank
        end = Signal(max(len(self.grid.shared), len(self.grid.local), len(bank.size)))
        m.d.comb += end.eq(Mux(self._in_shared, self.grid.shared, 0) | Mux(self._in_local, self.grid.local, 0)
                           | Mux(constant, bank.size, 0))
        silent = constant & ~self.report_mask[WarpError.INVALID_CONST_ADDR_LDC.value]
        with m.State("BOUND"):
            m.d.comb += [
                sums.set_low.eq(low_mask), sums.clear_low.eq(constant.replicate(_WORD_BITS)),
                sums.term.eq(~Cat(end, Const(0, 32 - len(end)))),
                sums.carry.eq(1)]
            m.next = "BASE"
            with m.If((self._in_shared | in_second) & (
                    above | high.any() | sums.above | constant & ~self._has_bank)):
                m.d.comb += sums.step.eq(Step.CLEAR)
                self._fail(m, WarpError.OOR_ADDR)
                with m.If(constant):
                    self._fail(m, WarpError.INVALID_CONST_ADDR_LDC)
                with m.If(silent):
                    m.next = "PUT"

        # The place: local memory has a word of each thread, and then the next one of each.
        base, place_high = Signal(ADDRESS_BITS), Signal(len(high) + 1)
        m.d.comb += base.eq(
            Mux(self._in_shared, self._shared_base, 0) | Mux(self._in_local, self._local_base << _BLOCK_SHIFT, 0)
            | Mux(constant, bank.address, 0))
        with m.State("BASE"):
            m.d.comb += [sums.step.eq(Step.SUM), sums.term.eq(base[:32])]
            m.d.sync += self._carry.eq(sums.above)
            m.next = "PLACE"
        m.d.comb += place_high.eq(sum_with_carry(high, base[32:], self._carry))
        with m.State("PLACE"):
            m.d.sync += self._place.eq(Mux(
                self._in_local, Cat(low[:_WORD_BITS], self._thread, low[_WORD_BITS:], place_high),
                Cat(low, place_high)))
            m.next = "ACCESS"
            with m.If(~self._judged):
                m.next = "NEXT"
            with m.If(Mux(self._in_local, place_high[len(high) - _THREAD_BITS], Mux(
                    constant, place_high[-1], above & ~self._in_shared))):
                self._fail(m, WarpError.MMU_FAULT)

    def _fail(self, m: Module, error: WarpError) -> None:
        m.d.sync += self._error.eq(error)
        m.next = "FAILED"

    def _access(self, m: Module) -> None:
        """The words of a thread, and what it gets."""
        instruction, sums, words = self._instruction, self.accumulator, self.words
        stores = instruction.operation == MemoryOperation.STORE
        modifies = instruction.operation == MemoryOperation.ATOMIC
        with m.State("ACCESS"):
            self._read(m, self._of_word(_DATA))
            m.next = "READ"
            with m.If(stores & ~self._bad):
                m.next = "FETCH"
        with m.State("READ"):
            m.d.comb += words.valid.eq(1)
            with m.If(words.comes):
                self._write(m, self._of_word(_RESULT), self._loaded)
            with m.If(words.done):
                m.d.sync += self._word.eq(Mux(self._last_word, 0, self._word + 1))
                with m.If(words.fault):
                    self._fail(m, WarpError.MMU_FAULT)
                with m.Elif(self._last_word):
                    m.next = "NEXT"
                    with m.If(modifies & ~self._bad):
                        m.next = "OLD"
        with m.State("FETCH"):
            m.d.comb += [sums.step.eq(Step.COMBINE), sums.combination.eq(Combination.TAKE)]
            m.next = "STORE"
        with m.State("STORE"):
            m.d.comb += [words.valid.eq(1), words.write.eq(1)]
            with m.If(words.done):
                m.d.sync += self._word.eq(Mux(self._last_word, 0, self._word + 1))
                with m.If(words.fault):
                    self._fail(m, WarpError.MMU_FAULT)
                with m.Elif(~self._last_word):
                    m.next = "ACCESS"
                    with m.If(modifies):
                        m.next = "OLD"
                with m.Else():
                    m.d.comb += [sums.step.eq(Step.CLEAR), self.events.atomic.eq(modifies)]
                    m.next = "NEXT"
                    with m.If(instruction.compare & ~instruction.atomic.as_value()[2]):
                        m.next = "PUT"
        with m.State("SHUFFLE"):
            m.d.comb += self._chosen.eq(self._source)
            self._read(m, Const(_DATA, _NOTE_BITS), self._source)
            m.d.sync += self._zero.eq(~self._executes)
            m.next = "SHUFFLED"
        with m.State("SHUFFLED"):
            m.d.comb += [sums.step.eq(Step.COMBINE), sums.combination.eq(Combination.TAKE)]
            with m.If(self._zero):
                m.d.comb += sums.step.eq(Step.CLEAR)
            m.next = "PUT"
        # What is in the accumulator is the result, and the words behind it are 0; or it is whether a swap was made.
        with m.State("PUT"):
            m.d.comb += sums.step.eq(Step.CLEAR)
            swapped = self._compared & ~self._differs & ~self._word.any()
            self._write(m, self._of_word(_RESULT), sums.value | swapped, self._inside)
            m.d.sync += self._word.eq(Mux(self._last_word, 0, self._word + 1))
            with m.If(self._last_word):
                m.next = "NEXT"

    def _change(self, m: Module) -> None:
        """Atomic operations: the old number, which is the result, is compared with the operand; then each word of the
        new one is made and written."""
        instruction, sums, word = self._instruction, self.accumulator, self._noted.value
        operation, compare, first = instruction.atomic, instruction.compare, ~self._word.any()
        counts = (operation == AtomicOperation.INC) | (operation == AtomicOperation.DEC)
        with m.State("OLD"):
            self._read(m, self._of_word(_RESULT))
            m.next = "TAKE"
        with m.State("TAKE"):
            m.d.comb += [sums.step.eq(Step.COMBINE), sums.combination.eq(Combination.TAKE)]
            swap = self._compared & compare
            wide = instruction.words != 1
            self._read(m, Cat(self._word[0] | swap & ~wide, swap & wide, Const(_DATA >> 2, 2)))
            m.next = "COMPARE"
            with m.If(self._compared):
                m.next = "CHANGE"
        with m.State("COMPARE"):
            m.d.comb += [sums.adds.eq(1), sums.inverts.eq(1), sums.carry.eq(first | self._carry)]
            flips = instruction.is_signed & ~counts & (sums.value[31] ^ word[31])
            m.d.sync += [
                self._carry.eq(sums.above), self._less.eq(~sums.above ^ flips),
                self._differs.eq(self._differs | sums.total.any()), self._old.eq(self._old | sums.value.any()),
                self._compared.eq(self._last_word), self._word.eq(Mux(self._last_word, 0, self._word + 1))]
            m.next = "OLD"
        with m.State("CHANGE"):
            less, equal = self._less, ~self._differs
            m.d.comb += [
                sums.step.eq(Step.COMBINE), sums.combination.eq(Combination.TAKE),
                sums.carry.eq(Mux(first, operation == AtomicOperation.INC, self._carry)),
                sums.adds.eq(~counts), sums.inverts.eq(operation == AtomicOperation.DEC)]
            m.d.sync += self._carry.eq(sums.above)
            m.next = "STORE"
            with m.If(compare):
                m.d.comb += sums.step.eq(Mux(equal, Step.COMBINE, Step.STAY))
            with m.Else(), m.Switch(operation):
                with m.Case(AtomicOperation.ADD):
                    m.d.comb += sums.step.eq(Step.SUM)
                with m.Case(AtomicOperation.MIN):
                    m.d.comb += sums.step.eq(Mux(less, Step.STAY, Step.COMBINE))
                with m.Case(AtomicOperation.MAX):
                    m.d.comb += sums.step.eq(Mux(less, Step.COMBINE, Step.STAY))
                with m.Case(AtomicOperation.INC):
                    m.d.comb += sums.step.eq(Mux(less, Step.SUM, Step.CLEAR))
                with m.Case(AtomicOperation.DEC):
                    m.d.comb += sums.step.eq(Mux(self._old & (less | equal), Step.SUM, Step.COMBINE))
                with m.Case(AtomicOperation.AND):
                    m.d.comb += sums.combination.eq(Combination.AND)
                with m.Case(AtomicOperation.OR):
                    m.d.comb += sums.combination.eq(Combination.OR)
                with m.Case(AtomicOperation.XOR):
                    m.d.comb += sums.combination.eq(Combination.XOR)

    def _end(self, m: Module) -> None:
        """Results go to the registers, one by one; or the instruction is complete without."""
        port = self.port
        with m.State("FAILED"):     # those below may have a fault
            m.d.sync += [self._judged.eq(1), self._bad.eq(1), self._thread.eq(0), self._word.eq(0)]
            m.next = "THREAD"
            with m.If(self._judged):
                m.d.sync += self._failed.eq(1)
                m.next = "DONE"
        with m.State("DONE"):
            reported = Cat(self.report_mask[error.value] & (self._error == error) for error in _ERRORS).any()
            m.d.comb += [self.completion.valid.eq(1), self.error.valid.eq(self._failed & reported)]
            m.next = "IDLE"
        with m.State("WRITE"):
            m.d.comb += port.write.valid.eq(1)
            with m.If(port.write.ready):
                m.next = "WRITTEN"
        with m.State("WRITTEN"), m.If(port.wanted.valid):
            self._read(m, self._of_word(_RESULT), port.wanted.beat)
            with m.If(port.wanted.beat == WARP_THREADS - 1):
                m.d.sync += self._word.eq(self._word + 1)
                m.next = "WRITE"
                with m.If(port.write.payload.last):
                    m.next = "IDLE"
