"""The machine with a memory that Python serves."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import HostBus
from rtl.params import SmParams
from rtl.sm import Sm
from sim.machine.beat_lines import BeatLines
from sim.machine.memory_latch import MemoryLatch

__all__ = ["Harness"]


class Harness(Component):
    """The machine, its memory port behind a latch, and a bit that is 1 when the testbench must act.

    Members
    -------
    host : In(HostBus)
    locked_down, ended : Out(1)
        No warp runs; the grid has ended.
    levels : Out(3)
        These, and whether the machine interrupts.
    wake : Out(1)
        One of them rises in this cycle, or there is a memory request.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__(
            {
                "host": In(HostBus()),
                "locked_down": Out(1),
                "ended": Out(1),
                "levels": Out(3),
                "wake": Out(1),
            }
        )
        self.sm = Sm(params)
        self.latch = MemoryLatch(self.sm.tag_bits)
        self.began, self._serial = Signal(), params.serial

    def elaborate(self, platform: object) -> Module:
        """Connects machine and latch."""
        m = Module()
        before = Signal.like(self.levels)
        m.submodules.sm = sm = self.sm
        m.submodules.latch = latch = self.latch
        connect(m, flipped(self.host), sm.host)
        if self._serial:
            m.submodules.lines = lines = BeatLines(sm.tag_bits)
            connect(m, sm.memory, lines.beats)
            connect(m, lines.lines, latch.port)
        else:
            connect(m, sm.memory, latch.port)
        m.d.comb += [
            self.locked_down.eq(sm.core.trap_state.locked_down),
            self.ended.eq(self.began & ~sm.busy),
            self.levels.eq(Cat(self.locked_down, self.ended, sm.interrupt)),
            self.wake.eq(latch.requested | (self.levels & ~before).any()),
        ]
        m.d.sync += before.eq(self.levels)
        with m.If(sm.busy):
            m.d.sync += self.began.eq(1)
        return m
