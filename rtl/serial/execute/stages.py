"""What the parts of the execute unit of a serial machine hand to each other."""

from amaranth.hdl import unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.common import CommonInstruction
from rtl.execute.flags import ThreadFlags
from rtl.isa.condition import Flags
from rtl.isa.syntax import WORD_BITS
from rtl.params import WARP_THREADS, SmParams

__all__ = [
    "Accepted",
    "ErrorStatus",
    "FlagDestinations",
    "FlagUpdate",
    "GuardedInstruction",
    "InstructionClass",
    "ScannedMasks",
    "SuppliedFlags",
    "special_read",
    "thread_place",
]


class Accepted(data.Struct):
    """What the unit accepts in a cycle: one of these."""

    instruction: unsigned(1)
    """An instruction that was issued."""
    gather: unsigned(1)
    """A gather of a unit."""
    write: unsigned(1)
    """A write of a unit."""


class InstructionClass(data.Struct):
    """What decides the phases of an instruction."""

    is_refused: unsigned(1)
    """No thread executes it."""
    is_lane_instruction: unsigned(1)
    """The lanes execute it."""
    needs_scan: unsigned(1)
    """The lanes execute it, and it is scanned first."""
    is_collected: unsigned(1)
    """Another unit executes it, and its registers are collected."""
    is_flow_read: unsigned(1)
    """The flow unit's value is written to a register."""


class GuardedInstruction(data.Struct):
    """What decides which threads execute an instruction."""

    word: unsigned(WORD_BITS)
    is_lane_instruction: unsigned(1)
    """The lanes execute it."""
    common: CommonInstruction
    """Its guard and its predicate operand."""


class ErrorStatus(data.Struct):
    """Error status, from the trap unit."""

    of_warp: unsigned(32)
    """Of the warp of the instruction in flight."""
    of_all: unsigned(32)
    """Of all warps."""


def thread_place(params: SmParams) -> data.StructLayout:
    """A thread of a warp; as a number, it addresses memories of state by thread.

    Fields
    ------
    thread : 0 to 31
    warp
    """
    return data.StructLayout({"thread": range(WARP_THREADS), "warp": params.warp_bits})


def special_read(params: SmParams) -> data.StructLayout:
    """A special register of a thread.

    Fields
    ------
    place : thread_place
    number : 8
        The bit of the special register.
    """
    return data.StructLayout({"place": thread_place(params), "number": 8})


class ScannedMasks(data.Struct):
    """The result of a scan for each thread. All but ``same`` are as of a dispatched instruction."""

    active: unsigned(WARP_THREADS)
    """The thread is active."""
    guard: unsigned(WARP_THREADS)
    """Its guard holds."""
    predicate: unsigned(WARP_THREADS)
    """Its predicate operand is true."""
    same: unsigned(WARP_THREADS)
    """Of an instruction of the lanes: the value that is the same in all threads, a bit in the place
    of each. Of others: the threads whose register a has the value of the first one, or all."""


class FlagDestinations(data.Struct):
    """Which flags of a thread are written."""

    p: unsigned(3)
    """The predicate that the first predicate result is written to; PT: none."""
    q: unsigned(3)
    """The predicate that the second predicate result is written to; PT: none."""
    writes_cc: unsigned(1)


class SuppliedFlags(data.Struct):
    """What a unit writes to the flags of a thread."""

    p: unsigned(1)
    """The new value of the predicate."""
    conditions: Flags
    """The new CC."""


class FlagUpdate(wiring.Signature):
    """A thread's predicates and CC, directions are those of their memory.

    Members
    -------
    before : Out(ThreadFlags)
    after : In(ThreadFlags)
        What they become if the thread writes.
    """

    def __init__(self) -> None:
        super().__init__({"before": Out(ThreadFlags), "after": In(ThreadFlags)})
