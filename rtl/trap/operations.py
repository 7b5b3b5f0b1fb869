"""What an instruction of the trap unit does to its warp."""

from amaranth.hdl import Value
from amaranth.lib import enum

__all__ = ["TrapOperation", "TrapOperationView"]


class TrapOperationView(enum.EnumView):
    """A :class:`TrapOperation` in hardware, with its predicates."""

    @property
    def is_trap(self) -> Value:
        """Whether the operation is a BPT.TRAP outside the trap, which is a cause for a trap."""
        return self.as_value().matches(TrapOperation.TRAP.value, TrapOperation.URGENT_TRAP.value)


class TrapOperation(enum.Enum, shape=4, view_class=TrapOperationView):
    """What is dispatched to the trap unit does to its warp."""

    GO_ON = 0
    """Nothing: the warp continues."""
    TRAP = 1
    """BPT.TRAP outside the trap: a cause, unless it is masked."""
    URGENT_TRAP = 2
    """The same, for a reason that cannot be masked."""
    FAIL = 3
    """BPT.TRAP inside the trap: ERROR_IN_TRAP, and the warp is paused."""
    PAUSE = 4
    PAUSE_QUIET = 5
    MASK = 6
    """IDE.DI: causes that can be masked wait."""
    UNMASK = 7
    """IDE.EN."""
    WAIT = 8
    """RTT: the warp waits for the release."""
    TERMINATE = 9
    """RTT.TERMINATE: the warp leaves the trap at once, and ends."""
    ENTER = 10
    """It enters the trap handler."""
    ENTER_PAUSED = 11
    """It enters where there is no handler: it is paused."""
    LEAVE = 12
    """It leaves the trap."""
