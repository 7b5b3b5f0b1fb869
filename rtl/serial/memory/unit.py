"""The memory unit of the serial machine: the states of an instruction."""

from typing import Any, cast

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value, ValueLike, unsigned
from amaranth.lib import data, memory
from amaranth.lib.wiring import Out, connect, flipped
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.kinds import AtomicOperation, ShuffleMode
from rtl.isa.syntax import PT, RZ, WORD_BITS
from rtl.isa.tokens import CRS_GRANULE
from rtl.layouts import (
    BLOCK_ADDRESS_BITS,
    CONSTANT_BANKS,
    GATHER_REGISTERS,
    SEQUENCE_BITS,
    BeatPort,
    ConstantBank,
    completion,
    error_event,
    register_gather,
    register_write,
)
from rtl.memory.addresses import PAST_WINDOWS, WINDOW_BITS, in_segment, shuffle_reach
from rtl.memory.decode import MemoryDecoder, data_register
from rtl.memory.instruction import WORDS, MemoryOperation, MemorySpace, memory_tag_bits
from rtl.memory.limits import local_move
from rtl.memory.ports import unit_ports
from rtl.params import ADDRESS_BITS, LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS, SmParams
from rtl.pick import pick
from rtl.structs import common_fields, struct_value
from rtl.sums import sum_with_carry
from rtl.wires import IN_BLOCKS, ONE_HOT
from rtl.words import Words

from .accumulator import REGISTER_BITS, Accumulator, Update
from .subwords import LoadExtractor, StoreAligner, Subword
from .words import BYTE_BITS, WordAccess

__all__ = ["SerialMemoryUnit"]

_THREAD_BITS = ceil_log2(WARP_THREADS)
_ADDRESS = 0
_DATA = WORDS
_RESULT = 2 * WORDS
"""The numbers of a thread's notes. From _ADDRESS on: the two words of its address, or the step and
the clamp of a shuffle. From _DATA on: its words of data. From _RESULT on: its results."""
_NOTE_BITS = 4
"""Width of the number of a note."""
_GRANULE_SHIFT = ceil_log2(CRS_GRANULE) - _THREAD_BITS
"""Width of an address in one thread's part of a granule of local memory."""
_HIGH_BITS = ADDRESS_BITS - REGISTER_BITS
"""Number of bits of an address above bit 31."""
_LOW_MASK_BITS = 4
_NO_REGISTERS = Const(RZ, 8).replicate(GATHER_REGISTERS - 1)
"""The second and the third register of a gather, which are not used."""
_REPORTABLE = (
    WarpError.MMU_FAULT,
    WarpError.OOR_ADDR,
    WarpError.MISALIGNED_ADDR,
    WarpError.INVALID_ADDR_SPACE,
    WarpError.INVALID_CONST_ADDR_LDC,
)


class _Note(data.Struct):
    """A word that the unit stores for a thread while an instruction executes."""

    value: unsigned(REGISTER_BITS)
    flag: unsigned(1)
    """In a result: the value for the predicate."""


def _job_layout(params: SmParams) -> data.StructLayout:
    """The instruction in flight.

    Fields
    ------
    warp, sequence, pc, word, write_barrier, read_barrier
        As dispatched.
    threads : 32
        The threads that execute it.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "sequence": SEQUENCE_BITS,
        "pc": 32,
        "word": WORD_BITS,
        "threads": WARP_THREADS,
        "write_barrier": 3,
        "read_barrier": 3,
    })


class SerialMemoryUnit(Component):
    """Executes one memory instruction at a time: the threads in ascending order, word by word. A
    thread has 16 *notes*, words in block RAM for its address, data and results.

    =================================  =======================================================
    states, in order                   action
    =================================  =======================================================
    IDLE, DECODE, DECODED              an instruction is dispatched and decoded; if it has
                                       nothing to do, next is DONE
    GATHER, COLLECT                    one register at a time is gathered into the notes
    THREAD, NEXT_THREAD                selects the next thread that executes the instruction
    ADDRESS_LOW, OFFSET, ADDRESS_HIGH  address + offset
    SHUFFLE, SHUFFLED                  of a shuffle: reads the source thread's note; then RESULT
    SPACE, BOUND                       checks the address
    BASE, PLACE                        adds the base of the space
    ACCESS                             chooses LOAD or STORE_DATA
    LOAD                               a word is read from memory into a note; once for each word
    OLD, OPERAND, COMPARE              of an atomic operation: compares the old number with the
                                       operand; once for each word
    OLD, OPERAND, CHANGE, STORE        of an atomic operation: makes and writes the new number;
                                       once for each word
    ACCESS, STORE_DATA, STORE          of a store: writes a note to memory; once for each word
    RESULT                             a result that was not loaded is written to the notes
    WRITE, WRITE_DATA                  after the last thread: one register at a time is written
                                       from the notes; the last write completes the instruction
    DONE                               ``completion``, if no register is written, or after an error
    FAILED                             after an error: starts the second round, or ends in DONE
    =================================  =======================================================

    A load or a shuffle takes one round over the threads. The first error ends the instruction: no
    register is written.

    A store or an atomic operation takes two rounds. In the first round addresses are only checked
    (up to PLACE). In the second round memory is accessed. After an error in the first round the
    second one only reads memory, so that nothing is written; it ends at the first thread with an
    error, which may be a fault of memory in a thread below. A fault of memory in a second round
    without such an error ends the instruction too, but words before it have been written.

    With an error ``completion`` is valid in DONE even if the report mask suppresses ``error``. An
    exception is a constant that is missing: if the error is not reported, the constant is 0.

    See :class:`~rtl.memory.MemoryUnit` for the members. ``room`` is always 1.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            **unit_ports(params),
            "memory": Out(BeatPort(memory_tag_bits(params))),
        })
        self.decoder = MemoryDecoder(params.floats)
        self.accumulator = Accumulator()
        self.words = WordAccess(params)
        self.extractor = LoadExtractor()
        self.aligner = StoreAligner()
        self.notes = memory.Memory(
            shape=_Note, depth=WARP_THREADS << _NOTE_BITS, init=[], attrs=IN_BLOCKS)
        self._note_write = self.notes.write_port()
        self._note_read = self.notes.read_port(domain="comb")
        self._note: Any = Signal(_Note, name="note")
        """The note that was read in the previous cycle."""

        # The instruction, and the bases of its warp's memory.
        self._job: Any = Signal(_job_layout(params), name="job")
        self._instruction: Any = Signal(self.decoder.instruction.shape(), name="instruction")
        self._shared_base = Signal(params.shared_bits, name="warp_shared_base")
        self._local_base = Signal(BLOCK_ADDRESS_BITS, name="warp_local_base")
        self._bank: Any = Signal(ConstantBank, name="bank")
        self._has_bank = Signal(name="has_bank")
        self._gather_index = Signal(3, name="gather_index")
        """The number of the note for the register that is gathered."""

        # The thread, its word, and the round over the threads.
        self._thread = Signal(_THREAD_BITS, name="thread")
        self._word = Signal(ceil_log2(WORDS), name="word")
        self._is_last_word = Signal(name="is_last_word")
        """``word`` is the last word that the thread accesses."""
        self._checked_thread = Signal(_THREAD_BITS, name="checked_thread")
        """``thread``; in SHUFFLE ``source``."""
        self._executes = Signal(name="executes")
        """``checked_thread`` executes the instruction."""
        self._accesses = Signal(name="accesses")
        """This is the last round, which accesses memory."""
        self._has_bad_thread = Signal(name="has_bad_thread")
        """The first round had an error: the second round only reads."""
        self._error = Signal(WarpError, name="first_error")
        self._is_failed = Signal(name="is_failed")
        """The instruction has ended with ``first_error``."""

        # A thread's address. Its low word is the accumulator, its high bits are ``high``.
        self._high = Signal(_HIGH_BITS, name="high")
        self._is_past_memory = Signal(name="is_past_memory")
        """A bit of the address at or above ADDRESS_BITS is 1."""
        self._carry = Signal(name="carry")
        self._in_shared = Signal(name="in_shared")
        self._in_local = Signal(name="in_local")
        self._place = Signal(ADDRESS_BITS, name="place")
        """The address in memory or in shared memory, valid after PLACE."""

        # Of a shuffle.
        self._source = Signal(_THREAD_BITS, name="source")
        """The thread whose register is read."""
        self._source_in_segment = Signal(name="source_in_segment")
        """The thread that the shuffle names is in the segment; else ``source`` is ``thread``."""
        self._source_is_idle = Signal(name="source_is_idle")
        """The source thread does not execute the instruction: the result is 0."""

        # Of an atomic operation: the old number compared with the operand.
        self._is_compared = Signal(name="is_compared")
        """All words are compared; the next three are valid."""
        self._is_less = Signal(name="is_less")
        """The old number is less than the operand."""
        self._differs = Signal(name="differs")
        """The old number is not the operand."""
        self._old_is_nonzero = Signal(name="old_is_nonzero")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = self.decoder
        m.submodules.accumulator = self.accumulator
        m.submodules.words = self.words
        m.submodules.extractor = self.extractor
        m.submodules.aligner = self.aligner
        m.submodules.notes = self.notes
        self._decode(m)
        self._keep_bases(m)
        self._select_bank(m)
        self._connect_words(m)
        self._connect_notes(m)
        self._address_gather(m)
        self._address_write(m)
        self._report(m)
        with m.FSM() as states:
            self._begin(m)
            self._gather(m)
            self._select_thread(m)
            self._add_offset(m)
            self._find_space(m)
            self._check_bound(m)
            self._find_place(m)
            self._load(m)
            self._store(m)
            self._shuffle(m)
            self._put_result(m)
            self._compare(m)
            self._change(m)
            self._end(m)
            self._write_registers(m)
        cast("Any", states).state.attrs.update(ONE_HOT)
        m.d.sync += Assert(
            ~self.dispatch.valid | states.ongoing("IDLE"),
            "an instruction before the last one has ended")
        return m

    # Helpers of the states.

    def _read_note(self, m: Module, number: ValueLike, thread: Value | None = None) -> None:
        """Reads a note of this thread, or of another one. It is in ``note`` in the next cycle."""
        of_thread = self._thread if thread is None else thread
        m.d.comb += self._note_read.addr.eq(Cat(of_thread, Value.cast(number)))

    def _read_fixed_note(self, m: Module, number: int, thread: Value | None = None) -> None:
        self._read_note(m, Const(number, _NOTE_BITS), thread)

    def _write_note(self, m: Module, number: Value, thread: Value, value: Value,
                    flag: ValueLike = 0) -> None:
        """Writes a note of a thread."""
        write = self._note_write
        m.d.comb += write.en.eq(1)
        m.d.comb += write.addr.eq(Cat(thread, number))
        m.d.comb += write.data.eq(struct_value(_Note, value=value, flag=flag))

    def _write_result(self, m: Module, value: Value, flag: ValueLike = 0) -> None:
        """Writes the note for this thread's result ``word``."""
        self._write_note(m, self._note_of_word(_RESULT), self._thread, value, flag)

    def _note_of_word(self, first: int) -> Value:
        """The number of the note for this word: ``first``, a multiple of WORDS, plus ``word``."""
        return Cat(self._word, Const(first // WORDS, _NOTE_BITS - len(self._word)))

    def _load_note(self, m: Module) -> None:
        """Loads the note that was read into the accumulator."""
        m.d.comb += self.accumulator.update.eq(Update.WORD)

    def _add(self, m: Module, term: ValueLike) -> None:
        """Adds a term to the accumulator."""
        m.d.comb += self.accumulator.update.eq(Update.SUM)
        m.d.comb += self.accumulator.term.eq(term)

    def _advance_word(self, m: Module) -> None:
        """Increments ``word``; after the last word it is 0."""
        with m.If(self._is_last_word):
            m.d.sync += self._word.eq(0)
        with m.Else():
            m.d.sync += self._word.eq(self._word + 1)

    def _fail(self, m: Module, error: WarpError) -> None:
        m.d.sync += self._error.eq(error)
        m.next = "FAILED"

    def _is(self, operation: MemoryOperation) -> Value:
        return self._instruction.operation == operation

    @property
    def _is_constant(self) -> Value:
        return self._instruction.space == MemorySpace.CONSTANT

    @property
    def _has_nothing_to_do(self) -> Value:
        return ~self._job.threads.any() | self._is(MemoryOperation.NONE)

    @property
    def _low_mask(self) -> Value:
        """Ones in the low bits that an aligned address has as zeros."""
        return ((1 << self._instruction.size) - 1)[:_LOW_MASK_BITS]

    # What does not depend on the state.

    def _decode(self, m: Module) -> None:
        instruction = self._instruction
        m.d.comb += self.room.eq(1)
        m.d.comb += self.decoder.word.eq(self._job.word)
        m.d.sync += instruction.eq(self.decoder.instruction)
        m.d.comb += self._is_last_word.eq(self._word == instruction.words - 1)
        m.d.comb += self._checked_thread.eq(self._thread)
        m.d.comb += self._executes.eq(self._job.threads.bit_select(self._checked_thread, 1))

    def _keep_bases(self, m: Module) -> None:
        """Stores the bases of each warp's shared and local memory. A move of local memory is written
        in the first cycle after it without a launch."""
        launch = self.launch.payload
        move = self.local_base
        warps = self._params.warps
        m.submodules.shared_base = shared = Words(self._params.shared_bits, warps, **IN_BLOCKS)
        m.submodules.local_base = local = Words(BLOCK_ADDRESS_BITS, warps, **IN_BLOCKS)
        pending: Any = move.signature.create(path=("pending_move",))
        with m.If(move.valid):
            m.d.sync += pending.valid.eq(1)
            m.d.sync += pending.payload.eq(move.payload)
        with m.Elif(~self.launch.valid):
            m.d.sync += pending.valid.eq(0)
        m.d.sync += Assert(
            ~(move.valid & pending.valid & self.launch.valid), "a move of local memory is lost")

        placed = Signal(local_move(self._params))
        with m.If(self.launch.valid):
            m.d.comb += placed.eq(struct_value(
                local_move(self._params), warp=launch.warp, base=launch.local_base))
        with m.Else():
            m.d.comb += placed.eq(pending.payload)
        shared.write(m, self.launch.valid, launch.warp, launch.shared_base)
        local.write(m, self.launch.valid | pending.valid, placed.warp, placed.base)

        shared_base = shared.read(m, self.dispatch.payload.warp)
        local_base = local.read(m, self.dispatch.payload.warp)
        with m.If(self.dispatch.valid):
            m.d.sync += self._shared_base.eq(shared_base)
            m.d.sync += self._local_base.eq(local_base)

    def _select_bank(self, m: Module) -> None:
        """The instruction's constant bank."""
        number = self._instruction.bank
        bits = ceil_log2(CONSTANT_BANKS)
        m.d.comb += self._bank.eq(pick(self.grid.banks, number[:bits]))
        m.d.comb += self._has_bank.eq(self._bank.valid & ~number[bits:].any())

    def _connect_words(self, m: Module) -> None:
        """Connects the word accesses. Local memory is interleaved: word n of all 32 threads, then
        word n + 1 of all threads, so a thread's next word is 32 words further."""
        words = self.words
        request = words.request.payload
        connect(m, flipped(self.clear), words.clear)
        connect(m, words.memory, flipped(self.memory))
        m.d.comb += self.events.eq(words.events)

        m.d.comb += request.is_shared.eq(self._in_shared)
        with m.If(self._in_local):
            m.d.comb += request.address.eq(
                self._place | self._word << BYTE_BITS + _THREAD_BITS)
        with m.Else():
            m.d.comb += request.address.eq(self._place | self._word << BYTE_BITS)
        with m.If(request.is_write):
            m.d.comb += request.stored.eq(self.aligner.stored)

        subword = struct_value(
            Subword, size=self._instruction.size, is_signed=self._instruction.is_signed,
            place=self._place)
        m.d.comb += self.aligner.subword.eq(subword)
        m.d.comb += self.aligner.value.eq(self.accumulator.value)
        m.d.comb += self.extractor.subword.eq(subword)
        m.d.comb += self.extractor.word.eq(words.word.payload)

    def _connect_notes(self, m: Module) -> None:
        m.d.sync += self._note.eq(self._note_read.data)
        m.d.comb += self.accumulator.word.eq(self._note.value)
        m.d.comb += self.port.data.values[0].eq(self._note.value)
        m.d.comb += self.port.data.flags.eq(self._note.flag)

    def _address_gather(self, m: Module) -> None:
        """The payload of a gather of one register: first the registers of the address, then of the
        data."""
        job = self._job
        instruction = self._instruction
        registers = self.decoder.data
        index = self._gather_index
        address_registers = instruction.gathers[0]
        register = Signal(8)
        data_words = Signal(3)
        is_last = Signal()
        with m.If(index >= _DATA):
            m.d.comb += register.eq(data_register(registers, index[:2]))
        with m.Else():
            m.d.comb += register.eq(Mux(index[0], address_registers[1], address_registers[0]))

        # A compare and swap has two numbers.
        m.d.comb += data_words.eq(
            Mux(instruction.compare, instruction.words << 1, registers.end))
        with m.If(data_words == 0):
            m.d.comb += is_last.eq(index == instruction.wide)
        with m.Else():
            m.d.comb += is_last.eq(index == _DATA - 1 + data_words)
        m.d.comb += self.port.gather.payload.eq(struct_value(
            register_gather(self._params), warp=job.warp, sequence=job.sequence, index=index,
            last=is_last, barrier=job.read_barrier, registers=Cat(register, _NO_REGISTERS)))

    def _address_write(self, m: Module) -> None:
        """The payload of a write of one register; the last one also writes the predicate."""
        job = self._job
        instruction = self._instruction
        is_last = self._word == instruction.results - 1
        m.d.comb += self.port.write.payload.eq(struct_value(
            register_write(self._params), warp=job.warp, sequence=job.sequence, index=self._word,
            last=is_last, barrier=job.write_barrier,
            register=instruction.destination | self._word, threads=job.threads,
            predicate=Mux(is_last, instruction.predicate, PT), conditional=0))

    def _report(self, m: Module) -> None:
        """The payloads of completion and error. The completion releases the read scoreboard only if
        nothing was gathered; else the last gather has released it."""
        job = self._job
        read_barrier = Mux(self._has_nothing_to_do, job.read_barrier, NO_BARRIER)
        m.d.comb += self.completion.payload.eq(struct_value(
            completion(self._params), warp=job.warp, sequence=job.sequence,
            write_barrier=job.write_barrier, read_barrier=read_barrier))
        m.d.comb += self.error.payload.eq(struct_value(
            error_event(self._params), warp=job.warp, pc=job.pc, error=self._error))

    # The states.

    def _begin(self, m: Module) -> None:
        """Registers the instruction, and waits until it is decoded."""
        dispatch = self.dispatch.payload
        job = self._job
        is_checked_before = ~self._is(MemoryOperation.LOAD) & ~self._is(MemoryOperation.SHUFFLE)
        with m.State("IDLE"), m.If(self.dispatch.valid):
            m.d.sync += common_fields(job, dispatch)
            m.d.sync += job.threads.eq(dispatch.active & dispatch.guard)
            m.d.sync += self._gather_index.eq(0)
            m.d.sync += self._thread.eq(0)
            m.d.sync += self._word.eq(0)
            m.d.sync += self._has_bad_thread.eq(0)
            m.d.sync += self._is_failed.eq(0)
            m.next = "DECODE"
        with m.State("DECODE"):
            m.next = "DECODED"
        with m.State("DECODED"):
            m.d.sync += self._accesses.eq(~is_checked_before)
            with m.If(self._has_nothing_to_do):
                m.next = "DONE"
            with m.Else():
                m.next = "GATHER"

    def _gather(self, m: Module) -> None:
        """Gathers one register at a time into the notes of all threads: one or two for the address,
        from note _ADDRESS on; then those for the data, from note _DATA on."""
        gather = self.port.gather
        gathered = self.port.data.gathered
        index = self._gather_index
        beat = gathered.payload
        is_last_beat = beat.beat == WARP_THREADS - 1
        address_follows = ~index[0] & self._instruction.wide
        with m.State("GATHER"):
            m.d.comb += gather.valid.eq(1)
            with m.If(gather.ready):
                m.next = "COLLECT"
        with m.State("COLLECT"), m.If(gathered.valid):
            self._write_note(m, beat.index, beat.beat, beat.values[0][0])
            with m.If(is_last_beat):
                with m.If(index >= _DATA):
                    m.d.sync += index.eq(index + 1)
                with m.Elif(address_follows):
                    m.d.sync += index.eq(_ADDRESS + 1)
                with m.Else():
                    m.d.sync += index.eq(_DATA)
                with m.If(gather.payload.last):
                    m.next = "THREAD"
                with m.Else():
                    m.next = "GATHER"

    def _select_thread(self, m: Module) -> None:
        """Selects the threads in ascending order; for a store or an atomic operation in two
        rounds."""
        is_last_thread = self._thread == WARP_THREADS - 1
        with m.State("THREAD"):
            m.d.sync += self._source_is_idle.eq(0)
            m.d.sync += self._is_compared.eq(0)
            m.d.sync += self._differs.eq(0)
            m.d.sync += self._old_is_nonzero.eq(0)
            self._read_fixed_note(m, _ADDRESS)
            with m.If(self._executes):
                m.next = "ADDRESS_LOW"
            with m.Else():
                m.next = "NEXT_THREAD"
        with m.State("NEXT_THREAD"):
            m.d.sync += self._thread.eq(self._thread + 1)
            with m.If(is_last_thread):
                m.d.sync += self._accesses.eq(1)
            with m.If(~is_last_thread | ~self._accesses):
                m.next = "THREAD"
            with m.Elif(self._instruction.results.any()):
                m.next = "WRITE"
            with m.Else():
                m.next = "DONE"

    def _add_offset(self, m: Module) -> None:
        """Adds the offset to the address; the sum is in the accumulator and ``high``. A shuffle has
        the step and the clamp as the two words: the offset is added to the step, and the source
        thread is computed."""
        instruction = self._instruction
        sums = self.accumulator
        note = self._note.value
        is_up = instruction.mode == ShuffleMode.UP
        offset_sign = instruction.offset[REGISTER_BITS]
        with m.State("ADDRESS_LOW"):
            self._load_note(m)
            self._read_fixed_note(m, _ADDRESS + 1)
            m.next = "OFFSET"
        with m.State("OFFSET"):
            self._add(m, instruction.offset[:REGISTER_BITS])
            m.d.sync += self._carry.eq(sums.carry_out)
            self._read_fixed_note(m, _ADDRESS + 1)
            m.next = "ADDRESS_HIGH"
        with m.State("ADDRESS_HIGH"):
            high = Signal(REGISTER_BITS, name="high_total")
            m.d.comb += high.eq(
                sum_with_carry(note, offset_sign.replicate(REGISTER_BITS), self._carry))
            with m.If(instruction.wide):
                m.d.sync += self._high.eq(high)
                m.d.sync += self._is_past_memory.eq(high[_HIGH_BITS:].any())
            with m.Else():
                m.d.sync += self._high.eq(0)
                m.d.sync += self._is_past_memory.eq(0)
            reached, last = shuffle_reach(
                m, instruction, self._thread, sums.value[:_THREAD_BITS], note)
            is_inside = in_segment(is_up, reached, last)
            m.d.sync += self._source_in_segment.eq(is_inside)
            m.d.sync += self._source.eq(Mux(is_inside, reached, self._thread))
            with m.If(self._is(MemoryOperation.SHUFFLE)):
                m.next = "SHUFFLE"
            with m.Else():
                m.next = "SPACE"

    def _find_space(self, m: Module) -> None:
        """Determines the space, and checks the alignment. From an address in a window the begin of
        the window is subtracted."""
        sums = self.accumulator
        space = self._instruction.space
        address = sums.value
        must_be_outside = space == MemorySpace.OUTSIDE
        has_windows = must_be_outside | (space == MemorySpace.GENERIC)
        window = address[WINDOW_BITS:PAST_WINDOWS]
        is_past_windows = address[PAST_WINDOWS:].any() | self._high.any() | self._is_past_memory
        may_be_in_window = Signal()
        in_shared_window = Signal()
        in_local_window = Signal()
        in_window = in_shared_window | in_local_window
        m.d.comb += may_be_in_window.eq(has_windows & ~is_past_windows)
        m.d.comb += in_shared_window.eq(
            may_be_in_window & (window == SHARED_WINDOW >> WINDOW_BITS))
        m.d.comb += in_local_window.eq(
            may_be_in_window & (window == LOCAL_WINDOW >> WINDOW_BITS))
        with m.State("SPACE"):
            m.d.sync += self._in_shared.eq(in_shared_window | (space == MemorySpace.SHARED))
            m.d.sync += self._in_local.eq(in_local_window | (space == MemorySpace.LOCAL))
            with m.If(in_shared_window):
                self._add(m, -SHARED_WINDOW)
            with m.Elif(in_local_window):
                self._add(m, -LOCAL_WINDOW)
            with m.If(in_window & must_be_outside):
                self._fail(m, WarpError.INVALID_ADDR_SPACE)
            with m.Elif((address & self._low_mask).any()):
                self._fail(m, WarpError.MISALIGNED_ADDR)
            with m.Else():
                m.next = "BOUND"

    def _check_bound(self, m: Module) -> None:
        """Checks that the last byte of the access is below the space's end; of a constant bank, the
        first byte of its last word. The adder subtracts the end: its carry is 1 if the byte is at
        the end or above. A constant that is missing is 0, unless the error is reported."""
        sums = self.accumulator
        bank = self._bank
        is_constant = self._is_constant
        end = Signal(max(len(self.grid.shared), len(self.grid.local), len(bank.size)))
        m.d.comb += end.eq(
            Mux(self._in_shared, self.grid.shared, 0)
            | Mux(self._in_local, self.grid.local, 0)
            | Mux(is_constant, bank.size, 0))
        has_end = self._in_shared | self._in_local | is_constant
        is_past_end = sums.carry_out | self._high.any() | self._is_past_memory
        has_no_bank = is_constant & ~self._has_bank
        is_reported = self.report_mask[WarpError.INVALID_CONST_ADDR_LDC.value]
        with m.State("BOUND"):
            m.d.comb += sums.set_low.eq(self._low_mask)
            m.d.comb += sums.clear_low.eq(is_constant.replicate(BYTE_BITS))
            m.d.comb += sums.term.eq(~Cat(end, Const(0, REGISTER_BITS - len(end))))
            m.d.comb += sums.carry_in.eq(1)
            m.next = "BASE"
            with m.If(has_end & (is_past_end | has_no_bank)):
                m.d.comb += sums.update.eq(Update.CLEAR)
                with m.If(is_constant):
                    self._fail(m, WarpError.INVALID_CONST_ADDR_LDC)
                    with m.If(~is_reported):
                        m.next = "RESULT"
                with m.Else():
                    self._fail(m, WarpError.OOR_ADDR)

    def _find_place(self, m: Module) -> None:
        """Adds the base of the space. In local memory, which is interleaved, the thread's number is
        inserted above the byte in the word."""
        sums = self.accumulator
        low = sums.value
        is_constant = self._is_constant
        base = Signal(ADDRESS_BITS)
        high = Signal(_HIGH_BITS + 1)
        m.d.comb += base.eq(
            Mux(self._in_shared, self._shared_base, 0)
            | Mux(self._in_local, self._local_base << _GRANULE_SHIFT, 0)
            | Mux(is_constant, self._bank.address, 0))
        m.d.comb += high.eq(sum_with_carry(self._high, base[REGISTER_BITS:], self._carry))

        is_past_local = high[_HIGH_BITS - _THREAD_BITS]
        is_past_global = self._is_past_memory & ~self._in_shared
        is_unmapped = Mux(
            self._in_local, is_past_local, Mux(is_constant, high[-1], is_past_global))
        with m.State("BASE"):
            self._add(m, base[:REGISTER_BITS])
            m.d.sync += self._carry.eq(sums.carry_out)
            m.next = "PLACE"
        with m.State("PLACE"):
            with m.If(self._in_local):
                m.d.sync += self._place.eq(
                    Cat(low[:BYTE_BITS], self._thread, low[BYTE_BITS:], high))
            with m.Else():
                m.d.sync += self._place.eq(Cat(low, high))
            with m.If(is_unmapped):
                self._fail(m, WarpError.MMU_FAULT)
            with m.Elif(self._accesses):
                m.next = "ACCESS"
            with m.Else():
                m.next = "NEXT_THREAD"

    def _load(self, m: Module) -> None:
        """Loads the words of this thread. For an atomic operation that is the old number. After an
        error in the first round, stores and atomic operations only load."""
        words = self.words
        may_write = ~self._has_bad_thread
        with m.State("ACCESS"):
            self._read_note(m, self._note_of_word(_DATA))
            with m.If(self._is(MemoryOperation.STORE) & may_write):
                m.next = "STORE_DATA"
            with m.Else():
                m.next = "LOAD"
        with m.State("LOAD"):
            m.d.comb += words.request.valid.eq(1)
            with m.If(words.word.valid):
                self._write_result(m, self.extractor.loaded)
            with m.If(words.request.ready):
                self._advance_word(m)
                with m.If(words.fault):
                    self._fail(m, WarpError.MMU_FAULT)
                with m.Elif(self._is_last_word):
                    with m.If(self._is(MemoryOperation.ATOMIC) & may_write):
                        m.next = "OLD"
                    with m.Else():
                        m.next = "NEXT_THREAD"

    def _store(self, m: Module) -> None:
        """Writes a word, from the accumulator. For a compare and swap that only returns whether it
        has swapped, RESULT then overwrites the old number."""
        words = self.words
        instruction = self._instruction
        is_atomic = self._is(MemoryOperation.ATOMIC)
        returns_swap = instruction.compare & ~instruction.atomic.as_value()[2]
        with m.State("STORE_DATA"):
            self._load_note(m)
            m.next = "STORE"
        with m.State("STORE"):
            m.d.comb += words.request.valid.eq(1)
            m.d.comb += words.request.payload.is_write.eq(1)
            with m.If(words.request.ready):
                self._advance_word(m)
                with m.If(words.fault):
                    self._fail(m, WarpError.MMU_FAULT)
                with m.Elif(~self._is_last_word):
                    with m.If(is_atomic):
                        m.next = "OLD"
                    with m.Else():
                        m.next = "ACCESS"
                with m.Else():
                    m.d.comb += self.accumulator.update.eq(Update.CLEAR)
                    m.d.comb += self.events.atomic.eq(is_atomic)
                    with m.If(returns_swap):
                        m.next = "RESULT"
                    with m.Else():
                        m.next = "NEXT_THREAD"

    def _shuffle(self, m: Module) -> None:
        """Reads the note of the source thread, if that executes the shuffle; else the result is
        0."""
        with m.State("SHUFFLE"):
            m.d.comb += self._checked_thread.eq(self._source)
            m.d.sync += self._source_is_idle.eq(~self._executes)
            self._read_fixed_note(m, _DATA, self._source)
            m.next = "SHUFFLED"
        with m.State("SHUFFLED"):
            self._load_note(m)
            with m.If(self._source_is_idle):
                m.d.comb += self.accumulator.update.eq(Update.CLEAR)
            m.next = "RESULT"

    def _put_result(self, m: Module) -> None:
        """Writes the accumulator as the result, and 0 for each further word. After a compare and
        swap the accumulator is 0 and the result is whether it has swapped. The flag of a shuffle is
        whether the source is in the segment."""
        sums = self.accumulator
        has_swapped = self._is_compared & ~self._differs & (self._word == 0)
        with m.State("RESULT"):
            m.d.comb += sums.update.eq(Update.CLEAR)
            self._write_result(m, sums.value | has_swapped, self._source_in_segment)
            self._advance_word(m)
            with m.If(self._is_last_word):
                m.next = "NEXT_THREAD"

    @property
    def _counts(self) -> Value:
        """The atomic operation is INC or DEC."""
        operation = self._instruction.atomic
        return (operation == AtomicOperation.INC) | (operation == AtomicOperation.DEC)

    def _compare(self, m: Module) -> None:
        """Compares the words of the old number, from the notes of the result, with the operand. A
        compare and swap has the new number in the data after the operand: once ``is_compared``,
        OPERAND reads that."""
        instruction = self._instruction
        sums = self.accumulator
        old = sums.value
        operand = self._note.value
        is_double = instruction.words != 1
        is_swap = self._is_compared & instruction.compare
        data_word = Cat(self._word[0] | (is_swap & ~is_double), is_swap & is_double)
        signs_differ = old[-1] ^ operand[-1]
        is_signed = instruction.is_signed & ~self._counts
        with m.State("OLD"):
            self._read_note(m, self._note_of_word(_RESULT))
            m.next = "OPERAND"
        with m.State("OPERAND"):
            self._load_note(m)
            self._read_note(m, Cat(data_word, Const(_DATA // WORDS, _NOTE_BITS - len(data_word))))
            with m.If(self._is_compared):
                m.next = "CHANGE"
            with m.Else():
                m.next = "COMPARE"
        with m.State("COMPARE"):
            # old - operand
            m.d.comb += sums.add_word.eq(1)
            m.d.comb += sums.invert.eq(1)
            m.d.comb += sums.carry_in.eq((self._word == 0) | self._carry)
            m.d.sync += self._carry.eq(sums.carry_out)
            m.d.sync += self._is_less.eq(~sums.carry_out ^ (is_signed & signs_differ))
            m.d.sync += self._differs.eq(self._differs | sums.total.any())
            m.d.sync += self._old_is_nonzero.eq(self._old_is_nonzero | old.any())
            m.d.sync += self._is_compared.eq(self._is_last_word)
            self._advance_word(m)
            m.next = "OLD"

    def _change(self, m: Module) -> None:
        """Computes a word of the new number from the old one's word in the accumulator and the
        operand's in ``note``."""
        instruction = self._instruction
        sums = self.accumulator
        operation = instruction.atomic
        is_decrement = operation == AtomicOperation.DEC
        is_equal = ~self._differs
        with m.State("CHANGE"):
            # The sum: old + operand, old + 1, or old - 1.
            m.d.comb += sums.add_word.eq(~self._counts)
            m.d.comb += sums.invert.eq(is_decrement)
            with m.If(self._word == 0):
                m.d.comb += sums.carry_in.eq(operation == AtomicOperation.INC)
            with m.Else():
                m.d.comb += sums.carry_in.eq(self._carry)
            m.d.sync += self._carry.eq(sums.carry_out)
            with m.If(instruction.compare):
                self._take_operand_if(m, is_equal, Update.HOLD)
            with m.Else():
                self._modify(m, is_equal)
            m.next = "STORE"

    def _take_operand_if(self, m: Module, condition: Value, otherwise: Update) -> None:
        with m.If(condition):
            m.d.comb += self.accumulator.update.eq(Update.WORD)
        with m.Else():
            m.d.comb += self.accumulator.update.eq(otherwise)

    def _modify(self, m: Module, is_equal: Value) -> None:
        """The new number of an atomic operation other than compare and swap. INC: 0 if the old
        number is at least the operand, else old + 1. DEC: the operand if the old number is 0 or
        above the operand, else old - 1."""
        sums = self.accumulator
        can_decrement = self._old_is_nonzero & (self._is_less | is_equal)
        with m.Switch(self._instruction.atomic):
            with m.Case(AtomicOperation.ADD):
                m.d.comb += sums.update.eq(Update.SUM)
            with m.Case(AtomicOperation.MIN):
                self._take_operand_if(m, ~self._is_less, Update.HOLD)
            with m.Case(AtomicOperation.MAX):
                self._take_operand_if(m, self._is_less, Update.HOLD)
            with m.Case(AtomicOperation.INC):
                m.d.comb += sums.update.eq(Mux(self._is_less, Update.SUM, Update.CLEAR))
            with m.Case(AtomicOperation.DEC):
                self._take_operand_if(m, ~can_decrement, Update.SUM)
            with m.Case(AtomicOperation.AND):
                m.d.comb += sums.update.eq(Update.AND)
            with m.Case(AtomicOperation.OR):
                m.d.comb += sums.update.eq(Update.OR)
            with m.Case(AtomicOperation.XOR):
                m.d.comb += sums.update.eq(Update.XOR)
            with m.Default():
                m.d.comb += sums.update.eq(Update.WORD)

    def _end(self, m: Module) -> None:
        """After an error in the first round, starts the second round, which only reads: a thread
        below may have a fault of memory, which then is the error. After an error in the last round,
        ends the instruction."""
        error_is_reported = Cat(
            self.report_mask[error.value] & (self._error == error) for error in _REPORTABLE).any()
        with m.State("FAILED"):
            m.d.sync += self._accesses.eq(1)
            m.d.sync += self._has_bad_thread.eq(1)
            m.d.sync += self._thread.eq(0)
            m.d.sync += self._word.eq(0)
            with m.If(self._accesses):
                m.d.sync += self._is_failed.eq(1)
                m.next = "DONE"
            with m.Else():
                m.next = "THREAD"
        with m.State("DONE"):
            m.d.comb += self.completion.valid.eq(1)
            m.d.comb += self.error.valid.eq(self._is_failed & error_is_reported)
            m.next = "IDLE"

    def _write_registers(self, m: Module) -> None:
        """Writes one register at a time, of all threads, from the notes."""
        port = self.port
        is_last_beat = port.data.wanted.payload.beat == WARP_THREADS - 1
        with m.State("WRITE"):
            m.d.comb += port.write.valid.eq(1)
            with m.If(port.write.ready):
                m.next = "WRITE_DATA"
        with m.State("WRITE_DATA"), m.If(port.data.wanted.valid):
            self._read_note(m, self._note_of_word(_RESULT), port.data.wanted.payload.beat)
            with m.If(is_last_beat):
                m.d.sync += self._word.eq(self._word + 1)
                with m.If(port.write.payload.last):
                    m.next = "IDLE"
                with m.Else():
                    m.next = "WRITE"
