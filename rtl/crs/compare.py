"""Arithmetic that is shortened for the clock. Each function's docstring has the plain form; the
stages assert that both are equal.

The longest paths of the stack begin in the memories of its state and end in block RAM, or in the
next stage's registers.
"""

from typing import Any

from amaranth.hdl import Cat, Value

__all__ = ["equal_in_parts", "successor"]


def successor(number: Value, bits: int) -> Value:
    """``(number + 1)[:bits]``, each bit as a function of the bits below it, without a carry chain:
    a token's number comes late, from a memory, and its few lowest bits take one or two LUTs."""
    return Cat(number[bit] ^ number[:bit].all() for bit in range(bits))


def equal_in_parts(left: Any, right: Any, parts: int) -> Value:
    """Bit ``p``: the bits p, p + parts, p + 2 parts ... of both are equal. All: ``left == right``.

    A comparison in two stages: one reduces it to ``parts`` bits, the next one to one (``all()``).
    In one stage, a push's limit was the longest path of the stack: from the memory over the
    comparison to the write enable of the block RAM, 10.2 ns.
    """
    difference = left ^ right
    return Cat(difference[part::parts] == 0 for part in range(parts))
