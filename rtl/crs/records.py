"""What is kept of each warp's stack, in memories that the stages and the engine share."""

from functools import reduce
from operator import xor
from typing import Any

from amaranth.hdl import Assert, Module, Signal, Value, unsigned
from amaranth.lib import data, enum

from rtl.layouts import BLOCK_ADDRESS_BITS, CRS_GRANULE_BITS, DEPTH_BITS, ThreadCodes
from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.words import Words

__all__ = [
    "Origin",
    "Parking",
    "SharedWords",
    "Sizes",
    "StackStates",
    "UnwindGoal",
    "fills_up_to",
    "spills_from",
    "stack_state",
]


def fills_up_to(params: SmParams) -> int:
    """Lines on chip, up to which the line below them is prefetched. So a line that is installed
    never meets the next lines that are pushed."""
    return params.stack_lines - 2


def spills_from(params: SmParams) -> int:
    """Dirty lines from which on the oldest is spilled: all lines but one, but at least two, since
    the topmost line changes."""
    return max(params.stack_lines - 1, 2)


def stack_state(params: SmParams) -> data.StructLayout:
    """What the pipeline keeps of a warp's stack.

    The lines on chip are the topmost ones; the topmost of these are dirty: memory does not have
    their present content. Both are counted as differences of two counters modulo twice the lines on
    chip, so that each counter has one writer: the pipeline ``entered`` and ``dirtied``, the spill
    and fill engine ``below`` and ``cleaned``. Only the differences have meaning.

    Fields
    ------
    last : 17
        Number of the topmost token; all ones when the stack is empty.
    entered : modulo twice the lines on chip
        ``entered - below`` lines are on chip.
    dirtied : modulo twice the lines on chip
        ``dirtied - cleaned`` lines are dirty.
    calls : 8
        API call depth.
    kill : 1
        Limited branches are killed.
    is_provisional : 1
        The unwind under way has dropped lines: only ``origins`` has the stack as it was before.
    """
    count = params.stack_count_bits
    return data.StructLayout({
        "last": DEPTH_BITS,
        "entered": count,
        "dirtied": count,
        "calls": 8,
        "kill": 1,
        "is_provisional": 1,
    })


class Parking(enum.Enum, shape=2):
    """What the spill and fill engine does for a warp whose operation has left the pipeline, before
    the operation replays."""

    UNWIND = 0
    """Read the next line, if none is on chip. Then the unwind continues."""
    EVICT = 1
    """Write all dirty lines, whose tokens the unwind has passed. Then the unwind continues below
    them: they are no longer on chip."""
    WRITE_BACK = 2
    """Write all dirty lines and wait until memory has confirmed them."""
    LOAD = 3
    """Read the topmost line, which has room for the next token."""


class Sizes(data.Struct):
    """A warp's stack, as its launch configures it."""

    granules: unsigned(CRS_GRANULE_BITS)
    """Granules of its region, less 1; without a region, of the tokens on chip."""
    has_region: unsigned(1)
    """Whether the stack has a region in memory; else the tokens on chip are all."""
    checks_calls: unsigned(1)
    """Whether the depth of calls is limited."""


class Origin(data.Struct):
    """The stack when an unwind began; it is restored if the unwind fails."""

    last: unsigned(DEPTH_BITS)
    calls: unsigned(8)


class UnwindGoal(data.Struct):
    """What an unwind looks for, if not for a thread that continues."""

    quad: unsigned(1)
    """A QUAD token: POP_QUAD."""
    frame: unsigned(1)
    """A trap frame: RESTORE."""


_IN_LUTS: dict[str, Any] = {"ram_style": "distributed"}
"""Synthesis would otherwise turn small ones into registers."""


class SharedWords:
    """Words that two places write, never of the same warp in the same cycle.

    Each place of writing has its own memory (``parts``). A word is the exclusive or of the two, so
    that no flag for the newer one is needed. The first call of ``write`` is for the first place.
    After a reset both parts are swept: a difference from a part that is not known would not be
    known either, in a simulation with four states without end.
    """

    def __init__(self, shape: Any, warps: int, sweep: Sweep) -> None:
        self._shape = shape
        self.parts = [Words(shape, warps, sweep, **_IN_LUTS) for _ in range(2)]
        self._unwritten = list(self.parts)
        self.writes: list[tuple[Value, Value]] = []
        """When each place writes, and for which warp."""

    def read(self, m: Module, warp: Any) -> Any:
        """The warp's word."""
        word: Any = Signal(self._shape)
        parts = (Value.cast(part.read(m, warp)) for part in self.parts)
        m.d.comb += word.eq(reduce(xor, parts))
        return word

    def write(self, m: Module, when: Any, warp: Any, word: Any) -> None:
        """Writes the warp's word, from one of the two places: its part gets what the word differs
        in from the other part."""
        part = self._unwritten.pop(0)
        other, = (each for each in self.parts if each is not part)
        self.writes.append((Value.cast(when), Value.cast(warp)))
        if not self._unwritten:
            m.d.sync += Assert(~self.collides, "two places write the word of a warp in one cycle")
        part.write(m, when, warp, Value.cast(word) ^ Value.cast(other.read(m, warp)))

    @property
    def collides(self) -> Value:
        """Both places write the word of one warp; known when both have their ports."""
        (first, first_warp), (second, second_warp) = self.writes
        return first & second & (first_warp == second_warp)


class StackStates:
    """The memories that the stages of the pipeline and the spill and fill engine share: each reads
    and writes them where it needs them.

    Attributes
    ----------
    sweep
        After a reset writes all of these that a launch does not write.
    states : SharedWords of stack_state
        Written by a push in the change stage, by all else in the commit stage.
    sizes, traps : Words of Sizes, of 1 bit
        Limits of the stack; whether the warp is in the trap handler.
    bases, locals, regions : Words of addresses
        The address of the warp's local memory; the size of its threads' local memory; the address
        of the stack's region, which follows it.
    codes : Words of ThreadCodes
        The request's thread codes.
    goals, origins : Words of UnwindGoal, of Origin
        What the unwind under way looks for; the stack when it began.
    below, cleaned : Words of counters
        The spill and fill engine's. Only differences have meaning: ``entered - below`` lines are
        on chip, ``dirtied - cleaned`` of them dirty.
    acknowledged : Words of counters
        ``cleaned - acknowledged`` writes are under way: memory has not answered them, by taking
        the line or by refusing it.
    filling : Words of 1 bit
        A fill of the warp is outstanding.
    parking : Words of Parking
        Why the warp's operation is parked.
    busy, parked, writing_back, confirming : SharedWords of 1 bit
        An operation is under way; it is parked, or it is a write-back that waits; of that only
        memory's confirmation is to come. Set in one place, cleared in another.
    """

    def __init__(self, params: SmParams) -> None:
        warps = params.warps
        count = params.stack_count_bits
        self.sweep = sweep = Sweep(warps)
        self.states = SharedWords(stack_state(params), warps, sweep)
        self.sizes = Words(Sizes, warps)
        self.traps = Words(1, warps, **_IN_LUTS)
        self.bases = Words(BLOCK_ADDRESS_BITS, warps)
        self.locals = Words(BLOCK_ADDRESS_BITS, warps)
        self.regions = Words(BLOCK_ADDRESS_BITS, warps)
        self.codes = Words(ThreadCodes, warps)
        self.goals = Words(UnwindGoal, warps)
        self.origins = Words(Origin, warps)
        self.below = Words(count, warps, sweep, **_IN_LUTS)
        self.cleaned = Words(count, warps, sweep, **_IN_LUTS)
        self.acknowledged = Words(count, warps, sweep, **_IN_LUTS)
        self.filling = Words(1, warps, sweep, **_IN_LUTS)
        self.parking = Words(Parking, warps, **_IN_LUTS)
        self.busy = SharedWords(1, warps, sweep)
        self.parked = SharedWords(1, warps, sweep)
        self.writing_back = SharedWords(1, warps, sweep)
        self.confirming = SharedWords(1, warps, sweep)

    def add(self, m: Module) -> None:
        """Makes the memories submodules, when all stages have their ports: none can be added to
        them after that."""
        m.submodules.sweep = self.sweep
        for name, words in vars(self).items():
            if words is self.sweep:
                continue
            parts = words.parts if isinstance(words, SharedWords) else [words]
            for place, part in enumerate(parts):
                m.submodules[f"{name}{place}"] = part
