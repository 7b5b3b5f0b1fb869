"""Numbers narrower than a word: where they are in it, and how they leave it."""

from amaranth.hdl import Mux, Value

__all__ = ["byte_mask", "extended", "repeated"]


def extended(word: Value, byte: Value, size: Value, signed: Value) -> Value:
    """What a load of ``1 << size`` bytes from ``byte`` on makes of a word; the whole word for four bytes or more."""
    shifted = word >> (byte << 3)
    octet, half = shifted[:8], shifted[:16]
    return Mux(size >= 2, word, Mux(
        size == 1, half | _sign(half, signed) << 16, octet | _sign(octet, signed, 24) << 8))[:32]


def _sign(number: Value, signed: Value, bits: int = 16) -> Value:
    return (number[-1] & signed).replicate(bits)


def repeated(word: Value, size: Value) -> Value:
    """A word in which every place that a number of ``1 << size`` bytes can have holds the number."""
    return Mux(size >= 2, word, Mux(size == 1, word[:16].replicate(2), word[:8].replicate(4)))


def byte_mask(byte: Value, size: Value) -> Value:
    """The bytes of its word that a number of ``1 << size`` bytes at ``byte`` takes, as four bits."""
    return (Mux(size >= 2, 15, Mux(size == 1, 3, 1)) << byte)[:4]
