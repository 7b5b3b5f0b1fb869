"""Kernels that test arithmetic on 64 bits."""

from collections.abc import Mapping

from .expected_numbers import quotient, remainder
from .outcome import LONG, WORD, Inputs, Kernels, Outcome, exact, signed

__all__ = ["KERNELS"]

KERNELS = Kernels()


def _split(value: int) -> list[int]:
    return [value & WORD, value >> 32 & WORD]


@KERNELS.changing("k22_alu64", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    a, b = inputs.values["a"] & LONG, inputs.values["b"] & LONG
    x, y, count = o[0] | o[1] << 32, o[2] | o[3] << 32, o[4]
    sx, sy, shift = signed(x, 64), signed(y, 64), min(count, 64)
    selected = x if sx < sy else y
    field = (1 << 16) - 1 << 8
    o[8:48] = [
        half
        for value in (
            (x + y) + (x - y),
            x * y,
            x * y >> 64,
            sx * sy >> 64,
            x * y + a,
            x << shift,
            x >> shift,
            sx >> shift,
            x << 5,
            x >> 33,
            sx >> 7,
            x & y,
            x | b,
            x ^ y,
            ~x,
            -x,
            abs(sx),
            min(sx, sy),
            max(x, y),
            selected if x > b else a,
        )
        for half in _split(value)
    ]
    o[48:52] = [int(x == y), x.bit_count(), 64 - x.bit_length(), x & WORD]
    o[52:62] = [
        half
        for value in (
            int(f"{x:064b}"[::-1], 2),
            x >> 5 & (1 << 20) - 1,
            y & ~field | x << 8 & field,
            x + 0x123456789A,
            signed(count),
        )
        for half in _split(value)
    ]
    o[62] = y.bit_length() - 1


@KERNELS.changing("k26_divrem64", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    x, y = o[0] | o[1] << 32, o[2] | o[3] << 32
    sx, sy = signed(x, 64), signed(y, 64)
    o[4:12] = [
        half
        for value in (x // y, x % y, quotient(sx, sy), remainder(sy, 1000))
        for half in _split(value)
    ]


@KERNELS.of("k33_collatz64")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    def steps(value: int) -> int:
        count = 0
        while value > 1:
            value = value * 3 + 1 & LONG if value & 1 else value >> 1
            count += 1
        return count

    return {"o": exact([steps(t + 1) for t in range(inputs.threads)])}


@KERNELS.of("k70_bits64")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    given, mask, found = [int(word) for word in inputs.buffers["v"]], inputs.values["mask"], []
    for t, (x, y) in enumerate(zip(given[::2], given[1::2], strict=True)):
        n = y & 63
        results = (
            x & y,
            x | y,
            x & ~y,
            x | ~y & LONG,
            x & x - 1,
            x >> n & 1,
            x & 1 << n,
            x & 0x1000000000,
            x & 0x8000000080000001,
            x & mask,
            ~x & LONG,
            x & y & mask,
            x & 0x1000000000 & y,
            x << 32 & y & LONG,
        )
        chain = 0
        for number, result in enumerate(results, 1):
            chain = chain * 7 + t + number if result else chain
        found += [
            sum(1 << at for at, result in enumerate(results) if not result),
            sum(3**at for at, result in enumerate(results) if result),
            chain,
        ]
    return {"o": exact(found)}
