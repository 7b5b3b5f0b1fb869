"""One of several."""

from typing import Any

from amaranth.hdl import Array, Mux

__all__ = ["pick"]

_PAIRED = 8


def pick(items: Any, index: Any) -> Any:
    """The item of that number, each bit of which depends on the same bit of the items alone: simulators and synthesis
    do better with that than with a part of all items' bits. Eight items go by pairs first, which synthesis makes half
    as many tables of; with more or less of them it would be no gain.
    """
    items = list(items)
    if len(items) == _PAIRED:
        items, index = [Mux(index[0], odd, even) for even, odd in zip(items[::2], items[1::2], strict=True)], index[1:]
    return Array(items)[index]
