"""The meaning of the tests of CC, defined by numbers that were compared, independent of the table
of tests.
"""

import operator
from collections.abc import Callable, Iterator, Mapping

from rtl.isa.condition import ConditionCode

_BITS = 4
"""Width of the numbers in bits, at which all combinations of flags of a subtraction occur."""
_HALF, _ALL = 1 << _BITS - 1, 1 << _BITS
_ORDERED: Mapping[str, Callable[[int, int], bool]] = {
    "LT": operator.lt,
    "EQ": operator.eq,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}
_OR_UNORDERED = {"LTU": "LT", "EQU": "EQ", "LEU": "LE", "GTU": "GT", "GEU": "GE"}
_UNSIGNED: Mapping[str, Callable[[int, int], bool]] = {
    "LO": operator.lt,
    "LS": operator.le,
    "HI": operator.gt,
    "HS": operator.ge,
}
_NEVER = [code.name for code in ConditionCode if code.name == "F" or "CSM" in code.name]


def _flags(*, zero: bool, sign: bool, carry: bool = False, overflow: bool = False) -> int:
    return zero | sign << 1 | carry << 2 | overflow << 3


def _subtraction(a: int, b: int) -> tuple[int, dict[str, bool]]:
    """Returns the flags of a - b for unsigned numbers, and the relations of these numbers."""
    signed_a, signed_b = (number - _ALL if number >= _HALF else number for number in (a, b))
    result, difference = (a - b) % _ALL, signed_a - signed_b
    overflow = not -_HALF <= difference < _HALF
    flags = _flags(zero=result == 0, sign=result >= _HALF, carry=a >= b, overflow=overflow)
    says = {name: compare(signed_a, signed_b) for name, compare in _ORDERED.items()}
    says |= {name: says[ordered] for name, ordered in _OR_UNORDERED.items()}
    says |= {name: compare(a, b) for name, compare in _UNSIGNED.items()}
    says |= {
        "NE": a != b,
        "NEU": a != b,
        "NUM": True,
        "NAN": False,
        "OFF": not overflow,
        "OFT": overflow,
        "SFF": result < _HALF,
        "SFT": result >= _HALF,
        "RLE": result == 0 or result >= _HALF,
        "RGT": 0 < result < _HALF,
    }
    return flags, says


def _comparison(order: int | None) -> tuple[int, dict[str, bool]]:
    """Returns Z and S of a comparison whose first number is less (-1), equal, greater, or unordered
    (None), and its relations.
    """
    ordered = order is not None
    flags = _flags(zero=order in (0, None), sign=order in (-1, None))
    says = {name: order is not None and compare(order, 0) for name, compare in _ORDERED.items()}
    says |= {name: says[known] or not ordered for name, known in _OR_UNORDERED.items()}
    says |= {"NE": ordered and order != 0, "NEU": order != 0, "NUM": ordered, "NAN": not ordered}
    return flags, says


def meanings() -> Iterator[tuple[int, ConditionCode, bool]]:
    """Yields flags, a test, and its result: for subtractions, and for ordered and unordered
    comparisons.
    """
    known = [_subtraction(a, b) for a in range(_ALL) for b in range(_ALL)]
    known += [_comparison(order) for order in (-1, 0, 1, None)]
    for flags, says in known:
        for name, holds in (says | dict.fromkeys(_NEVER, False) | {"T": True}).items():
            yield flags, ConditionCode[name], holds
