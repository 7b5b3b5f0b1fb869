"""Compares the effects of instructions on the hardware and on the warp model."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from rtl.isa.control_code import instruction_address
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT
from rtl.params import WARP_THREADS
from sim.launch import LOCAL_MEMORY
from sim.launch.memory import Memory
from sim.machine.hardware_instructions import (
    FLAG_PLACES,
    FLAGS_BITS,
    WORD_BITS,
    HardwareInstruction,
    of_thread,
    spread,
)
from sim.model.warp.retirement import Retirement, WarpMasks
from sim.model.warp.state import Warp
from sim.model.warp.vector.lanes import Condition

__all__ = [
    "Difference",
    "MismatchError",
    "WrittenFlags",
    "compare",
    "compare_flow",
    "condition_nibbles",
    "lowest_bit",
    "memory_difference",
]

_FIRST_FLAGS = sum(1 << FLAGS_BITS * thread for thread in range(WARP_THREADS))
"""The lowest bit of each thread's flags."""


@dataclass(frozen=True)
class Difference:
    """The first difference: the instruction, and the values of both sides."""

    cycle: int
    warp: int
    pc: int
    word: int
    description: str
    hardware: str
    reference: str
    text: str
    stack: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"difference    cycle {self.cycle}, warp {self.warp}: {self.description}",
            f"instruction   {self.pc:#06x}  {self.word:016x}  {self.text}",
            f"hardware      {self.hardware}",
            f"reference     {self.reference}",
        ]
        return "\n".join([*lines, *self.stack])


class MismatchError(Exception):
    """A mismatch between hardware and warp model."""

    def __init__(self, description: str, hardware: object, reference: object) -> None:
        super().__init__(description, hardware, reference)


@dataclass
class WrittenFlags:
    """Predicates and CC of a warp, as the hardware has written them."""

    predicates: list[int] = field(default_factory=lambda: [0] * PT)
    conditions: int = 0
    """A nibble for each thread."""

    def take(self, instruction: HardwareInstruction) -> None:
        """Applies the predicate and CC writes of an instruction."""
        for number, threads, values in instruction.predicates:
            self.predicates[number] = self.predicates[number] & ~threads | values & threads
        for threads, nibbles in instruction.conditions:
            written = spread(threads, FLAGS_BITS)
            self.conditions = self.conditions & ~written | nibbles & written


def compare(
    instruction: HardwareInstruction, flags: WrittenFlags, warp: Warp, record: Retirement
) -> None:
    """Raises MismatchError for the first difference between the hardware's instruction and the warp
    after ``record``.
    """
    if instruction.error is not record.error:
        raise MismatchError("error", instruction.error.name, record.error.name)
    if record.error is not WarpError.NONE and not record.terminated:
        return
    _compare_registers(instruction, warp, record)
    flags.take(instruction)
    for number, (hardware, reference) in enumerate(
        zip(flags.predicates, warp.predicates, strict=False)
    ):
        if hardware != reference:
            raise MismatchError(f"P{number}", f"{hardware:08x}", f"{reference:08x}")
    if (instruction.conditions or record.condition is not None) and flags.conditions != (
        nibbles := condition_nibbles(warp.condition)
    ):
        thread = lowest_bit(flags.conditions ^ nibbles) // FLAGS_BITS
        raise MismatchError(
            f"CC of thread {thread}",
            *(
                f"{either >> FLAGS_BITS * thread & (1 << FLAGS_BITS) - 1:04b}"
                for either in (flags.conditions, nibbles)
            ),
        )
    if instruction.masks is not None:
        compare_flow(instruction, record)


def _compare_registers(instruction: HardwareInstruction, warp: Warp, record: Retirement) -> None:
    written = {number: entry for number, entry in instruction.registers.items() if entry[0]}
    expected = {number: threads for number, (threads, _) in record.registers.items() if threads}
    if written.keys() != expected.keys():
        raise MismatchError("registers written", _names(written), _names(expected))
    for number, (mask, values) in written.items():
        if mask != (threads := expected[number]):
            raise MismatchError(f"threads that write R{number}", f"{mask:08x}", f"{threads:08x}")
        wanted = int.from_bytes(warp.rows[number].tobytes(), "little") & spread(mask, WORD_BITS)
        if values != wanted:
            thread = lowest_bit(values ^ wanted) // WORD_BITS
            raise MismatchError(
                f"R{number} of thread {thread}",
                f"{of_thread(values, thread):#010x}",
                f"{of_thread(wanted, thread):#010x}",
            )


def compare_flow(instruction: HardwareInstruction, record: Retirement) -> None:
    """Raises MismatchError for the first difference in a warp's next pc and masks."""
    if instruction.terminated != record.terminated:
        raise MismatchError("the warp's end", instruction.terminated, record.terminated)
    if record.terminated:
        return
    if instruction.next_pc is not None and instruction_address(
        instruction.next_pc
    ) != instruction_address(record.next_pc):
        raise MismatchError("next pc", f"{instruction.next_pc:#x}", f"{record.next_pc:#x}")
    for name in WarpMasks.__slots__:
        hardware, reference = getattr(instruction.masks, name), getattr(record.after, name)
        if hardware != reference:
            raise MismatchError(f"threads {name}", f"{hardware:08x}", f"{reference:08x}")


def memory_difference(hardware: Memory, reference: Memory, but: Container[str] = ()) -> str | None:
    """Returns the first difference between the hardware's memory and the warp model's; None without
    one.

    Regions in ``but`` are skipped, and so is local memory: the content of the stack's region
    depends on the cache.
    """
    for name, first, size in _regions(reference):
        if name in but:
            continue
        ours, theirs = hardware.read(first, size), reference.read(first, size)
        if ours != theirs:
            at = next(
                index
                for index, (one, other) in enumerate(zip(ours, theirs, strict=True))
                if one != other
            )
            return f"{name}, byte {at:#x} at {first + at:#x}: hardware {ours[at]:#04x}, reference {theirs[at]:#04x}"
    return None


def lowest_bit(bits: int) -> int:
    """Returns the index of the lowest bit that is 1."""
    return (bits & -bits).bit_length() - 1


def condition_nibbles(condition: Condition) -> int:
    """Returns CC of a warp: a nibble for each thread, in the layout of Flags."""
    return sum(
        (spread(getattr(condition, name), FLAGS_BITS) & _FIRST_FLAGS) << place
        for name, place in FLAG_PLACES
    )


def _names(registers: Mapping[int, object]) -> str:
    return " ".join(f"R{number}" for number in sorted(registers)) or "none"


def _regions(memory: Memory) -> Iterator[tuple[str, int, int]]:
    """Yields all regions except local memory, also that of grids before a context switch."""
    for name, (first, size) in memory.regions.items():
        if not name.startswith(LOCAL_MEMORY):
            yield name, first, size
