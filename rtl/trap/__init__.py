"""Instructions that trap, as far as a machine without trap handler has them: BPT, IDE, RTT.

BPT.TRAP stops the machine like an error: the host is told the reason and the address of the next instruction. BPT.INT
tells it without stopping anything. Whatever belongs to the trap handler is ILLEGAL_INSTR_ENCODING, as there is none.
"""

from .unit import TRAP_REASONS, TrapEvent, TrapUnit

__all__ = ["TRAP_REASONS", "TrapEvent", "TrapUnit"]
