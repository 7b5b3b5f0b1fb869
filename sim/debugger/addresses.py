"""Code addresses in the form that users write and read."""

from collections.abc import Mapping

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES, instruction_address

from .errors import DebuggerError

__all__ = ["FunctionAddresses", "number"]


def number(text: str, description: str) -> int:
    """Parses a number >= 0, decimal or with 0x; DebuggerError, which quotes ``description``, if it is
    malformed.
    """
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value < 0:
        raise DebuggerError(f"{text!r} is no {description}")
    return value


class FunctionAddresses:
    """The functions of a program.

    Parameters:
        symbols: Pcs of functions by name. A function that belongs to a kernel,
            ``$kernel$function``, is also found by its last name.
        size: Size of the program in bytes.
    """

    def __init__(self, symbols: Mapping[str, int], size: int) -> None:
        self._symbols, self._size = dict(symbols), size
        short: dict[str, list[int]] = {}
        for name, pc in symbols.items():
            short.setdefault(name.rpartition("$")[-1], []).append(pc)
        self._found = {name: pcs[0] for name, pcs in short.items() if len(pcs) == 1} | self._symbols

    @property
    def names(self) -> list[str]:
        """All names that are found."""
        return sorted(self._found)

    def address(self, text: str) -> int:
        """Returns the address of ``ADDRESS``, ``SYMBOL`` or ``SYMBOL+OFFSET``; DebuggerError if no
        instruction is there.
        """
        name, plus, offset = text.partition("+")
        if name in self._found:
            pc = self._found[name] + (number(offset, "offset") if plus else 0)
        elif name[:1].isdigit():
            pc = number(text, "address")
        else:
            raise DebuggerError(
                f"no function {name}; there are {', '.join(self.names)}; "
                "labels are not in the program: use an address"
            )
        address = instruction_address(pc)
        if pc % INSTRUCTION_BYTES:
            raise DebuggerError(f"{text}: {pc:#x} is no multiple of {INSTRUCTION_BYTES}")
        if address >= self._size:
            raise DebuggerError(
                f"{text}: {pc:#x} is behind the program, which has {self._size:#x} bytes"
            )
        return address

    def name(self, address: int) -> str:
        """Returns the function at an address and the offset in it; empty outside of the program."""
        before = [(pc, name) for name, pc in self._symbols.items() if pc <= address]
        if not before or address >= self._size:
            return ""
        pc, name = max(before)
        offset = address - pc
        # A function at the start of a group begins with the group's first instruction.
        if offset == INSTRUCTION_BYTES and pc % GROUP_BYTES == 0:
            offset = 0
        short = name.rpartition("$")[-1]
        return (short if self._found.get(short) == pc else name) + (
            f"+{offset:#x}" if offset else ""
        )
