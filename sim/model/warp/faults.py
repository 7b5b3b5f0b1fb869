"""Signals that an instruction fails."""

from rtl.isa.errors import WarpError
from sim.launch.memory import MemoryFaultError

__all__ = ["WarpFaultError", "memory_faults"]


class WarpFaultError(Exception):
    """An instruction that raises a warp error. It has changed nothing.

    Attributes:
        error: What the error status will tell.
        detail: What else helps a reader: the thread and its address.
    """

    def __init__(self, error: WarpError, detail: str = "") -> None:
        super().__init__(error.name)
        self.error = error
        self.detail = detail


class _MemoryFaults:
    """A context in which an access to unmapped memory is MMU_FAULT. A class, which is faster than
    ``contextlib.contextmanager``: each fetch enters it."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        if isinstance(fault, MemoryFaultError):
            raise WarpFaultError(WarpError.MMU_FAULT, str(fault)) from fault


memory_faults = _MemoryFaults()
"""The context; it has no state."""
