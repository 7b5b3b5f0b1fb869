"""Flags of warps in memories with one writer each."""

from typing import Any

from amaranth.hdl import Module, ShapeLike, Value, unsigned

from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.words import Words

__all__ = ["WarpFlags", "words_in_luts"]


def words_in_luts(shape: ShapeLike, params: SmParams, sweep: Sweep | None = None) -> Words:
    """A word a warp, in LUT memory even for few warps, where synthesis would take registers and
    multiplexers."""
    return Words(shape, params.warps, sweep, ram_style="distributed")


class WarpFlags:
    """A flag a warp that one place sets and another one clears.

    A memory has one writer, so there is one for each of both places (``sets`` and ``clears``), and
    a flag is 1 while they differ: setting it makes them differ, clearing it makes them equal. It is
    not set and cleared in the same cycle for the same warp.

    Parameters
    ----------
    sets, clears : Words
        The two memories, of one bit, with a sweep: after a reset all flags are 0. They are
        submodules of the component that uses the flags.
    """

    def __init__(self, sets: Words, clears: Words) -> None:
        self.sets = sets
        self.clears = clears

    @classmethod
    def in_luts(cls, params: SmParams, sweep: Sweep) -> "WarpFlags":
        """Flags in LUT memories."""
        return cls(*(words_in_luts(unsigned(1), params, sweep) for _ in range(2)))

    def read(self, m: Module, warp: Any) -> Value:
        """The warp's flag."""
        return self.sets.read(m, warp) ^ self.clears.read(m, warp)

    def set(self, m: Module, when: Any, warp: Any) -> None:
        """Sets the warp's flag, ``when`` that is 1."""
        self.sets.write(m, when, warp, ~self.clears.read(m, warp))

    def clear(self, m: Module, when: Any, warp: Any) -> None:
        """Clears the warp's flag, ``when`` that is 1."""
        self.clears.write(m, when, warp, self.sets.read(m, warp))
