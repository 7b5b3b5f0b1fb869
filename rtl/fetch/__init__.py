"""Fetch: instructions and their constants, from memory to issue.

=============  ============================================================================
module         content
=============  ============================================================================
unit           the fetch unit: which warp looks up its next group; hit, miss, redirect
instructions   the instruction cache; a line's words are predecoded when it comes
predecode      what an instruction word is, from the instruction table
outcomes       rules of the table, tabulated by the fields that they read
prefetch       the prefetcher: which lines warps may need soon
resolve        the constant resolver: reads the constant operands of groups
constants      the constant cache
loader         the line loader: requests lines from memory, delivers them to both caches
records        what the stages hand to each other
=============  ============================================================================

A group comes two cycles after its warp was redirected, if its line is in the cache, it has no
constant operands and nothing is in the way; with n of them, whose lines are in the cache, after
5 + n cycles. Groups follow each other at one a cycle, or one in as many cycles as it has constant
operands. A warp has one group in two cycles at most, and as many on their way as issue has places.
Three lines of instructions and one of constants are outstanding at most; some of the former are
prefetched.

=============================  ============================================================
choice of this project
=============================  ============================================================
program, banks                 begin at the address of a line, and of a 32-bit word; memory
                               has whole lines of them
no memory at a group's line    its three instructions are refused: MMU_FAULT
no memory at a constant's      the constant is beyond the end of its bank
=============================  ============================================================
"""

from .predecode import Predecoder, kind_of
from .records import TAG_BITS
from .unit import FetchUnit

__all__ = ["TAG_BITS", "FetchUnit", "Predecoder", "kind_of"]
