"""Every instruction that the memory unit accepts gets one slot, in rotation, when it is free, and
its gathers once.

Instructions arrive at any time while there is room; slots and operand buffers become free at any
time; the lanes accept gathers at any time, but none in the first cycle in which it is offered.

1. The head of the queue gets a slot in the cycle after it leaves, unchanged: the slot after the
   last one given, which is free, and an operand buffer that is free.
2. An instruction with any access is gathered once, or twice if it has more operands: the first
   gather, then the second, and the last one is marked; all of them before the next instruction gets
   its slot. For others nothing is gathered.
3. An offered gather does not change until it is accepted, and the registers that it reads do not
   change from the second cycle on.

That the queue loses nothing, and keeps the order, is another theorem.
"""

from typing import Any

from amaranth.hdl import Assume, Elaboratable, Module, Mux, Signal, Value

from rtl.memory.front import MemoryFront
from rtl.memory.instruction import entry_bits, slot_bits
from rtl.one_hot import one_hot
from rtl.params import PRESETS
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import Anything, Past, can_happen, claim, free, no_reset
from sim.checks.formal.theorem import Theorem

_PARAMS = PRESETS["tiny"]
_SLOTS, _ENTRIES = 1 << slot_bits(_PARAMS), 1 << entry_bits(_PARAMS)


class _Spec(Elaboratable):
    """The front with unconstrained instructions, writeback, and lanes."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        dut: Any = MemoryFront(_PARAMS)
        dut.queue = Anything(dut.queue)
        m.submodules.dut = dut
        past, begun, gather, taken, head = Past(m), dut.begun, dut.gather, dut.taken, dut.queue.head
        free(m, dut)
        no_reset(m)
        slot, job = begun.payload.slot, begun.payload.job
        entry, leaves = slot[: entry_bits(_PARAMS)], head.valid & head.ready
        for bits, number, count in ((dut.busy, slot, _SLOTS), (dut.kept, entry, _ENTRIES)):
            given = past(one_hot(number, count, begun.valid))
            m.d.comb += Assume(
                bits & ~past(bits) == given & ~past(bits), "a slot has one instruction"
            )
        m.d.comb += Assume(
            ~(gather.ready & gather.valid) | past(gather.valid & ~gather.ready),
            "no gather is taken when it is first offered",
        )

        # Slots in rotation
        next_ = Signal.like(slot)
        m.d.sync += next_.eq(next_ + begun.valid)
        claim(m, begun.valid == past(leaves), "an instruction that leaves the queue gets a slot")
        claim(m, Value.cast(job) == past(Value.cast(head.payload)), "as it came", when=begun.valid)
        claim(m, slot == Mux(dut.has_slot, (next_ - ~begun.valid)[: len(slot)], 0), "in turn")
        claim(m, dut.has_slot | (next_ == 0), "the first one first")
        claim(
            m,
            ~dut.busy.bit_select(slot, 1) & ~dut.kept.bit_select(entry, 1),
            "that is free",
            when=begun.valid,
        )
        can_happen(
            m,
            begun.valid
            & past(past(head.valid & ~head.ready & dut.kept.bit_select(next_[: len(entry)], 1))),
            "it has waited for a place",
        )

        # Gathers: how many remain of the instruction that got the last slot
        left, idle = Signal(2), head.payload.idle
        with m.If(leaves):
            m.d.sync += left.eq(Mux(idle, 0, 1 + head.payload.second))
        with m.Elif(taken.valid):
            m.d.sync += left.eq(left - 1)
        claim(m, taken.valid == (gather.valid & gather.ready), "a taken instruction is reported")
        claim(
            m,
            (left != 0) & (taken.payload.slot == slot),
            "it is of the instruction",
            when=taken.valid,
        )
        claim(
            m, taken.payload.second == (job.second & (left == 1)), "the first one, then the second"
        )
        claim(m, taken.payload.last == (left == 1), "the last one is marked", when=left != 0)
        claim(
            m,
            gather.payload.index == taken.payload.second,
            "so do the lanes hear",
            when=taken.valid,
        )
        claim(m, left <= Mux(taken.valid, 1, 0), "all before the next one", when=leaves)
        claim(m, gather.valid == ((left != 0) | leaves & ~idle), "what is offered")
        claim(m, left <= 1 + job.second, "so many")
        claim(m, gather.valid, "it stays", when=past(gather.valid & ~gather.ready))
        claim(
            m,
            Value.cast(gather.payload) == past(Value.cast(gather.payload)),
            "as it is",
            when=past(gather.valid & ~gather.ready) & past(past(gather.valid & ~gather.ready)),
        )
        can_happen(m, taken.valid & taken.payload.second, "there is a second one")
        can_happen(
            m, taken.valid & leaves & ~idle, "the next one's is offered when the last one is taken"
        )
        return m


THEOREM = Theorem(
    _Spec,
    depth=3,
    cover_depth=11,
    faults=(
        Fault("rtl.memory.front", "is_done & slot_is_free", "is_done"),
        Fault("rtl.memory.front", " & entry_is_free", ""),
        Fault(
            "rtl.memory.front",
            "~self._is_gathering | (self.gather.ready & self.taken.payload.last)",
            "~self._is_gathering | self.gather.ready",
        ),
        Fault("rtl.memory.front", "is_last = is_second == job.second", "is_last = Signal(init=1)"),
        Fault("rtl.memory.front", "self._is_gathering.eq(~is_last)", "self._is_gathering.eq(0)"),
    ),
)
