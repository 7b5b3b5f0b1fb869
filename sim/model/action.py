"""What an instruction does, as a function made once for its word."""

from collections.abc import Callable, Mapping
from typing import Protocol

from rtl.isa.errors import WarpError
from rtl.isa.syntax import RZ, Form, Values
from sim.launch import Launch
from sim.memory import Memory

from .retirement import Retirement
from .state import Warp

__all__ = ["Action", "Actions", "Core", "Maker", "constant_modulus"]


class Core(Protocol):
    """What the actions of instructions see of the machine.

    Attributes
    ----------
    launch : Launch
        What runs.
    memory : Memory
        Global memory, and in it everything else but shared memory.
    clock : int
        What the clock registers read.
    raised : set[str]
        Events for the global error status.
    slots : int
        Warp slots.
    """

    launch: Launch
    memory: Memory
    clock: int
    raised: set[str]
    slots: int

    def constant(self, bank: int, address: int, size: int, error: WarpError) -> int:
        """``size`` bytes of a constant bank; beyond its end WarpFaultError with ``error`` if that is reported,
        else 0."""
        ...

    def trap(self, reason: int) -> None:
        """BPT.TRAP with a reason from 1 to 7 was executed."""
        ...


Action = Callable[[Core, Warp, int, Retirement], None]
"""Executes the instruction for a warp and a mask of threads, and notes in the record what it did. The threads
are those whose guard and CC test hold; there may be none. Raises WarpFaultError before it changes anything."""

Maker = Callable[[Form, Values], Action]
"""Makes the action of a word; UndefinedModeError when the machine does not have it."""

Actions = Mapping[str, Maker]
"""Makers by instruction name."""


def constant_modulus(values: Values) -> int:
    """Addresses in a constant bank are computed modulo this: offsets alone have 16 bits, a register's sum 32 (ours)."""
    return 1 << (16 if values.get("Ra", RZ) == RZ else 32)
