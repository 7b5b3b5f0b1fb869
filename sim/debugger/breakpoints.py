"""Breakpoints: instructions of the program in memory, replaced by BPT.TRAP."""

from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.kinds import BreakpointMode
from rtl.isa.table import BY_NAME
from sim.launch.memory import Memory

__all__ = ["REASON", "Breakpoints"]

REASON = 1
"""The trap reason of breakpoints (ours): that of ``brkpt`` in PTX."""


def _trap() -> int:
    """Returns the word of BPT.TRAP without a guard."""
    (form,) = BY_NAME["BPT"]
    word = form.default
    for field, value in (("mode", BreakpointMode.TRAP.value), ("reason", REASON)):
        word = form.fields[field].put(word, value)
    return word


class Breakpoints:
    """Numbered breakpoints. They are in memory between :meth:`plant` and :meth:`lift`; the caller
    invalidates the caches.

    Parameters:
        base: Address of pc 0 in memory.
    """

    def __init__(self, base: int) -> None:
        self._base, self._next = base, 1
        self._numbers: dict[int, int] = {}
        self._originals: dict[int, int] = {}

    def __contains__(self, address: int) -> bool:
        return address in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def addresses(self) -> dict[int, int]:
        """Addresses of the breakpoints by number."""
        return {number: address for address, number in self._numbers.items()}

    def number(self, address: int) -> int:
        """Returns the number of the breakpoint at an address; KeyError if there is none."""
        return self._numbers[address]

    def add(self, address: int) -> int:
        """Adds a breakpoint, which the next :meth:`plant` inserts; returns its number. Several may
        share an address.
        """
        if address not in self._numbers:
            self._numbers[address] = self._next
            self._next += 1
        return self._numbers[address]

    def remove(self, number: int) -> int:
        """Removes a breakpoint that is not planted; returns its address. KeyError if there is none
        of this number.
        """
        address = self.addresses[number]
        del self._numbers[address]
        return address

    def word(self, memory: Memory, address: int) -> int:
        """Returns the program's own instruction at an address, also under a breakpoint;
        MemoryFaultError if the address is unmapped.
        """
        if address in self._originals:
            return self._originals[address]
        return memory.read_number(self._base + address, INSTRUCTION_BYTES)

    def plant(self, memory: Memory) -> None:
        """Inserts all breakpoints into the program."""
        for address in self._numbers.keys() - self._originals.keys():
            self._originals[address] = memory.read_number(self._base + address, INSTRUCTION_BYTES)
            memory.write_number(self._base + address, INSTRUCTION_BYTES, _trap())

    def lift(self, memory: Memory) -> None:
        """Restores the program's instructions."""
        for address, word in self._originals.items():
            memory.write_number(self._base + address, INSTRUCTION_BYTES, word)
        self._originals.clear()

    def forget_memory(self) -> None:
        """Discards the planted instructions: the program is in new memory, without breakpoints."""
        self._originals.clear()
