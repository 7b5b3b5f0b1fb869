"""Actions: the effect of an instruction, as a function made once for its word."""

from collections.abc import Callable
from typing import Protocol

from rtl.isa.errors import WarpError
from rtl.isa.syntax import RZ, Constant, Form, Values
from sim.launch import Launch
from sim.launch.memory import Memory

from .bounds import Bounds
from .retirement import Retirement
from .state import Warp
from .traps import Traps

__all__ = ["Action", "Core", "Maker", "constant_address", "of_fields"]


class Core(Protocol):
    """The machine as the actions of instructions see it.

    Attributes:
        launch: The launch that runs.
        memory: Global memory, which also holds everything else but shared memory.
        clock: The value of the clock registers.
        raised: Events for the global error status.
        slots: Number of warp slots.
        traps: The state of traps.
        bounds: Checks accesses to global memory; None without a check.
    """

    launch: Launch
    memory: Memory
    clock: int
    raised: set[str]
    slots: int
    traps: Traps
    bounds: Bounds | None

    def constant(self, bank: int, address: int, size: int, error: WarpError) -> int:
        """Reads ``size`` bytes of a constant bank, little endian.

        Beyond the bank's end it raises WarpFaultError with ``error`` if that error is reported,
        else returns 0.
        """
        ...


Action = Callable[[Core, Warp, int, Retirement], None]
"""Executes the instruction for a warp and a mask of threads, and records its effects in the
retirement.

The mask holds the threads whose guard and CC test hold; it may be empty. Raises WarpFaultError
before it changes anything.
"""

Maker = Callable[[Form, Values], Action]
"""Makes the action of a word that encoding_error accepts."""

_OFFSET_BITS, _SUM_BITS = 16, 32


def of_fields(run: Callable[[Core, Warp, int, Retirement, Values], None]) -> Maker:
    """Returns the maker of an action that uses only the values of the word's fields, at execution."""
    return lambda _, values: (
        lambda core, warp, threads, record: run(core, warp, threads, record, values)
    )


def constant_address(values: Values, operand: Constant, index: int = 0) -> int:
    """Returns the address of a constant operand in its bank.

    ``index`` is the value of the operand's index register. An offset alone wraps at 16 bits, its
    sum with a register at 32 bits (ours).
    """
    indexed = operand.index is not None and values[operand.index] != RZ
    return (index + values[operand.offset]) % (1 << (_SUM_BITS if indexed else _OFFSET_BITS))
