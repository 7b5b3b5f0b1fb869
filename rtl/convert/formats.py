"""The floating-point formats."""

from dataclasses import dataclass

from amaranth.hdl import Value

__all__ = ["DOUBLE", "NO_NUMBER", "SINGLE", "Format"]

NO_NUMBER = 0x7FFF_FFFF
"""The pattern of a single-precision result that is not a number."""


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
    def infinity(self) -> int:
        """The pattern of +infinity."""
        return (1 << self.exponent) - 1 << self.fraction

    @property
    def one(self) -> int:
        """The pattern of 1."""
        return self.bias << self.fraction

    def fraction_of(self, pattern: Value) -> Value:
        """The bits of the fraction."""
        return pattern[:self.fraction]

    def exponent_of(self, pattern: Value) -> Value:
        """The bits of the exponent."""
        return pattern[self.fraction:self.fraction + self.exponent]


SINGLE = Format(23, 8)
DOUBLE = Format(52, 11)
