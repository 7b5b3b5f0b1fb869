"""What is kept of each warp's stack, and what the stages of its pipeline hand to each other."""

from functools import reduce
from operator import xor
from typing import Any

from amaranth.hdl import Assert, Module, Signal, Value
from amaranth.lib import data, enum

from rtl.layouts import BLOCK_ADDRESS_BITS, CRS_GRANULE_BITS, DEPTH_BITS, ThreadCodes
from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.words import Words

__all__ = [
    "Origin", "Parking", "StackStates", "commit_flags", "fills_up_to", "spills_from", "stack_state", "stack_step"]


def fills_up_to(params: SmParams) -> int:
    """Lines on chip, up to which the next is read. So what is installed never meets the next lines that are pushed."""
    return params.stack_lines - 2


def spills_from(params: SmParams) -> int:
    """Dirty lines, from which on the oldest is written: all but one, but at least two, since the topmost changes."""
    return max(params.stack_lines - 1, 2)


def stack_state(params: SmParams) -> data.StructLayout:
    """What the pipeline keeps of a warp's stack.

    The lines on chip are the topmost ones; of those the topmost are dirty: memory does not have them as they are. Both
    are counted as differences modulo twice the lines on chip, so that each counter has one writer: the pipeline these,
    the spill and fill engine ``below`` and ``cleaned``.

    ``last`` is the number of the topmost token; all ones when the stack is empty. ``entered - below`` lines are on
    chip, ``dirtied - cleaned`` of them are dirty. ``calls`` is the API call depth; ``kill``: limited branches are
    killed. ``sunk``: the unwind under way has left lines behind, and the stack is as it was only in ``origins``.
    """
    count = params.stack_count_bits
    return data.StructLayout({
        "last": DEPTH_BITS, "entered": count, "dirtied": count, "calls": 8, "kill": 1, "sunk": 1})


class Parking(enum.Enum, shape=2):
    """What the spill and fill engine has to do for a warp whose operation has left the pipeline."""

    WALK = 0
    """Read the next line, if none is on chip; then the unwind goes on."""
    SINK = 1
    """Write all dirty lines, which the unwind has seen; then it goes on, and leaves them behind."""
    WRITE_BACK = 2
    """Write all dirty lines and wait until memory has them."""
    LOAD = 3
    """Read the topmost line, which has room for the next token."""


_Sizes = data.StructLayout({"granules": CRS_GRANULE_BITS, "memory": 1, "checks_calls": 1})
Origin = data.StructLayout({"last": DEPTH_BITS, "calls": 8})
_Seek = data.StructLayout({"quad": 1, "frame": 1})
_IN_LUTS: dict[str, Any] = {"ram_style": "distributed"}
"""Small as they are, synthesis would make registers of some."""


class SharedWords:
    """Words that two places write, never of the same warp in the same cycle.

    Each place writes a memory of its own (``parts``), and a word is what the two differ in, so that none needs to say
    which is newer. The first call of ``write`` is that of the first place. After a reset both parts are swept: a
    difference from a part that is not known would not be known either, in a simulation with four states for ever.
    """

    def __init__(self, shape: Any, warps: int, sweep: Sweep) -> None:
        self._shape, self.parts = shape, [Words(shape, warps, sweep, **_IN_LUTS) for _ in range(2)]
        self._left = list(self.parts)
        self.writes: list[tuple[Value, Value]] = []
        """When each place writes, and of which warp."""

    def read(self, m: Module, warp: Any) -> Any:
        """The warp's word."""
        word: Any = Signal(self._shape)
        m.d.comb += word.eq(reduce(xor, (Value.cast(part.read(m, warp)) for part in self.parts)))
        return word

    def write(self, m: Module, when: Any, warp: Any, word: Any) -> None:
        """Writes the warp's word, from one of the two places: its part, so that the word is what it differs in from
        the other."""
        part = self._left.pop(0)
        other, = (each for each in self.parts if each is not part)
        self.writes.append((Value.cast(when), Value.cast(warp)))
        if not self._left:
            m.d.sync += Assert(~self.collides, "two places write the word of a warp in one cycle")
        part.write(m, when, warp, Value.cast(word) ^ Value.cast(other.read(m, warp)))

    @property
    def collides(self) -> Value:
        """Both places write the word of one warp; known when both have their ports."""
        (first, first_warp), (second, second_warp) = self.writes
        return first & second & (first_warp == second_warp)


class StackStates:
    """The memories that the stages of the pipeline and the spill and fill engine share: each reads and writes them
    where it needs them.

    Attributes
    ----------
    sweep
        What all of them that a launch does not write are given by after a reset.
    states
        Written by a push in the second stage while another warp's unwind is over in the fourth.
    sizes, traps
        The region's size in granules, less 1, whether there is one at all (``memory``), and whether the depth of calls
        is limited; whether the warp is in the trap handler.
    bases, locals, regions
        Where the warp's local memory begins, how large its threads' is, and where the stack's region begins, behind
        that.
    codes
        Those that came with the request.
    seeks, origins
        What an unwind looks for, if not for a thread that goes on; the stack when it began, to which it is put back if
        the unwind fails.
    below, cleaned, acknowledged, filling, parking
        The spill and fill engine's: its counters, to which those of a state are differences; the lines that memory has
        confirmed; whether a line is on its way; why an operation is parked.
    busy, parked, flushing, confirming
        An operation is under way; it is parked, or waits for a write-back, of which only memory's confirmation is to
        come. Set in one place, and cleared in another.
    """

    def __init__(self, params: SmParams) -> None:
        warps = params.warps
        self.sweep = sweep = Sweep(warps)
        self.states = SharedWords(stack_state(params), warps, sweep)
        self.sizes, self.traps = Words(_Sizes, warps), Words(1, warps, **_IN_LUTS)
        self.bases, self.locals, self.regions = (Words(BLOCK_ADDRESS_BITS, warps) for _ in range(3))
        self.codes, self.seeks, self.origins = Words(ThreadCodes, warps), Words(_Seek, warps), Words(Origin, warps)
        self.below, self.cleaned, self.acknowledged = (
            Words(params.stack_count_bits, warps, sweep, **_IN_LUTS) for _ in range(3))
        self.filling, self.parking = Words(1, warps, sweep, **_IN_LUTS), Words(Parking, warps, **_IN_LUTS)
        self.busy, self.parked, self.flushing, self.confirming = (SharedWords(1, warps, sweep) for _ in range(4))

    def add(self, m: Module) -> None:
        """Makes the memories submodules, when all who use them are: no port can be added to them after that."""
        m.submodules.sweep = self.sweep
        for name, words in vars(self).items():
            if words is self.sweep:
                continue
            for place, part in enumerate(words.parts if isinstance(words, SharedWords) else [words]):
                m.submodules[f"{name}{place}"] = part


def commit_flags(params: SmParams) -> data.StructLayout:
    """From the fourth stage: an operation is parked, also where the topmost line has room and is not on chip; the state
    is written (``writes``); no line is on chip any more (``empties``), or so few that the next is to be read
    (``lacks``). What moves between cache and memory for the warp counts for nothing (``stirs``); also if less than two
    lines are dirty (``lowers``): what is on its way out then may be changed."""
    return data.StructLayout({
        "warp": params.warp_bits, "parks": 1, "parking": Parking, "writes": 1, "empties": 1, "lacks": 1, "stirs": 1,
        "lowers": 1})


_Step = data.StructLayout(dict.fromkeys((
    "push", "counts", "prepares", "pair", "walk", "quad", "frame", "clear", "get", "set", "base", "move", "launch",
    "mode", "leave", "write_back", "load", "fault", "holds", "prior"), 1))
"""What the pipeline does for a warp: a token is pushed, if there is room (``push``), which ``counts`` as a call, which
at the limit of calls sets the kill bit (``prepares``), behind which there has to be room for another (``pair``). A
token is looked at that may end an unwind (``walk``), which has to be a QUAD token's (``quad``), or a trap frame's
(``frame``), or which is not seen at all (``clear``). The stack pointer is read (``get``) or ``set``; so is the ``base``
of the warp's memory, or it is moved (``move``). The stack is emptied for a new warp (``launch``). The trap handler is
entered or left (``mode``), or left (``leave``). Dirty lines are to be written (``write_back``). The topmost line has
come (``load``), or one that is needed could not be read (``fault``). The warp has nothing else under way until this is
over (``holds``): so with all that waits for the commit. The unwind goes before requests (``prior``)."""


def stack_step(params: SmParams) -> data.StructLayout:
    """A step of a warp, as it goes through the stages.

    ``state`` is that of the warp's stack; from the second stage on without the token that an unwind looks at, or with
    the one that was pushed. Its number is a depth to set, if the step sets one. ``lines`` are on chip from the topmost
    token's line down; some have been left by this unwind if ``dropped``; when it began no line was dirty if ``clean``.
    ``memory``: the stack has a region there. ``framed``: the tokens above in the line are MASKS tokens.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "step": _Step, "state": stack_state(params), "lines": params.stack_count_bits,
        "dropped": 1, "clean": 1, "memory": 1, "framed": 1})
