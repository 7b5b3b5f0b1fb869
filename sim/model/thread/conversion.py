"""Integer and floating-point conversions, and bit counts.

Choices of this project where no public page has a rule: a result of 8 or 16 bits is sign- or
zero-extended to the register according to its type. NaN becomes 0 as an integer, except from 64-bit
floats or to 64-bit integers, where it becomes the number with only the top bit set (PTX's rule).
CC's zero flag is that of the whole result, its sign flag that of the upper word. A NaN in any
destination format is all ones but for the sign, or +0 with .SAT. F2F rounds before a subnormal
result is flushed; .FTZ affects single precision only (PTX's rule, too).
"""

from rtl.isa.kinds import FloatFormat

from .decode import Result, ThreadInstruction, result_of, semantics
from .floats import (
    DOUBLE,
    HALF,
    SINGLE,
    Format,
    Rounding,
    Special,
    decode,
    encode,
    infinity,
    not_a_number,
    round_to_integer,
)
from .integers import SIGN, TOP, WORD, ZERO, signed
from .state import Operation, Thread

__all__ = ["write_wide"]

_FORMATS = {
    FloatFormat.F16.value: HALF,
    FloatFormat.F32.value: SINGLE,
    FloatFormat.F64.value: DOUBLE,
}
_SIGNED_TYPE = 4


def _integer_bits(field: int) -> tuple[int, bool]:
    """Returns the width in bits and the signedness of a type field."""
    return 8 << (field & 3), bool(field & _SIGNED_TYPE)


@result_of("POPC")
def _count_ones(i: ThreadInstruction) -> Result:
    b, invert = i.source("b"), WORD if i["invert_b"] else 0

    def compute(thread: Thread) -> int:
        return (thread.values[b] ^ invert).bit_count()

    return compute


@result_of("FLO")
def _find_leading_one(i: ThreadInstruction) -> Result:
    """Returns the position of the highest one bit (of a negative number, the highest zero bit), or
    with .SH its distance from the top.
    """
    b, invert = i.source("b"), WORD if i["invert_b"] else 0
    is_signed, from_top = i["signed"], i["shift"]

    def compute(thread: Thread) -> int:
        value = thread.values[b] ^ invert
        if is_signed and value & TOP:
            value ^= WORD
        position = value.bit_length() - 1
        return WORD if position < 0 else 31 - position if from_top else position

    return compute


class _IntegerSource:
    """The integer operand of I2I and I2F: a byte, half, word or pair of words, optionally made
    absolute and negated.
    """

    def __init__(self, i: ThreadInstruction) -> None:
        self.bits, self.signed = _integer_bits(i["source"])
        self.words = i.sources("b", 2 if self.bits == 64 else 1)
        self.shift = 8 * i["part"] if self.bits < 32 else 0
        self.absolute, self.negate = i["absolute_b"], i["negate_b"]

    def get(self, thread: Thread) -> int:
        """Returns the operand's value in a thread."""
        value = (
            sum(thread.values[at] << 32 * number for number, at in enumerate(self.words))
            >> self.shift
        )
        value = signed(value, self.bits) if self.signed else value & (1 << self.bits) - 1
        if self.absolute:
            value = abs(value)
        return -value if self.negate else value


@result_of("I2I")
def _integer_to_integer(i: ThreadInstruction) -> Result:
    source, saturate = _IntegerSource(i), i["saturate"]
    bits, is_signed = _integer_bits(i["destination"])
    lowest, highest = (-1 << bits - 1, (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)

    def compute(thread: Thread) -> int:
        value = source.get(thread)
        if saturate:
            value = min(max(value, lowest), highest)
        value = signed(value, bits) if is_signed else value & (1 << bits) - 1
        return value & WORD

    return compute


def write_wide(thread: Thread, registers: list[int], value: int, set_cc: int) -> None:
    """Writes a result of one or two registers, and its CC."""
    for number, at in enumerate(registers):
        thread.values[at] = value >> 32 * number & WORD
    if set_cc:
        width = 32 * len(registers)
        thread.condition = (0 if value & (1 << width) - 1 else ZERO) | (
            SIGN if value >> width - 1 & 1 else 0
        )


@semantics("I2F")
def _integer_to_float(i: ThreadInstruction) -> Operation:
    form = _FORMATS[i["destination"]]
    source, set_cc, rounding = _IntegerSource(i), i["cc"], Rounding(i["round"])
    places = i.destinations(max(1, form.bits // 32))

    def operation(thread: Thread) -> None:
        value = source.get(thread)
        write_wide(thread, places, encode(value < 0, abs(value), 0, form, rounding), set_cc)

    return operation


class _FloatSource:
    """The floating-point operand of F2I and F2F: a half, word or pair of words, optionally made
    absolute and negated.
    """

    def __init__(self, i: ThreadInstruction) -> None:
        self.form: Format = _FORMATS[i["source"]]
        self.words = i.sources("b", max(1, self.form.bits // 32))
        self.shift, self.kept = 16 * i["part"], (1 << self.form.bits) - 1
        self.flush = i["flush"] and self.form is SINGLE
        self.absolute, self.negate = i["absolute_b"], i["negate_b"]

    def get(self, thread: Thread) -> tuple[bool, tuple[int, int] | Special]:
        """Returns the operand's sign, and its mantissa and exponent or the Special that it is."""
        bits = (
            sum(thread.values[at] << 32 * place for place, at in enumerate(self.words))
            >> self.shift
            & self.kept
        )
        number = decode(bits, self.form)
        negative = (number[0] and not self.absolute) != bool(self.negate)
        if len(number) == 2:
            return negative, number[1]
        return negative, (
            0 if self.flush and not number[1] >> self.form.fraction else number[1],
            number[2],
        )


@semantics("F2F")
def _float_to_float(i: ThreadInstruction) -> Operation:
    form, source = _FORMATS[i["destination"]], _FloatSource(i)
    places, set_cc = i.destinations(max(1, form.bits // 32)), i["cc"]
    rounding, whole, saturate = Rounding(i["round"]), i["whole"], i["saturate"]
    one, smallest = (
        encode(False, 1, 0, form, rounding),
        encode(False, 1, 1 - form.bias, form, rounding),
    )
    flush = i["flush"] and form is SINGLE

    def compute(thread: Thread) -> int:
        negative, number = source.get(thread)
        if saturate and (negative or number is Special.NAN):
            return 0
        if number is Special.NAN:
            return not_a_number(form)
        if isinstance(number, Special):
            return one if saturate else infinity(negative, form)
        mantissa, exponent = number
        if whole:
            mantissa, exponent = (
                abs(round_to_integer(negative, mantissa, exponent, Rounding(whole & 3))),
                0,
            )
        result = encode(negative, mantissa, exponent, form, rounding)
        magnitude = result & ~(1 << form.bits - 1)
        if flush and magnitude < smallest:
            result ^= magnitude
        return min(result, one) if saturate else result

    return lambda thread: write_wide(thread, places, compute(thread), set_cc)


@semantics("F2I")
def _float_to_integer(i: ThreadInstruction) -> Operation:
    source, set_cc = _FloatSource(i), i["cc"]
    bits, is_signed = _integer_bits(i["destination"])
    places = i.destinations(2 if bits == 64 else 1)
    lowest, highest = (-1 << bits - 1, (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    top_bit_alone = lowest if is_signed else 1 << bits - 1
    no_number = top_bit_alone if bits == 64 or source.form is DOUBLE else 0
    rounding = Rounding(i["round"])

    def operation(thread: Thread) -> None:
        negative, number = source.get(thread)
        if number is Special.NAN:
            value = no_number
        elif isinstance(number, Special):
            value = lowest if negative else highest
        else:
            value = min(max(round_to_integer(negative, *number, rounding), lowest), highest)
        write_wide(thread, places, value & (1 << 32 * len(places)) - 1, set_cc)

    return operation
