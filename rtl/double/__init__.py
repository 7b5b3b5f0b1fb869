"""The unit for double precision: DADD, DMUL, DFMA, DMNMX, DSETP and DSET, in order, in three steps that overlap.

===========  ==========================================================================
module       content
===========  ==========================================================================
unit         the steps of an instruction: gather, compute, write
queue        instructions that wait, decoded
decode       from a word to what is computed
instruction  the decoded form
buffers      operands and results, by beats and by threads
datapath     three operands in, a result out: a product and a sum, rounded once
product      53 bits by 53, with three multipliers
shifts       alignment and normalization
===========  ==========================================================================
"""

from .decode import is_double
from .unit import DoubleUnit

__all__ = ["DoubleUnit", "is_double"]
