"""The conversion unit of a machine of one lane: one instruction, one thread of it, and of that a byte at a time.

============  ==========================================================================
module        content
============  ==========================================================================
unit          the steps of an instruction: its sources come, it is computed, its results are written
decode        what a word says, without floating point
sources       sources of all threads, immediate ones, and the constants of the parabolas, by bytes
integer       a source's bytes as an integer: its sign, its magnitude, how long it is
reciprocal    the rest of a parabola, by bytes
exponents     how far an integer is shifted, and a result's exponent
result        bytes shifted, rounded and kept within their type
============  ==========================================================================
"""

from .unit import SerialConversionUnit

__all__ = ["SerialConversionUnit"]
