"""Exactly one of the requesting warps is selected, and each after a bounded number of others.

For any requests, and at most two requesters in a cycle that are moved behind all others:

1. If any request, exactly one of them is first; if none requests, none is.
2. The requesters before a given one, which are fewer than all requesters, become fewer when some of
   them are moved, and more only when the given one itself is. Of two that are moved together the
   one with the lower number is first. So a requester that requests in every cycle, and is moved
   only when it was first, is first after at most as many others as there are other requesters.

That is proved for eight requesters. For sixteen, which are two parts of eight, and any larger
number, the first statement is proved, which holds for any order of the parts.
"""

from itertools import permutations

from amaranth.asserts import AnyConst  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Assume, Cat, Elaboratable, Module, Mux, Signal, Value

from rtl.issue.order import Order
from rtl.population import population
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import Past, can_happen, claim, free, no_reset
from sim.checks.formal.theorem import Theorem

_EIGHT, _SIXTEEN = 8, 16


class _Spec(Elaboratable):
    """Orders with unconstrained requesters."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        no_reset(m)
        for count in (_EIGHT, _SIXTEEN):
            m.submodules[f"of_{count}"] = part = Module()
            self._prove(part, count)
        return m

    def _prove(self, m: Module, count: int) -> None:
        order, past = Order(count), Past(m)
        wanting, behind, first = Signal(count), Signal(count), Signal(count)
        free(m, wanting, behind)
        others = behind & (behind - 1)[:count]
        m.d.comb += [
            Assume((others & (others - 1)[:count]) == 0, "two go behind all others, at most"),
            first.eq(order.first(wanting)),
        ]
        order.update(m, behind)
        claim(m, population(first) == wanting.any(), "exactly one is first")
        claim(m, ~(first & ~wanting).any(), "it wants")
        for part in order._parts or [order]:
            claim(m, _is_order(part, _EIGHT), "nobody is before and behind another one")
        if order._parts:
            claim(
                m, _is_order(order, len(order._parts)), "no part is before and behind another one"
            )
            return

        # The observed requester
        one, ahead, passed = Signal(range(count)), Signal(range(count)), Signal(range(count))
        m.d.comb += one.eq(AnyConst(len(one)))
        mine, other = behind.bit_select(one, 1), Signal(count)
        before = Cat(
            Cat(_goes_before(order, i, j) if i != j else 0 for j in range(count)).bit_select(one, 1)
            for i in range(count)
        )
        m.d.comb += [other.eq(behind & before), ahead.eq(population(before))]
        later_ones = Cat(behind[i] & (one < i) for i in range(count))
        goes_by = wanting.bit_select(one, 1) & ~mine & ((behind & first) == first) & first.any()
        m.d.sync += passed.eq(Mux(mine, 0, passed + goes_by))
        claim(
            m,
            ahead == past(Mux(mine, count - 1 - population(later_ones), ahead - population(other))),
            "who is before it",
            when=past.valid,
        )
        claim(m, passed + ahead <= count - 1, "so many go by at most")
        can_happen(m, passed == count - 1, "all others have gone by")


def _goes_before(order: Order, i: int, j: int) -> Value:
    return ~order._is_later[i, j] if i < j else order._is_later[j, i]


def _is_order(order: Order, count: int) -> Value:
    """Returns whether the relation has no cycle of three: then it has no longer cycle either."""
    return ~Cat(
        _goes_before(order, i, j) & _goes_before(order, j, k) & _goes_before(order, k, i)
        for i, j, k in permutations(range(count), 3)
    ).any()


THEOREM = Theorem(
    _Spec,
    depth=2,
    cover_depth=10,
    faults=(
        Fault(
            "rtl.issue.order",
            "return ~self._is_later[i, j] if i < j else self._is_later[j, i]",
            "return ~self._is_later[i, j] if i < j else ~self._is_later[j, i]",
        ),
        Fault(
            "rtl.issue.order", "m.d.sync += is_later.eq(1)", "m.d.sync += is_later.eq(~is_later)"
        ),
        Fault("rtl.issue.order", "with m.If(behind[j]):", "with m.If(behind[j] & ~behind[1]):"),
    ),
)
