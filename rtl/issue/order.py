"""Who goes before whom."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal

__all__ = ["FAVOUR_INTERVAL", "Order", "window_cycles"]

_PART = 8
FAVOUR_INTERVAL = 8
"""Of so many windows one favours a warp."""


def window_cycles(beats: int) -> int:
    """Cycles for which a favoured warp goes before all others: the lanes are free several times."""
    return max(16, 4 * beats)


class Order:
    """An order of ``count`` requesters, as a bit for each pair of them: a choice among eight is two levels of logic.

    More than eight are parts of eight. The parts have an order, and each part has one; a part goes behind the other
    parts, or is preferred to them, with each of its members.
    """

    def __init__(self, count: int, name: str = "order") -> None:
        self._parts = [Order(_PART, f"{name}_{part}") for part in range(count // _PART)] if count > _PART else []
        pairs = [(i, j) for j in range(len(self._parts) or count) for i in range(j)]
        self._kept = {pair: Signal(init=1, name=f"{name}_{pair[0]}_{pair[1]}") for pair in pairs}
        self._ahead = {pair: Signal(init=1, name=f"{name}_ahead_{pair[0]}_{pair[1]}") for pair in pairs}

    def first(self, wanting: Any) -> Any:
        """One bit for each requester: the first one of those that want."""
        members = [wanting[_PART * part:_PART * (part + 1)] for part in range(len(self._parts))]
        among = [octet.any() for octet in members] or list(wanting)
        chosen = [wants & ~Cat(among[j] & (self._ahead[j, i] if j < i else ~self._ahead[i, j])
                               for j in range(len(among)) if j != i).any() for i, wants in enumerate(among)]
        if not members:
            return Cat(chosen)
        return Cat(part.first(octet) & goes.replicate(_PART)
                   for part, octet, goes in zip(self._parts, members, chosen, strict=True))

    def update(self, m: Module, behind: Any, preferred: Any) -> None:
        """From the next cycle on: those of ``behind``, at most one, come after all others, and who is ``preferred``,
        one at most, goes before all others as long as it is."""
        for number, part in enumerate(self._parts):
            octet = slice(_PART * number, _PART * (number + 1))
            part.update(m, behind[octet], preferred[octet])
        if self._parts:
            behind, preferred = (
                [bits[_PART * part:_PART * (part + 1)].any() for part in range(len(self._parts))]
                for bits in (behind, preferred))
        for (i, j), kept in self._kept.items():
            later = ~behind[i] & (kept | behind[j])
            m.d.sync += [kept.eq(later), self._ahead[i, j].eq(preferred[i] | ~preferred[j] & later)]
