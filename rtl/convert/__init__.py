"""The conversion unit: POPC, FLO, I2I, I2F, F2I, F2F of 0 and MUFU.RCP, one instruction after the other, one thread a
cycle.

============  ==========================================================================
module        content
============  ==========================================================================
unit          the steps of an instruction: gather, compute, write
queue         instructions that wait, decoded
decode        from a word to what is computed
instruction   the decoded form
buffers       from the lanes' beats to single threads, and back
datapath      source in, result out; joins the rest
source        stages: sign and magnitude, or significand, of a source
unpack        a floating-point source as significand and shift
shifter       stages: shifts, also until the highest bit is on top
result        stages: rounding, and the result's format
bound         an integer within its type
reciprocal    stages: 1 / x, beside source and shifter
formats       the floating-point formats
============  ==========================================================================

An instruction with a source from registers and a result of one register takes 58 cycles, while nobody else wants the
lanes: 6 to begin and gather, 32 for the threads, 13 stages of the datapath, the rest to write. The second register of a
result takes another 52.
"""

from .decode import ConversionDecoder
from .unit import ConversionUnit

__all__ = ["ConversionDecoder", "ConversionUnit"]
