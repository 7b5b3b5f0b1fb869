"""The thread model: every thread of a grid by itself, in Python integers.

There is no warp here: an instruction sees one thread's registers, predicates, CC, memory and
call/return stack. Instructions that need neighbours (VOTE, SHFL, barriers) are meetings that
:mod:`~sim.model.thread.run` arranges.

===========  ==============================================================================
module       content
===========  ==============================================================================
run          the threads of a grid, round robin; one instruction by itself
state        a thread, its group of 32, its CTA; the exceptions that end a run
decode       a program's words decoded to operations: closures that change a thread
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
flow         branches, calls, and the return points on a thread's stack
system       special registers, votes, shuffles, barriers, traps
===========  ==============================================================================

Each word of a program is decoded once, to an operation. Its operands are positions in the thread's
list of values: registers, then RZ, a place for discarded results, and then every immediate and
constant of the program, so that an operation need not distinguish operand forms.
"""
