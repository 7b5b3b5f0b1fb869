"""A board's memory as its host sees it."""

from rtl.isa.tokens import LINE_BYTES
from sim.launch import LOCAL_MEMORY
from sim.launch.memory import Memory, MemoryFaultError
from sim.launch.runtime import HEAP_MEMORY

from .link import Link

__all__ = ["BoardMemory"]

_ALL = (1 << LINE_BYTES) - 1


class BoardMemory(Memory):
    """The memory of a launch, which is on a board. Only what the launch has mapped can be read and written.

    Lines that were read are kept until the machine may have changed them: see :meth:`forget`.
    """

    def __init__(self, content: Memory, link: Link) -> None:
        super().__init__()
        self.regions, self._starts, self._ends = dict(content.regions), list(content._starts), list(content._ends)
        self._content, self._link = content, link
        self._known: dict[int, bytes] = {}

    def copy(self) -> Memory:
        """Another memory with the same content, which is not on a board."""
        other = self._content.copy()
        for first, end in zip(self._starts, self._ends, strict=True):
            other.write(first, self.read(first, end - first))
        return other

    def load(self) -> None:
        """Writes what the launch has placed to the board. Nobody may expect anything of local memory and heap."""
        lines = {}
        for name, (base, size) in self.regions.items():
            if name not in (LOCAL_MEMORY, HEAP_MEMORY):
                for line in range(base - base % LINE_BYTES, base + size, LINE_BYTES):
                    lines[line] = self._content.read(line, LINE_BYTES), _ALL
        self._send(lines)

    def forget(self) -> None:
        """The machine has run: what was read may be otherwise now."""
        self._known.clear()

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes from ``address``; MemoryFaultError where nothing is mapped."""
        self._check(address, size)
        lines = range(address - address % LINE_BYTES, address + size, LINE_BYTES)
        found = self._link.read_lines(line for line in lines if line not in self._known)
        for line, content in found.items():
            if content is None:
                raise MemoryFaultError(line)
            self._known[line] = content
        inside = address % LINE_BYTES
        return b"".join(self._known[line] for line in lines)[inside:inside + size]

    def write(self, address: int, content: bytes | bytearray | memoryview) -> None:
        """Writes ``content`` at ``address``; MemoryFaultError, and nothing written, where nothing is mapped."""
        self._check(address, len(content))
        lines = {}
        for line in range(address - address % LINE_BYTES, address + len(content), LINE_BYTES):
            first, end = max(address, line), min(address + len(content), line + LINE_BYTES)
            part = bytes(content[first - address:end - address])
            lines[line] = (part.rjust(end - line, b"\0").ljust(LINE_BYTES, b"\0"),
                           (1 << end - line) - (1 << first - line))
            self._known.pop(line, None)
        self._send(lines)

    def _send(self, lines: dict[int, tuple[bytes, int]]) -> None:
        if missing := self._link.write_lines(lines):
            raise MemoryFaultError(missing[0])
