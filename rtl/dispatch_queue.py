"""Queues of dispatched instructions before their unit, which cannot refuse them."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import UNDER_WAY, Event
from rtl.words import Words

__all__ = ["DispatchQueue"]


class DispatchQueue(Component):
    """A FIFO of the instructions that were dispatched to a unit.

    Parameters
    ----------
    layout
        The shape of an instruction, as the unit has decoded it.
    places
        The depth of the queue: a power of two. Depth 1 is a register, for a machine that has one
        instruction under way at a time; then the next two parameters are ignored.
    under_way
        Instructions that may still arrive after ``room`` became 0: those between selection and
        dispatch.
    decoding
        Cycles from dispatch to arrival here; an instruction a cycle may be on this way.
    bypass
        What arrives is passed on in the same cycle if nothing waits.

    Members
    -------
    arriving : In(Event of an instruction)
    room : Out(1)
        The queue will have room for an instruction that issue selects in this cycle. If it has a
        single place: that is empty, and nothing arrives.
    head : Out(stream of instructions)

    Attributes
    ----------
    bypass : bool
        As above.
    places : Words of instructions, or a Signal of one
    oldest, level, next : Signal
        The place of the head, if anything waits; how many wait, in this and the next places; the
        place behind these.
    """

    def __init__(self, layout: ShapeLike, *, places: int = 16, under_way: int = UNDER_WAY,
                 decoding: int = 0, bypass: bool = False) -> None:
        self._places = places
        self.bypass = bypass
        self._highest_level_with_room = places - under_way - decoding
        super().__init__({
            "arriving": In(Event(layout)),
            "room": Out(1),
            "head": Out(stream.Signature(layout)),
        })
        self.places: Any
        if places == 1:
            self.places = Signal(layout, reset_less=True)
        else:
            self.places = Words(layout, places)
        self.oldest = Signal(range(places))
        self.level = Signal(range(places + 1))
        self.next = Signal(range(places))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if self._places == 1:
            self._keep_in_register(m)
        else:
            self._keep_in_memory(m)
        return m

    def _keep_in_memory(self, m: Module) -> None:
        """Several places, used in rotation. What is passed on in the cycle in which it arrives is
        written as well: whether it is taken is known late."""
        m.submodules.places = places = self.places
        arriving = self.arriving
        head = self.head
        level = self.level
        is_waiting = Signal()
        is_taken = Signal()
        m.d.comb += is_waiting.eq(level != 0)
        m.d.comb += is_taken.eq(head.valid & head.ready)
        m.d.comb += self.room.eq(level <= self._highest_level_with_room)
        places.write(m, arriving.valid, self.next, arriving.payload)
        with m.If(is_waiting):
            m.d.comb += head.valid.eq(1)
        if self.bypass:
            with m.Else():
                m.d.comb += head.valid.eq(arriving.valid)
        content: Any = Value.cast(places.read(m, self.oldest))
        if self.bypass:
            content = Mux(is_waiting, content, Value.cast(arriving.payload))
        m.d.comb += head.payload.eq(content)
        m.d.sync += self.next.eq(self.next + arriving.valid)
        m.d.sync += self.oldest.eq(self.oldest + is_taken)
        m.d.sync += level.eq(level + arriving.valid - is_taken)
        overflows = arriving.valid & ~is_taken & (level == self._places)
        m.d.sync += Assert(~overflows, "more comes than there is room for")

    def _keep_in_register(self, m: Module) -> None:
        """A single place."""
        arriving = self.arriving
        head = self.head
        is_full = self.level
        is_taken = Signal()
        kept = Value.cast(self.places)
        arrived = Value.cast(arriving.payload)
        m.d.comb += is_taken.eq(head.valid & head.ready)
        m.d.comb += self.room.eq(~(is_full | arriving.valid))
        if self.bypass:
            m.d.comb += head.valid.eq(is_full | arriving.valid)
            m.d.comb += head.payload.eq(Mux(is_full, kept, arrived))
            m.d.sync += is_full.eq((arriving.valid & ~is_taken) | (is_full & ~is_taken))
        else:
            m.d.comb += head.valid.eq(is_full)
            m.d.comb += head.payload.eq(kept)
            m.d.sync += is_full.eq(arriving.valid | (is_full & ~is_taken))
        with m.If(arriving.valid):
            m.d.sync += kept.eq(arrived)
        m.d.sync += Assert(~(arriving.valid & is_full), "more comes than there is room for")
