"""Fetch: instructions and their constants, from memory to issue.

=============  ============================================================================
module         content
=============  ============================================================================
unit           the fetch unit: selects a warp and looks up its next group; hit, miss, redirect
ports          the ports of the fetch unit
instructions   the instruction cache; words are predecoded when their line arrives
predecode      the predecoder, made from the instruction table
outcomes       rules of the instruction table, tabulated over the fields that they read
prefetch       the prefetcher: proposes lines that warps may need soon
resolve        the constant resolver: reads the constant operands of groups
constants      the constant cache
loader         the line loader: requests lines from memory, delivers them to both caches
records        the structs between the stages
=============  ============================================================================

Latency: a group arrives two cycles after its warp was redirected, if its line is in the cache, the
group has no constant operands, and no other group is in the resolver. With n constant operands, all
in the cache, it arrives after 5 + n cycles.

Throughput: one group a cycle; a group with n constant operands takes n cycles. A warp gets at most
one group in three cycles, and has at most as many groups in flight as issue has places for.

Outstanding: at most three lines of instructions, some of them prefetched, and one line of
constants.

Choices of this project:

============================  =============================================================
case                          behaviour
============================  =============================================================
program, constant banks       a program begins at the address of a line, a bank at that of a
                              32-bit word; memory holds whole lines of both
no memory at a group's line   its three instructions are refused with MMU_FAULT
no memory at a constant       the constant counts as beyond the end of its bank
============================  =============================================================
"""

from .predecode import Predecoder, kind_of
from .records import TAG_BITS
from .unit import FetchUnit

__all__ = ["TAG_BITS", "FetchUnit", "Predecoder", "kind_of"]
