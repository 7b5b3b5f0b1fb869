"""The conversion unit: POPC, FLO, I2I, I2F, F2I, F2F and MUFU, in order, in overlapping steps.

============  ==========================================================================
module        content
============  ==========================================================================
unit          the unit: queue, steps and buffers, connected
ports         the unit's ports
queue         decoded instructions that wait
decode        from a word to what is computed
instruction   the decoded form
entries       the table of the four instructions that are in the steps
gather        first step: allocates an entry, requests a gather, receives the sources
compute       second step: computes the results of all threads
collect       writes results to the buffer
write         third step: writes registers, completes instructions
buffers       the memories of sources and of results
narrow        POPC and I2I, for one thread of a group: half a beat a cycle
datapath      all other operations, a thread a cycle; joins the modules below
source        stages: sign and magnitude of an integer, significand of a float
unpack        a floating-point number to its significand, shift and exponent
shifter       stages: shifts by a count, or normalizes
result        stages: rounds, and packs the result into its format
bound         truncates or saturates an integer to its type
function      stages: MUFU's functions, between source and shifter
formats       the floating-point formats
============  ==========================================================================
"""

from .decode import ConversionDecoder
from .unit import ConversionUnit

__all__ = ["ConversionDecoder", "ConversionUnit"]
