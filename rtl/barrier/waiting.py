"""Which warps wait, what each gave to the reductions of its barrier, and the last result of each."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.barriers import SYNCALL_BARRIER, BarrierState
from rtl.isa.kinds import BarrierReduction
from rtl.layouts import Event
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams

__all__ = ["WaitingWarps", "arrival"]


def arrival() -> data.StructLayout:
    """A warp that begins to wait: at the barrier of which ``number``, and which ``reduction`` it wants, if it
    ``reduces``. It gives ``population`` threads to that; ``some_false`` and ``some_true`` tell whether one of its
    threads has not, and whether one has the predicate."""
    return data.StructLayout({
        "number": range(SYNCALL_BARRIER + 1), "reduces": 1, "reduction": BarrierReduction,
        "population": range(WARP_THREADS + 1), "some_false": 1, "some_true": 1})


class WaitingWarps(Component):
    """Knows who waits; changes the group of warps that wait at one barrier, and lets it go at once; keeps each warp's
    last result.

    Members
    -------
    launch : In(Event of a warp)
        A new warp: its result is 0. No ``note`` may come, and nothing is noted of the ``group``.
    warp : In
        The warp of all that follows.
    came : Out(arrival)
        What it came for last.
    fetch, fetched : In(1), In(warps)
        These are the ``group`` from the next cycle on.
    wait, arrival : In(1), In(arrival)
        The warp begins to wait, and belongs to the group.
    drop, withdraw : In(1), In(1)
        It belongs to the group no longer; it waits no longer, and does not go on either.
    release : In(1)
        The group waits no longer.
    settle, state : In(1), In(BarrierState)
        The lowest warp of the group leaves it, and has its result of ``state`` noted, if it reduces.
    group, waiting, meeting : Out(warps)
        Who waits at the barrier; at any that programs can name; at BAR.SYNCALL.
    note, noted : In(1), In(32)
        A result for ``warp``.
    result : Out(32)
        Of ``warp``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, bits = params.warps, params.warp_bits
        super().__init__({
            "launch": In(Event(bits)), "warp": In(bits), "came": Out(arrival()), "fetch": In(1), "fetched": In(warps),
            "wait": In(1), "arrival": In(arrival()), "drop": In(1), "withdraw": In(1), "release": In(1),
            "settle": In(1), "state": In(BarrierState), "group": Out(warps), "waiting": Out(warps),
            "meeting": Out(warps), "note": In(1), "noted": In(32), "result": Out(32)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, group, one = self._params, self.group, Signal(self._params.warps)
        m.d.comb += one.eq(one_hot(self.warp, params.warps))

        # Who waits.
        with m.If(self.fetch):
            m.d.sync += group.eq(self.fetched)
        with m.Elif(self.settle):
            m.d.sync += group.eq(group & (group - 1))
        with m.Elif(self.wait | self.drop):
            m.d.sync += group.eq(Mux(self.wait, group | one, group & ~one))
        meets, gone = self.arrival.number == SYNCALL_BARRIER, Mux(self.release, group, Mux(self.withdraw, one, 0))
        for flags, begins in ((self.waiting, self.wait & ~meets), (self.meeting, self.wait & meets)):
            m.d.sync += flags.eq((flags & ~gone) | Mux(begins, one, 0))

        # What each came for, and its result.
        m.submodules.arrivals = arrivals = memory.Memory(shape=arrival(), depth=params.warps, init=[])
        m.submodules.results = results = memory.Memory(shape=32, depth=params.warps, init=[])
        arriving, came, owing = arrivals.write_port(), *(arrivals.read_port(domain="comb") for _ in range(2))
        noting, result = results.write_port(), results.read_port(domain="comb")
        settled, reduced = Signal(params.warp_bits), Signal(32)
        m.d.comb += [
            arriving.en.eq(self.wait), arriving.addr.eq(self.warp), arriving.data.eq(self.arrival),
            came.addr.eq(self.warp), self.came.eq(came.data), settled.eq(lowest(group)), owing.addr.eq(settled),
            result.addr.eq(self.warp), self.result.eq(result.data),
            noting.en.eq(self.launch.valid | self.note | (self.settle & owing.data.reduces)),
            noting.addr.eq(Mux(self.launch.valid, self.launch.payload, Mux(self.note, self.warp, settled))),
            noting.data.eq(Mux(self.launch.valid, 0, Mux(self.note, self.noted, reduced)))]
        with m.Switch(owing.data.reduction):
            with m.Case(BarrierReduction.POPC):
                m.d.comb += reduced.eq(self.state.population)
            with m.Case(BarrierReduction.AND):
                m.d.comb += reduced.eq(~self.state.some_false)
            with m.Case(BarrierReduction.OR):
                m.d.comb += reduced.eq(self.state.some_true)
        m.d.sync += [
            Assert(~(self.launch.valid & (self.note | self.settle)), "a result is noted beside that of a new warp"),
            Assert(~(self.wait & (one & (self.waiting | self.meeting)).any()), "a warp arrives that waits"),
            Assert(~(self.release & (group & ~(self.waiting | self.meeting)).any()), "a warp is let go that does not "
                   "wait"),
            Assert(~(self.withdraw & ~(one & self.waiting).any()), "a warp is withdrawn that does not wait")]
        return m
