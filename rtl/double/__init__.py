"""The unit for double precision: DADD, DMUL, DFMA, DMNMX, DSETP and DSET, in order, in three steps
that overlap.

===========  ===========================================================================
module       content
===========  ===========================================================================
unit         the steps of an instruction, joined
queue        instructions that wait, decoded
decode       from a word to what is computed
instruction  the decoded form, and what the steps hand to each other
gather       the first step: operands from registers and constants
compute      the second step: a thread after the other
write        the third step: results to registers and predicates
buffers      operands and results, by beats and by threads
datapath     three operands in, a result out: a product and a sum, rounded once
product      53 bits by 53, with three multipliers
shifts       alignment and normalization
===========  ===========================================================================
"""

from .decode import is_double
from .unit import DoubleUnit

__all__ = ["DoubleUnit", "is_double"]
