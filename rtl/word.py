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
    """Patterns of few bits that match every word of ``forms`` and no word of ``others``. What they do with words that
    are neither is not said."""
    patterns, left = [], list(forms)
    while left:
        match, mask = _telling_bits(left, others)
        patterns.append(_pattern(match, mask))
        left = [form for form in left if _differs(form, match, mask)]
    return tuple(patterns)


def _telling_bits(forms: Collection[Form], others: Collection[Form]) -> tuple[int, int]:
    """Fixed bits of the first form that none of the others has, as match and mask. Of its bits that one comes next in
    which the most others differ, and the most of ``forms`` do not."""
    first, *_ = forms
    match = mask = 0
    while strangers := [other for other in others if not _excludes(other, match, mask)]:
        alike = [form for form in forms if not _differs(form, match, mask)]

        def gain(bit: int, strangers: Collection[Form] = strangers, alike: Collection[Form] = alike) -> tuple[int, int]:
            told = sum(_excludes(other, first.match & bit, bit) for other in strangers)
            return told * sum(not _differs(form, first.match & bit, bit) for form in alike), bit

        best = max((1 << place for place in range(WORD_BITS) if (first.mask & ~mask) >> place & 1), key=gain)
        match, mask = match | first.match & best, mask | best
    for bit in (1 << place for place in range(WORD_BITS) if mask >> place & 1):
        if all(_excludes(other, match, mask & ~bit) for other in others):
            match, mask = match & ~bit, mask & ~bit
    return match, mask


def _excludes(form: Form, match: int, mask: int) -> bool:
    """Whether no word of the form has these bits."""
    return bool((form.match ^ match) & form.mask & mask)


def _differs(form: Form, match: int, mask: int) -> bool:
    """Whether a word of the form may be without these bits."""
    return bool(mask & ~form.mask or (form.match ^ match) & mask)


def _pattern(match: int, mask: int) -> str:
    return "".join(str(match >> bit & 1) if mask >> bit & 1 else "-" for bit in reversed(range(WORD_BITS)))


def instruction_address(pc: Value) -> Value:
    """An instruction's own address, for a pc that may be its group's."""
    at = (INSTRUCTION_BYTES - 1).bit_length()
    return Cat(pc[:at], pc[at] | ~pc[at + 1], pc[at + 1:])
