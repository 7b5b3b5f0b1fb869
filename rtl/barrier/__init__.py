"""CTA barriers: BAR, B2R and R2B of all CTAs that run.

A CTA has 16 barriers. Each counts the warps that have arrived, and lets those that wait go when as many have come as
the last of them asked for. A warp that ends is no longer waited for.

::

    dispatch --> queue: decoded, counted --> unit: one instruction in six cycles
                                              |        ^            |
                          number, CTA         v        |            v
                     BarrierStore: counts of every barrier     WaitingWarps --> resume
                     (LUT memory), used or not, live warps

An instruction passes the steps look, read, update, decide and act; the next one follows. A warp that ends makes its
CTA's used barriers pass the last four of them, one after the other; one that is withdrawn makes its barrier pass them.
When a barrier is complete, all its warps go on in the same cycle; results of reductions are noted after that, a warp a
cycle, before the unit looks at anything else.

=========  ====================================================================================
module     content
=========  ====================================================================================
request    from a dispatched instruction to what the unit needs of it
store      the state of all barriers, and how many warps each CTA still has
waiting    which warp waits where, for which reduction, and what it gave to that
write      what B2R writes
unit       the steps
=========  ====================================================================================

How many warps have arrived is in a barrier's state; which ones of them wait, at which barrier of which CTA and for
what, is known for each warp by itself, and so is what it gave to a reduction. So the arrival of one warp can be taken
back: that is how a trap gets it from its barrier. BAR.SYNCALL, by which warps meet in the trap handler, has a barrier
of its own behind the 16 that programs can name.
"""

from .unit import BarrierUnit

__all__ = ["BarrierUnit"]
