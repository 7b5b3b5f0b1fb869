"""What is known of all warps at once."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event
from rtl.params import SmParams

__all__ = ["WarpFlags", "change_flags", "commit_flags", "engine_flags"]


def change_flags(params: SmParams) -> data.StructLayout:
    """From the second stage: an operation begins that holds its warp (``begins``); a push has been done, see
    :class:`~rtl.crs.change.StackChange`."""
    return data.StructLayout({"warp": params.warp_bits, "begins": 1, "fills": 1, "drops": 1, "spills": 1})


def commit_flags(params: SmParams) -> data.StructLayout:
    """From the fourth stage: an operation is over, or parked; the state is written; no line is on chip any more, or too
    few."""
    return data.StructLayout({"warp": params.warp_bits, "done": 1, "parks": 1, "write": 1, "forget": 1, "lacks": 1})


def engine_flags(params: SmParams) -> data.StructLayout:
    """From the spill and fill engine: it looks at a warp, or will have to do so again; an operation comes back; a line
    is asked for."""
    return data.StructLayout({"warp": params.warp_bits, "looks": 1, "again": 1, "wakes": 1, "asks": 1})


class WarpFlags(Component):
    """One bit a warp each.

    Members
    -------
    change, commit, engine : In(change_flags), In(commit_flags), In(engine_flags)
        What happens in this cycle.
    changes : In(1)
        There is a step of the warp of ``change`` in the second stage.
    spilled : In(Event(warp and done))
        A spill is over; if ``done``, a line is clean.
    acknowledged : In(Event(warp))
        Memory has taken a line.
    busy : Out(warps)
        Its next request has to wait.
    parked : Out(warps)
        It does so for the spill and fill engine.
    full : Out(warps)
        All its lines are dirty, and the last is full.
    stale : Out(warps)
        The line that was last asked for is not the next one any more.
    hints, urgent : Out(warps), Out(warps)
        The spill and fill engine should look at it; before others, since it goes on to push.
    ready : Out(warps)
        Its next request would not wait.
    """

    def __init__(self, params: SmParams) -> None:
        warps = params.warps
        self._warps = warps
        super().__init__({
            "change": In(change_flags(params)), "changes": In(1), "commit": In(commit_flags(params)),
            "engine": In(engine_flags(params)),
            "spilled": In(Event(data.StructLayout({"warp": params.warp_bits, "done": 1}))),
            "acknowledged": In(Event(params.warp_bits)), "busy": Out(warps), "parked": Out(warps), "full": Out(warps),
            "stale": Out(warps), "hints": Out(warps),
            "urgent": Out(warps),
            "ready": Out(warps)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        change, commit, engine = self.change, self.commit, self.engine
        spilled, told = self.spilled.payload, self.acknowledged

        def of(warp: Value, happens: Value) -> Value:
            """That bit at the warp's place."""
            return Cat(happens & (warp == number) for number in range(self._warps))

        def becomes(flags: Signal, sets: Value, clears: Value) -> None:
            m.d.sync += flags.eq((flags | sets) & ~clears)

        lets_go = of(commit.warp, commit.write) | of(spilled.warp, self.spilled.valid & spilled.done)
        becomes(self.busy, of(change.warp, change.begins), of(commit.warp, commit.done))
        becomes(self.parked, of(commit.warp, commit.parks), of(engine.warp, engine.wakes))
        becomes(self.full, of(change.warp, change.fills), lets_go)
        m.d.sync += self.stale.eq((self.stale & ~of(engine.warp, engine.asks)) | of(change.warp, change.drops)
                                  | of(commit.warp, commit.write & commit.forget))
        m.d.sync += self.hints.eq(
            (self.hints & ~of(engine.warp, engine.looks)) | of(engine.warp, engine.again)
            | of(commit.warp, commit.lacks | commit.parks) | of(spilled.warp, self.spilled.valid & ~spilled.done)
            | (self.parked & (of(spilled.warp, self.spilled.valid) | of(told.payload, told.valid))))
        m.d.sync += self.urgent.eq((self.urgent & ~of(engine.warp, engine.looks)) | of(change.warp, change.spills))
        m.d.comb += self.ready.eq(~(self.busy | self.full | of(change.warp, self.changes)))
        return m
