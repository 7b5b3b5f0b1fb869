"""Permutations of bytes (PRMT): the selection of source bytes, and the multiplexers."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value

from rtl.isa.kinds import PermuteMode

__all__ = ["byte_picks", "fixed_picks", "permuted"]

_BYTES = 4
_SOURCES = 8


def fixed_picks(mode: PermuteMode, amount: int) -> list[int]:
    """The source byte of each byte of the result, in a mode that uses two bits of the selector."""
    places = range(_BYTES)
    match mode:
        case PermuteMode.F4E:
            return [amount + place for place in places]
        case PermuteMode.B4E:
            return [(amount - place) % _SOURCES for place in places]
        case PermuteMode.RC8:
            return [amount] * _BYTES
        case PermuteMode.ECL:
            return [max(amount, place) for place in places]
        case PermuteMode.ECR:
            return [min(amount, place) for place in places]
        case PermuteMode.RC16:
            return [2 * (amount & 1) + (place & 1) for place in places]
        case _:
            return [0] * _BYTES


def byte_picks(mode: Value, selector: Value) -> Value:
    """Four bits for each byte of the result: the number of its source, and whether only its sign is
    repeated.

    ``mode`` is a code of PermuteMode, ``selector`` operand b.
    """
    rows = [
        sum(pick << 4 * place for place, pick in enumerate(fixed_picks(kind, amount)))
        for kind in PermuteMode for amount in range(_BYTES)]
    fixed = Array(Const(row, 16) for row in rows)[Cat(selector[:2], mode)]
    return Mux(mode == PermuteMode.INDEX, selector[:16], fixed)


def permuted(m: Module, picks: Value, low: Value, high: Value) -> Value:
    """The bytes of a pair of words that :func:`byte_picks` names."""
    pair = Cat(low, high)
    result: list[Value] = []
    for place in range(_BYTES):
        pick = picks.word_select(place, 4)
        byte = Signal(8, name=f"byte_{place}")
        m.d.comb += byte.eq(pair.word_select(pick[:3], 8))
        result.append(Mux(pick[3], byte[7].replicate(8), byte))
    return Cat(result)
