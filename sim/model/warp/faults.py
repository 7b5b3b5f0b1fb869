"""Signals that an instruction fails."""

from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def memory_faults() -> Iterator[None]:
    """Turns an access to nothing into MMU_FAULT."""
    try:
        yield
    except MemoryFaultError as fault:
        raise WarpFaultError(WarpError.MMU_FAULT, str(fault)) from fault
