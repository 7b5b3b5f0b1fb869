"""What a reset does to memories: their words are written one per cycle."""

from typing import Any, NamedTuple

from amaranth.hdl import Module, Signal, Value
from amaranth.lib.wiring import Out

from rtl.component import Component

__all__ = ["LONGEST_SWEEP", "Sweep", "SweptWrite"]

LONGEST_SWEEP = 64
"""Cycles after a reset until all sweeps are over."""


class SweptWrite(NamedTuple):
    """The write of a port that takes part in a sweep: its enable, the number of the word, and the
    word."""

    enable: Value
    number: Value
    word: Value


class Sweep(Component):
    """Counts through the words of a component's memories after a reset, one a cycle. Meanwhile
    :meth:`over` writes these memories instead of their component.

    Each component with such memories has a sweep. Sweeps of warps take as many cycles as there are
    warps, and no grid starts before they are over (:class:`~rtl.launch.Distributor`).

    Parameters
    ----------
    depth : int
        Words of the largest of the memories, at most LONGEST_SWEEP.

    Members
    -------
    active : Out(1)
        It is under way: from the reset on, for ``depth`` cycles.
    number : Out(range(depth))
        The word that is written.
    """

    def __init__(self, depth: int) -> None:
        assert depth <= LONGEST_SWEEP
        self._depth = depth
        super().__init__({
            "active": Out(1, init=1),       # pyright: ignore[reportCallIssue]
            "number": Out(range(depth)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self.number.eq(self.number + self.active)
        with m.If(self.number == self._depth - 1):
            m.d.sync += self.active.eq(0)
        return m

    def over(self, m: Module, when: Any, number: Any, word: Any, initial: int = 0) -> SweptWrite:
        """What a port writes: during the sweep ``initial`` to the word of the sweep, else, ``when``
        that is 1, ``word`` to the word of that ``number``."""
        word = Value.cast(word)
        enable = Signal(name="enable")
        chosen = Signal.like(self.number, name="chosen")
        content = Signal(len(word), name="content")
        with m.If(self.active):
            m.d.comb += enable.eq(1)
            m.d.comb += chosen.eq(self.number)
            m.d.comb += content.eq(initial)
        with m.Else():
            m.d.comb += enable.eq(when)
            m.d.comb += chosen.eq(number)
            m.d.comb += content.eq(word)
        return SweptWrite(enable, chosen, content)
