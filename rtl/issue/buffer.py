"""The instructions of a warp that wait to be issued."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import GROUP_INSTRUCTIONS

from .records import BUFFERED_GROUPS, Scheduling, Slot

__all__ = ["GroupBuffer"]


class GroupBuffer(Component):
    """A queue of groups; what decides when they issue is kept here, the rest in InstructionStore.

    Members
    -------
    arrives, group, first : In(1), In(3 Scheduling), In(range(3))
        A group comes; the first one after ``flush`` begins at number ``first``.
    claimed : In(1)
        A group will come.
    taken : In(1)
        The instruction at the head goes.
    flush : In(1)
        All that is there, comes or will come counts for nothing.
    entry : Out
        Where a group that comes is put.
    valid, head, slot : Out(1), Out(Scheduling), Out(Slot)
        The next instruction, and where it is.
    room : Out(1)
        There is a place that no group has claimed.
    """

    def __init__(self) -> None:
        super().__init__({
            "arrives": In(1), "group": In(data.ArrayLayout(Scheduling, GROUP_INSTRUCTIONS)),
            "first": In(range(GROUP_INSTRUCTIONS)), "claimed": In(1), "taken": In(1), "flush": In(1),
            "entry": Out(range(BUFFERED_GROUPS)), "valid": Out(1), "head": Out(Scheduling), "slot": Out(Slot),
            "room": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        groups: Any = Signal(data.ArrayLayout(self.group.shape(), BUFFERED_GROUPS))
        present, claims = Signal(range(BUFFERED_GROUPS + 1)), Signal(range(BUFFERED_GROUPS + 1))
        slot, released = self.slot, Signal()
        flat = Array(groups[entry][min(number, GROUP_INSTRUCTIONS - 1)].as_value()
                     for number in range(1 << len(slot.number)) for entry in range(BUFFERED_GROUPS))
        m.d.comb += [
            self.valid.eq(present != 0), self.head.eq(flat[Cat(slot.entry, slot.number)]),
            self.room.eq(claims != BUFFERED_GROUPS),
            released.eq(self.taken & (slot.number == GROUP_INSTRUCTIONS - 1))]

        with m.If(self.taken):
            m.d.sync += slot.number.eq(slot.number + 1)
        with m.If(released):
            m.d.sync += [slot.number.eq(0), slot.entry.eq(slot.entry + 1)]
        with m.If(self.arrives):
            m.d.sync += self.entry.eq(self.entry + 1)
            for entry in range(BUFFERED_GROUPS):
                with m.If(self.entry == entry):
                    m.d.sync += groups[entry].eq(self.group)
            with m.If(present == 0):
                m.d.sync += slot.number.eq(self.first)
        with m.If(self.arrives | self.taken | self.claimed):
            m.d.sync += [present.eq(present + self.arrives - released), claims.eq(claims + self.claimed - released)]
        with m.If(self.flush):
            m.d.sync += [present.eq(0), claims.eq(0), self.entry.eq(0), slot.entry.eq(0), slot.number.eq(0)]
        return m
