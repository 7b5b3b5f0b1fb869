"""What the parts of the trap unit hand to each other."""

from amaranth.lib import enum

__all__ = ["TrapOperation"]


class TrapOperation(enum.Enum, shape=3):
    """What an instruction asks of its warp's part of the trap unit."""

    GO_ON = 0
    """Nothing: the warp goes on."""
    TRAP = 1
    PAUSE = 2
    PAUSE_QUIET = 3
    MASK = 4
    UNMASK = 5
    RETURN = 6
