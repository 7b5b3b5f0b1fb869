"""The unit for double precision: DADD, DMUL, DFMA, DMNMX, DSETP and DSET, in order, in three steps
that overlap.

===========  ===========================================================================
module       content
===========  ===========================================================================
unit         the unit: queue, steps and buffers, joined
queue        decoded instructions that wait
decode       the decoder
instruction  the decoded form, and the structs between steps
gather       the first step: reads operands from registers and constant banks
compute      the second step: computes the threads that execute, one in each cycle
write        the third step: writes results to registers and predicates
buffers      the memories of operands and of results
datapath     a product and a sum, rounded once; comparisons
product      multiplies two significands of 53 bits, with nine multipliers
shifts       alignment and normalization, in two stages each
===========  ===========================================================================
"""

from .decode import is_double
from .unit import DoubleUnit

__all__ = ["DoubleUnit", "is_double"]
