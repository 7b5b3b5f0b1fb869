"""An instruction and its context: the positions of its operands, and the function around it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sim.toolchain.ptx.module import PtxInstruction, PtxLabel, PtxVariable

from .launch import PtxLaunch
from .slots import Slots
from .state import ExecutableFunction, Operation

__all__ = ["FunctionTable", "Maker", "Site"]


class FunctionTable(Protocol):
    """The functions of the program to which an instruction belongs."""

    launch: PtxLaunch

    def code(self, name: str) -> ExecutableFunction:
        """Returns the function of a name."""
        ...

    def at_address(self, address: int) -> ExecutableFunction | None:
        """Returns the function at an address, None if there is none."""
        ...


@dataclass(frozen=True)
class Site:
    """An instruction, its context, and the index of the next operation.

    Attributes:
        labels: Index of an operation by label.
        locals: Offset of the function's variables in local memory.
    """

    instruction: PtxInstruction
    slots: Slots
    program: FunctionTable
    following: int
    labels: Mapping[PtxLabel, int]
    locals: Mapping[PtxVariable, int]

    @property
    def operand_slots(self) -> tuple[int, ...]:
        """Positions of all operands, for an instruction whose operands are all values."""
        return tuple(self.slots.of_operand(operand) for operand in self.instruction.operands)


Maker = Callable[[Site], Operation]
"""Makes the operation of an instruction."""
