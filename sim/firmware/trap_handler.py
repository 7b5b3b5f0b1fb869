"""The trap handler in a launch, and what a host does with the warps that it holds."""

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
"""Of a thread, that the handler works with."""


class WakeCommand(IntEnum):
    """What a held warp does when it is woken."""

    LEAVE = 0
    """It gets the state in the save area, and continues."""
    RELOAD = 1
    """Likewise, with the stack that is in memory: the host has changed it. Not without a stack in memory."""
    TERMINATE = 2
    """It ends."""


@dataclass(frozen=True)
class SaveArea:
    """Where the trap handler of a launch keeps what it saves: ``records`` is the address of a record for each of the
    machine's ``slots``.
    """

    launch: Launch
    threads: ThreadArea
    records: int
    slots: int

    def warp(self, memory: Memory, slot: int) -> SavedWarp | None:
        """The warp in a slot, while the handler holds it; None when it holds none there."""
        warp = SavedWarp(memory, self.launch, self.threads, self.records + slot * RECORD_BYTES)
        return warp if warp.word("STATE") else None

    def warps(self, memory: Memory) -> dict[int, SavedWarp]:
        """All that it holds, by slot."""
        return {
            slot: warp
            for slot in range(self.slots)
            if (warp := self.warp(memory, slot)) is not None
        }


def install_trap_handler(launch: Launch, slots: int = _MOST_SLOTS) -> SaveArea:
    """The launch with the trap handler for a machine with so many warp slots, and where that saves what it saves. A
    memory serves one handler.
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
