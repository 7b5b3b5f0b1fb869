"""Builds statements of the assembler without text: those that a compiler emits besides encoded
words.

They are the nodes that :func:`sim.toolchain.assembly.source.parse` returns for the same text;
``str`` returns that text.
"""

from collections.abc import Sequence
from functools import cache

from lark import Token

from rtl.isa.syntax import PT, RZ

from .operands import NEXT
from .source import (
    Leaf,
    Number,
    SassAddressByte,
    SassAmount,
    SassBank,
    SassBrackets,
    SassConstantPlace,
    SassData,
    SassFunction,
    SassGeneric,
    SassGuard,
    SassHalf,
    SassInfo,
    SassInstruction,
    SassKernel,
    SassLabel,
    SassMinus,
    SassOperand,
    SassParam,
    SassShared,
    SassSigns,
    SassSum,
    SassTargets,
    SassVariable,
)

__all__ = [
    "address_byte",
    "amount",
    "bank",
    "constant",
    "data",
    "function",
    "generic",
    "guard",
    "half",
    "indexed",
    "info",
    "instruction",
    "kernel",
    "label",
    "memory",
    "name",
    "number",
    "parameter",
    "register",
    "shared",
    "targets",
    "total",
    "variable",
    "zeros",
]

_NO_SIGNS = SassSigns([])


def _word(text: str) -> Token:
    return Token("WORD", text)


@cache
def _whole(value: int) -> Number:
    """Returns a number that is not negative."""
    return Number(Token("NUMBER", f"{value:#x}"), value)


@cache
def register(index: int, suffix: str) -> SassOperand:
    """Returns a register, with ``.CC`` or a part as suffix."""
    return SassOperand(_NO_SIGNS, SassSum([_word(f"{_register_name(index)}{suffix}")]))


def _register_name(index: int) -> str:
    return "RZ" if index == RZ else f"R{index}"


def _predicate_name(index: int) -> str:
    return "PT" if index == PT else f"P{index}"


@cache
def number(value: int) -> SassOperand:
    """Returns a number, with a minus sign if it is negative."""
    signs = SassSigns([Token("SIGN", "-")]) if value < 0 else _NO_SIGNS
    return SassOperand(signs, SassSum([_whole(abs(value))]))


def name(text: str) -> SassOperand:
    """Returns a name: of a label, a function, a special register."""
    return SassOperand(_NO_SIGNS, SassSum([_word(text)]))


def total(*terms: str | int) -> SassSum:
    """Returns the sum of names and numbers. A 0 is omitted after another term."""
    items: list[Leaf | SassMinus] = []
    for term in terms:
        if isinstance(term, str):
            items.append(_word(term))
        elif term < 0:
            items.append(SassMinus(_whole(-term)))
        elif term or not items:
            items.append(_whole(term))
    return SassSum(items)


@cache
def indexed(index: int) -> SassOperand:
    """Returns ``R0 -.next``: the target of a branch to the code offset in a register."""
    return SassOperand(_NO_SIGNS, SassSum([_word(_register_name(index)), SassMinus(_word(NEXT))]))


@cache
def memory(base: int, offset: int) -> SassOperand:
    """Returns ``[register+offset]``, or the offset alone if the register is RZ."""
    terms = (offset,) if base == RZ and offset else (_register_name(base), offset)
    return SassOperand(_NO_SIGNS, SassBrackets(total(*terms)))


def constant(bank: int, *place: str | int) -> SassOperand:
    """Returns ``c[bank][place]``; the place is a sum."""
    return SassOperand(_NO_SIGNS, SassConstantPlace(total(bank), total(*place)))


def half(symbol: str, addend: int, upper: bool) -> SassOperand:
    """Returns half of the address of a symbol."""
    return SassOperand(
        _NO_SIGNS, SassHalf(Token("HALF", f"32@{'hi' if upper else 'lo'}"), total(symbol, addend))
    )


@cache
def guard(index: int, inverted: bool) -> SassGuard:
    """Returns the guard ``@P0`` or ``@!P0``."""
    return SassGuard(Token("NOT", "!") if inverted else None, _word(_predicate_name(index)))


def targets(labels: Sequence[str], call: bool = False) -> SassTargets:
    """Returns the possible targets of an instruction that does not contain them."""
    return SassTargets(
        Token("CALL", "call") if call else None, [_word(place) for place in labels] or None
    )


def instruction(
    mnemonic: str,
    operands: Sequence[SassOperand] = (),
    guarded: SassGuard | None = None,
    line: int | None = None,
    column: int | None = None,
    branch_targets: SassTargets | None = None,
    control: str | None = None,
) -> SassInstruction:
    """Returns an instruction from ``line`` and ``column`` of the program's source, with ``control``
    codes.
    """
    token = Token("WORD", mnemonic, line=line, column=column)
    codes = Token("CONTROL", control) if control is not None else None
    return SassInstruction(codes, guarded, token, list(operands) or None, branch_targets)


def label(text: str) -> SassLabel:
    """Returns the label ``name:``."""
    return SassLabel(_word(text))


# Directives. Sizes in bytes are decimal.


@cache
def _count(value: int) -> Number:
    return Number(Token("NUMBER", str(value)), value)


def _optional_count(value: int | None) -> Number | None:
    return None if value is None else _count(value)


def kernel(text: str) -> SassKernel:
    """Returns a ``.kernel`` directive."""
    return SassKernel(_word(text), None)


def function(text: str) -> SassFunction:
    """Returns a ``.function`` directive."""
    return SassFunction(_word(text), None)


def amount(kind: str, value: int) -> SassAmount:
    """Returns ``.registers`` or another directive with one number."""
    return SassAmount(Token("AMOUNT", kind), _count(value))


def parameter(text: str, size: int, position: int) -> SassParam:
    """Returns a ``.param`` directive."""
    return SassParam(_word(text), _count(size), _count(position))


def shared(size: int, alignment: int) -> SassShared:
    """Returns a ``.shared`` directive."""
    return SassShared(None, _count(size), _count(alignment))


def bank(index: int, text: str, alignment: int, offset: int | None = None) -> SassBank:
    """Returns a ``.const`` directive: an object in a constant bank."""
    return SassBank(
        Token("BANK", ".const"),
        _count(index),
        _word(text),
        _count(alignment),
        _optional_count(offset),
        None,
    )


def variable(text: str, size: int | None, alignment: int) -> SassVariable:
    """Returns a ``.global`` directive."""
    return SassVariable(_word(text), _optional_count(size), _count(alignment), None, None)


def data(kind: str, value: SassSum | SassGeneric | SassAddressByte) -> SassData:
    """Returns ``.word`` or another data directive."""
    return SassData(Token("DATA", kind), [value])


def zeros(count: int) -> SassData:
    """Returns a ``.zero`` directive for ``count`` zero bytes."""
    return SassData(Token("DATA", ".zero"), [SassSum([_count(count)])])


def generic(inner: SassSum) -> SassGeneric:
    """Returns ``generic(name)``, a generic address."""
    return SassGeneric(Token("GENERIC", "generic"), inner)


def address_byte(shift: int, inner: SassSum | SassGeneric) -> SassAddressByte:
    """Returns ``8@16(name)``, the byte of an address that begins at bit ``shift``."""
    return SassAddressByte(Token("BYTE", f"8@{shift}"), inner)


def info(attribute: str, values: Sequence[int]) -> SassInfo:
    """Returns an ``.info`` directive: a record for the loader."""
    return SassInfo(_word(attribute), None, [SassSum([_count(value)]) for value in values])
