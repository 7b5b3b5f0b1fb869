"""Prints an instruction word as NVIDIA's disassembler does."""

from collections.abc import Callable
from dataclasses import dataclass

from rtl.isa.condition import TEST_TEXTS, ConditionCode
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.fields import PLUS_ONE
from rtl.isa.syntax import (
    PT,
    RZ,
    Address,
    Adjust,
    Choice,
    ConditionTest,
    Constant,
    Form,
    Immediate,
    Literal,
    Operand,
    Predicate,
    Register,
    ScoreboardSet,
    Target,
    Values,
)
from rtl.isa.table import find

from .float_text import real_text

__all__ = ["ILLEGAL", "hexadecimal", "spell"]

ILLEGAL = "ILLEGAL"
"""The text of a word that the machine refuses."""
_WHOLE = 32


def hexadecimal(value: int) -> str:
    """Returns a signed number as the disassembler prints it."""
    return f"{value:#x}"


def spell(
    word: int,
    address: int = 0,
    reuse: int = 0,
    target_text: Callable[[int], str] = hexadecimal,
    number_text: str | None = None,
) -> str:
    """Returns the text of ``word``, without the semicolon.

    Args:
        word: The instruction word.
        address: The address of the instruction.
        reuse: The reuse bits of its control code.
        target_text: Returns the text of a branch target.
        number_text: The text that replaces a 32-bit number, an absolute target, or the offset of an
            indexed one.
    """
    form = find(word)
    if form is None:
        return ILLEGAL
    values = form.values(word)
    if form.refuses(values):
        return ILLEGAL
    mnemonic = (
        _guard(values) + form.name + "".join(m.texts[values[m.field]] for m in form.modifiers)
    )
    context = _Context(address, reuse, target_text, number_text)
    operands = [
        text
        for operand in form.operands.values()
        if (text := _operand(form, operand, values, context))
    ]
    glued = any(
        isinstance(operand, Address) and operand.glued for operand in form.operands.values()
    )
    return mnemonic + ("" if glued or not operands else " ") + ", ".join(operands).rstrip()


def _guard(values: Values) -> str:
    if "guard" not in values or (values["guard"] == PT and not values["guard_not"]):
        return ""
    return f"@{'!' * values['guard_not']}{predicate(values['guard'])} "


def register(number: int) -> str:
    """Returns a register's name."""
    return "RZ" if number == RZ else f"R{number}"


def predicate(number: int) -> str:
    """Returns a predicate's name."""
    return "PT" if number == PT else f"P{number}"


@dataclass(frozen=True)
class _Context:
    """The context of an operand's text, besides the word."""

    address: int
    reuse: int
    target_text: Callable[[int], str]
    number_text: str | None


def _operand(form: Form, operand: Operand, values: Values, context: _Context) -> str:
    match operand:
        case Register():
            return _register(operand, values, context.reuse)
        case Predicate(field, _, negate, optional):
            text = ("!" if negate and values[negate] else "") + predicate(values[field])
            return "" if optional and text == "PT" else text
        case Constant():
            return _constant(operand, values)
        case Immediate():
            whole = form.fields[operand.field].width == _WHOLE
            return (
                context.number_text
                if whole and context.number_text
                else _immediate(operand, values)
            )
        case Address():
            return _address(form, operand, values)
        case Target():
            return _target(operand, values, context)
        case Choice(field, texts, default):
            return "" if values[field] == default else texts[values[field]]
        case ConditionTest(field):
            return (
                "" if values[field] == ConditionCode.T.value else f"CC.{TEST_TEXTS[values[field]]}"
            )
        case Literal(text):
            return text
        case ScoreboardSet(field):
            members = [
                str(bit)
                for bit in reversed(range(form.fields[field].width))
                if values[field] >> bit & 1
            ]
            return "{" + ",".join(members) + "}" if members else ""


def _negated(adjust: Adjust, values: Values) -> bool:
    """Whether a minus is printed: two negations encode an added one instead."""
    return (
        adjust.negate is not None
        and bool(values[adjust.negate])
        and values.get("plus_one") != PLUS_ONE
    )


def _adjusted(text: str, adjust: Adjust, values: Values) -> str:
    """Returns the text of a register or constant with its modifiers."""
    if adjust.select is not None:
        text += adjust.part_texts(values)[values[adjust.select]]
    if adjust.absolute is not None and values[adjust.absolute]:
        text = f"|{text}|"
    if adjust.invert is not None and values[adjust.invert]:
        text = f"~{text}"
    return f"-{text}" if _negated(adjust, values) else text


def _register(operand: Register, values: Values, reuse: int) -> str:
    number = values[operand.field]
    if operand.optional and number == RZ:
        return ""
    if number != RZ:
        number += operand.offset(values) if callable(operand.offset) else operand.offset
    text = _adjusted(register(number), operand.adjust, values)
    if operand.set_cc is not None and values[operand.set_cc]:
        text += ".CC"
    if operand.reuse is not None and reuse >> operand.reuse & 1:
        text += ".reuse"
    return text


def _constant(operand: Constant, values: Values) -> str:
    inner = hexadecimal(values[operand.offset])
    if operand.index is not None and values[operand.index] != RZ:
        inner = _sum(register(values[operand.index]), values[operand.offset])
    text = f"c[{values[operand.bank]:#x}]{' ' * operand.spaced}[{inner}]"
    return _adjusted(text, operand.adjust, values)


def _immediate(operand: Immediate, values: Values) -> str:
    value = values[operand.field]
    if value == operand.default:
        return ""
    text = real_text(value, operand.real) if operand.real else _integer(operand, value, values)
    adjust = operand.adjust
    negated = _negated(adjust, values)
    suffix = ".NEG" * (negated and not operand.minus)
    suffix += ".ABS" * (adjust.absolute is not None and values[adjust.absolute])
    suffix += ".INV" * (adjust.invert is not None and values[adjust.invert])
    text = "-" * (negated and operand.minus) + text
    return (
        text
        + suffix
        + (adjust.part_texts(values)[values[adjust.select]] if adjust.select is not None else "")
    )


def _integer(operand: Immediate, value: int, values: Values) -> str:
    if operand.bits is not None:
        value &= (1 << operand.bits) - 1
        if (
            operand.signed_if is not None
            and operand.signed_if(values)
            and value >> operand.bits - 1
        ):
            value -= 1 << operand.bits
    return hexadecimal(value)


def _sum(base: str, offset: int) -> str:
    return f"{base}+{hexadecimal(offset)}" if offset else base


def _address(form: Form, operand: Address, values: Values) -> str:
    number, offset = values[operand.register], values[operand.offset]
    if number == RZ and offset:
        field = form.fields[operand.offset]
        return f"[{hexadecimal(offset % (field.scale << field.width))}]"
    return f"[{_sum(register(number), offset)}]"


def _target(operand: Target, values: Values, context: _Context) -> str:
    offset = values[operand.field]
    if operand.index is not None:
        text = context.number_text or (hexadecimal(offset) if offset else "")
        return f"{register(values[operand.index])} {text}".rstrip()
    if operand.relative:
        return context.target_text(offset + context.address + INSTRUCTION_BYTES)
    return context.number_text or context.target_text(offset)
