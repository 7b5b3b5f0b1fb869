"""The beats of a set of threads."""

from typing import Any

from amaranth.hdl import Cat

from rtl.arbiter import lowest
from rtl.params import SmParams

__all__ = ["first_beat"]


def first_beat(threads: Any, params: SmParams) -> Any:
    """The number of the first beat that has one of ``threads``."""
    return lowest(Cat(threads.word_select(beat, params.lanes).any() for beat in range(params.beats)))
