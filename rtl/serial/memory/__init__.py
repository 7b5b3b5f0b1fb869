"""The memory unit of the serial machine: one instruction, one thread, one word at a time.

============ ==========================================================================
module       content
============ ==========================================================================
unit         the states of an instruction
accumulator  the adder
subwords     loads and stores of bytes and halves of words
words        accesses to words of shared memory and of memory
============ ==========================================================================
"""

from .unit import SerialMemoryUnit

__all__ = ["SerialMemoryUnit"]
