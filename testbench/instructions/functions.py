"""Mathematical definitions of MUFU's functions, with the error bounds of the PTX manual's
approximations and its results for zeros, infinities and NaN.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtl.isa.kinds import MultiFunction
from rtl.isa.syntax import Values

__all__ = ["BOUNDS", "SPECIALS", "UPPER_EDGES", "Bound", "errors", "near"]

Numbers = NDArray[Any]
_LEAST = 2.0**-126
_INF, _NAN = np.inf, np.nan


@dataclass(frozen=True)
class Bound:
    """A function of doubles, and the largest permitted error: the maximum of an ``absolute`` error,
    a ``relative`` one, and ``ulps`` units of the result.
    """

    exact: Callable[[Numbers], Numbers]
    absolute: float = 0.0
    relative: float = 0.0
    ulps: float = 0.0


BOUNDS = {
    MultiFunction.RCP: Bound(lambda x: 1 / x, ulps=1),
    MultiFunction.RSQ: Bound(lambda x: 1 / np.sqrt(x), relative=2.0**-22.9),
    MultiFunction.EX2: Bound(np.exp2, relative=2.0**-22),
    MultiFunction.LG2: Bound(np.log2, absolute=2.0**-22.6, relative=2.0**-22),
    # In revolutions: the multiplication by 1 / (2 * pi) also has an error, which is part of the
    # permitted 2**-20.9.
    MultiFunction.SIN: Bound(lambda x: np.sin(2 * np.pi * (x - np.round(x))), absolute=2.0**-22.9),
    MultiFunction.COS: Bound(lambda x: np.cos(2 * np.pi * (x - np.round(x))), absolute=2.0**-22.9),
}

_OF_DOUBLES = {
    MultiFunction.RCP64H: BOUNDS[MultiFunction.RCP].exact,
    MultiFunction.RSQ64H: BOUNDS[MultiFunction.RSQ].exact,
}

UPPER_EDGES = (
    0x000F_FFFF,
    0x0010_0000,
    0x3FF0_0000,
    0x3FFF_FFFF,
    0x4000_0000,
    0x7FCF_FFFF,
    0x7FD0_0000,
    0x7FEF_FFFF,
    0x7FF0_0000,
    0x7FF0_0001,
    0xBFF0_0000,
    0xFFF0_0000,
)
"""Upper words of doubles that are adjacent to another class."""
SPECIALS = {
    MultiFunction.RCP: (_INF, -_INF, 0.0, -0.0),
    MultiFunction.RSQ: (_INF, -_INF, 0.0, _NAN),
    MultiFunction.EX2: (1.0, 1.0, _INF, 0.0),
    MultiFunction.LG2: (-_INF, -_INF, _INF, _NAN),
    MultiFunction.SIN: (0.0, -0.0, _NAN, _NAN),
    MultiFunction.COS: (1.0, 1.0, _NAN, _NAN),
}
"""Results for +0, -0, and both infinities."""


def _special(function: MultiFunction, x: float) -> float | None:
    """Returns an exact result; None if the result is an approximation."""
    if np.isnan(x) or (x < 0 and function in (MultiFunction.RSQ, MultiFunction.LG2)):
        return _NAN
    if x and np.isfinite(x):
        return None
    return SPECIALS[function][2 * bool(x) + bool(np.signbit(x))]


def errors(function: MultiFunction, x: Numbers, found: Numbers) -> tuple[Numbers, Numbers]:
    """Returns the errors of results, and the largest permitted ones."""
    bound = BOUNDS[function]
    with np.errstate(all="ignore"):
        exact = bound.exact(x.astype(np.float64))
        ulp = np.exp2(np.floor(np.log2(np.maximum(np.abs(exact), _LEAST))) - 23)
        allowed = np.maximum(
            np.maximum(bound.absolute, bound.relative * np.abs(exact)), bound.ulps * ulp
        )
        return np.abs(found.astype(np.float64) - exact), allowed


def _upper(word: int) -> float:
    """Returns the double with that upper word and a lower word of 0."""
    return float(np.uint64(word << 32).view(np.float64))


def _near_upper(
    function: Callable[[Numbers], Numbers], word: int, result: int, saturate: bool
) -> bool:
    """Returns whether a result for upper words of doubles is within 2**-20.9 of the function.
    Subnormal numbers are zeros.
    """
    x, y = _upper(word if word & 0x7FF0_0000 else word & 1 << 31), _upper(result)
    with np.errstate(all="ignore"):
        exact = float(function(np.array([x]))[0])
    if saturate:
        exact = 0.0 if np.isnan(exact) or np.signbit(exact) else min(exact, 1.0)
    if np.isnan(exact):
        return result == 0x7FFF_FFFF
    if exact == 0 or not np.isfinite(exact) or abs(exact) < 2.0**-1022:
        return y == (exact if not np.isfinite(exact) else 0) and np.signbit(y) == np.signbit(exact)
    return abs(y - exact) <= 2.0**-20.9 * abs(exact)


def near(values: Values, pattern: int, result: int) -> bool:
    """Returns whether a result of MUFU is permitted: a normal number, zero, infinity, or the
    canonical NaN.
    """
    function = MultiFunction(values["function"])
    word = pattern & 0x7FFF_FFFF if values["absolute_a"] else pattern & 0xFFFF_FFFF
    word ^= values["negate_a"] << 31
    if function in _OF_DOUBLES:
        return _near_upper(_OF_DOUBLES[function], word, result, bool(values["saturate"]))
    word &= 0xFFFF_FFFF if word & 0x7F80_0000 else 1 << 31
    x, y = (float(np.uint32(bits).view(np.float32)) for bits in (word, result))
    exact = _special(function, x)
    if exact is None:
        found = np.array([x], np.float64)
        error, allowed = (
            float(part[0]) for part in errors(function, found, np.array([y], np.float64))
        )
        with np.errstate(all="ignore"):
            exact = float(BOUNDS[function].exact(found)[0])
        if abs(exact) < _LEAST * (1 + 2.0**-22) and y == 0:
            return not values["saturate"] or result == 0
        if values["saturate"]:
            lowest, highest = (
                (exact - allowed, exact + allowed) if np.isfinite(exact) else (exact, exact)
            )
            return min(max(lowest, 0.0), 1.0) <= y <= min(max(highest, 0.0), 1.0) and (
                y == 0 or y >= _LEAST
            )
        if exact >= 2.0**128:
            return result == 0x7F80_0000
        return error <= allowed and (y == 0 or abs(y) >= _LEAST)
    if values["saturate"]:
        exact = 0.0 if np.isnan(exact) or np.signbit(exact) else min(exact, 1.0)
    if np.isnan(exact):
        return result == 0x7FFF_FFFF
    return result == int(np.float32(exact).view(np.uint32))
