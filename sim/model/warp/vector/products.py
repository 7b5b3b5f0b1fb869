"""Products: of half words with an addend (XMAD), of words (IMUL, IMAD)."""

import numpy as np

from rtl.isa.fields import PLUS_ONE
from rtl.isa.kinds import ProductAddend
from rtl.isa.syntax import Values

from .addition import extended_addend, negated, sum_of
from .lanes import Doubles, LaneOutcome, Sources, Words, doubles

__all__ = ["imad", "imul", "xmad"]

_HALF = np.uint32(0xFFFF)
_HALF_BITS = np.uint32(16)


def _factor(word: Words, high: int, signed: int) -> Words:
    """Returns a half of a word, extended to 32 bits."""
    half = word >> _HALF_BITS if high else word & _HALF
    return (
        half.astype(np.uint16).view(np.int16).astype(np.int32).view(np.uint32) if signed else half
    )


def _signed_fixup(a: Words, b: Words, factor_a: Words, factor_b: Words) -> Words:
    """Returns the number that the CSFU addend subtracts from c: 0x10000 for each negative factor
    whose partner's low half is not 0.

    The last step of a signed 32-bit high product adds the two middle products as unsigned numbers;
    each negative one then carries one too many into the high half. A middle product is negative
    when its signed factor is negative and the other factor, a low half, is not 0 (ours, forced by
    that sequence).
    """
    surplus = ((factor_a.view(np.int32) < 0) & (b & _HALF != 0)).astype(np.uint32)
    surplus += (factor_b.view(np.int32) < 0) & (a & _HALF != 0)
    return surplus << _HALF_BITS


def xmad(sources: Sources, values: Values) -> LaneOutcome:
    """XMAD: the product of a half of a and a half of b, shifted by a half word with ``.PSL``, plus
    an addend made of c.

    ``.MRG`` then replaces the upper half of the result by b's low half. C and O are those of the
    sum, Z and S those of the result (ours).
    """
    signs, addend = values["signs"], values["addend"]
    high_a, high_b = values["high_a"], values.get("high_b", 0)
    product_high, merge = values.get("product_high", 0), values.get("merge", 0)
    flags, plus = bool(values["cc"]), extended_addend(sources, values, 0)
    a, b, c = sources.a, sources.b, sources.c
    factor_a, factor_b = _factor(a, high_a, signs & 1), _factor(b, high_b, signs & 2)
    product = factor_a * factor_b
    if product_high:
        product <<= _HALF_BITS
    if addend == ProductAddend.CLO.value:
        c = c & _HALF
    elif addend == ProductAddend.CHI.value:
        c = c >> _HALF_BITS
    elif addend == ProductAddend.CSFU.value:
        c = c - _signed_fixup(a, b, factor_a, factor_b)
    elif addend == ProductAddend.CBCC.value:
        c = c + (b << _HALF_BITS)
    outcome = sum_of((product, c), plus, flags)
    if merge and outcome.value is not None:
        outcome.value = outcome.value & _HALF | b << _HALF_BITS
    return outcome


def _product(sources: Sources, values: Values) -> Doubles:
    """Returns the 64-bit product of a and b, each signed or not."""
    signed_a, signed_b = bool(values["signs"] & 1), bool(values["signs"] & 2)
    return doubles(sources.a, signed_a) * doubles(sources.b, signed_b)


def _part(values: Values, product: Doubles) -> Words:
    """Returns the high or the low word of a product."""
    return (product >> np.uint64(32) if values["high"] else product).astype(np.uint32)


def imul(sources: Sources, values: Values) -> LaneOutcome:
    """IMUL and IMUL32I: one word of the product. C and O are clear (ours)."""
    product = _product(sources, values)
    return LaneOutcome(_part(values, product))


def imad(sources: Sources, values: Values) -> LaneOutcome:
    """IMAD and IMAD32I: one word of the product, or of its negative, + c.

    A negative product is the complement of all its 64 bits plus one, which reaches the high word
    only if the low one was 0; ``.X`` omits that one as in a sum. Flags are those of the last sum;
    ``.SAT`` saturates it as a signed sum, whatever the types of the factors (ours).
    """
    plus_one = values["plus_one"] == PLUS_ONE
    negate_c, negate_product = (0, 0) if plus_one else (values["negate_c"], values["negate_ab"])
    product = _product(sources, values)
    plus = extended_addend(sources, values, negate_c + plus_one)
    flags, saturate = bool(values["cc"]), bool(values.get("saturate", 0))
    completes = negate_product and not values.get("extended")
    low_word = np.uint64(0xFFFF_FFFF if values["high"] else 0)
    if completes:
        plus = plus + (product & low_word == 0)
    term = _part(values, ~product if negate_product else product)
    return sum_of((term, negated(sources.c, negate_c)), plus, flags, saturate)
