"""What is kept of each warp's stack, in memories read by the warp's number."""

from functools import reduce
from operator import xor
from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data

from rtl.isa.tokens import CRS_GRANULE, TOKEN_BYTES, TRAP_RESERVE
from rtl.layouts import BLOCK_ADDRESS_BITS, CRS_GRANULE_BITS, ThreadCodes
from rtl.params import SmParams
from rtl.words import Words

from .records import COUNT_BITS, Origin, Parking, Seek, StackState

__all__ = ["SharedWords", "StackStates"]

assert CRS_GRANULE // TOKEN_BYTES == 2 * TRAP_RESERVE, "a granule is two of the steps that limits are counted in"
_Sizes = data.StructLayout({"granules": CRS_GRANULE_BITS, "memory": 1, "checks_calls": 1})
_IN_LUTS: dict[str, Any] = {"ram_style": "distributed"}
"""Small as they are, synthesis would make registers of some."""


class SharedWords:
    """Words that two places write, never of the same warp in the same cycle.

    Each place writes a memory of its own, and a word is what the two differ in, so that none needs to say which is
    newer. The first call of ``write`` is that of the first place.

    Attributes
    ----------
    parts : list[Words]
        The memories, by place.
    """

    def __init__(self, shape: Any, warps: int) -> None:
        self._shape, self.parts = shape, [Words(shape, warps, **_IN_LUTS) for _ in range(2)]
        self._left = list(self.parts)

    def read(self, m: Module, warp: Any) -> Any:
        """The warp's word."""
        word: Any = Signal(self._shape)
        m.d.comb += word.eq(reduce(xor, (Value.cast(part.read(m, warp)) for part in self.parts)))
        return word

    def write(self, m: Module, when: Any, warp: Any, word: Any) -> None:
        """Writes the warp's word, from one of the two places."""
        part = self._left.pop(0)
        other, = (each for each in self.parts if each is not part)
        part.write(m, when, warp, Value.cast(word) ^ Value.cast(other.read(m, warp)))


class StackStates:
    """The memories that the stages of the pipeline and the spill and fill engine share: each reads and writes them
    where it needs them.

    Attributes
    ----------
    states
        Written by a push in the second stage while another warp's unwind is over in the fourth.
    sizes, traps
        The region's size in granules, less 1, whether there is one at all (``memory``), and whether the depth of calls
        is limited; whether the warp is in the trap handler. User mode may not fill the last 16 entries of the region,
        the trap handler may. Without a region in memory the entries on chip are all there is, in any mode.
    bases, locals, regions
        Where the warp's local memory begins, how large its threads' is, and where the stack's region begins, behind
        that.
    codes
        Those that came with the request.
    seeks, origins
        What an unwind looks for, and where it began.
    below, cleaned, acknowledged, filling, parking
        The spill and fill engine's: its counters, to which those of a state are differences; the lines that memory has
        confirmed; whether a line is on its way; why an operation is parked.
    busy, parked, flushing, confirming
        An operation is under way; it is parked, or waits for a write-back, of which only memory's confirmation is to
        come. Set in one place, and cleared in another.
    """

    def __init__(self, params: SmParams) -> None:
        warps = params.warps
        self.states = SharedWords(StackState, warps)
        self.sizes, self.traps = Words(_Sizes, warps), Words(1, warps, **_IN_LUTS)
        self.bases, self.locals, self.regions = (Words(BLOCK_ADDRESS_BITS, warps) for _ in range(3))
        self.codes, self.seeks, self.origins = Words(ThreadCodes, warps), Words(Seek, warps), Words(Origin, warps)
        self.below, self.cleaned, self.acknowledged = (Words(COUNT_BITS, warps, **_IN_LUTS) for _ in range(3))
        self.filling, self.parking = (Words(shape, warps, **_IN_LUTS) for shape in (1, Parking))
        self.busy, self.parked, self.flushing, self.confirming = (SharedWords(1, warps) for _ in range(4))

    def add(self, m: Module) -> None:
        """Makes the memories submodules, when all who use them are: no port can be added to them after that."""
        for name, words in vars(self).items():
            for place, part in enumerate(words.parts if isinstance(words, SharedWords) else [words]):
                m.submodules[f"{name}{place}"] = part
