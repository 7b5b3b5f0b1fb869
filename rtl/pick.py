"""Selection of an item by its index."""

from typing import Any

from amaranth.hdl import Array, Mux

__all__ = ["pick"]

_PAIRED = 8


def pick(items: Any, index: Any) -> Any:
    """``items[index]``, computed bit by bit: each bit depends on the same bit of the items alone,
    which simulators and synthesis handle better than a select over all items' bits.

    Of eight items the lowest bit of ``index`` selects in pairs first: synthesis makes half as many
    tables of that. With more or fewer items it would be no gain.
    """
    items = list(items)
    if len(items) != _PAIRED:
        return Array(items)[index]
    pairs = zip(items[::2], items[1::2], strict=True)
    selected = [Mux(index[0], odd, even) for even, odd in pairs]
    return Array(selected)[index[1:]]
