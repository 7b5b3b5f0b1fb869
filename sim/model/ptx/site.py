"""An instruction in its place: where a frame has its operands, and what is around it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sim.toolchain.ptx.module import PtxInstruction, PtxLabel, PtxVariable

from .launch import PtxLaunch
from .slots import Slots
from .state import ExecutableFunction, Operation

__all__ = ["FunctionTable", "Maker", "Site"]


class FunctionTable(Protocol):
    """The functions of the program that an instruction is in."""

    launch: PtxLaunch

    def code(self, name: str) -> ExecutableFunction:
        """A function by its name."""
        ...

    def at_address(self, address: int) -> ExecutableFunction | None:
        """The function at an address."""
        ...


@dataclass(frozen=True)
class Site:
    """An instruction, what is around it, and the index of what follows it.

    ``labels`` are indices of the function's labels, ``locals`` offsets of its variables in local memory.
    """

    instruction: PtxInstruction
    slots: Slots
    program: FunctionTable
    following: int
    labels: Mapping[PtxLabel, int]
    locals: Mapping[PtxVariable, int]

    @property
    def operand_slots(self) -> tuple[int, ...]:
        """Positions of all operands, where all are values."""
        return tuple(self.slots.of_operand(operand) for operand in self.instruction.operands)


Maker = Callable[[Site], Operation]
"""Makes an operation of an instruction."""
