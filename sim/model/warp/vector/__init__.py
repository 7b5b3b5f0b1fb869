"""Arithmetic on the 32 threads of a warp at once.

A value of every thread is a vector of 32 numbers; a condition of every thread is either a vector of
32 Booleans or an integer whose bit t is thread t. An *operation* maps
:class:`~sim.model.warp.vector.lanes.Sources` and the fields of an instruction word to an
:class:`~sim.model.warp.vector.lanes.LaneOutcome`; it neither reads nor writes anything else.

============  ==========================================================================
module        content
============  ==========================================================================
lanes         vectors, masks, the inputs and results of operations
addition      sums of two and three, scaled sums
products      16-bit and 32-bit products
bitwise       shifts, fields, logic, permutations, bit counts
comparison    comparisons, selections, minima
predicates    logic of predicates and CC, votes
video         video instructions
conversion    integer and floating-point types
double        double precision
functions     MUFU and RRO
operations    all of them by instruction name
============  ==========================================================================
"""
