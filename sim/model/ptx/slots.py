"""Where a frame has its operands: every register and every constant of a function has a position in its values."""

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
    """Positions for one function. Position 0 takes results that are not used.

    ``initial`` is what a frame's values begin as.
    """

    initial: list[int] = field(default_factory=lambda: [0])
    _registers: dict[PtxRegister, int] = field(default_factory=dict)
    _constants: dict[int, int] = field(default_factory=dict)
    _parameters: dict[PtxVariable, int] = field(default_factory=dict)

    @classmethod
    def of(cls, function: PtxFunction, undefined: int) -> Slots:
        """The positions that a function's declarations give; what a register begins as is cut from ``undefined``."""
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
        """The position of a constant."""
        if value not in self._constants:
            self._constants[value] = self._add(value)
        return self._constants[value]

    def register(self, register: PtxRegister) -> int:
        """The position of a register."""
        return self._registers[register]

    def parameter(self, variable: PtxVariable) -> int:
        """The number of a variable in param space among the frame's parameters."""
        return self._parameters[variable]

    @property
    def parameter_sizes(self) -> list[int]:
        """Bytes of each of them."""
        return [variable.size for variable in self._parameters]

    def of_operand(self, operand: Operand) -> int:
        """The position of a register or number; the unused one for a Sink."""
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
        """The position of a predicate, and 1 where it is negated."""
        if isinstance(operand, Negated):
            return self._registers[operand.register], 1
        return self.of_operand(operand), 0
