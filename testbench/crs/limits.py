"""The limits on the stack's latency and throughput: the most cycles an operation may take when its
line is on chip.

All limits of the testbench are here; its other checks do not depend on the hardware's timing.
"""

from rtl.isa.tokens import TOKENS_PER_LINE
from sim.machine.memory_port import MemoryBehaviour

RESULT_CYCLES = 3
"""Cycles from the request taken to its result."""
TOKEN_CYCLES = 2
"""Additional cycles for each token after the first that an unwind inspects."""
PUSH_CYCLES = 2
"""Cycles from a push to the next request of the same warp."""
LEFT_CYCLES = 1
"""Cycles from a result to the report of the new depth, after an unwind or SET_POINTER."""
REQUESTS_PER_CYCLE = 0.99
"""Requests taken per cycle with enough warps, including the first cycles of the run."""
LINE_PER_PUSHES = MemoryBehaviour(latency=(20, 20), interval=TOKENS_PER_LINE)
"""A memory that takes one line in as many cycles as a line has tokens."""
