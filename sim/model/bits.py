"""Logic of three operands and permutations of bytes, as PTX defines lop3 and prmt: for the thread model and the PTX
interpreter. The warp model has its own, on vectors.
"""

from collections.abc import Callable

from rtl.isa.kinds import PermuteMode

__all__ = ["logic_of_three", "permuted_bytes"]


def logic_of_three(table: int, a: int, b: int, c: int) -> int:
    """Any function of three words, bit by bit: bit n of ``table`` is the result where the bits of a, b and c are those
    of n, a's the highest. The result may be negative: it is to be cut to the width of the words.
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
"""Which of the 8 bytes a byte of the result takes, the lowest being byte 0; bit 3: only its sign."""


def permuted_bytes(mode: PermuteMode, low: int, high: int, control: int) -> int:
    """Four of the eight bytes of two words, ``low`` having bytes 0 to 3; ``control`` says which."""
    pair, select = high << 32 | low, _SELECTORS[mode]
    result = 0
    for position in range(4):
        selector = select(control, position)
        byte = pair >> 8 * (selector & 7) & 0xFF
        if selector & 8:
            byte = 0xFF if byte & 0x80 else 0
        result |= byte << 8 * position
    return result
