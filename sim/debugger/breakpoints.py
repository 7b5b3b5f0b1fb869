"""Breakpoints: instructions of the program in memory, replaced by BPT.TRAP."""

from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.kinds import BreakpointMode
from rtl.isa.table import BY_NAME
from sim.launch.memory import Memory

__all__ = ["REASON", "Breakpoints"]

REASON = 1
"""Of the traps of breakpoints (ours): the same that the ``brkpt`` of PTX has."""


def _trap() -> int:
    """BPT.TRAP. It has no guard."""
    (form,) = BY_NAME["BPT"]
    word = form.default
    for field, value in (("mode", BreakpointMode.TRAP.value), ("reason", REASON)):
        word = form.fields[field].put(word, value)
    return word


class Breakpoints:
    """Numbered breakpoints. They are in memory from :meth:`plant` to :meth:`lift`; the caches do not know.

    Parameters:
        base: Where pc 0 is in memory.
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
        """Number -> address."""
        return {number: address for address, number in self._numbers.items()}

    def number(self, address: int) -> int:
        """Of the breakpoint at an address; KeyError when there is none."""
        return self._numbers[address]

    def add(self, address: int) -> int:
        """A breakpoint that is planted next; its number. There may be one at the address already."""
        if address not in self._numbers:
            self._numbers[address] = self._next
            self._next += 1
        return self._numbers[address]

    def remove(self, number: int) -> int:
        """Forgets a breakpoint, which is not planted; its address. KeyError when there is none of this number."""
        address = self.addresses[number]
        del self._numbers[address]
        return address

    def word(self, memory: Memory, address: int) -> int:
        """The program's own instruction at an address, whether or not a breakpoint hides it. MemoryFaultError where
        there is nothing.
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
        """The program is in new memory now, without breakpoints."""
        self._originals.clear()
