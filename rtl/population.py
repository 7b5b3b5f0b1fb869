"""How many bits are 1."""

from amaranth.hdl import Value

__all__ = ["population"]


def population(bits: Value) -> Value:
    """How many of the bits are 1, as a tree of sums."""
    sums: list[Value] = list(bits)
    while len(sums) > 1:
        sums = [sum(sums[place + 1:place + 2], sums[place]) for place in range(0, len(sums), 2)]
    return sums[0]
