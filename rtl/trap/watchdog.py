"""The watchdog: it tells when nothing goes on."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import TIMEOUT_BITS

__all__ = ["Watchdog"]


class Watchdog(Component):
    """Counts cycles without progress; what it is for is the deadlock of RTT and BAR.SYNCALL.

    Members
    -------
    bit : In(6)
        It tells after ``1 << bit`` such cycles. 0: never (ours).
    runs : In(1)
        Warps live, and the multiprocessor is not locked down.
    progress : In(1)
        An instruction issues.
    timeout : Out(1)
        For one cycle. The next comes when it has counted as many again.
    """

    def __init__(self) -> None:
        super().__init__({"bit": In(TIMEOUT_BITS), "runs": In(1), "progress": In(1), "timeout": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = Signal(1 << TIMEOUT_BITS)
        reached = count.bit_select(self.bit, 1) & self.bit.any()
        with m.If(~self.runs | self.progress | reached):
            m.d.sync += count.eq(0)
        with m.Else():
            m.d.sync += count.eq(count + 1)
        m.d.sync += self.timeout.eq(reached & self.runs & ~self.progress)
        return m
