"""Which warp slots and CTA slots are free, and which CTA is finished."""

from amaranth.hdl import Assert, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.layouts import Event, warp_exit
from rtl.params import SmParams
from rtl.population import population
from rtl.words import Words

from .plan import WARP_COUNT_BITS, planned_grid

__all__ = ["SlotKeeper", "SlotTaking"]


class SlotTaking(wiring.Signature):
    """Takes warp slots for a CTA, one by one; directions are those of the requester.

    Members
    -------
    take : Out(1)
        Takes ``slot``. Each cycle with ``take`` takes one more slot.
    slot : In
        The lowest slot that the CTA can take, in the same cycle.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({"take": Out(1), "slot": In(params.warp_bits)})


class SlotKeeper(Component):
    """Records which slots are free. A CTA takes its slots while it is started, between ``begin``
    and ``complete``; only one CTA is started at a time.

    To release slots it checks one CTA slot in each cycle, in a fixed rotation. A CTA is finished
    when it is complete, and each of its warps has terminated and is drained; this is found at most
    as many cycles later as there are CTA slots, and all slots of the CTA become free together.

    Simultaneous requests: ``begin`` and ``over`` in one cycle concern different CTA slots, since a
    slot becomes free in the cycle after ``over``. So do ``taking.take`` and ``over``.

    Members
    -------
    planned : In(planned_grid)
        Which slots the grid can use, and how many warps a CTA has.
    has_room : Out(1)
        There is a free CTA slot, and there are enough free warp slots for a CTA. It is computed
        from the slots of the cycle before, and is 0 in the two cycles after ``begin``,
        ``taking.take`` or ``over``.
    begin, cta : In(1), Out
        A CTA starts in CTA slot ``cta``, the lowest free one in this cycle. Only with ``has_room``.
    taking : In(SlotTaking)
        A warp of the CTA starts, in the lowest slot of those that were free at ``begin`` and that
        the CTA has not taken yet. From the cycle after ``begin`` on.
    complete : In(1)
        The CTA has taken slots for all its warps. In a cycle without ``take``.
    exit : In(Event of warp_exit)
        From the cycle after the warp took its slot on.
    drained : In(warps)
        Nothing of these warps is in flight.
    over, kept : Out(1), Out(1)
        ``over`` is 1 for one cycle: a CTA is finished, and its slots are free in the next cycle.
        ``kept`` is then 1 if a thread of it has executed EXIT.KEEPREFCOUNT.
    occupied, active : Out(warps), Out(warps)
        Warp slots and CTA slots that are not free.
    running : Out(warps)
        Warp slots with a warp that has not terminated.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps = params.warps
        bits = params.warp_bits
        super().__init__({
            "planned": In(planned_grid(params)),
            "has_room": Out(1),
            "begin": In(1),
            "cta": Out(bits),
            "taking": In(SlotTaking(params)),
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
        """For each CTA slot, a mask of the warp slots of its CTA."""
        self._ended = Signal(warps)
        self._kept = Signal(warps)
        """Masks of warp slots: the warp has terminated; a thread of it has executed
        EXIT.KEEPREFCOUNT."""
        self._complete = Signal(warps)
        """Mask of CTA slots with a CTA that has taken slots for all its warps."""
        self._free = Signal(warps)
        """Mask of warp slots that the grid can use and that are free."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.members = self._members
        m.d.comb += self._free.eq(self.planned.slots & ~self.occupied)
        m.d.comb += self.running.eq(self.occupied & ~self._ended)
        self._find_room(m)
        # The order matters: bits that _take_slots assigns override the masks that _free_slots does.
        self._free_slots(m)
        self._take_slots(m)
        self._end_warps(m)
        return m

    def _find_room(self, m: Module) -> None:
        """Computes ``has_room`` in a register, which is valid again in the third cycle after a
        change."""
        free_ctas = self.planned.ctas & ~self.active
        free_count = Signal(WARP_COUNT_BITS)
        has_cta = Signal()
        is_settled = Signal(2)
        changes = self.begin | self.taking.take | self.over
        m.d.comb += self.cta.eq(lowest(free_ctas))
        m.d.sync += free_count.eq(population(self._free))
        m.d.sync += has_cta.eq(free_ctas.any())
        m.d.sync += is_settled.eq(is_settled << 1 | ~changes)
        m.d.comb += self.has_room.eq(
            is_settled.all() & has_cta & (free_count >= self.planned.warps))

    def _free_slots(self, m: Module) -> None:
        """Checks one CTA slot; if its CTA is finished, the slot and its warp slots become free."""
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
        """Takes a CTA slot, and then a warp slot for each warp of the CTA."""
        cta = Signal(self._params.warp_bits)
        members = Signal(self._params.warps)
        available = Signal(self._params.warps)
        take = self.taking.take
        slot = self.taking.slot
        slot_bit = Const(1, self._params.warps) << slot
        m.d.comb += slot.eq(lowest(available))
        with m.If(self.begin):
            m.d.sync += cta.eq(self.cta)
            m.d.sync += members.eq(0)
            m.d.sync += available.eq(self._free)
            m.d.sync += self.active.bit_select(self.cta, 1).eq(1)
        with m.If(take):
            m.d.sync += members.eq(members | slot_bit)
            m.d.sync += available.eq(available & (available - 1))
            m.d.sync += self.occupied.bit_select(slot, 1).eq(1)
            m.d.sync += self._ended.bit_select(slot, 1).eq(0)
            m.d.sync += self._kept.bit_select(slot, 1).eq(0)
        with m.If(self.complete):
            m.d.sync += self._complete.bit_select(cta, 1).eq(1)
        self._members.write(m, self.complete, cta, members)
        m.d.sync += Assert(~(take & ~available.any()), "a CTA takes a slot that is not free")

    def _end_warps(self, m: Module) -> None:
        """Records which warps have terminated, and which have executed EXIT.KEEPREFCOUNT."""
        exits = self.exit.valid
        exit_ = self.exit.payload
        with m.If(exits & exit_.terminated):
            m.d.sync += self._ended.bit_select(exit_.warp, 1).eq(1)
        with m.If(exits & exit_.kept):
            m.d.sync += self._kept.bit_select(exit_.warp, 1).eq(1)
