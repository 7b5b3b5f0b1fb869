"""Memory of the stacks that records refused requests, and refuses requests on demand."""

from random import Random

from sim.launch.memory import Memory, MemoryFaultError


class StackMemory(Memory):
    """Memory for :class:`sim.machine.memory_port.MemoryServer`.

    A read or write may fail at random. A write that fails so is done all the same: its stack
    continues and can be compared. With ``refusing`` all of them fail. The testbench's own ``read``
    and ``put`` never do.

    Attributes:
        refused_reads, refused_writes: Addresses that it refused.
        refusing: Addresses that it refuses.
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
        """Writes ``content``, whatever is refused."""
        super().write(address, content)

    def read_number(self, address: int, size: int) -> int:
        """What a port reads."""
        try:
            if self._refuses(address) or self._fails():
                raise MemoryFaultError(address)
            return super().read_number(address, size)
        except MemoryFaultError:
            self.refused_reads.append(address)
            raise

    def write(self, address: int, content: bytes | bytearray | memoryview) -> None:
        """What a port writes."""
        try:
            if self._refuses(address):
                raise MemoryFaultError(address)
            super().write(address, content)
            if self._fails():
                raise MemoryFaultError(address)
        except MemoryFaultError:
            self.refused_writes.append(address)
            raise
