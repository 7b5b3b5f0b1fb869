"""Which warp slots and CTA slots are free, and when a CTA is over."""

from amaranth.hdl import Assert, Const, Module, Signal
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.layouts import Event, warp_exit
from rtl.params import SmParams
from rtl.population import population
from rtl.words import Words

__all__ = ["SlotKeeper"]


class SlotKeeper(Component):
    """Keeps the slots, and checks one CTA slot a cycle, in turn: a CTA whose warps have all ended
    is over.

    Two that come at once: a CTA may begin in the cycle in which another one is over; it has a slot
    that was free before.

    Members
    -------
    slots, ctas : In(warps), In(warps)
        Which slots the grid can use.
    wanted : In(7)
        Warps of a CTA.
    has_room : Out(1)
        There was a free CTA slot, and there were enough free warp slots, a cycle ago and two cycles
        ago.
    begin, cta : In(1), Out
        A CTA begins in CTA slot ``cta``, the lowest free one.
    take, slot : In(1), Out
        A warp of it begins in ``slot``, the lowest of those that were free when the CTA began.
    complete : In(1)
        It has all its warps.
    exit : In(Event of warp_exit)
    drained : In(warps)
        Nothing of these warps is under way.
    over, kept : Out(1), Out(1)
        A CTA is over; a thread of it has left by EXIT.KEEPREFCOUNT.
    occupied, active : Out(warps), Out(warps)
        Warp slots and CTA slots that are not free.
    running : Out(warps)
        Warp slots with a warp that has not ended.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps = params.warps
        bits = params.warp_bits
        super().__init__({
            "slots": In(warps),
            "ctas": In(warps),
            "wanted": In(7),
            "has_room": Out(1),
            "begin": In(1),
            "cta": Out(bits),
            "take": In(1),
            "slot": Out(bits),
            "complete": In(1),
            "exit": In(Event(warp_exit(params))),
            "drained": In(warps),
            "over": Out(1),
            "kept": Out(1),
            "occupied": Out(warps),
            "active": Out(warps),
            "running": Out(warps),
        })
        self._members = Words(warps, warps)
        """Of each CTA slot, the warp slots of its CTA."""
        self._ended = Signal(warps)
        self._kept = Signal(warps)
        """Warp slots: the warp has ended; a thread of it has left by EXIT.KEEPREFCOUNT."""
        self._complete = Signal(warps)
        """CTA slots with a CTA that has all its warps."""
        self._free = Signal(warps)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.members = self._members
        m.d.comb += self._free.eq(self.slots & ~self.occupied)
        m.d.comb += self.running.eq(self.occupied & ~self._ended)
        self._find_room(m)
        # In this order: a slot that is taken is not free.
        self._free_slots(m)
        self._take_slots(m)
        self._end_warps(m)
        return m

    def _find_room(self, m: Module) -> None:
        """Whether a CTA can begin: known two cycles after the slots have changed."""
        free_ctas = self.ctas & ~self.active
        free_count = Signal(7)
        has_cta = Signal()
        is_settled = Signal(2)
        changes = self.begin | self.take | self.over
        m.d.comb += self.cta.eq(lowest(free_ctas))
        m.d.sync += free_count.eq(population(self._free))
        m.d.sync += has_cta.eq(free_ctas.any())
        m.d.sync += is_settled.eq(is_settled << 1 | ~changes)
        m.d.comb += self.has_room.eq(
            is_settled.all() & has_cta & (free_count >= self.wanted))

    def _free_slots(self, m: Module) -> None:
        """Checks a CTA slot. Its warps have ended, and nothing of them is under way: it is free."""
        checked = Signal(self._params.warp_bits)
        checked_bit = Const(1, self._params.warps) << checked
        members = self._members.read(m, checked)
        is_over = (~members | (self._ended & self.drained)).all()
        m.d.sync += checked.eq(checked + 1)
        m.d.comb += self.over.eq(self._complete.bit_select(checked, 1) & is_over)
        m.d.comb += self.kept.eq((members & self._kept).any())
        with m.If(self.over):
            m.d.sync += self.occupied.eq(self.occupied & ~members)
            m.d.sync += self._complete.eq(self._complete & ~checked_bit)
            m.d.sync += self.active.eq(self.active & ~checked_bit)

    def _take_slots(self, m: Module) -> None:
        """A CTA begins, and takes a warp slot for each of its warps."""
        cta = Signal(self._params.warp_bits)
        members = Signal(self._params.warps)
        available = Signal(self._params.warps)
        slot_bit = Const(1, self._params.warps) << self.slot
        m.d.comb += self.slot.eq(lowest(available))
        with m.If(self.begin):
            m.d.sync += cta.eq(self.cta)
            m.d.sync += members.eq(0)
            m.d.sync += available.eq(self._free)
            m.d.sync += self.active.bit_select(self.cta, 1).eq(1)
        with m.If(self.take):
            m.d.sync += members.eq(members | slot_bit)
            m.d.sync += available.eq(available & (available - 1))
            m.d.sync += self.occupied.bit_select(self.slot, 1).eq(1)
            m.d.sync += self._ended.bit_select(self.slot, 1).eq(0)
            m.d.sync += self._kept.bit_select(self.slot, 1).eq(0)
        with m.If(self.complete):
            m.d.sync += self._complete.bit_select(cta, 1).eq(1)
        self._members.write(m, self.complete, cta, members)
        m.d.sync += Assert(~(self.take & ~available.any()), "a CTA takes a slot that is not free")

    def _end_warps(self, m: Module) -> None:
        """Warps end."""
        exits = self.exit.valid
        exit_ = self.exit.payload
        with m.If(exits & exit_.terminated):
            m.d.sync += self._ended.bit_select(exit_.warp, 1).eq(1)
        with m.If(exits & exit_.kept):
            m.d.sync += self._kept.bit_select(exit_.warp, 1).eq(1)
