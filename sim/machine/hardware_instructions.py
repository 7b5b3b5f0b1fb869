"""Instructions of the hardware, assembled from the events of its retirement interface."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from amaranth.hdl import Shape
from amaranth.lib import data

from rtl.isa.condition import Flags
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT, RZ
from rtl.layouts import InstructionKind, ThreadCode, kinds_where
from rtl.params import WARP_THREADS
from sim.machine.warp_state import MASK_OF
from sim.model.warp.retirement import WarpMasks
from sim.toolchain.assembly.spelling import spell

__all__ = [
    "CACHED_MASKS",
    "FLAGS_BITS",
    "FLAG_PLACES",
    "MOVES",
    "WORD_BITS",
    "HardwareInstruction",
    "of_thread",
    "spread",
]

MOVES = kinds_where(lambda rule: rule.injected)
"""Kinds of operations that are not instructions: the warp enters or leaves the trap."""
WORD_BITS = 32
FLAG_PLACES = [(str(name), field.offset) for name, field in data.Layout.cast(Flags)]
"""Names of a thread's flags, and their bits in the nibble of flags."""
FLAGS_BITS = len(FLAG_PLACES)
CACHED_MASKS = 16_384
"""Number of masks of threads whose expansions are cached."""
_CODE_BITS = Shape.cast(ThreadCode).width


@dataclass
class HardwareInstruction:
    """An instruction of the hardware, as far as its events have arrived."""

    sequence: int
    cycle: int
    pc: int
    word: int
    kind: InstructionKind
    registers: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By number: the mask of threads, and their values, 32 bits for each thread."""
    predicates: list[tuple[int, int, int]] = field(default_factory=list)
    """Number, mask of threads, values."""
    conditions: list[tuple[int, int]] = field(default_factory=list)
    """Mask of threads, and their flags, a nibble for each thread."""
    complete: bool = False
    error: WarpError = WarpError.NONE
    next_pc: int | None = None
    masks: WarpMasks | None = None
    terminated: bool = False

    @property
    def text(self) -> str:
        """The instruction's text, or the name of the operation in its place."""
        return f"({self.kind.name})" if self.kind in MOVES else spell(self.word, self.pc)

    def write(self, fields: Mapping[str, int], lanes: int) -> None:
        """Adds a written beat of this many lanes."""
        first = fields["beat"] * lanes
        threads = fields["lanes"] << first
        if fields["register"] != RZ:
            mask, values = self.registers.get(fields["register"], (0, 0))
            written = spread(threads, WORD_BITS)
            new = fields["values"] << WORD_BITS * first
            self.registers[fields["register"]] = (mask | threads, values & ~written | new & written)
        if fields["predicates"]:
            flags, step = fields["flags"], range(0, PT * lanes, PT)
            for number in range(PT):
                if fields["predicates"] >> number & 1:
                    values = sum((flags >> at + number & 1) << lane for lane, at in enumerate(step))
                    self.predicates.append((number, threads, values << first))
        if fields["conditional"]:
            self.conditions.append((threads, fields["conditions"] << FLAGS_BITS * first))

    def take_flow(self, fields: Mapping[str, int]) -> None:
        """Adds the result of a flow instruction."""
        self.masks = _masks(fields["active"], fields["codes"])
        self.next_pc, self.terminated = fields["pc"], bool(fields["terminated"])
        if self.error is WarpError.NONE:
            self.error = WarpError(fields["error"])
        if self.kind is not InstructionKind.FLOW_READ or self.error is not WarpError.NONE:
            self.complete = True


@lru_cache(CACHED_MASKS)
def spread(threads: int, width: int) -> int:
    """Expands a mask of threads to ``width`` bits for each thread."""
    ones = (1 << width) - 1
    return sum(ones << width * thread for thread in range(WARP_THREADS) if threads >> thread & 1)


def of_thread(values: int, thread: int) -> int:
    """Returns a thread's word from the words of a warp."""
    return values >> WORD_BITS * thread & (1 << WORD_BITS) - 1


@lru_cache(CACHED_MASKS)
def _masks(active: int, codes: int) -> WarpMasks:
    """Returns the masks in a flow result."""
    masks = dict.fromkeys(MASK_OF.values(), 0)
    for thread in range(WARP_THREADS):
        if (
            name := MASK_OF.get(ThreadCode(codes >> _CODE_BITS * thread & (1 << _CODE_BITS) - 1))
        ) is not None:
            masks[name] |= 1 << thread
    return WarpMasks(active, **masks)
