"""What the threads of a warp say together."""

from typing import Any

from amaranth.hdl import Module, Mux, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import VoteMode
from rtl.params import WARP_THREADS

__all__ = ["VOTE_PARTS", "Vote", "Votes", "verdict_of"]

VOTE_PARTS = 4
"""Parts of a warp, whose votes are counted together a cycle later."""
_PART = WARP_THREADS // VOTE_PARTS


class Votes(data.Struct):
    """What each part of a warp votes, a bit for each part."""

    agrees: unsigned(VOTE_PARTS)
    """Of an executing thread of that part the predicate holds."""
    objects: unsigned(VOTE_PARTS)
    """Of an executing thread of that part it does not."""


class Vote(wiring.Component):
    """VOTE, for a warp at once; combinational.

    Members
    -------
    threads, predicate : In(32)
        The threads that execute it, and those of which the predicate holds.
    ballot : Out(32)
        Those that are both.
    votes : Out(Votes)
    """

    threads: In(WARP_THREADS)
    predicate: In(WARP_THREADS)
    ballot: Out(WARP_THREADS)
    votes: Out(Votes)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        against = self.threads & ~self.predicate
        m.d.comb += self.ballot.eq(self.threads & self.predicate)
        for part in range(VOTE_PARTS):
            m.d.comb += self.votes.agrees[part].eq(self.ballot.word_select(part, _PART).any())
            m.d.comb += self.votes.objects[part].eq(against.word_select(part, _PART).any())
        return m


def verdict_of(mode: Any, agrees: Any, objects: Any) -> Value:
    """Whether the predicate holds of all executing threads, of any, or of all or none.

    ``mode`` is a VoteMode; the others are as in Votes."""
    some_agree = agrees.any()
    all_agree = ~objects.any()
    is_unanimous = all_agree | ((mode == VoteMode.EQ) & ~some_agree)
    return Mux(mode == VoteMode.ANY, some_agree, is_unanimous)
