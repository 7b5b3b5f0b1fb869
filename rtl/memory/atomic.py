"""Atomic operations: one thread a cycle."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, enum, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.kinds import AtomicOperation
from rtl.layouts import Event
from rtl.one_hot import chosen_of, one_hot
from rtl.params import WARP_THREADS, SmParams
from rtl.pick import pick
from rtl.structs import common_fields, struct_value

from .access import AccessInstruction, atomic_job
from .crossbar import AtomicPort, beat_half, change_layout, half_content, result_write
from .float_adder import FLOAT_ADDER_CYCLES, FloatAdder
from .instruction import (
    FLOAT_ADD,
    OFFSET_BITS,
    WORDS,
    BeatKind,
    bank_read,
    port_count,
    slot_bits,
)

__all__ = ["AtomicArithmetic", "AtomicPipeline"]

_WORD_BITS = 32
_BITS = 2 * _WORD_BITS
_BYTE_BITS = 2
"""Lower bits of an address: the byte in its word."""
_FLOAT_CYCLES = FLOAT_ADDER_CYCLES + 2
"""Cycles that a sum of floats takes for each thread: the sum is in a register before it is
written."""


class _NewNumber(enum.Enum, shape=3):
    """Which number an operation leaves."""

    ZERO = 0
    SUM = 1
    """Of the old number and the operand, or 1, or -1."""
    OLD = 2
    SWAP = 3
    """The second operand of a compare and swap."""
    COMBINED = 4
    """How a :class:`_Combination` combines the old number and the operand."""


_RESULTS = {
    AtomicOperation.ADD: (_NewNumber.SUM, _NewNumber.SUM),
    AtomicOperation.MIN: (_NewNumber.OLD, _NewNumber.COMBINED),
    AtomicOperation.MAX: (_NewNumber.COMBINED, _NewNumber.OLD),
    AtomicOperation.INC: (_NewNumber.SUM, _NewNumber.ZERO),
    AtomicOperation.DEC: (_NewNumber.SUM, _NewNumber.COMBINED),
}
"""Which number an operation leaves if its condition holds, and which otherwise. Others leave
COMBINED."""


class _Combination(enum.Enum, shape=2):
    """What becomes of each bit of the old number and of the operand."""

    AND = 0
    OR = 1
    XOR = 2
    OPERAND = 3


_COMBINATIONS = {
    AtomicOperation.AND: _Combination.AND,
    AtomicOperation.OR: _Combination.OR,
    AtomicOperation.XOR: _Combination.XOR,
}
"""The bitwise operations. Others take the operand's."""


class AtomicArithmetic(Component):
    """An atomic operation on one number; combinational.

    Numbers are unsigned patterns of 32 or 64 bits, the upper half of narrow ones is 0.

    ====================  ====================  =====================  =====================
    operation             condition             new number if it       otherwise
                                                holds
    ====================  ====================  =====================  =====================
    compare and swap      old == operand        swap                   old
    MIN                   old < operand         old                    operand
    MAX                   old < operand         operand                old
    INC                   old < operand         old + 1                0
    DEC                   0 < old <= operand    old - 1                operand
    ADD, AND, OR, XOR     none                  the result             the result
    others                none                  operand                operand
    ====================  ====================  =====================  =====================

    Members
    -------
    instruction : In(AccessInstruction)
        Its ``atomic``, ``compare`` and ``is_signed`` select the operation.
    wide : In(1)
        Numbers have 64 bits.
    old : In(64)
        The number in memory.
    operands : In(4 words)
        The operand in the first two, ``swap`` of a compare and swap in the other two.
    new, equal : Out(64), Out(1)
        ``equal``: a compare and swap swaps.
    """

    def __init__(self) -> None:
        super().__init__({
            "instruction": In(AccessInstruction),
            "wide": In(1),
            "old": In(_BITS),
            "operands": In(data.ArrayLayout(_WORD_BITS, WORDS)),
            "new": Out(_BITS),
            "equal": Out(1),
        })
        self._operand = Cat(self.operands[0], self.operands[1])
        self._swap = Cat(self.operands[2], self.operands[3])
        self._is_inc = Signal(name="is_inc")
        self._is_dec = Signal(name="is_dec")
        self._is_met = Signal(name="is_met")
        """The condition holds."""
        self._sum = Signal(_BITS, name="sum")
        self._combined = Signal(_BITS, name="combined")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        operation = self.instruction.atomic
        m.d.comb += self._is_inc.eq(operation == AtomicOperation.INC)
        m.d.comb += self._is_dec.eq(operation == AtomicOperation.DEC)
        self._compare(m)
        self._add(m)
        self._combine(m)
        self._select(m)
        return m

    def _compare(self, m: Module) -> None:
        """The condition."""
        is_less = Signal()
        m.d.comb += is_less.eq(self._ordered(self.old) < self._ordered(self._operand))
        m.d.comb += self.equal.eq(self.old == self._operand)
        with m.If(self.instruction.compare):
            m.d.comb += self._is_met.eq(self.equal)
        with m.Elif(self._is_dec):
            m.d.comb += self._is_met.eq(self.old.any() & (is_less | self.equal))
        with m.Else():
            m.d.comb += self._is_met.eq(is_less)

    def _ordered(self, number: Value) -> Value:
        """The number, signed or not, as one without sign and in the same order. INC and DEC are
        never signed."""
        flips_sign = self.instruction.is_signed & ~(self._is_inc | self._is_dec)
        low_sign = flips_sign & ~self.wide
        high_sign = flips_sign & self.wide
        zeros = Const(0, _WORD_BITS - 1)
        return number ^ Cat(zeros, low_sign, zeros, high_sign)

    def _add(self, m: Module) -> None:
        """The sum, by one adder: of the operand, 1 or -1."""
        addend = Signal(_BITS)
        with m.If(self._is_inc):
            m.d.comb += addend.eq(1)
        with m.Elif(self._is_dec):
            m.d.comb += addend.eq(-1)
        with m.Else():
            m.d.comb += addend.eq(self._operand)
        m.d.comb += self._sum.eq(self.old + addend)

    def _combine(self, m: Module) -> None:
        """What is made bit by bit: a table of two bits for each."""
        combination = Signal(_Combination)
        with m.Switch(self.instruction.atomic):
            for operation, combined in _COMBINATIONS.items():
                with m.Case(operation):
                    m.d.comb += combination.eq(combined)
            with m.Default():
                m.d.comb += combination.eq(_Combination.OPERAND)
        results = {
            _Combination.AND: self.old & self._operand,
            _Combination.OR: self.old | self._operand,
            _Combination.XOR: self.old ^ self._operand,
            _Combination.OPERAND: self._operand,
        }
        m.d.comb += self._combined.eq(
            pick([results[each] for each in _Combination], combination.as_value()))

    def _select(self, m: Module) -> None:
        """The new number. The condition is known late: what it decides between is known before."""
        if_met = Signal(_NewNumber)
        otherwise = Signal(_NewNumber)
        with m.If(self.instruction.compare):
            m.d.comb += if_met.eq(_NewNumber.SWAP)
            m.d.comb += otherwise.eq(_NewNumber.OLD)
        with m.Else(), m.Switch(self.instruction.atomic):
            for operation, (met, unmet) in _RESULTS.items():
                with m.Case(operation):
                    m.d.comb += if_met.eq(met)
                    m.d.comb += otherwise.eq(unmet)
            with m.Default():
                m.d.comb += if_met.eq(_NewNumber.COMBINED)
                m.d.comb += otherwise.eq(_NewNumber.COMBINED)
        numbers = {
            _NewNumber.SUM: self._sum,
            _NewNumber.OLD: self.old,
            _NewNumber.SWAP: self._swap,
            _NewNumber.COMBINED: self._combined,
        }
        is_new = Cat(Mux(self._is_met, if_met == each, otherwise == each) for each in numbers)
        m.d.comb += self.new.eq(chosen_of(is_new, list(numbers.values())))


def _thread_operation(params: SmParams) -> data.StructLayout:
    """A thread's operation, from PICK to WRITE.

    Fields
    ------
    begins : 1
        Its first cycle in a stage: in it its number is read, and its result is written.
    valid : 1
        Its last cycle in a stage: in it the new number is written. Both are one cycle, except for
        sums of floats.
    last : 1
        It is the last one of its job.
    thread
    inner
        From READ on: its place inside of its line, or of its CTA's shared memory.
    place
        From ARRIVE on: its place inside of its line, or in shared memory.
    operands : 4 words
        From ARRIVE on: the first operand, and the second one of a compare and swap, each two words
        wide.
    """
    return data.StructLayout({
        "begins": 1,
        "valid": 1,
        "last": 1,
        "thread": range(WARP_THREADS),
        "inner": params.shared_bits,
        "place": params.shared_bits,
        "operands": data.ArrayLayout(_WORD_BITS, WORDS),
    })


class _SamePlace(data.Struct):
    """Which later stage, one, two or three cycles ahead of READ, holds a thread with the same
    address: what that thread writes is used instead of what was read."""

    one: unsigned(1)
    two: unsigned(1)
    three: unsigned(1)


class AtomicPipeline(Component):
    """Takes the threads in ascending order, one a cycle, or one in two cycles if its operands have
    two words. ::

        job --> SELECT --> FETCH --> PICK --> READ --> ARRIVE --> CHANGE --> WRITE
                                               |         ^          ^  |        |
                                               v banks --'          |  v result v change
                                                                    '--- forwarded from WRITE

    ======  ===================================================================================
    stage   what happens
    ======  ===================================================================================
    SELECT  the lowest thread that was not selected yet is selected
    FETCH   places and operands of its half of a beat are read, a word of the operands a cycle
    PICK    the thread's place and word are selected from its half's
    READ    its place is known: its number is read, in both words if it is wide
    ARRIVE  its number is in the banks' registers
    CHANGE  the new number is computed; the old one, or whether a compare and swap has swapped, is
            the result
    WRITE   the new number is written, through the crossbar
    ======  ===================================================================================

    Forwarding: a thread takes what an earlier one writes, if that has the same address and is one,
    two or three cycles ahead, in ARRIVE, CHANGE or WRITE. Threads of one job have the same address
    if they have the same one inside of their line, or of their CTA's shared memory.

    A sum of floats takes :data:`_FLOAT_CYCLES`: the thread stays in each stage for that time. In
    the first cycle its number is read, and is its result. In the last one the sum takes the place
    of its operand, and is what is written.

    Members
    -------
    job : In(stream of atomic_job)
    ready : In(1)
        No other unit uses the banks, and none does as long as this is ``busy``. The next job is
        taken with the last write of the one before.
    busy : Out(1)
    next_slot, instruction : Out(slot), In(AccessInstruction)
        Whose operations the job that is offered has, and their instruction.
    half, content : Out(beat_half), In(half_content)
        The half of a beat that FETCH reads, and what is read of it in the same cycle.
    read : Out(bank_read)
    crossbar : Out(AtomicPort)
        Reads operands, passes the number that was read, and writes the new number.
    result : Out(result_write)
        Old values, of wide numbers a word after the other.
    modified : Out(Event of a tag)
        A line is modified.
    done : Out(Event of a slot)
        Operations in shared memory are done.
    event : Out(1)
        An operation is done.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        tag = atomic_job(params)["tag"].shape
        super().__init__({
            "job": In(stream.Signature(atomic_job(params))),
            "ready": In(1),
            "busy": Out(1),
            "next_slot": Out(slot_bits(params)),
            "instruction": In(AccessInstruction),
            "half": Out(beat_half(params)),
            "content": In(half_content(params)),
            "read": Out(bank_read(params)),
            "crossbar": Out(AtomicPort(params)),
            "result": Out(result_write(params)),
            "modified": Out(Event(tag)),
            "done": Out(Event(slot_bits(params))),
            "event": Out(1),
        })
        self._lane_bits = ceil_log2(params.lanes)
        self._port_bits = ceil_log2(port_count(params))
        self._arithmetic = AtomicArithmetic()
        operation = _thread_operation(params)
        self._job: Any = Signal(atomic_job(params), name="current_job")
        self._instruction: Any = Signal(AccessInstruction, name="current_instruction")
        self._is_wide = Signal(name="is_wide")
        """Numbers have 64 bits."""
        self._adds_floats: Any = Signal(name="adds_floats") if params.floats else Const(0)
        self._last_word = Signal(
            range(_FLOAT_CYCLES if params.floats else WORDS), name="last_word")
        """A thread takes one cycle more than this in each stage."""
        self._job_ends = Signal(name="job_ends")
        """The last thread is in WRITE."""

        self._waiting = Signal(WARP_THREADS, name="waiting")
        """SELECT: threads that are not selected yet."""
        self._thread = Signal(range(WARP_THREADS), name="thread")
        """FETCH: the thread."""
        self._has_thread = Signal(name="has_thread")
        self._word = Signal.like(self._last_word, name="word")
        """FETCH: the word of its operands, or for floats the cycle."""
        self._is_fetched = Signal(name="is_fetched")
        """FETCH: it is the last one."""
        self._pick: Any = Signal(operation, name="pick")
        self._read: Any = Signal(operation, name="reading")
        self._arrive: Any = Signal(operation, name="arrive")
        self._change: Any = Signal(operation, name="changing")
        self._write: Any = Signal(operation, name="writing")

        self._content: Any = Signal(half_content(params), name="fetched_content")
        """PICK: what was read of the half that the thread is in."""
        self._inner = Signal(params.shared_bits, name="inner_place")
        """PICK: the thread's place inside of its line, or of its CTA's shared memory."""
        self._operands: Any = Signal(operation["operands"].shape, name="operands")
        """READ: the thread's operands."""
        self._place = Signal(params.shared_bits, name="place")
        """READ: its place inside of its line, or in shared memory."""
        self._same: Any = Signal(_SamePlace, name="same_place")
        """READ: the stages ahead that hold a thread with the same address."""
        self._old: Any = Signal(_BITS, name="old")
        """CHANGE: the number before the operation."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.arithmetic = self._arithmetic
        self._take_job(m)
        self._select(m)
        self._fetch(m)
        self._pick_thread(m)
        self._locate(m)
        self._advance(m)
        self._read_number(m)
        self._forward(m)
        self._compute(m)
        self._pass_number(m)
        self._write_result(m)
        return m

    def _take_job(self, m: Module) -> None:
        """The job under way. The next one follows its last write."""
        job = self.job
        is_taken = job.valid & job.ready
        m.d.comb += self._job_ends.eq(self._write.valid & self._write.last)
        m.d.comb += job.ready.eq(Mux(self.busy, self._job_ends, self.ready))
        m.d.comb += self.next_slot.eq(job.payload.slot)
        with m.If(is_taken):
            m.d.sync += self._job.eq(job.payload)
            m.d.sync += self._instruction.eq(self.instruction)
            m.d.sync += self.busy.eq(1)
        with m.Elif(self._job_ends):
            m.d.sync += self.busy.eq(0)
        m.d.sync += Assert(~is_taken | job.payload.threads.any(), "a job without threads")
        m.d.sync += Assert(~is_taken | ~self._waiting.any(), "a job is taken before one ends")

        # Words of a thread's operands.
        instruction = self._instruction
        m.d.comb += self._is_wide.eq(instruction.words != 1)
        with m.If(self._adds_floats):
            m.d.comb += self._last_word.eq(_FLOAT_CYCLES - 1)
        with m.Elif(instruction.compare):
            m.d.comb += self._last_word.eq(Mux(self._is_wide, 3, 1))
        with m.Else():
            m.d.comb += self._last_word.eq(self._is_wide)

    def _select(self, m: Module) -> None:
        """SELECT: the next thread. The operand that FETCH reads in the next cycle is known now."""
        ahead = self.crossbar.ahead
        selected = lowest(self._waiting)
        is_selected = self._waiting.any() & (~self._has_thread | self._is_fetched)
        next_thread = Signal.like(self._thread)
        next_word = Signal.like(self._word)
        m.d.comb += next_thread.eq(Mux(is_selected, selected, self._thread))
        m.d.comb += next_word.eq(Mux(self._is_fetched, 0, self._word + self._has_thread))
        m.d.comb += common_fields(ahead, self._half_of(next_thread))
        m.d.comb += ahead.word.eq(next_word)
        m.d.sync += self._thread.eq(next_thread)
        m.d.sync += self._word.eq(next_word)
        with m.If(is_selected):
            m.d.sync += self._has_thread.eq(1)
        with m.Elif(self._is_fetched):
            m.d.sync += self._has_thread.eq(0)
        with m.If(self.job.valid & self.job.ready):
            m.d.sync += self._waiting.eq(self.job.payload.threads)
        with m.Elif(is_selected):
            m.d.sync += self._waiting.eq(self._waiting & ~one_hot(selected, WARP_THREADS))

    def _half_of(self, thread: Value) -> Any:
        """The half of a beat that a thread is in."""
        return struct_value(
            beat_half(self._params),
            slot=self._job.slot,
            beat=thread[self._lane_bits:],
            upper=thread[self._port_bits:self._lane_bits].any())

    def _fetch(self, m: Module) -> None:
        """FETCH: places and a word of half of a beat."""
        pick_stage = self._pick
        is_first_word = ~self._word.any()
        m.d.comb += self.half.eq(self._half_of(self._thread))
        m.d.comb += self._is_fetched.eq(self._has_thread & (self._word == self._last_word))
        with m.If(self._adds_floats):
            m.d.sync += pick_stage.begins.eq(self._has_thread & is_first_word)
        with m.Else():
            m.d.sync += pick_stage.begins.eq(self._is_fetched)
        m.d.sync += pick_stage.valid.eq(self._is_fetched)
        m.d.sync += pick_stage.last.eq(~self._waiting.any())
        m.d.sync += pick_stage.thread.eq(self._thread)

    def _pick_thread(self, m: Module) -> None:
        """PICK: the thread's place and operands. A narrow second operand is where a wide one begins;
        the upper words of narrow numbers are 0."""
        content = self._content
        word = Signal.like(self._word, name="picked_word")
        port = Signal(self._port_bits)
        m.d.sync += content.eq(self.content)
        m.d.sync += word.eq(self._word)
        m.d.sync += port.eq(self._thread[:self._port_bits])
        m.d.comb += self._inner.eq(pick(content.inner, port))

        target = Signal(range(WORDS))
        with m.If(self._is_wide):
            m.d.comb += target.eq(word[:2])
        with m.Else():
            m.d.comb += target.eq(Cat(0, word[:2].any()))
        m.d.sync += self._operands[target].eq(pick(content.values, port))
        with m.If(~self._is_wide):
            m.d.sync += self._operands[1].eq(0)
            m.d.sync += self._operands[3].eq(0)

    def _locate(self, m: Module) -> None:
        """READ: the place in a line; or in shared memory, where the CTA's begins with ``base``."""
        inner = self._read.inner
        in_row = _BYTE_BITS + self._lane_bits
        with m.If(self._job.line):
            m.d.comb += self._place.eq(inner[:OFFSET_BITS])
        with m.Else():
            m.d.comb += self._place.eq(
                Cat(inner[:in_row], inner[in_row:] + self._content.base))

    def _advance(self, m: Module) -> None:
        """From stage to stage."""
        m.d.sync += self._read.eq(self._pick)
        m.d.sync += self._read.inner.eq(self._inner)
        m.d.sync += self._arrive.eq(self._read)
        m.d.sync += self._arrive.place.eq(self._place)
        m.d.sync += self._arrive.operands.eq(self._operands)
        m.d.sync += self._change.eq(self._arrive)
        m.d.sync += self._write.eq(self._change)

    def _read_number(self, m: Module) -> None:
        """READ: the banks. Both words of a wide number are in one row."""
        row = self._place[_BYTE_BITS + self._lane_bits:]
        m.d.comb += self.read.eq(struct_value(
            bank_read(self._params),
            used=self._read.begins,
            kind=Mux(self._job.line, BeatKind.LINE, BeatKind.SHARED),
            tag=self._job.tag,
            slot=self._job.slot,
            rows=row.replicate(self._params.lanes)))

    def _forward(self, m: Module) -> None:
        """The number that was read, or the result of an earlier thread that is in WRITE or was
        there a cycle ago. In place of that 0 was read, so that both are joined by an OR."""
        inner = self._read.inner
        changed = self.crossbar.changed
        same_in_arrive: Any = Signal(_SamePlace)
        same_in_change: Any = Signal(_SamePlace)
        written_before = Signal(_BITS)
        forwarded = Signal(_BITS)
        for other, is_same in ((self._arrive, self._same.one), (self._change, self._same.two),
                               (self._write, self._same.three)):
            m.d.comb += is_same.eq(other.valid & (other.inner == inner))
        m.d.sync += same_in_arrive.eq(self._same)
        m.d.sync += same_in_change.eq(same_in_arrive)
        m.d.sync += written_before.eq(changed)

        with m.If(same_in_arrive.two):
            m.d.comb += forwarded.eq(changed)
        with m.Elif(same_in_arrive.three):
            m.d.comb += forwarded.eq(written_before)
        found: Any = Signal(_BITS)
        m.d.sync += found.eq(forwarded | self.crossbar.found)
        with m.If(~self._is_wide):
            m.d.sync += found[_WORD_BITS:].eq(0)
        m.d.comb += self._old.eq(Mux(same_in_change.one, changed, found))

    def _compute(self, m: Module) -> None:
        """CHANGE: the new number."""
        arithmetic = self._arithmetic
        instruction = self._instruction
        operands = self._change.operands
        m.d.comb += arithmetic.old.eq(self._old)
        m.d.comb += arithmetic.instruction.eq(instruction)
        m.d.comb += arithmetic.wide.eq(self._is_wide)
        m.d.comb += arithmetic.operands.eq(operands)
        if self._params.floats:
            m.submodules.adder = adder = FloatAdder()
            m.d.comb += self._adds_floats.eq(
                ~instruction.compare & (instruction.atomic.as_value() == FLOAT_ADD))
            m.d.comb += adder.a.eq(self._old[:_WORD_BITS])
            m.d.comb += adder.b.eq(operands[0])
            with m.If(self._adds_floats & self._arrive.valid):
                m.d.sync += operands[0].eq(adder.sum)

    def _pass_number(self, m: Module) -> None:
        """What passes the crossbar: in READ the number in its bank, or 0 if it is forwarded from
        another thread; in CHANGE the new number. And the end of the job."""
        job = self._job
        m.d.comb += self.crossbar.change.eq(struct_value(
            change_layout(self._params),
            busy=self.busy,
            bank=self._place[_BYTE_BITS:_BYTE_BITS + self._lane_bits],
            is_read=~(self._same.two | self._same.three),
            is_written=self._change.valid,
            wide=self._is_wide,
            line=job.line,
            tag=job.tag,
            place=self._change.place,
            value=self._arithmetic.new))
        m.d.comb += self.event.eq(self._write.valid)
        m.d.comb += self.modified.valid.eq(self._job_ends & job.line)
        m.d.comb += self.modified.payload.eq(job.tag)
        m.d.comb += self.done.valid.eq(self._job_ends & ~job.line)
        m.d.comb += self.done.payload.eq(job.slot)

    def _write_result(self, m: Module) -> None:
        """CHANGE: the lower word of the old number, or whether it was swapped; in the next cycle
        the upper word of a wide one. A wide operation takes two cycles at least."""
        result = self.result
        instruction = self._instruction
        is_second = Signal()
        is_test = instruction.compare & ~instruction.atomic.as_value()[2]
        low = Signal(_WORD_BITS)
        high = Signal(_WORD_BITS)
        thread = Mux(is_second, self._write.thread, self._change.thread)
        m.d.comb += low.eq(
            Mux(is_test, self._arithmetic.equal, self._old[:_WORD_BITS]))
        m.d.sync += is_second.eq(self._change.valid & self._is_wide)
        m.d.sync += high.eq(Mux(is_test, 0, self._old[_WORD_BITS:]))
        m.d.comb += result.lanes.eq(one_hot(
            thread[:self._lane_bits], self._params.lanes, self._change.begins | is_second))
        m.d.comb += result.slot.eq(self._job.slot)
        m.d.comb += result.beat.eq(thread[self._lane_bits:])
        for word, value in zip(result.words, result.values, strict=True):
            m.d.comb += word.eq(is_second)
            m.d.comb += value.eq(Mux(is_second, high, low))
        m.d.sync += Assert(
            ~(self._change.begins & is_second),
            "two results of an atomic operation in one cycle")
