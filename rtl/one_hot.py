"""Conversion between a number and its one-hot code, in which only the bit of that number is 1."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Mux, Value

__all__ = ["chosen_of", "number_of", "one_hot"]

_DIGIT = 3
"""Bits of a number that are decoded together."""


def one_hot(number: Any, count: int, when: Any = 1) -> Value:
    """The one-hot code of ``number`` in ``count`` bits; 0 unless ``when`` is 1.

    The number is decoded in two parts, so that each bit is one small table of a line and a column:
    a shifted 1 would take synthesis a multiplexer for each bit of the number.
    """
    if count == 1:
        return Cat(when)
    low, high = number[:_DIGIT], number[_DIGIT:]
    columns = [low == place for place in range(min(count, 1 << _DIGIT))]
    if not len(high):
        return Cat(column & when for column in columns)
    rows = [(high == place) & when for place in range(-(-count // (1 << _DIGIT)))]
    return Cat(row & column for row in rows for column in columns)[:count]


def chosen_of(chosen: Any, values: Sequence[Any]) -> Any:
    """The item of ``values`` whose bit is 1 in the one-hot ``chosen``; 0 if no bit is."""
    return reduce(or_, (Mux(chosen[number], value, 0) for number, value in enumerate(values)))


def number_of(chosen: Any) -> Any:
    """The number of the bit that is 1 in the one-hot ``chosen``; 0 if no bit is."""
    return chosen_of(chosen, range(len(chosen)))
