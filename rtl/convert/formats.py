"""The floating-point formats."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Value

from rtl.isa.kinds import FloatFormat

__all__ = ["DOUBLE", "HALF", "SINGLE", "UPPER", "Format", "formats", "result_formats"]


@dataclass(frozen=True)
class Format:
    """A floating-point format of IEEE 754: sign, ``exponent`` bits, ``fraction`` bits."""

    fraction: int
    exponent: int

    @property
    def bias(self) -> int:
        """The stored exponent of 1.0."""
        return (1 << self.exponent - 1) - 1

    @property
    def special(self) -> int:
        """The stored exponent of infinities and NaNs."""
        return (1 << self.exponent) - 1

    def fraction_of(self, pattern: Value) -> Value:
        """The bits of the fraction."""
        return pattern[:self.fraction]

    def exponent_of(self, pattern: Value) -> Value:
        """The bits of the exponent."""
        return pattern[self.fraction:self.fraction + self.exponent]


HALF = Format(10, 5)
SINGLE = Format(23, 8)
UPPER = Format(20, 11)
"""The upper word of a double."""
DOUBLE = Format(52, 11)


def formats(floats: bool) -> Mapping[str, Format]:
    """The formats of a machine with or without floating point, by patterns for a Switch over the
    code of a size. Single precision is last, and matches all codes that are left; for codes that
    have no format nothing is used."""
    by_code = {f"{FloatFormat.F64.value:02b}": DOUBLE, "--": SINGLE}
    if floats:
        return {f"{FloatFormat.F16.value:02b}": HALF, **by_code}
    return by_code


def result_formats(floats: bool, doubles: bool) -> Mapping[str, Format]:
    """The formats of results, by patterns for a Switch over the code of a size with one more bit on
    top: the result is the upper word of a double."""
    by_code = {f"-{code}": form for code, form in formats(floats).items()}
    if doubles:
        return {"1--": UPPER, **by_code}
    return by_code
