"""The memory unit: loads, stores, atomic operations and shuffles.

============ ==========================================================================
module       content
============ ==========================================================================
unit         everything, joined
queue        instructions that wait for their turn
decode       what a word says, from the instruction table; ``instruction`` the result
front        prepares the next instruction
gather       reads its registers
addresses    judges its addresses, against ``limits``
places       where each thread's access goes
words        each thread's operands and results
sequence     takes an instruction through the parts below
coalescer    requests for lines; ``answers`` what comes back; ``line`` the line itself
exchange     loads and stores: words of threads, and of the line or of shared memory, which is in ``banks``
atomic       atomic operations, by the arithmetic of ``modify``
shuffle      SHFL
switch       the way of words to other lanes, for the three
results      writes registers
narrow       numbers of one or two bytes; ``beats`` those of some threads
============ ==========================================================================
"""

from .banks import clear_request
from .coalescer import MEMORY_UNIT_TAG_BITS
from .decode import MEMORY_FORMS, MemoryDecoder
from .instruction import MemoryEvents
from .unit import MemoryUnit

__all__ = ["MEMORY_FORMS", "MEMORY_UNIT_TAG_BITS", "MemoryDecoder", "MemoryEvents", "MemoryUnit", "clear_request"]
