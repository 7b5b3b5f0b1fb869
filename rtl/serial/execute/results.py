"""The new predicates and CC of a thread."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.stages import LaneResult
from rtl.isa.syntax import PT

from .stages import FlagDestinations, FlagUpdate

__all__ = ["ThreadResults"]


class ThreadResults(wiring.Component):
    """Computes the new predicates and CC of a thread; combinational. Where two results are written
    to one predicate, the second predicate result (q) takes precedence over the first (p), and p
    over the bits that an instruction unpacks.

    Members
    -------
    executes : In(1)
        The thread executes the instruction; otherwise nothing changes.
    destinations : In(FlagDestinations)
    result : In(LaneResult)
        The new predicates and CC, from the lane or a unit.
    flags : In(FlagUpdate)
    written : Out(7)
        The predicates that are written.
    """

    executes: In(1)
    destinations: In(FlagDestinations)
    result: In(LaneResult)
    flags: In(FlagUpdate())
    written: Out(PT)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        result = self.result
        destinations = self.destinations
        after = self.flags.after
        m.d.comb += after.eq(self.flags.before)
        for number in range(PT):
            predicate = after.predicates[number]
            takes_q = self.executes & (destinations.q == number)
            takes_p = self.executes & (destinations.p == number)
            is_unpacked = self.executes & result.predicates_written[number]
            m.d.comb += self.written[number].eq(takes_q | takes_p | is_unpacked)
            with m.If(takes_q):
                m.d.comb += predicate.eq(result.q)
            with m.Elif(takes_p):
                m.d.comb += predicate.eq(result.p)
            with m.Elif(is_unpacked):
                m.d.comb += predicate.eq(result.value[number])
        with m.If(self.executes & destinations.writes_cc):
            m.d.comb += after.condition.eq(result.conditions)
        return m
