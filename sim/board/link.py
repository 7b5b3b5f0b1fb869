"""Sends requests to a board over its serial line, and repeats them until it answers."""

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

from rtl.fpga.link import ANSWER, VERSION, LinkCommand, LinkStatus
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import HOST_ADDRESS_BITS
from rtl.params import ADDRESS_BITS
from sim.support.entry import missing_extra

from .errors import BoardError
from .frames import FrameFinder, LinkFrame

__all__ = ["BAUD", "Link", "PySerialPort", "Serial", "consecutive_lines", "open_port"]

BAUD = 3_000_000
"""Default rate in bits per second."""
_ADDRESS, _REGISTER, _WORD, _COUNT = ADDRESS_BITS // 8, HOST_ADDRESS_BITS // 8, 4, 2
"""Sizes of the fields of a request in bytes."""
_MOST_REGISTERS, _MOST_LINES = 63, 64
"""The most registers, and the most lines, that one request reads: few enough to be repeated
cheaply.
"""
_SILENCE = 0.25
"""Seconds without a byte after which a request is repeated."""
_TRIES = 6
"""Number of attempts of a request without an answer."""
_LONGEST = 16
"""The timeout doubles with each attempt, up to this factor."""
_AHEAD = 16
"""Number of lines in flight at once: as many as fit into the board's queue, and few enough to
repeat.
"""
_SHORT = 0.05
"""Timeout of a read of the port in seconds."""
_READ_BYTES = 4096


class Serial(Protocol):
    """The interface of a serial port."""

    def read(self, size: int) -> bytes:
        """Returns at most ``size`` bytes, none after a timeout."""
        ...

    def write(self, content: bytes) -> int | None:
        """Sends bytes."""
        ...

    def close(self) -> None:
        """Closes the port."""
        ...


class PySerialPort:
    """A serial port whose reads return as soon as bytes arrive."""

    def __init__(self, name: str, baud: int) -> None:
        import serial

        self._port = serial.Serial(name, baud, timeout=_SHORT)
        self._port.reset_input_buffer()

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, without waiting once some have arrived."""
        return self._port.read(max(1, min(size, self._port.in_waiting)))

    def write(self, content: bytes) -> int | None:
        """Sends bytes."""
        return self._port.write(content)

    def close(self) -> None:
        """Closes the port."""
        self._port.close()


def open_port(name: str, baud: int = BAUD) -> Serial:
    """Opens a serial port by its name; BoardError if that fails."""
    if (missing := missing_extra("serial")) is not None:
        raise BoardError(missing)
    try:
        return PySerialPort(name, baud)
    except (OSError, ValueError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise BoardError(f"port {name}: {why}") from error


class Link:
    """The host's end of the line.

    Parameters:
        name: Name of the port, for messages.
        silence: Seconds without a byte after which a request is repeated for the first time.

    Attributes:
        repeated: Number of repeated requests.
    """

    def __init__(self, port: Serial, name: str, silence: float = _SILENCE) -> None:
        self._port, self._name, self._silence = port, name, silence
        self._finder = FrameFinder()
        self._number = self._written = 0
        self.repeated = 0
        version = self._ask(LinkCommand.HELLO, b"", self._written)[0]
        if version != VERSION:
            raise BoardError(
                f"port {name}: the board speaks version {version} of the protocol, not {VERSION}"
            )

    def close(self) -> None:
        """Closes the port."""
        self._port.close()

    # Registers.

    def read_registers(self, address: int, count: int) -> list[int]:
        """Reads ``count`` consecutive registers."""
        values: list[int] = []
        while len(values) < count:
            some = min(count - len(values), _MOST_REGISTERS)
            first = address + _WORD * len(values)
            content = self._ask(
                LinkCommand.READ_REGISTERS, bytes((some,)) + first.to_bytes(_REGISTER, "little")
            )
            values += [
                int.from_bytes(content[at : at + _WORD], "little")
                for at in range(0, len(content), _WORD)
            ]
        return values

    def write_register(self, address: int, value: int) -> None:
        """Writes a register exactly once."""
        self._written = (self._written + 1) % 256
        self._ask(
            LinkCommand.WRITE_REGISTER,
            value.to_bytes(_WORD, "little") + address.to_bytes(_REGISTER, "little"),
            self._written,
        )

    # Memory.

    def read_lines(self, addresses: Iterable[int]) -> dict[int, bytes | None]:
        """Reads lines; returns them by address, None where there is no memory."""
        found: dict[int, bytes | None] = {}
        waiting = set(addresses)
        tries = 0
        while waiting:
            before = len(waiting)
            for first, count in consecutive_lines(waiting):
                number = self._next()
                content = count.to_bytes(_COUNT, "little") + first.to_bytes(_ADDRESS, "little")
                self._write(LinkFrame(number, LinkCommand.READ_LINES.value, content).sent())
                for answer in self._answers(LinkCommand.READ_LINES, {number}, count, tries):
                    status, line = LinkStatus(answer.content[0]), answer.content[1:]
                    address = int.from_bytes(line[:_ADDRESS], "little")
                    found[address] = line[_ADDRESS:] if status is LinkStatus.DONE else None
                waiting -= found.keys()
            tries = self._again(tries, before, len(waiting))
        return found

    def write_lines(self, lines: Mapping[int, tuple[bytes, int]]) -> list[int]:
        """Writes the bytes of lines that their masks select; returns the addresses where there is
        no memory.
        """
        waiting, missing, tries = dict(lines), [], 0
        while waiting:
            before = len(waiting)
            batch = {self._next(): item for item in list(waiting.items())[:_AHEAD]}
            self._write(
                b"".join(
                    LinkFrame(
                        number,
                        LinkCommand.WRITE_LINE.value,
                        content
                        + mask.to_bytes(LINE_BYTES // 8, "little")
                        + address.to_bytes(_ADDRESS, "little"),
                    ).sent()
                    for number, (address, (content, mask)) in batch.items()
                )
            )
            for answer in self._answers(LinkCommand.WRITE_LINE, batch.keys(), len(batch), tries):
                address = batch[answer.number][0]
                if (
                    waiting.pop(address, None) is not None
                    and answer.content[0] == LinkStatus.MEMORY.value
                ):
                    missing.append(address)
            tries = self._again(tries, before, len(waiting))
        return missing

    # Frames.

    def _next(self) -> int:
        """Returns a request number that was not used recently."""
        self._number = (self._number + 1) % 256
        return self._number

    def _ask(self, command: LinkCommand, content: bytes, number: int | None = None) -> bytes:
        """Sends a request until it is answered; returns the content of the answer without its
        status.
        """
        number, tries = self._next() if number is None else number, 0
        while True:
            self._write(LinkFrame(number, command.value, content).sent())
            for answer in self._answers(command, {number}, 1, tries):
                if answer.content[0] != LinkStatus.DONE.value:
                    raise BoardError(
                        f"port {self._name}: the board answers {command.name} with "
                        f"{LinkStatus(answer.content[0]).name}"
                    )
                return answer.content[1:]
            tries = self._again(tries, 1, 1)

    def _again(self, tries: int, before: int, after: int) -> int:
        """Counts attempts without an answer; BoardError after the last one."""
        self.repeated += after != 0 and after == before
        tries = tries + 1 if after == before else 0
        if tries == _TRIES:
            raise BoardError(f"port {self._name}: no answer from a board")
        return tries

    def _write(self, content: bytes) -> None:
        try:
            self._port.write(content)
        except OSError as error:
            raise BoardError(f"port {self._name}: {error.strerror or error}") from error

    def _answers(
        self, command: LinkCommand, numbers: Collection[int], count: int, tries: int
    ) -> Iterator[LinkFrame]:
        """Yields up to ``count`` answers to requests with these numbers, as they arrive.

        Fewer arrive after a timeout, or if frames to the board were damaged.
        """
        last, silence = time.monotonic(), self._silence * min(1 << tries, _LONGEST)
        while count and time.monotonic() - last < silence:
            try:
                received = self._port.read(_READ_BYTES)
            except OSError as error:
                raise BoardError(f"port {self._name}: {error.strerror or error}") from error
            if received:
                last = time.monotonic()
            for frame in self._finder.take(received):
                if frame.command == LinkCommand.ANY.value | ANSWER:
                    count -= 1
                elif (
                    frame.command == command.value | ANSWER
                    and frame.number in numbers
                    and frame.content
                ):
                    yield frame
                    count -= 1
                if not count:
                    return


def consecutive_lines(addresses: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yields runs of consecutive lines: the first address, and the number of lines."""
    first, count = 0, 0
    for address in sorted(addresses):
        if count and address == first + count * LINE_BYTES and count < _MOST_LINES:
            count += 1
            continue
        if count:
            yield first, count
        first, count = address, 1
    if count:
        yield first, count
