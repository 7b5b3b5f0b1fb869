"""One of several: the next beat of a set of threads, an item by its number."""

from typing import Any

from amaranth.hdl import Array, Cat

from rtl.arbiter import lowest
from rtl.params import SmParams

__all__ = ["first_beat", "pick"]


def first_beat(threads: Any, params: SmParams) -> Any:
    """The number of the first beat that has one of ``threads``."""
    return lowest(Cat(threads.word_select(beat, params.lanes).any() for beat in range(params.beats)))


def pick(items: Any, index: Any) -> Any:
    """The item of that number, each bit of which depends on the same bit of the items alone: simulators and synthesis
    do better with that than with a part of all items' bits."""
    return Array(items)[index]
