"""The conversion unit: POPC, FLO, I2I, I2F, F2I, F2F and MUFU, in order, in three steps that overlap.

============  ==========================================================================
module        content
============  ==========================================================================
unit          the steps of an instruction: gather, compute, write
narrow        POPC and integers of 32 bits or less, for a lane of a group: half a beat a cycle
ports         the unit's ports
queue         instructions that wait, decoded
decode        from a word to what is computed
instruction   the decoded form
buffers       sources and results, by beats and by threads
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
