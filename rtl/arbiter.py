"""A fair choice among requesters."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component

__all__ = ["RoundRobin", "lowest"]


class RoundRobin(Component):
    """Registered round robin: the next requester after the one chosen last.

    A requester is chosen again within ``count`` choices. The choice is a cycle old, so whoever takes it has
    to see whether its requester still wants it.

    Members
    -------
    requests : In(count)
    valid, chosen : Out
        Whether there was a request a cycle ago, and whose turn it is.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        super().__init__({"requests": In(count), "valid": Out(1), "chosen": Out(ceil_log2(count))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        later = Signal(self._count)
        m.d.comb += later.eq(self.requests & Cat((index > self.chosen) for index in range(self._count)))
        m.d.sync += self.valid.eq(self.requests.any())
        with m.If(self.requests.any()):
            m.d.sync += self.chosen.eq(Mux(later.any(), lowest(later), lowest(self.requests)))
        return m


def lowest(requests: Any) -> Value:
    """Number of the lowest bit that is 1, as a tree; of the last bit when there is none."""
    def search(start: int, stop: int) -> tuple[Any, Any]:
        if stop - start == 1:
            return requests[start], 0
        middle = (start + stop) // 2
        low_any, low = search(start, middle)
        high_any, high = search(middle, stop)
        step = middle - start
        # Without a carry where no sum is needed.
        high = high | step if step & (step - 1) == 0 and stop - middle <= step else high + step
        return low_any | high_any, Mux(low_any, low, high)
    return Value.cast(search(0, len(requests))[1])[:ceil_log2(len(requests))]
