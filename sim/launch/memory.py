"""The memory behind the machine: sparse, byte addressed, with bounds."""

from bisect import bisect_right

from rtl.isa.tokens import LINE_BYTES
from rtl.params import ADDRESS_BITS

__all__ = ["Memory", "MemoryFaultError"]

_PAGE_BITS = 12
_PAGE_BYTES = 1 << _PAGE_BITS
_WHOLE_LINE = (1 << LINE_BYTES) - 1


class MemoryFaultError(Exception):
    """An access to an address that nothing is mapped at."""

    def __init__(self, address: int) -> None:
        super().__init__(f"nothing is mapped at {address:#x}")
        self.address = address


class Memory:
    """Bytes at 40-bit addresses. Only mapped lines exist; they start as zeros.

    Memory comes in lines of 64 bytes, as the machine asks for it: of a line that is mapped in part, all bytes exist.

    Parameters:
        heap: Where the ranges that are allocated begin.
        gap: Bytes between them, so that what runs off one of them faults.

    Attributes:
        regions: Name, first address and size in bytes of every range that was allocated.
    """

    def __init__(self, heap: int = 0x2_0000_0000, gap: int = _PAGE_BYTES) -> None:
        self.regions: dict[str, tuple[int, int]] = {}
        self._pages: dict[int, bytearray] = {}
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._heap, self._gap = heap, gap

    def copy(self) -> "Memory":
        """Another memory with the same content."""
        other = Memory(self._heap, self._gap)
        other.regions, other._starts, other._ends = dict(self.regions), list(self._starts), list(self._ends)
        other._pages = {number: bytearray(page) for number, page in self._pages.items()}
        return other

    def map(self, name: str, base: int, size: int) -> None:
        """Maps the lines of ``size`` bytes from ``base``; ValueError when some are mapped already or beyond the address
        width.
        """
        if not 0 <= base < base + size <= 1 << ADDRESS_BITS:
            raise ValueError(f"{name}: {size} bytes at {base:#x} do not fit in {ADDRESS_BITS}-bit addresses")
        first, end = base - base % LINE_BYTES, base + size + -(base + size) % LINE_BYTES
        at = bisect_right(self._starts, first)
        if (at and self._ends[at - 1] > first) or (at < len(self._starts) and self._starts[at] < end):
            raise ValueError(f"{name}: some of {size} bytes at {base:#x} are mapped already")
        if name in self.regions:
            raise ValueError(f"{name} is mapped already")
        self._starts.insert(at, first)
        self._ends.insert(at, end)
        self.regions[name] = (base, size)

    def allocate(self, name: str, size: int, alignment: int = 256) -> int:
        """Maps ``size`` bytes (at least one) somewhere on the heap, a gap behind the last; returns the address."""
        base = -(-self._heap // alignment) * alignment
        self.map(name, base, max(size, 1))
        self._heap = base + max(size, 1) + self._gap
        return base

    @property
    def end(self) -> int:
        """Behind the last byte that is mapped."""
        return max(self._ends, default=0)

    def _check(self, address: int, size: int) -> None:
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._ends[at]:
            raise MemoryFaultError(address)
        if address + size > self._ends[at]:
            raise MemoryFaultError(self._ends[at])

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes from ``address``; MemoryFaultError where nothing is mapped."""
        self._check(address, size)
        result = bytearray()
        while size:
            inside = address & _PAGE_BYTES - 1
            step = min(size, _PAGE_BYTES - inside)
            page = self._pages.get(address >> _PAGE_BITS)
            result += page[inside:inside + step] if page is not None else bytes(step)
            address += step
            size -= step
        return bytes(result)

    def write(self, address: int, content: bytes | bytearray | memoryview) -> None:
        """Writes ``content`` at ``address``; MemoryFaultError, and nothing written, where nothing is mapped."""
        self._check(address, len(content))
        done = 0
        while done < len(content):
            inside = address + done & _PAGE_BYTES - 1
            step = min(len(content) - done, _PAGE_BYTES - inside)
            page = self._pages.setdefault(address + done >> _PAGE_BITS, bytearray(_PAGE_BYTES))
            page[inside:inside + step] = content[done:done + step]
            done += step

    def write_line(self, address: int, content: bytes, mask: int) -> None:
        """Writes those bytes of a line that a mask has, bit n for byte n."""
        if mask != _WHOLE_LINE:
            old = self.read(address, LINE_BYTES)
            content = bytes(new if mask >> at & 1 else byte
                            for at, (new, byte) in enumerate(zip(content, old, strict=True)))
        self.write(address, content)

    def read_number(self, address: int, size: int) -> int:
        """The little-endian number of ``size`` bytes at ``address``."""
        return int.from_bytes(self.read(address, size), "little")

    def write_number(self, address: int, size: int, value: int) -> None:
        """Writes the low ``size`` bytes of ``value`` at ``address``, little endian."""
        self.write(address, (value & (1 << 8 * size) - 1).to_bytes(size, "little"))
