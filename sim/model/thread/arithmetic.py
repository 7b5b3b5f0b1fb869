"""Sums, products and scaled addresses.

No public page defines the following. They are choices of this project unless compiled code forces
them:

- An extended (.X) instruction adds CC's carry in place of the ones that negations add; so ``-b``
  contributes ``~b``, as a borrow needs.
- A saturated sum is signed: on overflow it is clamped to the nearest bound. Its CC has the zero and
  sign flags of the written result, and the carry and overflow of the sum.
- CC of a product is that of its last addition; IMUL, which has no addition, sets only zero and
  sign.
- XMAD's CSFU subtracts 1 << 16 from the third operand for each factor that is negative while the
  low half of the other register is not zero. The sequence in which the assembler uses it, the upper
  half of a signed product, forces this: IADD3.RS adds the two middle products as unsigned numbers,
  and the subtraction corrects the result.
- IADD3 sets carry if the sum carried, and overflow if it carried twice; IADD3.X adds both. NVIDIA's
  assembler adds three 64-bit numbers with IADD3.CC and IADD3.X, which requires a carry of 2.
- LEA's predicate result is 1 when the address lies outside the windows of shared and local memory.
  LEA.HI takes the address's upper half from its result and the lower half from its first operand.
"""

from rtl.isa.fields import PLUS_ONE
from rtl.isa.kinds import HalfSelect, ProductAddend, SumShift
from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES

from .decode import ThreadInstruction, semantics
from .integers import (
    CARRY,
    HALF,
    OVERFLOW,
    TOP,
    WORD,
    carry_in,
    flags_of_result,
    flags_of_sum,
    signed,
)
from .state import Operation, Thread

__all__: list[str] = []


def _complement(negated: int) -> int:
    """Returns the XOR mask that complements a negated source. The one that completes the negation
    is added separately.
    """
    return WORD if negated else 0


def _saturated(total: int, overflow: bool) -> int:
    """Returns the low word of a sum, or on overflow the signed bound that it exceeded."""
    if not overflow:
        return total & WORD
    return TOP - 1 if total & TOP else TOP


@semantics("IADD", "IADD32I", "ISCADD", "ISCADD32I", "LEA")
def _add(i: ThreadInstruction) -> Operation:
    """Computes d = (a << shift) + b; one of them may be negated, or one be added."""
    d, a, b, shift = i.destination(), i.source("a"), i.source("b"), i["shift"]
    plus_one = i["plus_one"] == PLUS_ONE
    invert_a, invert_b = (
        _complement(i[name] and not plus_one) for name in ("negate_a", "negate_b")
    )
    one = 1 if plus_one or invert_a or invert_b else 0
    extended, saturate, set_cc = i["extended"], i["saturate"], i["cc"]
    outside = i.predicate_destination("p") if "p" in i.form.operands else None

    def plain(thread: Thread) -> None:
        values = thread.values
        values[d] = ((values[a] << shift ^ invert_a) + (values[b] ^ invert_b) + one) & WORD

    def full(thread: Thread) -> None:
        values = thread.values
        x, y = values[a] << shift & WORD ^ invert_a, values[b] ^ invert_b
        total = x + y + (carry_in(thread.condition) if extended else one)
        result = _saturated(total, bool(saturate and (x ^ total) & (y ^ total) & TOP))
        values[d] = result
        if outside is not None:
            thread.predicates[outside] = _outside_windows(result)
        if set_cc:
            thread.condition = flags_of_sum(x, y, total, result)

    return full if extended or saturate or set_cc or outside is not None else plain


def _outside_windows(address: int) -> int:
    """Returns 1 if a generic address lies outside the shared and local windows, else 0."""
    return (
        0
        if any(base <= address < base + WINDOW_BYTES for base in (SHARED_WINDOW, LOCAL_WINDOW))
        else 1
    )


@semantics("LEA.HI")
def _address_high(i: ThreadInstruction) -> Operation:
    """Computes d = upper word of ({c, a} << shift) + b."""
    d, a, b, c, shift = i.destination(), i.source("a"), i.source("b"), i.source("c"), i["shift"]
    negate, extended, set_cc = i["negate_a"], i["extended"], i["cc"]
    outside = i.predicate_destination("p")

    def operation(thread: Thread) -> None:
        values = thread.values
        scaled = (values[c] << 32 | values[a]) << shift
        if negate:
            # The carry of LEA.CC is the one that completes the negation of the pair.
            scaled = ~scaled if extended else -scaled
        x, y = scaled >> 32 & WORD, values[b]
        total = x + y + (carry_in(thread.condition) if extended else 0)
        result = total & WORD
        values[d] = result
        thread.predicates[outside] = _outside_windows(result << 32 | scaled & WORD)
        if set_cc:
            thread.condition = flags_of_sum(x, y, total, result)

    return operation


@semantics("IADD3")
def _add_three(i: ThreadInstruction) -> Operation:
    """Computes d = a + b, optionally shifted by 16 bits, + c."""
    d, a, b, c = i.destination(), i.source("a"), i.source("b"), i.source("c")
    halves = tuple(HalfSelect(i[f"half_{role}"]) for role in "abc")
    inverts = tuple(_complement(i[f"negate_{role}"]) for role in "abc")
    extended, set_cc, shift = i["extended"], i["cc"], SumShift(i["shift"])
    ones_ab, one_c = sum(1 for invert in inverts[:2] if invert), 1 if inverts[2] else 0

    def part(value: int, half: HalfSelect, invert: int) -> int:
        if half is HalfSelect.H0:
            value &= HALF
        elif half is HalfSelect.H1:
            value >>= 16
        return value ^ invert

    def full(thread: Thread) -> None:
        values = thread.values
        x, y, z = (
            part(values[at], half, invert)
            for at, half, invert in zip((a, b, c), halves, inverts, strict=True)
        )
        condition = thread.condition
        first = x + y + (0 if extended else ones_ab)
        carry = carry_in(condition) + (1 if condition & OVERFLOW else 0) if extended else one_c
        if shift is SumShift.RS:
            first = first >> 16 & 0x1_FFFF
        elif shift is SumShift.LS:
            first = first << 16 & WORD
        total = first + z + carry
        result = total & WORD
        values[d] = result
        if set_cc:
            thread.condition = (
                flags_of_result(result)
                | (CARRY if total >> 32 else 0)
                | (OVERFLOW if total >> 33 else 0)
            )

    def plain(thread: Thread) -> None:
        values = thread.values
        values[d] = (values[a] + values[b] + values[c]) & WORD

    simple = (
        shift is SumShift.NONE
        and not (any(inverts) or extended or set_cc)
        and set(halves) == {HalfSelect.WORD}
    )
    return plain if simple else full


def _product_addend(
    addend: ProductAddend, value: int, whole_a: int, whole_b: int, negatives: tuple[bool, bool]
) -> int:
    """What XMAD adds to the product: operand c, ``value``, as its mode selects it. ``negatives``: the sign of each
    factor."""
    match addend:
        case ProductAddend.CLO:
            return value & HALF
        case ProductAddend.CHI:
            return value >> 16
        case ProductAddend.CBCC:
            return value + (whole_b << 16) & WORD
        case ProductAddend.CSFU:
            negative_a, negative_b = negatives
            wrong = (negative_a and whole_b & HALF != 0) + (negative_b and whole_a & HALF != 0)
            return value - (wrong << 16) & WORD
        case _:
            return value


@semantics("XMAD")
def _multiply_halves(i: ThreadInstruction) -> Operation:
    """Computes d = a half of a * a half of b + c; the mode transforms the addend and the result."""
    d, a, b, c = i.destination(), i.source("a"), i.source("b"), i.source("c")
    shift_a, shift_b = 16 * i["high_a"], 16 * i["high_b"]
    sign_a, sign_b = i["signs"] & 1, i["signs"] >> 1
    product_shift, merge, extended, set_cc = (
        16 * i["product_high"],
        i["merge"],
        i["extended"],
        i["cc"],
    )
    addend = ProductAddend(i["addend"])

    def full(thread: Thread) -> None:
        values = thread.values
        whole_a, whole_b = values[a], values[b]
        x, y = whole_a >> shift_a & HALF, whole_b >> shift_b & HALF
        if sign_a:
            x = signed(x, 16)
        if sign_b:
            y = signed(y, 16)
        product = x * y << product_shift & WORD
        z = _product_addend(addend, values[c], whole_a, whole_b, (x < 0, y < 0))
        total = product + z + (carry_in(thread.condition) if extended else 0)
        result = total & WORD
        if merge:
            result = result & HALF | whole_b << 16 & WORD
        values[d] = result
        if set_cc:
            thread.condition = flags_of_sum(product, z, total, result)

    def plain(thread: Thread) -> None:
        values = thread.values
        values[d] = (
            ((values[a] >> shift_a & HALF) * (values[b] >> shift_b & HALF) << product_shift)
            + values[c]
        ) & WORD

    def half(thread: Thread) -> None:
        values = thread.values
        values[d] = (
            ((values[a] >> shift_a & HALF) * (values[b] >> shift_b & HALF) << product_shift)
            + (values[c] >> 16)
        ) & WORD

    if i["signs"] or merge or extended or set_cc:
        return full
    return {ProductAddend.C: plain, ProductAddend.CHI: half}.get(addend, full)


@semantics("IMUL", "IMUL32I", "IMAD", "IMAD32I")
def _multiply(i: ThreadInstruction) -> Operation:
    """Computes d = lower or upper word of a * b, optionally negated, + c."""
    d, a, b = i.destination(), i.source("a"), i.source("b")
    c = i.source("c") if "c" in i.form.operands else None
    high, sign_a, sign_b = i["high"], i["signs"] & 1, i["signs"] >> 1
    plus_one = i["plus_one"] == PLUS_ONE
    negate_product, invert_c = (
        i["negate_ab"] and not plus_one,
        _complement(i["negate_c"] and not plus_one),
    )
    extended, saturate, set_cc = i["extended"], i["saturate"], i["cc"]

    def half_product(values: list[int]) -> tuple[int, int]:
        """Returns the selected word of the product, complemented if it is negated, and the one to
        add.
        """
        x, y = values[a], values[b]
        product = (signed(x) if sign_a else x) * (signed(y) if sign_b else y)
        half = product >> 32 & WORD if high else product & WORD
        if not negate_product:
            return half, 0
        return half ^ WORD, 1 if not high or product & WORD == 0 else 0

    def full(thread: Thread) -> None:
        values = thread.values
        x, one = half_product(values)
        if c is None:
            values[d] = x
            if set_cc:
                thread.condition = flags_of_result(x)
            return
        y = values[c] ^ invert_c
        one += 1 if invert_c or plus_one else 0
        total = x + y + (carry_in(thread.condition) if extended else one)
        result = _saturated(total, bool(saturate and (x ^ total) & (y ^ total) & TOP))
        values[d] = result
        if set_cc:
            thread.condition = flags_of_sum(x, y, total, result)

    return full
