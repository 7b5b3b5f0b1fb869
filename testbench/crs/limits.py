"""How fast the stack has to be: the most cycles that anything may take when its line is on chip.

All limits stand here; everything else in the testbench leaves time to the hardware.
"""

from rtl.isa.tokens import TOKENS_PER_LINE
from sim.machine.memory_port import MemoryBehaviour

RESULT_CYCLES = 3
"""From a request that is taken to its result."""
TOKEN_CYCLES = 2
"""More for each token that an unwind looks at after the first."""
PUSH_CYCLES = 2
"""From a push to the next request of the same warp."""
LEFT_CYCLES = 1
"""From a result to the depth that an unwind or SET_POINTER has left."""
REQUESTS_PER_CYCLE = 0.99
"""Requests taken, with warps enough; the first cycles count."""
LINE_PER_PUSHES = MemoryBehaviour(latency=(20, 20), interval=TOKENS_PER_LINE)
"""A memory that takes a line in as many cycles as it has tokens."""
