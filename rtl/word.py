"""How decoders read an instruction word by the instruction table."""

from amaranth.hdl import Cat, Value

from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.syntax import WORD_BITS, Field, Form

__all__ = ["field_of", "instruction_address", "pattern_of"]


def field_of(word: Value, field: Field) -> Value:
    """A field of the word, as it is encoded: without its scale."""
    value = Cat(word[lowest:lowest + width] for lowest, width in field.pieces)
    return value.as_signed() if field.signed else value


def pattern_of(form: Form) -> str:
    """The form's fixed bits, as a pattern for a Case of a Switch over the word."""
    return "".join(str(form.match >> bit & 1) if form.mask >> bit & 1 else "-" for bit in reversed(range(WORD_BITS)))


def instruction_address(pc: Value) -> Value:
    """An instruction's own address, for a pc that may be its group's."""
    at = (INSTRUCTION_BYTES - 1).bit_length()
    return Cat(pc[:at], pc[at] | ~pc[at + 1], pc[at + 1:])
