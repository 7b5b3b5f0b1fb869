"""Who goes before whom."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal

__all__ = ["FAVOUR_INTERVAL", "Order", "window_cycles"]

_PART = 8
FAVOUR_INTERVAL = 8
"""Of so many windows one favours a warp."""


def window_cycles(beats: int) -> int:
    """Cycles for which a favoured warp goes before all others: the lanes become free several times, or once behind what
    passes the full ones only."""
    return max(16, 8 * beats)


class Order:
    """An order of ``count`` requesters, as a bit for each pair of them: a choice among eight is two levels of logic.

    More than eight are parts of eight. The parts have an order, and each part has one; a part goes behind the other
    parts with each of its members.
    """

    def __init__(self, count: int, name: str = "order") -> None:
        self._parts = [Order(_PART, f"{name}_{part}") for part in range(count // _PART)] if count > _PART else []
        self._later = {(i, j): Signal(name=f"{name}_{i}_{j}")
                       for j in range(len(self._parts) or count) for i in range(j)}

    def first(self, wanting: Any) -> Any:
        """One bit for each requester: the first one of those that want."""
        members = [wanting[_PART * part:_PART * (part + 1)] for part in range(len(self._parts))]
        among = [octet.any() for octet in members] or list(wanting)
        chosen = [wants & ~Cat(among[j] & (~self._later[j, i] if j < i else self._later[i, j])
                               for j in range(len(among)) if j != i).any() for i, wants in enumerate(among)]
        if not members:
            return Cat(chosen)
        return Cat(part.first(octet) & goes.replicate(_PART)
                   for part, octet, goes in zip(self._parts, members, chosen, strict=True))

    def update(self, m: Module, behind: Any) -> None:
        """From the next cycle on, those of ``behind``, at most one, come after all others. Each bit is a register that
        one of its pair sets and the other one resets, without logic."""
        for number, part in enumerate(self._parts):
            part.update(m, behind[_PART * number:_PART * (number + 1)])
        if self._parts:
            behind = [behind[_PART * number:_PART * (number + 1)].any() for number in range(len(self._parts))]
        for (i, j), later in self._later.items():
            with m.If(behind[j]):
                m.d.sync += later.eq(0)
            with m.Elif(behind[i]):
                m.d.sync += later.eq(1)
