"""A number as the bit of that place."""

from typing import Any

from amaranth.hdl import Cat, Value

__all__ = ["one_hot"]

_DIGIT = 3
"""Bits of a number that are decoded together."""


def one_hot(number: Any, count: int, when: Any = 1) -> Value:
    """``count`` bits, of which that of the number is 1, if ``when``; else none.

    The number is decoded in two parts, so that each bit is one small table of a line and a column: a shifted 1 would
    take synthesis a multiplexer for each bit of the number.
    """
    if count == 1:
        return Cat(when)
    low, high = number[:_DIGIT], number[_DIGIT:]
    columns = [low == place for place in range(min(count, 1 << _DIGIT))]
    if not len(high):
        return Cat(column & when for column in columns)
    rows = [(high == place) & when for place in range(-(-count // (1 << _DIGIT)))]
    return Cat(row & column for row in rows for column in columns)[:count]
