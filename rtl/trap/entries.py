"""Whether a flow result belongs to a warp's entry."""

from abc import abstractmethod

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event, flow_result
from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.words import Words

from .flags import WarpFlags

__all__ = ["EntryTracker", "PendingEntries"]


class EntryTracker(Component):
    """Distinguishes the flow result of an ENTER from the results of a warp's other instructions.

    Members
    -------
    entered : In(Event of a warp)
        An ENTER is dispatched.
    result : In(Event of flow_result)
    is_inside : In(1)
        The warp of the flow result is inside the trap. Only for the serial machine
        (rtl/serial/trap); PendingEntries ignores it.
    is_entry : Out(1)
        The flow result belongs to an ENTER.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "entered": In(Event(params.warp_bits)),
            "result": In(Event(flow_result(params))),
            "is_inside": In(1),
            "is_entry": Out(1),
        })

    @abstractmethod
    def elaborate(self, platform: object) -> Module:
        ...


class PendingEntries(EntryTracker):
    """An EntryTracker for many instructions in flight: a flag a warp, which is 1 from the dispatch
    of its ENTER to the flow result.

    Attributes
    ----------
    pending : WarpFlags
    sweep : Sweep
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__(params)
        self.sweep = Sweep(params.warps)
        self.pending = WarpFlags(*(Words(1, params.warps, self.sweep) for _ in range(2)))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sweep = self.sweep
        m.submodules.entries = self.pending.sets
        m.submodules.results = self.pending.clears
        self.pending.set(m, self.entered.valid, self.entered.payload)
        self.pending.clear(m, self.result.valid, self.result.payload.warp)
        m.d.comb += self.is_entry.eq(self.pending.read(m, self.result.payload.warp))
        return m
