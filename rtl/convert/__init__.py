"""The conversion unit: POPC, FLO, I2I, I2F, F2I, F2F and MUFU, in order, in overlapping steps.

============  ==========================================================================
module        content
============  ==========================================================================
unit          the unit: queue, steps and buffers, connected
ports         the unit's ports
queue         instructions that wait, decoded
decode        from a word to what is computed
instruction   the decoded form
entries       the four instructions in the steps
gather        first step: an entry, a gather, sources
compute       second step: the results of all threads
collect       results on their way to the buffer
write         third step: writes, and the end of an instruction
buffers       sources and results, by beats and by threads
narrow        POPC and integers of 32 bits or less, for a lane of a group: half a beat a cycle
datapath      everything else, a thread a cycle: source in, result out; joins the rest
source        stages: sign and magnitude, or significand, of a source
unpack        a floating-point source as significand and shift
shifter       stages: shifts, also until the highest bit is on top
result        stages: rounding, and the result's format
bound         an integer within its type
function      stages: MUFU's functions, from the source to the shifter
formats       the floating-point formats
============  ==========================================================================
"""

from .decode import ConversionDecoder
from .unit import ConversionUnit

__all__ = ["ConversionDecoder", "ConversionUnit"]
