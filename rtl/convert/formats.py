"""The floating-point formats."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Value

from rtl.isa.kinds import FloatFormat

__all__ = ["DOUBLE", "HALF", "SINGLE", "UPPER", "Format", "formats", "result_formats"]


@dataclass(frozen=True)
class Format:
    """A floating-point format, as IEEE 754 has it: sign, ``exponent`` bits, ``fraction`` bits."""

    fraction: int
    exponent: int

    @property
    def bias(self) -> int:
        """What is added to an exponent."""
        return (1 << self.exponent - 1) - 1

    @property
    def special(self) -> int:
        """The stored exponent of infinities, and of what is no number."""
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
    """The formats of a machine, with floating point or without, by patterns for a Switch over the
    code of a size. Single precision comes last: its pattern matches all other sizes, too, of which
    nothing is used."""
    by_code = {f"{FloatFormat.F64.value:02b}": DOUBLE, "--": SINGLE}
    if floats:
        return {f"{FloatFormat.F16.value:02b}": HALF, **by_code}
    return by_code


def result_formats(floats: bool, doubles: bool) -> Mapping[str, Format]:
    """The same of results, over the code of a size and, above it, whether it is the upper word of a
    double."""
    by_code = {f"-{code}": form for code, form in formats(floats).items()}
    if doubles:
        return {"1--": UPPER, **by_code}
    return by_code
