"""A driver's view of the machine: its registers, its memory, and the clock."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import ClassVar

from rtl.isa.registers import (
    COUNTER_BLOCK,
    COUNTERS,
    SM_BLOCK,
    SM_REGISTERS,
    WORK_BLOCK,
    WORK_REGISTERS,
    host_register,
)
from sim.launch.memory import Memory

__all__ = ["REGISTERS", "Driver", "HardwareHost", "HostAccess"]

REGISTERS = (
    {name: SM_BLOCK + register.offset for name, register in SM_REGISTERS.items()}
    | {name: WORK_BLOCK + register.offset for name, register in WORK_REGISTERS.items()}
    | {name: COUNTER_BLOCK + 8 * number for number, name in enumerate(COUNTERS)}
)
"""Addresses of the host's registers by name; for counters, of the low words."""


class HostAccess(ABC):
    """The host's access to the machine, in simulation or on a board.

    Attributes:
        memory: The machine's memory.
        cycles: Clock cycles of the run so far.
        remote: Whether many clock cycles pass between two accesses of the host. If so, a driver
            starts with the machine stopped before the first warp, since it could not intervene in
            time otherwise.
    """

    memory: Memory
    cycles: int
    remote: ClassVar[bool] = False

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether the grid has ended."""

    @property
    @abstractmethod
    def locked_down(self) -> bool:
        """Whether the machine is in a trap in which no warp runs."""

    @property
    @abstractmethod
    def interrupted(self) -> bool:
        """Whether the machine interrupts the host."""

    @property
    @abstractmethod
    def differs(self) -> bool:
        """Whether the lockstep has found a mismatch."""

    @abstractmethod
    async def read_all(self, addresses: Iterable[int]) -> list[int]:
        """Reads registers, one at a time."""

    @abstractmethod
    async def write(self, address: int, value: int) -> None:
        """Writes a register."""

    @abstractmethod
    async def advance(self, cycles: int) -> bool:
        """Lets cycles pass, until the machine requires attention; returns whether it does."""

    async def read(self, address: int) -> int:
        """Reads a register."""
        (value,) = await self.read_all((address,))
        return value


class HardwareHost:
    """The host's side of a run.

    Attributes:
        memory: The machine's memory.
    """

    def __init__(self, hardware: HostAccess) -> None:
        self._hardware = hardware
        self.memory: Memory = hardware.memory

    @property
    def cycles(self) -> int:
        """Clock cycles of the run so far."""
        return self._hardware.cycles

    @property
    def ended(self) -> bool:
        """Whether the grid has ended."""
        return self._hardware.ended

    @property
    def locked_down(self) -> bool:
        """Whether the machine is in a trap in which no warp runs."""
        return self._hardware.locked_down

    @property
    def interrupted(self) -> bool:
        """Whether the machine interrupts the host."""
        return self._hardware.interrupted

    @property
    def remote(self) -> bool:
        """Whether many clock cycles pass between two accesses of the host."""
        return self._hardware.remote

    @property
    def failed(self) -> bool:
        """Whether the lockstep has found a mismatch."""
        return self._hardware.differs

    async def read(self, register: str) -> int:
        """Reads a register by name."""
        return await self._hardware.read(REGISTERS[register])

    async def write(self, register: str, value: int) -> None:
        """Writes a register by name."""
        await self._hardware.write(REGISTERS[register], value)

    async def modify(self, register: str, **fields: int) -> None:
        """Reads a register and writes it back with some fields changed."""
        value = await self.read(register)
        await self.write(register, host_register(register).put(value, **fields))

    async def field(self, register: str, name: str) -> int:
        """Reads a field of a register."""
        return host_register(register).get(name, await self.read(register))

    async def run(self, cycles: int) -> bool:
        """Lets this many cycles pass, or fewer: until the machine begins to interrupt, locks down,
        or ends its grid.

        Returns whether one of these has happened.
        """
        end = self.cycles + cycles
        while self.cycles < end and not self.failed:
            if await self._hardware.advance(end - self.cycles):
                return True
        return False

    async def until(self, condition: Callable[["HardwareHost"], bool], cycles: int) -> bool:
        """Lets cycles pass until the condition holds, one of ``ended``, ``locked_down`` and
        ``interrupted``, at most ``cycles``; returns whether it holds.
        """
        end = self.cycles + cycles
        while not condition(self) and self.cycles < end and not self.failed:
            await self.run(end - self.cycles)
        return condition(self)


Driver = Callable[[HardwareHost], Awaitable[None]]
"""Drives a run from the start of the grid to its end."""
