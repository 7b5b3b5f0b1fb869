"""A fair choice among requesters."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component

__all__ = ["RoundRobin", "lowest"]


class RoundRobin(Component):
    """Registered round robin: the grant moves to the next requester after the one granted last.

    A requester is granted again within ``count`` grants. The grant is a cycle old, so its user has
    to check that the requester still has a request.

    Members
    -------
    requests : In(count)
    valid, chosen : Out
        Whether there was a request a cycle ago, and the requester that is granted.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        super().__init__({
            "requests": In(count),
            "valid": Out(1),
            "chosen": Out(ceil_log2(count)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        later = Signal(self._count)
        is_later = Cat((number > self.chosen) for number in range(self._count))
        m.d.comb += later.eq(self.requests & is_later)
        m.d.sync += self.valid.eq(self.requests.any())
        with m.If(later.any()):
            m.d.sync += self.chosen.eq(lowest(later))
        with m.Elif(self.requests.any()):
            m.d.sync += self.chosen.eq(lowest(self.requests))
        return m


def lowest(requests: Any) -> Value:
    """Number of the lowest bit that is 1, as a tree; of the last bit when there is none."""
    _, number = _search(requests, 0, len(requests))
    return Value.cast(number)[:ceil_log2(len(requests))]


def _search(requests: Any, start: int, stop: int) -> tuple[Any, Any]:
    """Whether there is a request from ``start`` on before ``stop``, and the lowest one's number,
    counted from ``start``. Where halves are powers of two that number needs no sum, and so no
    carry."""
    if stop - start == 1:
        return requests[start], 0
    middle = (start + stop) // 2
    low_any, low = _search(requests, start, middle)
    high_any, high = _search(requests, middle, stop)
    offset = middle - start
    offset_is_one_bit = offset & (offset - 1) == 0
    fits_below_offset = stop - middle <= offset
    high = high | offset if offset_is_one_bit and fits_below_offset else high + offset
    return low_any | high_any, Mux(low_any, low, high)
