"""What a lane that computes a byte in a cycle does when."""

from amaranth.hdl import Value, unsigned
from amaranth.lib import data

__all__ = ["FIRST_STEP", "LAST_FIRST_STEP", "LAST_STEP", "SUM_STEP", "Step"]

FIRST_STEP = 4
"""The first step in which the first term is made."""
LAST_FIRST_STEP = 14
"""The last one: eight bytes of a product, which come late, and what is above them."""
SUM_STEP = 16
"""The first step of the final sum."""
LAST_STEP = 20


class Step(data.Struct):
    """A step of a thread. In four of them the operands are prepared, byte by byte; in eleven the first term is made, in
    five the final sum and the result."""

    runs: unsigned(1)
    """There is a thread."""
    number: unsigned(5)

    @property
    def place(self) -> Value:
        """The byte's place in its word."""
        return self.number[:2]

    @property
    def first_place(self) -> Value:
        """It is the lowest byte of its word."""
        return ~self.place.any()

    @property
    def last_place(self) -> Value:
        """It is the highest byte of its word."""
        return self.place.all()

    @property
    def prepares(self) -> Value:
        """The operands are prepared."""
        return ~self.number[2:].any()

    @property
    def low(self) -> Value:
        """The first term is made, of the low word of what it is made of."""
        return self.number[2:] == FIRST_STEP >> 2

    @property
    def high(self) -> Value:
        """The same of the high word."""
        return self.number[2:] == (FIRST_STEP >> 2) + 1

    @property
    def makes(self) -> Value:
        """The first term is made."""
        return ~self.number[4] & self.number[2:4].any()

    @property
    def concludes(self) -> Value:
        """The final sum is made."""
        return self.number[4]
