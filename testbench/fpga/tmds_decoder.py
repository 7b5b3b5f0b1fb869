"""A screen: decodes TMDS symbols to a picture and its timing, by DVI 1.0 and independent of the
encoder.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CONTROL = {"0010101011": 0, "1101010100": 1, "0010101010": 2, "1101010101": 3}
"""Control signals by their symbol, whose bits are in the order of transmission."""
_MOST_DISPARITY = 10
"""Largest permitted difference between the numbers of ones and zeros sent."""


class TmdsError(Exception):
    """Symbols that no encoder sends."""


@dataclass(frozen=True)
class Seen:
    """A picture and its timing.

    Attributes:
        picture (array of height x width x 3 bytes): Red, green, blue.
        horizontal, vertical: Symbols of a line: visible, front porch, synchronisation, back porch;
            the same for the lines.
    """

    picture: NDArray[np.uint8]
    horizontal: tuple[int, int, int, int]
    vertical: tuple[int, int, int, int]


def decode(symbol: int) -> tuple[bool, int]:
    """Returns whether a symbol is a byte, and the byte, or else the control signals. Bit 0 was sent
    first.
    """
    sent = "".join(str(symbol >> bit & 1) for bit in range(10))
    if sent in CONTROL:
        return False, CONTROL[sent]
    bits = [int(bit) for bit in sent]
    if bits[9]:
        bits[:8] = [1 - bit for bit in bits[:8]]
    value = bits[0]
    for place in range(1, 8):
        differs = bits[place] ^ bits[place - 1]
        value |= (differs if bits[8] else 1 - differs) << place
    return True, value


_DECODED = np.array([decode(symbol) for symbol in range(1 << 10)])
_EXCESS = np.array([2 * symbol.bit_count() - 10 for symbol in range(1 << 10)])


def watch(symbols: NDArray[np.integer]) -> Seen:
    """Decodes rows of symbols of blue, green and red, which begin anywhere and contain a whole
    picture. Raises TmdsError.
    """
    visible, values = _DECODED[symbols, 0].astype(bool), _DECODED[symbols, 1]
    if (visible != visible[:, :1]).any():
        raise TmdsError("channels disagree on what is visible")
    seen = visible[:, 0]
    if values[~seen, 1:].any():
        raise TmdsError("control signals on green or red")
    _balanced(symbols, seen)
    horizontal, vertical = (np.where(seen, 1, values[:, 0] >> bit & 1) for bit in range(2))
    pictures = _rises(vertical)
    if len(pictures) < 2:
        raise TmdsError("no whole picture")
    begin, end = pictures[:2]
    line = _only(np.diff(_rises(-horizontal)), "lines")
    starts, ends = (_rises(sign * seen[begin:end].astype(int)) + begin for sign in (1, -1))
    width = _only(ends - starts, "visible lines")
    _only(np.diff(starts), "distances of visible lines")
    rises, falls = (_rises(sign * horizontal) for sign in (1, -1))
    left = _only(starts - rises[np.searchsorted(rises, starts) - 1], "left margins")
    right = _only(falls[np.searchsorted(falls, ends)] - ends, "right margins")
    height, above = len(starts), int(starts[0] - begin) // line
    fall = next(int(place) for place in _rises(-vertical) if begin < place < end)
    below = (fall - int(starts[-1])) // line - 1
    picture = (
        values[begin:end][seen[begin:end]].reshape(height, width, 3)[:, :, ::-1].astype(np.uint8)
    )
    return Seen(
        picture,
        (width, right, line - width - left - right, left),
        (height, below, int(end - fall) // line, above),
    )


def _rises(signal: NDArray[np.integer]) -> NDArray[np.integer]:
    """Returns where a signal is larger than before."""
    return np.flatnonzero(signal[1:] > signal[:-1]) + 1


def _only(numbers: NDArray[np.integer], what: str) -> int:
    """Returns the number that all are equal to."""
    if len(found := np.unique(numbers)) != 1:
        raise TmdsError(f"{what} differ: {found.tolist()}")
    return int(found[0])


def _balanced(symbols: NDArray[np.integer], seen: NDArray[np.bool_]) -> None:
    """Checks that consecutive bytes are balanced in ones and zeros, on each channel.

    The check starts at the first control signal, because earlier symbols are unknown.
    """
    total = np.cumsum(_EXCESS[symbols] * seen[:, None], axis=0)
    before = np.maximum.accumulate(np.where(seen, 0, np.arange(len(seen))))
    worst = int(
        np.abs(total - total[before])[seen & np.logical_or.accumulate(~seen)].max(initial=0)
    )
    if worst > _MOST_DISPARITY:
        raise TmdsError(f"ones and zeros differ by {worst}")


def symbols_of(bits: Sequence[int]) -> list[int]:
    """Returns symbols of ten bits each, bit 0 first."""
    return [
        sum(bit << place for place, bit in enumerate(bits[at : at + 10]))
        for at in range(0, len(bits) - 9, 10)
    ]
