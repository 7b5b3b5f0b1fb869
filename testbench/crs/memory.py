"""Memory of the stacks that can refuse requests and records the refused ones."""

from random import Random

from sim.launch.memory import Memory, MemoryFaultError


class StackMemory(Memory):
    """Memory for :class:`sim.machine.memory_port.MemoryServer`.

    Reads and writes fail at random. A write that fails is done all the same, so that its stack
    continues and can be compared. Addresses in ``refusing`` always fail. ``read`` and ``put``,
    which the testbench itself uses, never fail.

    Attributes:
        refused_reads, refused_writes: Addresses of the refused requests.
        refusing: Addresses at which every request fails.
    """

    def __init__(self, random: Random | None = None, failures: float = 0.0) -> None:
        super().__init__()
        self._random = random
        self._failures = failures
        self.refusing: set[range] = set()
        self.refused_reads: list[int] = []
        self.refused_writes: list[int] = []

    def _fails(self) -> bool:
        return self._random is not None and self._random.random() < self._failures

    def _refuses(self, address: int) -> bool:
        return any(address in refused for refused in self.refusing)

    def put(self, address: int, content: bytes) -> None:
        """Writes ``content``; never fails."""
        super().write(address, content)

    def read_number(self, address: int, size: int) -> int:
        """The number that a port reads."""
        try:
            if self._refuses(address) or self._fails():
                raise MemoryFaultError(address)
            return super().read_number(address, size)
        except MemoryFaultError:
            self.refused_reads.append(address)
            raise

    def write(self, address: int, content: bytes | bytearray | memoryview) -> None:
        """Writes ``content`` for a port."""
        try:
            if self._refuses(address):
                raise MemoryFaultError(address)
            super().write(address, content)
            if self._fails():
                raise MemoryFaultError(address)
        except MemoryFaultError:
            self.refused_writes.append(address)
            raise
