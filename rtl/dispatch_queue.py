"""Where what cannot be refused waits for its turn: dispatched instructions for their unit."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import memory, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import UNDER_WAY, EventLayout

__all__ = ["DispatchQueue"]


class DispatchQueue(Component):
    """Keeps what was dispatched to a unit, and hands it on in order.

    Parameters
    ----------
    layout
        Of an instruction, as the unit has decoded it.
    places
        How many there are: a power of two. One is a register, for a machine that has one instruction under way at a
        time; then the next two parameters mean nothing.
    under_way
        Instructions that may still come after the queue has said that it is full: from being ready to dispatch.
    decoding
        Cycles from dispatch to arrival here; an instruction a cycle may be on this way.
    bypass
        What arrives is handed on in the same cycle if nobody waits.

    Members
    -------
    arriving : In(EventLayout of an instruction)
    room : Out(1)
        There is room for an instruction whenever it comes, if it is selected now. Of a single place: it is empty, and
        nothing arrives.
    head : Out(stream of instructions)

    Attributes
    ----------
    bypass : bool
        As above.
    places : Memory of instructions, or a Signal of one
    oldest, level, next : Signal
        The place of the head, if anything waits; how many wait, in this and the next places; the place behind these.
    """

    def __init__(self, layout: ShapeLike, *, places: int = 16, under_way: int = UNDER_WAY, decoding: int = 0,
                 bypass: bool = False) -> None:
        self._places, self.bypass = places, bypass
        self._enough = places - under_way - decoding
        super().__init__({
            "arriving": In(EventLayout(layout)), "room": Out(1),
            "head": Out(stream.Signature(layout))})
        self.places: Any = (Signal(layout, reset_less=True) if places == 1
                            else memory.Memory(shape=layout, depth=places, init=[]))
        self.oldest, self.level, self.next = Signal(range(places)), Signal(range(places + 1)), Signal(range(places))

    def elaborate(self, platform: object) -> Module:
        if self._places == 1:
            return self._register()
        m = Module()
        arriving, head = self.arriving, self.head
        m.submodules.places = places = self.places
        write, read = places.write_port(), places.read_port(domain="comb")
        level, taken, waits = self.level, Signal(), Signal()
        content: Any = Value.cast(read.data)
        if self.bypass:
            content = Mux(waits, content, Value.cast(write.data))
        # What leaves in the cycle in which it comes is written as well: that it leaves is known late.
        m.d.comb += [
            write.en.eq(arriving.valid), write.data.eq(arriving.payload), waits.eq(level != 0),
            head.valid.eq(waits | (arriving.valid if self.bypass else 0)), taken.eq(head.valid & head.ready),
            head.payload.eq(content), self.room.eq(level <= self._enough), read.addr.eq(self.oldest),
            write.addr.eq(self.next)]
        m.d.sync += [
            self.next.eq(self.next + arriving.valid), self.oldest.eq(self.oldest + taken),
            level.eq(level + arriving.valid - taken),
            Assert(~(arriving.valid & ~taken & (level == self._places)), "more comes than there is room for")]
        return m

    def _register(self) -> Module:
        """A single place."""
        m = Module()
        arriving, head, level, taken = self.arriving, self.head, self.level, Signal()
        kept, come = Value.cast(self.places), Value.cast(arriving.payload)
        m.d.comb += [
            head.valid.eq(level | (arriving.valid if self.bypass else 0)), taken.eq(head.valid & head.ready),
            head.payload.eq(Mux(level, kept, come) if self.bypass else kept), self.room.eq(~(level | arriving.valid))]
        with m.If(arriving.valid):
            m.d.sync += kept.eq(come)
        m.d.sync += [
            level.eq(arriving.valid & ~(self.bypass & taken) | level & ~taken),
            Assert(~(arriving.valid & level), "more comes than there is room for")]
        return m
