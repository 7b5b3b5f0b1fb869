"""Arithmetic and comparisons in double precision by fractions, one thread at a time, from the fields of a word."""

from collections.abc import Callable, Mapping
from fractions import Fraction

from rtl.isa.kinds import FloatFormat, FloatRounding
from testbench.formulas.conversion import packed
from testbench.formulas.integer import Fields

__all__ = ["FORMULAS", "Outcome", "outcome"]

_WORD = (1 << 32) - 1
_SIGN, _INFINITY, _NAN = 1 << 63, 0x7FF << 52, 0x7FF8 << 48
_ONE = 0x3FF << 52
_LESS, _EQUAL, _GREATER, _NONE = range(4)
"""What a relation may hold of: a bit each in the code of a FloatCompare."""

Outcome = tuple[int | None, tuple[int, int] | None, int]
"""The result, of the words that it has, and both predicates, None where there are none; Z and S as CC has them."""
_Formula = Callable[[Fields, int, int, int, int], Outcome]


def _finite(number: int) -> bool:
    return number & _INFINITY != _INFINITY


def _is_nan(number: int) -> bool:
    return number & ~_SIGN > _INFINITY


def _value(number: int) -> Fraction:
    """Of a finite number."""
    exponent, fraction = number >> 52 & 0x7FF, number & (1 << 52) - 1
    if exponent:
        fraction += 1 << 52
    return (-1) ** (number >> 63) * fraction * Fraction(2) ** (max(exponent, 1) - 1075)


def _sum(product: int, exact: Fraction | None, c: int, mode: int) -> int:
    """A product, as an infinity or a number with its sign and its exact value, and c: rounded once."""
    if _is_nan(product) or _is_nan(c) or (exact is None and not _finite(c) and (product ^ c) & _SIGN):
        return _NAN
    if exact is None:
        return product
    if not _finite(c):
        return c
    total = exact + _value(c)
    if total:
        return packed(total, FloatFormat.F64.value, mode)
    if not (product ^ c) & _SIGN:
        return product & _SIGN
    return _SIGN if mode == FloatRounding.RM.value else 0


def _product(a: int, b: int) -> tuple[int, Fraction | None]:
    """A number of the product's sign, a NaN or an infinity if that is one; the exact value, if it has one."""
    sign = (a ^ b) & _SIGN
    if _is_nan(a) or _is_nan(b):
        return _NAN, None
    if _finite(a) and _finite(b):
        return sign, _value(a) * _value(b)
    return (_NAN if not (a & ~_SIGN and b & ~_SIGN) else sign | _INFINITY), None


def _fused(a: int, b: int, c: int, mode: int) -> int:
    product, exact = _product(a, b)
    return _sum(product, exact, c, mode)


def _key(number: int) -> int:
    """Rises with the numbers, -0 below +0."""
    return -(number & ~_SIGN) - 1 if number & _SIGN else number


def _lesser(a: int, b: int, x: int) -> int:
    """The lesser one, or the greater one; of what is no number the other one."""
    numbers = [number for number in (a, b) if not _is_nan(number)]
    return (min if x else max)(numbers, key=_key, default=_NAN)


def _relation(a: int, b: int) -> int:
    if _is_nan(a) or _is_nan(b):
        return _NONE
    if not (a | b) & ~_SIGN or a == b:
        return _EQUAL
    return _LESS if _key(a) < _key(b) else _GREATER


def _truth(f: Fields, a: int, b: int, x: int) -> tuple[int, int]:
    """The relation and its opposite, each joined with the predicate."""
    holds = f["compare"] >> _relation(a, b) & 1
    join: Callable[[int], int] = (lambda p: p & x, lambda p: p | x, lambda p: p ^ x)[f["combine"]]
    return join(holds), join(1 - holds)


def _arithmetic(compute: Callable[[Fields, int, int, int, int], int]) -> _Formula:
    def made(f: Fields, a: int, b: int, c: int, x: int) -> Outcome:
        result = compute(f, a, b, c, x)
        return result, None, int(result == 0) | result >> 63 << 1
    return made


def _set(f: Fields, a: int, b: int, c: int, x: int) -> Outcome:
    holds, _ = _truth(f, a, b, x)
    result = (0x3F80_0000 if f["one"] else _WORD) * holds
    return result, None, int(result == 0) | result >> 31 << 1


FORMULAS: Mapping[str, _Formula] = {
    "DADD": _arithmetic(lambda f, a, b, c, x: _fused(a, _ONE, b, f["round"])),
    "DMUL": _arithmetic(lambda f, a, b, c, x: _fused(a, b, (a ^ b) & _SIGN, f["round"])),
    "DFMA": _arithmetic(lambda f, a, b, c, x: _fused(a, b, c, f["round"])),
    "DMNMX": _arithmetic(lambda f, a, b, c, x: _lesser(a, b, x)),
    "DSETP": lambda f, a, b, c, x: (None, _truth(f, a, b, x), 0),
    "DSET": _set,
}
"""By mnemonic."""


def outcome(name: str, values: Mapping[str, int], a: int, b: int, c: int, x: int) -> Outcome:
    """What a thread gets, of numbers as they are in registers and a predicate as the instruction sees it."""
    f = Fields(values)
    a, b, c = ((number & ~_SIGN if f[f"absolute_{role}"] else number) ^ f[f"negate_{role}"] << 63
               for role, number in zip("abc", (a, b, c), strict=True))
    return FORMULAS[name](f, a, b, c, x)
