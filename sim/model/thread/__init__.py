"""The thread model: every thread of a grid by itself, in Python integers.

There is no warp here: an instruction sees one thread's registers, predicates, CC, memory and its
own stack of return points. Instructions that need neighbours (VOTE, SHFL, barriers) are meetings
that :mod:`~sim.model.thread.run` arranges.

===========  ==============================================================================
module       content
===========  ==============================================================================
run          the threads of a grid, round robin; one instruction by itself
state        a thread, its group of 32, its CTA; how a run goes wrong
decode       a program's words turned into operations: closures that change a thread
integers     wrapping, signs and the CC of a sum
floats       exact rounding between integers and floating point
arithmetic   sums, products, scaled addresses
bitwise      shifts, logic, bit fields, permutes, moves
comparison   comparisons, selections, predicates, CC
video        video instructions
conversion   integer and float conversions, bit counts
double       double precision
functions    MUFU and RRO
access       loads, stores, atomics, constants
flow         branches, calls, and the places that threads come back to
system       special registers, votes, shuffles, barriers, traps
===========  ==============================================================================

An operation is made once for each word of a program. Its operands are positions in the thread's list of
values: registers, then RZ, a place for discarded results, and then every immediate and constant of the
program, so that all operand forms of an instruction are one form here.
"""
