"""Priorities: an order of requesters, and which ready warp is selected."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Policy
from rtl.params import SmParams

__all__ = ["FAVOUR_INTERVAL", "Order", "WarpPriority", "window_cycles"]

_PART = 8
"""Requesters of an order without parts, at most."""
FAVOUR_INTERVAL = 8
"""Of so many windows one favours a warp."""


def window_cycles(beats: int) -> int:
    """Cycles for which a favoured warp has priority: the lanes become free several times, or once
    after an instruction of a quarter of the rate."""
    return max(16, 8 * beats)


class Order:
    """An order of ``count`` requesters, as a bit for each pair of them: a choice among eight is two
    levels of logic.

    More than eight are parts of eight. The parts have an order, and each part has one. When one
    requester becomes the last, its whole part becomes the last part: with more than eight the order
    is only approximately that of time.
    """

    def __init__(self, count: int, name: str = "order") -> None:
        self._parts: list[Order] = []
        if count > _PART:
            self._parts = [Order(_PART, f"{name}_{part}") for part in range(count // _PART)]
        places = len(self._parts) or count
        self._is_later = {
            (i, j): Signal(name=f"{name}_{i}_{j}") for j in range(places) for i in range(j)}
        """Of each pair, i < j: whether i comes after j."""

    def first(self, requests: Any) -> Any:
        """One-hot: the first of those that request, a bit each; 0 if none does."""
        if not self._parts:
            return self._first_of(list(requests))
        members = [self._members(requests, part) for part in range(len(self._parts))]
        first_part = self._first_of([octet.any() for octet in members])
        return Cat(
            part.first(octet) & is_first.replicate(_PART)
            for part, octet, is_first in zip(self._parts, members, first_part, strict=True))

    def update(self, m: Module, behind: Any) -> None:
        """From the next cycle on, the requester of ``behind`` (one-hot) is the last one. Two at
        once, one that begins and one that has issued, are the last two, the lower number first.
        Each bit of the order is a register that one of its pair sets and the other one resets,
        without logic."""
        if self._parts:
            members = [self._members(behind, part) for part in range(len(self._parts))]
            for part, octet in zip(self._parts, members, strict=True):
                part.update(m, octet)
            behind = [octet.any() for octet in members]
        for (i, j), is_later in self._is_later.items():
            with m.If(behind[j]):
                m.d.sync += is_later.eq(0)
            with m.Elif(behind[i]):
                m.d.sync += is_later.eq(1)

    def _first_of(self, requests: list[Any]) -> Any:
        """The first of the requesters, or of the parts."""
        count = len(requests)
        is_first = []
        for i, request in enumerate(requests):
            ahead = Cat(requests[j] & self._goes_before(j, i) for j in range(count) if j != i)
            is_first.append(request & ~ahead.any())
        return Cat(is_first)

    def _goes_before(self, i: int, j: int) -> Any:
        return ~self._is_later[i, j] if i < j else self._is_later[j, i]

    @staticmethod
    def _members(requests: Any, part: int) -> Any:
        return requests[_PART * part:_PART * (part + 1)]


class WarpPriority(Component):
    """Which of the ready warps has priority, by the policy: see :class:`~rtl.layouts.Policy`.

    One warp is preferred. If it is ready, it is selected; if it is not, the order decides.

    =====================================  ===================  ============================
    when                                   preferred            else
    =====================================  ===================  ============================
    in a window, one of FAVOUR_INTERVAL    the favoured warp    the order
    outside, GREEDY_THEN_OLDEST            the warp that        the order: who began, or
                                           issued last, unless  offered its turn, the
                                           it offered its turn  longest time ago
    outside, ROUND_ROBIN                   none                 the order: who began, or
                                                                issued, the longest time ago
    =====================================  ===================  ============================

    Every warp is favoured in rotation, so that no ready warp starves. In a window the warp that
    issued last is not preferred. With more than eight warps the order of issue is approximate, see
    Order.

    A selection in S0 counts from S3 on, in ROUND_ROBIN from S2 on.

    Members
    -------
    policy : In(Policy)
    issued, no_yield : In(warps), In(1)
        The warp that was selected in the cycle before; it does not offer its turn.
    launched : In(warps)
        A warp that starts: its flow_launch was taken in the cycle before.
    preferred : Out(warps)
        Has priority if it is ready.

    Attributes
    ----------
    last, favoured : warps
        The warp that issued last, if it does not offer its turn; the one whose window is next.
    clock : Signal
        Cycles of the interval.
    """

    def __init__(self, params: SmParams) -> None:
        self._window = window_cycles(params.beats)
        super().__init__({
            "policy": In(Policy),
            "issued": In(params.warps),
            "no_yield": In(1),
            "launched": In(params.warps),
            "preferred": Out(params.warps),
        })
        self._order = Order(params.warps, "warp")
        self.last = Signal(params.warps)
        self.favoured = Signal(params.warps, init=1)
        self.clock = Signal(range(FAVOUR_INTERVAL * self._window))

    def first(self, ready: Any) -> Any:
        """One-hot: which of these warps is selected; 0 if there is none."""
        preferred = ready & self.preferred
        return Mux(preferred.any(), preferred, self._order.first(ready))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        is_greedy = Signal()
        m.d.comb += is_greedy.eq(self.policy == Policy.GREEDY_THEN_OLDEST)
        self._prefer(m, is_greedy)
        self._reorder(m, is_greedy)
        return m

    def _prefer(self, m: Module, is_greedy: Signal) -> None:
        """Windows, and the warp that issued last. A window shows two cycles after it has begun."""
        is_window = Signal()
        m.d.sync += self.clock.eq(self.clock + 1)
        m.d.sync += is_window.eq(self.clock[(self._window - 1).bit_length():].all())
        with m.If(self.clock.all()):
            m.d.sync += self.favoured.eq(self.favoured.rotate_left(1))
        with m.If(self.issued.any()):
            m.d.sync += self.last.eq(0)
            with m.If(is_greedy & self.no_yield):
                m.d.sync += self.last.eq(self.issued)
        with m.If(is_window):
            m.d.sync += self.preferred.eq(self.favoured)
        with m.Else():
            m.d.sync += self.preferred.eq(self.last)

    def _reorder(self, m: Module, is_greedy: Signal) -> None:
        """Which warp becomes the last one of the order."""
        yields = Signal.like(self.issued)
        behind = Signal.like(self.issued)
        m.d.sync += yields.eq(0)
        with m.If(is_greedy & ~self.no_yield):
            m.d.sync += yields.eq(self.issued)
        m.d.comb += behind.eq(Mux(is_greedy, 0, self.issued) | yields | self.launched)
        self._order.update(m, behind)
