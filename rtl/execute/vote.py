"""VOTE: whether a predicate is true in all, in any, or equally in all executing threads of a
warp."""

from typing import Any

from amaranth.hdl import Cat, Mux, Value, unsigned
from amaranth.lib import data

from rtl.isa.kinds import VoteMode
from rtl.params import WARP_THREADS
from rtl.structs import struct_value

__all__ = ["VOTE_PARTS", "Votes", "verdict_of", "votes_of"]

VOTE_PARTS = 4
"""Parts of a warp, whose votes are combined a cycle later."""
_PART = WARP_THREADS // VOTE_PARTS


class Votes(data.Struct):
    """Whether the predicate is true, and false, in some executing thread of each part of a warp."""

    agrees: unsigned(VOTE_PARTS)
    """The predicate holds in an executing thread of the part."""
    objects: unsigned(VOTE_PARTS)
    """The predicate does not hold in an executing thread of the part."""


def votes_of(threads: Value, predicate: Value) -> Any:
    """The Votes of a warp, of which ``threads`` execute the instruction. ``predicate``: those of
    which the predicate holds."""
    return struct_value(
        Votes,
        agrees=_parts_with_any(threads & predicate),
        objects=_parts_with_any(threads & ~predicate))


def _parts_with_any(threads: Value) -> Value:
    """The parts of a warp that have one of these threads."""
    return Cat(threads.word_select(part, _PART).any() for part in range(VOTE_PARTS))


def verdict_of(mode: Any, agrees: Any, objects: Any) -> Value:
    """Whether the predicate holds of all executing threads, of any, or of all or none.

    ``mode`` is a VoteMode; the others are as in Votes."""
    some_agree = agrees.any()
    all_agree = ~objects.any()
    is_unanimous = all_agree | ((mode == VoteMode.EQ) & ~some_agree)
    return Mux(mode == VoteMode.ANY, some_agree, is_unanimous)
