"""The host's view of a board's memory."""

from collections.abc import Callable, Container

from rtl.isa.tokens import LINE_BYTES
from sim.launch import LOCAL_MEMORY
from sim.launch.memory import Memory, MemoryFaultError
from sim.launch.runtime import HEAP_MEMORY, OUTPUT_MEMORY

from .link import Link

__all__ = ["BoardImage", "BoardMemory"]

_ALL = (1 << LINE_BYTES) - 1
_UNKNOWN, _SAME, _RAN, _NEWER = range(4)
"""The host's knowledge of a line: none; its content; its content before the machine ran; none, and
what the machine wrote there is irrelevant.
"""
_RUN = bytes.maketrans(bytes([_SAME]), bytes([_RAN]))
_IDLE = bytes.maketrans(bytes([_RAN]), bytes([_SAME]))
_DROPPED = bytes.maketrans(bytes([_RAN]), bytes([_UNKNOWN]))
_LEFT = bytes.maketrans(bytes([_RAN]), bytes([_NEWER]))
_CHUNK = 4096
"""Number of bytes that are compared at once."""


class BoardImage:
    """The host's copy of the lines of a board's memory that it has sent or read, kept between
    launches.

    Parameters:
        base: First address of the board's memory.
        size: Size of the board's memory in bytes.
    """

    def __init__(self, base: int, size: int) -> None:
        self._base = base
        self._content = bytearray(size)
        self._states = bytearray(size // LINE_BYTES)

    def _lines(self, first: int, end: int) -> slice:
        return slice((first - self._base) // LINE_BYTES, -(-(end - self._base) // LINE_BYTES))

    def put(self, line: int, content: bytes) -> None:
        """Records the content of a line of the board."""
        at = line - self._base
        if 0 <= at < len(self._content):
            self._content[at : at + LINE_BYTES] = content
            self._states[at // LINE_BYTES] = _SAME

    def has(self, line: int) -> bool:
        """Whether the line's content is known."""
        at = line - self._base
        return 0 <= at < len(self._content) and self._states[at // LINE_BYTES] == _SAME

    def read(self, first: int, size: int) -> bytes:
        """Returns the recorded content."""
        return bytes(self._content[first - self._base : first - self._base + size])

    def different(
        self, first: int, end: int, read: Callable[[int, int], bytes], *, keep: bool = False
    ) -> list[int]:
        """Returns the lines that differ, or may differ, from what ``read`` returns.

        With ``keep``, lines that the host has not changed since :meth:`drop` kept them are left
        out.
        """
        found: list[int] = []
        good = (_SAME, _NEWER) if keep else (_SAME,)
        for chunk in range(first, end, _CHUNK):
            stop = min(chunk + _CHUNK, end)
            states, content = self._states[self._lines(chunk, stop)], read(chunk, stop - chunk)
            if (
                states.count(_SAME) == len(states)
                and self._content[chunk - self._base : stop - self._base] == content
            ):
                continue
            found += [
                line
                for line in range(chunk, stop, LINE_BYTES)
                if not (
                    states[(line - chunk) // LINE_BYTES] in good
                    and self._content[line - self._base : line - self._base + LINE_BYTES]
                    == content[line - chunk : line - chunk + LINE_BYTES]
                )
            ]
        return found

    def _change(self, first: int, end: int, table: bytes) -> None:
        lines = self._lines(first, end)
        self._states[lines] = self._states[lines].translate(table)

    def mark_running(self, first: int, end: int) -> None:
        """Records that the machine runs, and may write there."""
        self._change(first, end, _RUN)

    def idle(self, first: int, end: int) -> None:
        """Records that the machine has run, and has not written there."""
        self._change(first, end, _IDLE)

    def drop(self, first: int, end: int, *, keep: bool = False) -> None:
        """Discards the content that the machine may have overwritten since it ran.

        With ``keep``, the lines are not sent again while the host has the same content as before.
        """
        self._change(first, end, _LEFT if keep else _DROPPED)

    def forget(self, first: int, end: int) -> None:
        """Discards the content."""
        lines = self._lines(first, end)
        self._states[lines] = bytes(len(self._states[lines]))


class BoardMemory(Memory):
    """The memory of a launch on a board. Only ranges that the launch has mapped can be read and
    written.

    Lines that were read are kept in the image until the machine may have changed them: see
    :meth:`forget`.
    """

    def __init__(self, content: Memory, link: Link, image: BoardImage) -> None:
        super().__init__()
        self.regions, self._starts, self._ends = (
            dict(content.regions),
            list(content._starts),
            list(content._ends),
        )
        self.constant = set(content.constant)
        self._content, self._link, self._image = content, link, image
        self._idle = False
        """Whether nothing was sent or read since the machine ran."""

    def copy(self) -> Memory:
        """Returns another memory with the same content, which is not on a board."""
        other = self._content.copy()
        for first, end in zip(self._starts, self._ends, strict=True):
            other.write(first, self.read(first, end - first))
        return other

    def _lines_of(self, name: str) -> tuple[int, int]:
        """Returns the first line of a region, and the line behind it."""
        base, size = self.regions[name]
        return base - base % LINE_BYTES, base + size + -(base + size) % LINE_BYTES

    def load(self) -> None:
        """Sends those lines of the launch that the board does not have yet, without local memory
        and heap, whose content is undefined.
        """
        lines = {}
        for name in self.regions:
            if not name.startswith((LOCAL_MEMORY, HEAP_MEMORY)):
                lines |= {
                    line: (self._content.read(line, LINE_BYTES), _ALL)
                    for line in self._image.different(
                        *self._lines_of(name),
                        self._content.read,
                        keep=name.startswith(OUTPUT_MEMORY),
                    )
                }
        self._send(lines)

    def forget(self) -> None:
        """Invalidates lines that were read, because the machine has run, except regions that
        launches only read.
        """
        if not self._idle:
            for name in self.regions.keys() - self.constant:
                self._image.mark_running(*self._lines_of(name))
            self._idle = True

    def take_back(self, names: Container[str] | None, *, wrote: bool, heap: bool) -> None:
        """Reads a launch's results into the memory in which it was placed: all regions that it may
        have written, or those in ``names``.

        Local memory is not read; of the output only the printed part.

        Parameters:
            names: Names of the regions, None for all.
            wrote: Whether the launch has written memory at all.
            heap: Whether the kernels' heap is read.
        """
        for name in self.regions.keys() - self.constant:
            first, end = self._lines_of(name)
            if name.startswith(LOCAL_MEMORY):
                self._image.forget(first, end)
            elif not wrote:
                self._image.idle(first, end)
            elif name.startswith(OUTPUT_MEMORY):
                for line in range(first, end, LINE_BYTES):
                    if self._image.has(line):
                        self._content.write(line, self.read(line, LINE_BYTES))
                self._image.drop(first, end, keep=True)
            elif (names is None or name in names) and (heap or not name.startswith(HEAP_MEMORY)):
                self._take_back(first, end)
            else:
                self._image.drop(first, end)

    def _take_back(self, first: int, end: int) -> None:
        """Reads lines into the launch's memory; equal bytes are not written."""
        content = self.read(first, end - first)
        for chunk in range(0, end - first, _CHUNK):
            part = content[chunk : chunk + _CHUNK]
            if self._content.read(first + chunk, len(part)) != part:
                self._content.write(first + chunk, part)

    def read(self, address: int, size: int) -> bytes:
        """Reads ``size`` bytes from ``address``; MemoryFaultError if one is unmapped."""
        self._check(address, size)
        lines = range(address - address % LINE_BYTES, address + size, LINE_BYTES)
        unknown = [line for line in lines if not self._image.has(line)]
        self._idle = self._idle and not unknown
        for line, content in self._link.read_lines(unknown).items():
            if content is None:
                raise MemoryFaultError(line)
            self._image.put(line, content)
        return self._image.read(address, size)

    def write(self, address: int, content: bytes | bytearray | memoryview) -> None:
        """Writes ``content`` at ``address``; MemoryFaultError, with nothing written, if an address
        is unmapped.
        """
        self._check(address, len(content))
        lines = {}
        for line in range(address - address % LINE_BYTES, address + len(content), LINE_BYTES):
            first, end = max(address, line), min(address + len(content), line + LINE_BYTES)
            part = bytes(content[first - address : end - address])
            lines[line] = (
                part.rjust(end - line, b"\0").ljust(LINE_BYTES, b"\0"),
                (1 << end - line) - (1 << first - line),
            )
        self._send(lines)

    def _send(self, lines: dict[int, tuple[bytes, int]]) -> None:
        """Writes bytes of lines."""
        self._idle = False
        for line in lines:
            self._image.forget(line, line + LINE_BYTES)
        if missing := self._link.write_lines(lines):
            raise MemoryFaultError(missing[0])
        for line, (content, mask) in lines.items():
            if mask == _ALL:
                self._image.put(line, content)
