"""The memory unit: loads, stores, atomic operations and shuffles.

============ ==========================================================================
module       content
============ ==========================================================================
unit         everything, joined
front        instructions that wait, get a slot, and have their registers gathered
decode       fields of an instruction word, from the instruction table
instruction  the decoded form, and what the parts hand to each other
addresses    the address stage, which judges addresses against ``limits``
operands     places and data of the threads in flight
access       the access stage: instructions in order; it is the coalescer
lines        the miss queue: lines of memory that are under way
line_hazards which of them may be under way at the same time
line_beats   their words, beat by beat: for lines that are written, and of answers
line_memory  where their words are
crossbar     words between threads and banks
banks        shared memory
atomic       atomic operations
writeback    results; instructions retire
ports        the ports of the whole unit
============ ==========================================================================
"""

from .decode import MEMORY_FORMS, MemoryDecoder
from .instruction import MemoryEvents, memory_tag_bits
from .limits import local_move
from .unit import MemoryUnit

__all__ = [
    "MEMORY_FORMS",
    "MemoryDecoder",
    "MemoryEvents",
    "MemoryUnit",
    "local_move",
    "memory_tag_bits",
]
