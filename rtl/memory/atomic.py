"""Atomic operations: one thread a cycle."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.kinds import AtomicOperation
from rtl.layouts import Event
from rtl.one_hot import chosen_of, one_hot
from rtl.params import WARP_THREADS, SmParams
from rtl.pick import pick

from .access import AccessInstruction, atomic_job
from .crossbar import change_layout, result_write
from .float_adder import FLOAT_ADDER_CYCLES, FloatAdder
from .instruction import FLOAT_ADD, OFFSET_BITS, WORDS, BeatKind, bank_read, port_count, row_bits, slot_bits
from .operands import inner_layout, operand_place

__all__ = ["AtomicArithmetic", "AtomicPipeline"]

_BITS = 64
_FLOAT_CYCLES = FLOAT_ADDER_CYCLES + 2
"""Cycles that a sum of floats takes for each thread: the sum is in a register before it is written."""


class AtomicArithmetic(Component):
    """An atomic operation on one number; combinational.

    Numbers are unsigned patterns of 32 or 64 bits, the upper half of narrow ones is 0.

    Members
    -------
    operation, compare, signed, wide : In
        As in the instruction; ``wide`` ones have 64 bits.
    old, operand, swap : In(64)
        ``swap`` is the second operand of a compare and swap.
    new, equal : Out(64), Out(1)
        ``equal``: a compare and swap swaps.
    """

    def __init__(self) -> None:
        super().__init__({
            "operation": In(AtomicOperation), "compare": In(1), "signed": In(1), "wide": In(1), "old": In(_BITS),
            "operand": In(_BITS), "swap": In(_BITS), "new": Out(_BITS), "equal": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        old, operand, equal, less, total = self.old, self.operand, self.equal, Signal(), Signal(_BITS)
        m.d.comb += [less.eq(self._ordered(old) < self._ordered(operand)), equal.eq(old == operand)]
        counts = (self.operation == AtomicOperation.INC) | (self.operation == AtomicOperation.DEC)
        counts_down = self.operation == AtomicOperation.DEC
        addend = Cat(Mux(counts, 1, operand[0]), Mux(counts, counts_down.replicate(_BITS - 1), operand[1:]))
        m.d.comb += total.eq(old + addend)

        # The sum, or the old number, or what swaps with it, or 0, or else what a table of two bits makes of the old
        # number and the operand: one of them if a condition is ``met``, which is known late, or else another one.
        met, table = Signal(), Signal(2)
        sums, stays, swaps, combines = (Signal(2, name=name) for name in ("sums", "stays", "swaps", "combines"))
        both, either, differ, takes = range(4)
        otherwise, holds, always = 0b01, 0b10, 0b11
        m.d.comb += [
            table.eq(takes), met.eq(Mux(
                self.compare, equal, Mux(counts_down, old.any() & (less | equal), less)))]
        with m.If(self.compare):
            m.d.comb += [stays.eq(otherwise), swaps.eq(holds)]
        with m.Else(), m.Switch(self.operation):
            with m.Case(AtomicOperation.ADD):
                m.d.comb += sums.eq(always)
            with m.Case(AtomicOperation.MIN):
                m.d.comb += [stays.eq(holds), combines.eq(otherwise)]
            with m.Case(AtomicOperation.MAX):
                m.d.comb += [stays.eq(otherwise), combines.eq(holds)]
            with m.Case(AtomicOperation.INC):
                m.d.comb += sums.eq(holds)
            with m.Case(AtomicOperation.DEC):
                m.d.comb += [sums.eq(holds), combines.eq(otherwise)]
            with m.Case(AtomicOperation.AND):
                m.d.comb += [combines.eq(always), table.eq(both)]
            with m.Case(AtomicOperation.OR):
                m.d.comb += [combines.eq(always), table.eq(either)]
            with m.Case(AtomicOperation.XOR):
                m.d.comb += [combines.eq(always), table.eq(differ)]
            with m.Default():
                m.d.comb += combines.eq(always)
        combined = pick((old & operand, old | operand, old ^ operand, operand), table)
        m.d.comb += self.new.eq(chosen_of(
            Cat(pick(way, met) for way in (sums, stays, swaps, combines)), (total, old, self.swap, combined)))
        return m

    def _ordered(self, number: Value) -> Value:
        """The number, signed or not, as one without sign and in the same order. INC and DEC are never signed."""
        plain = (self.operation == AtomicOperation.INC) | (self.operation == AtomicOperation.DEC)
        flip = self.signed & ~plain
        return number ^ Cat(Const(0, 31), flip & ~self.wide, Const(0, 31), flip & self.wide)


class AtomicPipeline(Component):
    """Takes the threads in ascending order, one a cycle, or one in as many cycles as its operands have words.

    Stages: the thread is chosen; places and operands of its half are fetched; its own are picked; its number is read;
    it has come; it is changed; it is written. Where one of the three threads before has the same place, the number is
    what that one has left.

    A sum of floats takes :data:`_FLOAT_CYCLES`: the thread stays, and what is in each stage is its own for as long. It
    ``begins`` with the first of them: its number is read, and is its result. In the last one the sum takes the place of
    its operand, and is what is written.

    Members
    -------
    job : In(stream of atomic_job)
    ready : In(1)
        Nobody else uses the banks; nobody else does as long as this is ``busy``. The next job is taken with the last
        write of the one before.
    busy : Out(1)
    slot, next_slot, instruction : Out, Out, In(AccessInstruction)
        Whose operations they are; those of the job that is offered, and their instruction.
    beat, upper, inner, base : Out, Out, In(inner_layout), In(row)
    ahead, values : Out(operand_place), In(a word for each port)
        A word of the threads in half of a beat is read in the next cycle.
    read, found : Out(bank_read), In(64)
        What was read a cycle ago.
    change, changed : Out(change_layout), In(64)
        What is written, by way of the crossbar; in the next cycle.
    result : Out(result_write)
        Old values.
    modified : Out(Event of a tag)
        A line is modified.
    done : Out(Event of a slot)
        Operations in shared memory are done.
    event : Out(1)
        An operation is done.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        words = data.ArrayLayout(32, port_count(params))
        tag = atomic_job(params)["tag"].shape
        super().__init__({
            "job": In(stream.Signature(atomic_job(params))), "ready": In(1), "busy": Out(1),
            "slot": Out(slot_bits(params)), "next_slot": Out(slot_bits(params)),
            "instruction": In(AccessInstruction), "beat": Out(range(params.beats)),
            "upper": Out(1), "inner": In(inner_layout(params)), "base": In(row_bits(params)),
            "ahead": Out(operand_place(params)), "values": In(words),
            "read": Out(bank_read(params)), "found": In(_BITS), "change": Out(change_layout(params)),
            "changed": In(_BITS), "result": Out(result_write(params)), "modified": Out(Event(tag)),
            "done": Out(Event(slot_bits(params))), "event": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self._params
        lane_bits, port_bits = ceil_log2(params.lanes), ceil_log2(port_count(params))
        bank = slice(2, 2 + lane_bits)
        m.submodules.arithmetic = arithmetic = AtomicArithmetic()
        job, ends = Signal(atomic_job(params)), Signal()
        stage = data.StructLayout({         # what goes from one to the next
            "begins": 1, "valid": 1, "last": 1, "inner": params.shared_bits, "place": params.shared_bits,
            "thread": range(WARP_THREADS), "operands": data.ArrayLayout(32, WORDS)})
        picks, reads, comes, changes, writes = (
            Signal(stage, name=name) for name in ("picks", "reads", "comes", "changes", "writes"))
        instruction: Any = Signal(AccessInstruction)
        wide, adds_floats = Signal(), Signal() if params.floats else Const(0)
        last_word = Signal(range(_FLOAT_CYCLES if params.floats else WORDS))
        m.d.comb += [
            ends.eq(writes.valid & writes.last), self.slot.eq(job.slot), self.next_slot.eq(self.job.payload.slot),
            wide.eq(instruction.words != 1), last_word.eq(Mux(
                adds_floats, _FLOAT_CYCLES - 1, Mux(instruction.compare, Mux(wide, 3, 1), wide))),
            self.job.ready.eq(Mux(self.busy, ends, self.ready))]

        # The next thread, and its operands word by word.
        left, thread, has_thread = Signal(WARP_THREADS), Signal(range(WARP_THREADS)), Signal()
        operands, fetched, takes = Signal(data.ArrayLayout(32, WORDS)), Signal(), Signal()
        next_thread, word, next_word = Signal.like(thread), Signal.like(last_word), Signal.like(last_word)
        port, chosen, ahead = thread[:port_bits], lowest(left), self.ahead
        m.d.comb += [
            self.beat.eq(thread[lane_bits:]), self.upper.eq(thread[port_bits]),
            fetched.eq(has_thread & (word == last_word)), takes.eq(left.any() & (~has_thread | fetched)),
            next_thread.eq(Mux(takes, chosen, thread)),
            next_word.eq(Mux(fetched, 0, word + has_thread)), ahead.slot.eq(job.slot),
            ahead.beat.eq(next_thread[lane_bits:]), ahead.upper.eq(next_thread[port_bits]), ahead.word.eq(next_word)]
        m.d.sync += [thread.eq(next_thread), word.eq(next_word)]
        with m.If(ends):
            m.d.sync += self.busy.eq(0)
        with m.If(self.job.valid & self.job.ready):
            m.d.sync += [
                job.eq(self.job.payload), instruction.eq(self.instruction), self.busy.eq(1),
                left.eq(self.job.payload.threads)]
        with m.If(takes):
            m.d.sync += left.eq(left & ~one_hot(chosen, WARP_THREADS))
        with m.If(takes | fetched):
            m.d.sync += has_thread.eq(takes)

        # A narrow second operand goes where a wide one begins; the upper words of narrow numbers stay 0.
        places, values, read_port, came = (Signal.like(of) for of in (self.inner, self.values, port, word))
        m.d.sync += [places.eq(self.inner), values.eq(self.values), read_port.eq(port), came.eq(word)]
        m.d.sync += operands[Cat(came[0] & wide, came[1] | came[0] & ~wide)].eq(pick(values, read_port))
        with m.If(~wide):
            m.d.sync += [operands[1].eq(0), operands[3].eq(0)]

        located, base, inside = Signal(params.shared_bits), Signal.like(self.base), reads.inner
        m.d.comb += [
            reads.operands.eq(operands), located.eq(Mux(job.line, inside[:OFFSET_BITS], Cat(
                inside[:bank.stop], inside[bank.stop:] + base)))]
        m.d.sync += [
            picks.begins.eq(Mux(adds_floats, has_thread & ~word.any(), fetched)), reads.begins.eq(picks.begins),
            picks.valid.eq(fetched), picks.last.eq(~left.any()), picks.thread.eq(thread), reads.valid.eq(picks.valid),
            reads.last.eq(picks.last), reads.thread.eq(picks.thread), reads.inner.eq(pick(places, read_port)),
            base.eq(self.base), comes.eq(reads), comes.place.eq(located), changes.eq(comes), writes.eq(changes)]

        # The number: as it was read, or as an earlier thread has left it; then what was read is 0. Threads of one job
        # have one place if they have it inside of their line, or of their CTA's shared memory.
        first, second_one, third = (other.valid & (other.inner == inside) for other in (comes, changes, writes))
        meets = {name: Signal(name=f"meets_{name}") for name in ("first", "second", "third", "next")}
        m.d.sync += [
            meets["first"].eq(first), meets["second"].eq(second_one), meets["third"].eq(third),
            meets["next"].eq(meets["first"])]
        old, before, new = (Signal(64, name=name) for name in ("old", "before", "new"))
        m.d.comb += new.eq(self.changed)
        m.d.sync += [
            old.eq(Mux(meets["second"], new, Mux(meets["third"], before, 0)) | self.found), before.eq(new)]
        with m.If(~wide):
            m.d.sync += old[32:].eq(0)
        m.d.comb += [
            arithmetic.old.eq(Mux(meets["next"], new, old)), arithmetic.operation.eq(instruction.atomic),
            arithmetic.compare.eq(instruction.compare), arithmetic.signed.eq(instruction.is_signed),
            arithmetic.wide.eq(wide), arithmetic.operand.eq(Cat(changes.operands[0], changes.operands[1])),
            arithmetic.swap.eq(Cat(changes.operands[2], changes.operands[3]))]
        if params.floats:
            m.submodules.adder = adder = FloatAdder()
            m.d.comb += [
                adds_floats.eq(~instruction.compare & (instruction.atomic.as_value() == FLOAT_ADD)),
                adder.a.eq(arithmetic.old[:32]), adder.b.eq(changes.operands[0])]
            with m.If(adds_floats & comes.valid):
                m.d.sync += changes.operands[0].eq(adder.sum)

        # Banks. Both words of a wide number are in one row.
        read, change = self.read, self.change
        m.d.comb += [
            read.used.eq(reads.begins), read.kind.eq(Mux(job.line, BeatKind.LINE, BeatKind.SHARED)),
            read.tag.eq(job.tag), read.slot.eq(job.slot), change.busy.eq(self.busy),
            change.source.eq(located[bank]), change.wants.eq(~(second_one | third)),
            change.valid.eq(changes.valid), change.wide.eq(wide),
            change.line.eq(job.line), change.tag.eq(job.tag), change.place.eq(changes.place),
            change.value.eq(arithmetic.new)]
        m.d.comb += [row.eq(located[bank.stop:]) for row in read.rows]

        # Old values, of wide numbers a word after the other; or whether they have been swapped.
        result, low, high = self.result, Signal(32), Signal(32)
        second, tests = Signal(), instruction.compare & ~instruction.atomic.as_value()[2]
        m.d.comb += low.eq(Mux(tests, arithmetic.equal, arithmetic.old[:32]))
        m.d.sync += [second.eq(changes.valid & wide), high.eq(Mux(tests, 0, arithmetic.old[32:]))]
        who = Mux(second, writes.thread, changes.thread)
        m.d.comb += [
            result.lanes.eq(one_hot(who[:lane_bits], params.lanes, changes.begins | second)),
            result.slot.eq(job.slot), result.beat.eq(who[lane_bits:])]
        m.d.comb += [word.eq(second) for word in result.words]
        m.d.comb += [value.eq(Mux(second, high, low)) for value in result.values]
        m.d.sync += Assert(~(changes.begins & second), "two results of an atomic operation in one cycle")
        m.d.comb += [
            self.event.eq(writes.valid), self.modified.valid.eq(ends & job.line), self.modified.payload.eq(job.tag),
            self.done.valid.eq(ends & ~job.line), self.done.payload.eq(job.slot)]
        return m
