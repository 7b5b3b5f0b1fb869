"""The trap handler of a launch, and a host's access to the warps that it holds."""

from dataclasses import dataclass
from enum import IntEnum

from rtl.isa.special_registers import VIRTUAL_WARP_AT
from sim.launch import DRIVER_WORDS, Launch, with_trap_handler
from sim.launch.memory import Memory

from .save_area import RECORD, RECORD_BYTES, SavedWarp, ThreadArea
from .source import assembled, halves

__all__ = ["SaveArea", "WakeCommand", "install_trap_handler"]

_MOST_SLOTS = 64
_REGISTERS = 8
"""Number of a thread's registers that the handler uses."""


class WakeCommand(IntEnum):
    """The action of a held warp when it is woken."""

    LEAVE = 0
    """The warp loads the state in the save area, and continues."""
    RELOAD = 1
    """Likewise, but with the stack in memory, which the host has changed. Not for stacks that exist
    on chip alone.
    """
    TERMINATE = 2
    """The warp ends."""


@dataclass(frozen=True)
class SaveArea:
    """The memory in which the trap handler of a launch saves warps.

    Attributes:
        launch: The launch with the handler.
        threads: The handler's part of each thread's local memory.
        records: Address of the records, one for each warp slot.
        slots: Number of the machine's warp slots.
    """

    launch: Launch
    threads: ThreadArea
    records: int
    slots: int

    def warp(self, memory: Memory, slot: int) -> SavedWarp | None:
        """Returns the warp in a slot; None if the handler holds none there."""
        warp = SavedWarp(memory, self.launch, self.threads, self.records + slot * RECORD_BYTES)
        return warp if warp.word("STATE") else None

    def warps(self, memory: Memory) -> dict[int, SavedWarp]:
        """Returns all warps that the handler holds, by slot."""
        return {
            slot: warp
            for slot in range(self.slots)
            if (warp := self.warp(memory, slot)) is not None
        }


def install_trap_handler(launch: Launch, slots: int = _MOST_SLOTS) -> SaveArea:
    """Returns the save area of the launch with the trap handler, for a machine with this many warp
    slots.

    A memory serves one handler.
    """
    launch, threads = ThreadArea.reserved(launch, _REGISTERS)
    records = launch.memory.allocate("trap records", slots * RECORD_BYTES)
    numbers = {
        **threads.numbers,
        **RECORD,
        **DRIVER_WORDS,
        **halves("RECORDS", records),
        **{command.name: command.value for command in WakeCommand},
        "SLOT_MASK": _MOST_SLOTS - 1 << VIRTUAL_WARP_AT,
        "SLOT_TO_RECORD": VIRTUAL_WARP_AT - (RECORD_BYTES.bit_length() - 1),
    }
    handler = assembled("trap_handler", ("trap_handler", "registers"), numbers)
    return SaveArea(with_trap_handler(launch, handler), threads, records, slots)
