"""Exceptions for failing instructions."""

from rtl.isa.errors import WarpError
from sim.launch.memory import MemoryFaultError

__all__ = ["WarpFaultError", "memory_faults"]


class WarpFaultError(Exception):
    """An instruction that raises a warp error. It has changed nothing.

    Attributes:
        error: The error, as the error status shows it.
        detail: The thread and its address, for messages.
    """

    def __init__(self, error: WarpError, detail: str = "") -> None:
        super().__init__(error.name)
        self.error = error
        self.detail = detail


class _MemoryFaults:
    """A context that turns an access to unmapped memory into MMU_FAULT.

    It is a class because each fetch enters it, and ``contextlib.contextmanager`` is slower.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        if isinstance(fault, MemoryFaultError):
            raise WarpFaultError(WarpError.MMU_FAULT, str(fault)) from fault


memory_faults = _MemoryFaults()
"""The context. It has no state, so one instance serves all."""
