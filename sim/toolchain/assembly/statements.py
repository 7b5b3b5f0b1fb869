"""Statements of the assembler, made without text: what a compiler emits beside the words that it encodes itself.

They are the nodes that :func:`sim.toolchain.assembly.source.parse` makes of the same text, which ``str`` gives.
"""

from collections.abc import Sequence
from functools import cache

from lark import Token

from rtl.isa.syntax import PT, RZ

from .operands import NEXT
from .source import (
    AddressByte,
    Amount,
    Bank,
    Brackets,
    ConstantPlace,
    Data,
    Function,
    Generic,
    Guard,
    Half,
    Info,
    Instruction,
    Kernel,
    Label,
    Leaf,
    Minus,
    Number,
    Operand,
    Param,
    Shared,
    Signs,
    Sum,
    Targets,
    Variable,
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

_NO_SIGNS = Signs([])


def _word(text: str) -> Token:
    return Token("WORD", text)


@cache
def _whole(value: int) -> Number:
    """A number that is not negative."""
    return Number(Token("NUMBER", f"{value:#x}"), value)


@cache
def register(index: int, suffix: str) -> Operand:
    """A register, with ``.CC`` or a part behind it."""
    return Operand(_NO_SIGNS, Sum([_word(f"{_register_name(index)}{suffix}")]))


def _register_name(index: int) -> str:
    return "RZ" if index == RZ else f"R{index}"


def _predicate_name(index: int) -> str:
    return "PT" if index == PT else f"P{index}"


@cache
def number(value: int) -> Operand:
    """A number, negative ones with a minus before them."""
    signs = Signs([Token("SIGN", "-")]) if value < 0 else _NO_SIGNS
    return Operand(signs, Sum([_whole(abs(value))]))


def name(text: str) -> Operand:
    """A name: of a label, a function, a special register."""
    return Operand(_NO_SIGNS, Sum([_word(text)]))


def total(*terms: str | int) -> Sum:
    """Names and numbers, added; a number that is 0 is left out behind another term."""
    items: list[Leaf | Minus] = []
    for term in terms:
        if isinstance(term, str):
            items.append(_word(term))
        elif term < 0:
            items.append(Minus(_whole(-term)))
        elif term or not items:
            items.append(_whole(term))
    return Sum(items)


@cache
def indexed(index: int) -> Operand:
    """``R0 -.next``: where a branch through a register goes, as many bytes into the code as that has."""
    return Operand(_NO_SIGNS, Sum([_word(_register_name(index)), Minus(_word(NEXT))]))


@cache
def memory(base: int, offset: int) -> Operand:
    """``[register+offset]``; the offset alone where the register is RZ."""
    terms = (offset,) if base == RZ and offset else (_register_name(base), offset)
    return Operand(_NO_SIGNS, Brackets(total(*terms)))


def constant(bank: int, *place: str | int) -> Operand:
    """``c[bank][place]``, the place a sum."""
    return Operand(_NO_SIGNS, ConstantPlace(total(bank), total(*place)))


def half(symbol: str, addend: int, upper: bool) -> Operand:
    """Half of the address of a symbol."""
    return Operand(
        _NO_SIGNS, Half(Token("HALF", f"32@{'hi' if upper else 'lo'}"), total(symbol, addend))
    )


@cache
def guard(index: int, inverted: bool) -> Guard:
    """``@P0`` or ``@!P0``"""
    return Guard(Token("NOT", "!") if inverted else None, _word(_predicate_name(index)))


def targets(places: Sequence[str], call: bool = False) -> Targets:
    """Where an instruction may go, when it does not say so itself."""
    return Targets(
        Token("CALL", "call") if call else None, [_word(place) for place in places] or None
    )


def instruction(
    mnemonic: str,
    operands: Sequence[Operand] = (),
    guarded: Guard | None = None,
    line: int | None = None,
    column: int | None = None,
    places: Targets | None = None,
    control: str | None = None,
) -> Instruction:
    """An instruction for what stands at ``line`` and ``column`` of the program's source, with ``control`` codes."""
    token = Token("WORD", mnemonic, line=line, column=column)
    codes = Token("CONTROL", control) if control is not None else None
    return Instruction(codes, guarded, token, list(operands) or None, places)


def label(text: str) -> Label:
    """``name:``"""
    return Label(_word(text))


# Directives. Numbers of bytes are decimal.


@cache
def _count(value: int) -> Number:
    return Number(Token("NUMBER", str(value)), value)


def _optional_count(value: int | None) -> Number | None:
    return None if value is None else _count(value)


def kernel(text: str) -> Kernel:
    """``.kernel``"""
    return Kernel(_word(text), None)


def function(text: str) -> Function:
    """``.function``"""
    return Function(_word(text), None)


def amount(kind: str, value: int) -> Amount:
    """``.registers`` and its like."""
    return Amount(Token("AMOUNT", kind), _count(value))


def parameter(text: str, size: int, place: int) -> Param:
    """``.param``"""
    return Param(_word(text), _count(size), _count(place))


def shared(size: int, alignment: int) -> Shared:
    """``.shared``"""
    return Shared(None, _count(size), _count(alignment))


def bank(index: int, text: str, alignment: int, place: int | None = None) -> Bank:
    """``.const``: an object in a constant bank."""
    return Bank(
        Token("BANK", ".const"),
        _count(index),
        _word(text),
        _count(alignment),
        _optional_count(place),
        None,
    )


def variable(text: str, size: int | None, alignment: int) -> Variable:
    """``.global``"""
    return Variable(_word(text), _optional_count(size), _count(alignment), None, None)


def data(kind: str, value: Sum | Generic | AddressByte) -> Data:
    """``.word`` and its like."""
    return Data(Token("DATA", kind), [value])


def zeros(count: int) -> Data:
    """``.zero``: so many zero bytes."""
    return Data(Token("DATA", ".zero"), [Sum([_count(count)])])


def generic(inner: Sum) -> Generic:
    """``generic(name)``: a generic address."""
    return Generic(Token("GENERIC", "generic"), inner)


def address_byte(shift: int, inner: Sum | Generic) -> AddressByte:
    """``8@16(name)``: the byte of an address that begins at bit ``shift``."""
    return AddressByte(Token("BYTE", f"8@{shift}"), inner)


def info(attribute: str, values: Sequence[int]) -> Info:
    """``.info``: a record for the loader."""
    return Info(_word(attribute), None, [Sum([_count(value)]) for value in values])
