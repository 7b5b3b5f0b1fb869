"""Traps: who enters the handler and why, who waits there, and when all go back; see
docs/barriers_traps.md.

A warp enters the trap, and leaves it, by something that issue puts in the place of its next
instruction (kinds ENTER and LEAVE) and that the flow unit executes: pc, masks and trap frame are
its work. This unit says when.
"""

from .unit import TrapUnit

__all__ = ["TrapUnit"]
