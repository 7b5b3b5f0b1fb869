"""What the threads of a warp say together."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import VoteMode
from rtl.params import WARP_THREADS

__all__ = ["Vote"]


class Vote(wiring.Component):
    """VOTE, for a warp at once; combinational.

    Members
    -------
    mode : In(VoteMode)
    threads, predicate : In(32)
        The threads that execute it, and those of which the predicate holds.
    ballot : Out(32)
        Those that are both.
    verdict : Out(1)
        Whether those are all, any, or all or none of the executing threads.
    """

    mode: In(VoteMode)
    threads: In(WARP_THREADS)
    predicate: In(WARP_THREADS)
    ballot: Out(WARP_THREADS)
    verdict: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.ballot.eq(self.threads & self.predicate)
        everybody, somebody = ~(self.threads & ~self.predicate).any(), self.ballot.any()
        with m.Switch(self.mode):
            with m.Case(VoteMode.ALL):
                m.d.comb += self.verdict.eq(everybody)
            with m.Case(VoteMode.ANY):
                m.d.comb += self.verdict.eq(somebody)
            with m.Case(VoteMode.EQ):
                m.d.comb += self.verdict.eq(everybody | ~somebody)
        return m
