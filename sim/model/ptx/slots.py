"""Allocates a position in a frame's list of values to each register and constant of a function."""

from __future__ import annotations

from dataclasses import dataclass, field

from sim.toolchain.ptx.module import (
    Negated,
    Operand,
    PtxFunction,
    PtxImmediate,
    PtxRegister,
    PtxSpace,
    PtxVariable,
    Sink,
)

__all__ = ["Slots"]


@dataclass
class Slots:
    """The positions of one function's registers and constants. Results that are not used go to
    position 0.

    Attributes:
        initial: The initial values of a frame.
    """

    initial: list[int] = field(default_factory=lambda: [0])
    _registers: dict[PtxRegister, int] = field(default_factory=dict)
    _constants: dict[int, int] = field(default_factory=dict)
    _parameters: dict[PtxVariable, int] = field(default_factory=dict)

    @classmethod
    def of(cls, function: PtxFunction, undefined: int) -> Slots:
        """Allocates the registers and parameters that a function declares; a register's initial
        value is ``undefined`` cut to its width.
        """
        slots = cls()
        for item in (*function.results, *function.parameters, *function.registers):
            if isinstance(item, PtxRegister):
                slots._registers[item] = slots._add(undefined & (1 << item.type.bits) - 1)
            else:
                slots._parameters[item] = len(slots._parameters)
        for variable in function.variables:
            if variable.space is PtxSpace.PARAM:
                slots._parameters[variable] = len(slots._parameters)
        return slots

    def _add(self, value: int) -> int:
        self.initial.append(value)
        return len(self.initial) - 1

    def constant(self, value: int) -> int:
        """Returns the position of a constant, which is allocated on first use."""
        if value not in self._constants:
            self._constants[value] = self._add(value)
        return self._constants[value]

    def register(self, register: PtxRegister) -> int:
        """Returns the position of a register."""
        return self._registers[register]

    def parameter(self, variable: PtxVariable) -> int:
        """Returns the index of a variable in param space in the frame's parameters."""
        return self._parameters[variable]

    @property
    def parameter_sizes(self) -> list[int]:
        """Sizes of the frame's parameters in bytes, in the order of their indices."""
        return [variable.size for variable in self._parameters]

    def of_operand(self, operand: Operand) -> int:
        """Returns the position of a register or immediate, or 0 for a Sink; raises TypeError for
        any other operand.
        """
        match operand:
            case PtxRegister():
                return self._registers[operand]
            case PtxImmediate(value):
                return self.constant(value)
            case Sink():
                return 0
            case _:
                raise TypeError(f"{operand} is no value")

    def predicate(self, operand: Operand) -> tuple[int, int]:
        """Returns the position of a predicate, and 1 if the operand negates it, else 0."""
        if isinstance(operand, Negated):
            return self._registers[operand.register], 1
        return self.of_operand(operand), 0
