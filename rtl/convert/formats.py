"""The floating-point formats."""

from dataclasses import dataclass

from amaranth.hdl import Value

__all__ = ["DOUBLE", "SINGLE", "UPPER", "Format"]


@dataclass(frozen=True)
class Format:
    """A floating-point format, as IEEE 754 has it: sign, ``exponent`` bits, ``fraction`` bits."""

    fraction: int
    exponent: int

    @property
    def bias(self) -> int:
        """What is added to an exponent."""
        return (1 << self.exponent - 1) - 1

    def fraction_of(self, pattern: Value) -> Value:
        """The bits of the fraction."""
        return pattern[:self.fraction]

    def exponent_of(self, pattern: Value) -> Value:
        """The bits of the exponent."""
        return pattern[self.fraction:self.fraction + self.exponent]


SINGLE = Format(23, 8)
UPPER = Format(20, 11)
"""The upper word of a double."""
DOUBLE = Format(52, 11)
