"""Which warps wait, what each gave to the reductions of its barrier, and the last result of each."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.barriers import SYNCALL_BARRIER, BarrierState
from rtl.isa.kinds import BarrierReduction
from rtl.layouts import Event
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
    """Notes warps that wait, lets those of a barrier go at once, and keeps each warp's last result.

    Members
    -------
    begin : In(Event of a warp)
        A new warp: its result is 0.
    warp : In
        The warp of all that follows.
    wait, arrival : In(1), In(arrival)
        It begins to wait.
    withdraw : In(1)
        It waits no longer, and does not go on either.
    place, given : Out, Out
        Where it waits, and the population that it gave.
    others : In(warps)
        Warps that wait at its barrier, too.
    others_false, others_true : Out(1), Out(1)
        What these gave.
    release, released, state : In(1), In(warps), In(BarrierState)
        These warps go on. Those that reduce have their results of ``state`` noted in the next cycles.
    busy : Out(1)
        Results are still to be noted. No ``release`` and no ``note`` may come, and ``state`` must stay.
    waiting, meeting : Out(warps), Out(warps)
        Who waits at a barrier, who at BAR.SYNCALL.
    note, noted : In(1), In(32)
        A result for ``warp``.
    result : Out(32)
        Of ``warp``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, bits = params.warps, params.warp_bits
        super().__init__({
            "begin": In(Event(bits)), "warp": In(bits), "wait": In(1), "arrival": In(arrival()), "withdraw": In(1),
            "place": Out(range(SYNCALL_BARRIER + 1)), "given": Out(range(WARP_THREADS + 1)), "others": In(warps),
            "others_false": Out(1), "others_true": Out(1), "release": In(1), "released": In(warps),
            "state": In(BarrierState), "busy": Out(1), "waiting": Out(warps), "meeting": Out(warps), "note": In(1),
            "noted": In(32), "result": Out(32)})
        self.arrivals = memory.Memory(shape=arrival(), depth=warps, init=[])
        """What each warp came for last."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, warp = self._params, self.warp
        m.submodules.arrivals = arrivals = self.arrivals
        write, read, owing = arrivals.write_port(), arrivals.read_port(domain="comb"), arrivals.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(self.wait), write.addr.eq(warp), write.data.eq(self.arrival), read.addr.eq(warp),
            self.place.eq(read.data.number), self.given.eq(read.data.population)]

        # Who waits. What they gave is asked for of many at once.
        meets, reduces = self.arrival.number == SYNCALL_BARRIER, Signal(params.warps)
        gave_false, gave_true = Signal(params.warps), Signal(params.warps)
        with m.If(self.release):
            m.d.sync += [self.waiting.eq(self.waiting & ~self.released), self.meeting.eq(self.meeting & ~self.released)]
        with m.If(self.withdraw):
            m.d.sync += self.waiting.bit_select(warp, 1).eq(0)
        with m.If(self.wait):
            for flags, flag in ((self.waiting, ~meets), (self.meeting, meets), (reduces, self.arrival.reduces),
                                (gave_false, self.arrival.some_false), (gave_true, self.arrival.some_true)):
                m.d.sync += flags.bit_select(warp, 1).eq(flag)
        m.d.comb += [
            self.others_false.eq((self.others & gave_false).any()),
            self.others_true.eq((self.others & gave_true).any())]

        # Results, one noted in a cycle.
        m.submodules.results = results = memory.Memory(shape=32, depth=params.warps, init=[])
        noting, result = results.write_port(), results.read_port(domain="comb")
        owed, known = Signal(params.warps), Signal(params.warps)
        next_owed, reduced = Signal(params.warp_bits), Signal(32)
        m.d.comb += [
            self.busy.eq(owed.any()), next_owed.eq(lowest(owed)), owing.addr.eq(next_owed), result.addr.eq(warp),
            self.result.eq(Mux(known.bit_select(warp, 1), result.data, 0)), noting.en.eq(self.note | self.busy),
            noting.addr.eq(Mux(self.busy, next_owed, warp)), noting.data.eq(Mux(self.busy, reduced, self.noted))]
        with m.Switch(owing.data.reduction):
            with m.Case(BarrierReduction.POPC):
                m.d.comb += reduced.eq(self.state.population)
            with m.Case(BarrierReduction.AND):
                m.d.comb += reduced.eq(~self.state.some_false)
            with m.Case(BarrierReduction.OR):
                m.d.comb += reduced.eq(self.state.some_true)
        with m.If(self.busy):
            m.d.sync += owed.eq(owed & (owed - 1))
        with m.If(self.release):
            m.d.sync += owed.eq(self.released & reduces)
        with m.If(noting.en):
            m.d.sync += known.bit_select(noting.addr, 1).eq(1)
        with m.If(self.begin.valid):
            m.d.sync += known.bit_select(self.begin.payload, 1).eq(0)
        return m
