"""The conversion unit of the serial machine: one instruction at a time, one thread of it, and of
that thread a byte a cycle.

===========  =================================================================================
module       content
===========  =================================================================================
unit         the phases of an instruction: gather sources, convert each thread, write results
instruction  what the parts share: the decoded instruction, phases, steps
decode       the decoder, without floating point
sources      sources of all threads, immediate ones, and the constants of the parabolas, by bytes
integer      a source's bytes as an integer: its sign, its magnitude, its leading bit
reciprocal   the terms of a parabola that depend on the distance, by bytes
exponents    by how much an integer is shifted, and a result's exponent
result       bytes shifted, rounded and saturated
results      results of all threads
===========  =================================================================================
"""

from .unit import SerialConversionUnit

__all__ = ["SerialConversionUnit"]
