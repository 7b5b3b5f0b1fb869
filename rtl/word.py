"""How decoders read an instruction word by the instruction table."""

from collections.abc import Collection

from amaranth.hdl import Cat, Value

from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.syntax import WORD_BITS, Field, Form

__all__ = ["field_of", "instruction_address", "pattern_of", "telling_patterns"]


def field_of(word: Value, field: Field) -> Value:
    """A field of the word, as it is encoded: without its scale."""
    value = Cat(word[lowest:lowest + width] for lowest, width in field.pieces)
    return value.as_signed() if field.signed else value


def pattern_of(form: Form) -> str:
    """The form's fixed bits, as a pattern for a Case of a Switch over the word."""
    return _pattern(form.match, form.mask)


def telling_patterns(forms: Collection[Form], others: Collection[Form]) -> tuple[str, ...]:
    """Patterns of few bits that match every word of ``forms`` and no word of ``others``. They may
    match words that belong to neither."""
    patterns = []
    unmatched = list(forms)
    while unmatched:
        match, mask = _telling_bits(unmatched, others)
        patterns.append(_pattern(match, mask))
        unmatched = [form for form in unmatched if _may_differ(form, match, mask)]
    return tuple(patterns)


def _telling_bits(forms: Collection[Form], others: Collection[Form]) -> tuple[int, int]:
    """Fixed bits of the first form that none of the others has, as match and mask. Bits are added
    one by one: each time the one that excludes the most others, and the fewest of ``forms``. Then
    patterns that later ones made redundant are removed."""
    first, *_ = forms
    match = mask = 0

    def added(bit: int) -> tuple[int, int]:
        return match | first.match & bit, mask | bit

    while not_excluded := [each for each in others if not _excludes(each, match, mask)]:
        matched = [form for form in forms if not _may_differ(form, match, mask)]

        def gain(bit: int, not_excluded: Collection[Form] = not_excluded,
                 matched: Collection[Form] = matched) -> tuple[int, int]:
            value = first.match & bit
            excluded = sum(_excludes(other, value, bit) for other in not_excluded)
            still_matched = sum(not _may_differ(form, value, bit) for form in matched)
            return excluded * still_matched, bit

        match, mask = added(max(_bits_of(first.mask & ~mask), key=gain))
    for bit in _bits_of(mask):
        if all(_excludes(other, match, mask & ~bit) for other in others):
            match &= ~bit
            mask &= ~bit
    return match, mask


def _bits_of(mask: int) -> list[int]:
    """The bits of a mask, each as a mask, the lowest first."""
    return [1 << place for place in range(WORD_BITS) if mask >> place & 1]


def _excludes(form: Form, match: int, mask: int) -> bool:
    """Whether no word of the form has these bits."""
    return bool((form.match ^ match) & form.mask & mask)


def _may_differ(form: Form, match: int, mask: int) -> bool:
    """Whether some word of the form does not have these bits."""
    return bool(mask & ~form.mask or (form.match ^ match) & mask)


def _pattern(match: int, mask: int) -> str:
    digits = (str(match >> bit & 1) if mask >> bit & 1 else "-" for bit in range(WORD_BITS))
    return "".join(digits)[::-1]


def instruction_address(pc: Value) -> Value:
    """An instruction's own address, for a pc that may be its group's: the group begins with the
    control code, and its first instruction follows."""
    aligned_bits = (INSTRUCTION_BYTES - 1).bit_length()
    number_is_0 = ~(pc[aligned_bits] | pc[aligned_bits + 1])
    return Cat(pc[:aligned_bits], pc[aligned_bits] | number_is_0, pc[aligned_bits + 1:])
