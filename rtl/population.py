"""Population counts: how many bits of a value are 1."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value

__all__ = ["counted", "population"]


def population(bits: Value) -> Value:
    """How many of the bits are 1, as a tree of sums."""
    sums: list[Value] = list(bits)
    while len(sums) > 1:
        sums = [sum(sums[place + 1:place + 2], sums[place]) for place in range(0, len(sums), 2)]
    return sums[0]


def counted(m: Module, bits: Value) -> Value:
    """How many of the bits are 1, with full adders: three bits of one weight become a sum bit and a
    carry bit. Smaller than :func:`population` for many bits."""
    columns: list[list[Any]] = [list(bits)]
    total: list[Any] = []
    while len(total) < len(columns):
        place, step = len(total), 0
        column = columns[place]
        while len(column) > 1:
            a, b, c = [*column[:3], 0][:3]
            one, two = (Signal(name=f"{name}_{place}_{step}") for name in ("sum", "carry"))
            m.d.comb += [one.eq(a ^ b ^ c), two.eq(a & b | (a | b) & c)]
            columns += [[]] if len(columns) == place + 1 else []
            columns[place + 1].append(two)
            column, step = [*column[3:], one], step + 1
        total += column
    return Cat(total)
