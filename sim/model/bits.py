"""Bitwise functions of three operands and byte permutations, as PTX defines lop3 and prmt.

The thread model and the PTX interpreter use them. The warp model has its own, on vectors.
"""

from collections.abc import Callable

from rtl.isa.kinds import PermuteMode

__all__ = ["logic_of_three", "permuted_bytes"]


def logic_of_three(table: int, a: int, b: int, c: int) -> int:
    """Computes a bitwise function of three words from its truth table.

    Bit n of ``table`` is the result for the input bits a, b and c that form the number n, with a as
    the highest bit. The result may be negative: the caller cuts it to the width of the words.
    """
    result = 0
    for row in range(8):
        if table >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result


_SELECTORS: dict[PermuteMode, Callable[[int, int], int]] = {
    PermuteMode.INDEX: lambda control, byte: control >> 4 * byte & 15,
    PermuteMode.F4E: lambda control, byte: (control & 3) + byte,
    PermuteMode.B4E: lambda control, byte: (control & 3) - byte & 7,
    PermuteMode.RC8: lambda control, byte: control & 3,
    PermuteMode.ECL: lambda control, byte: max(byte, control & 3),
    PermuteMode.ECR: lambda control, byte: min(byte, control & 3),
    PermuteMode.RC16: lambda control, byte: byte % 2 + 2 * (control & 1),
}
"""Computes the selector of byte ``byte`` of the result (0 is the lowest).

Bits 2:0 of a selector name one of the 8 source bytes; bit 3 replicates its sign bit instead.
"""


def permuted_bytes(mode: PermuteMode, low: int, high: int, control: int) -> int:
    """Selects four of the eight bytes of two words with ``control``; ``low`` holds bytes 0 to 3."""
    pair, select = high << 32 | low, _SELECTORS[mode]
    result = 0
    for position in range(4):
        selector = select(control, position)
        byte = pair >> 8 * (selector & 7) & 0xFF
        if selector & 8:
            byte = 0xFF if byte & 0x80 else 0
        result |= byte << 8 * position
    return result
