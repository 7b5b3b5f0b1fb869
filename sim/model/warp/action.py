"""What an instruction does, as a function made once for its word."""

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
    """What the actions of instructions see of the machine.

    Attributes:
        launch: What runs.
        memory: Global memory, and in it everything else but shared memory.
        clock: What the clock registers read.
        raised: Events for the global error status.
        slots: Warp slots.
        traps: Who traps, and what became of it.
        bounds: Looks at accesses of memory; None: nobody does.
    """

    launch: Launch
    memory: Memory
    clock: int
    raised: set[str]
    slots: int
    traps: Traps
    bounds: Bounds | None

    def constant(self, bank: int, address: int, size: int, error: WarpError) -> int:
        """``size`` bytes of a constant bank; beyond its end WarpFaultError with ``error`` if that is reported,
        else 0."""
        ...


Action = Callable[[Core, Warp, int, Retirement], None]
"""Executes the instruction for a warp and a mask of threads, and notes in the record what it did. The threads
are those whose guard and CC test hold; there may be none. Raises WarpFaultError before it changes anything."""

Maker = Callable[[Form, Values], Action]
"""Makes the action of a word that encoding_error lets pass."""

_OFFSET_BITS, _SUM_BITS = 16, 32


def of_fields(run: Callable[[Core, Warp, int, Retirement, Values], None]) -> Maker:
    """The maker of an action that takes nothing of its word but the values of fields, when it is executed."""
    return lambda _, values: (
        lambda core, warp, threads, record: run(core, warp, threads, record, values)
    )


def constant_address(values: Values, operand: Constant, index: int = 0) -> int:
    """The address that a constant operand names in its bank, with the value of its index register: an offset alone
    has 16 bits, its sum with a register 32 (ours).
    """
    indexed = operand.index is not None and values[operand.index] != RZ
    return (index + values[operand.offset]) % (1 << (_SUM_BITS if indexed else _OFFSET_BITS))
