"""Constant expressions, and sums of a name and a constant.

As in C, integer constants have 64 bits and are signed, unless they have the suffix U or are too
large; an operation is unsigned if one of its operands is. Floating-point constants are in double
precision, except ``0f3f800000``, which cannot be an operand. Integers and floating-point numbers
cannot be mixed. Of a choice by ``?`` only the chosen side is evaluated.
"""

import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lark import Token

from sim.toolchain.grammar import Number, SourceError

from .module import FunctionRef, PtxRegister, PtxVariable, Type
from .syntax import (
    CastNode,
    ElementNode,
    ExpressionNode,
    GenericNode,
    GroupNode,
    MaskedNode,
    NameNode,
    SignedNode,
    TermNode,
    lone_name,
)

__all__ = ["Amount", "Lookup", "Real", "Symbol", "evaluate"]

Symbol = PtxRegister | PtxVariable | FunctionRef

Lookup = Callable[[NameNode], "Symbol | int"]
"""Resolves a name in an expression. SourceError if it is not allowed there."""

_BITS = 64
_MASK = (1 << _BITS) - 1
_PREFIXES = {"0f": (Type.F32, 8), "0d": (Type.F64, 16)}
"""The prefixes of floating-point constants in hexadecimal, with type and number of digits."""


@dataclass(frozen=True)
class Real:
    """A floating-point number, as bits of single or double precision."""

    bits: int
    type: Type

    def of(self, kind: Type) -> int:
        """Returns the bits of the number in a format, rounded to the nearest."""
        if kind is self.type:
            return self.bits
        if kind is Type.F64:
            return _double(_number(self))
        try:
            return int.from_bytes(struct.pack("<f", _number(self)), "little")
        except OverflowError:
            return 0xFF80_0000 if _number(self) < 0 else 0x7F80_0000


@dataclass(frozen=True)
class Amount:
    """The value of an expression: a number, or the address of a symbol plus a number.

    Attributes:
        value: The number.
        unsigned: Whether the number is unsigned.
        symbol: The symbol whose address it is, or None.
        name: The name of the symbol in the text.
        generic: Whether it is a generic address.
        real: The floating-point number, if it is one.
        byte: For one byte of an address, the byte's first bit.
    """

    value: int
    unsigned: bool = False
    symbol: Symbol | None = None
    name: Token | None = None
    generic: bool = False
    real: Real | None = None
    byte: int | None = None


def _double(number: float) -> int:
    return int.from_bytes(struct.pack("<d", number), "little")


def _number(real: Real) -> float:
    """Returns the value of the bits."""
    size, letter = real.type.size, "f" if real.type is Type.F32 else "d"
    return struct.unpack(f"<{letter}", real.bits.to_bytes(size, "little"))[0]


def _real(token: Token) -> Real:
    """Reads a floating-point constant."""
    if token[:2].lower() not in _PREFIXES:
        return Real(_double(float(token)), Type.F64)
    kind, digits = _PREFIXES[token[:2].lower()]
    if len(token) != 2 + digits:
        raise SourceError(token, f"{token}: {token[:2]} wants {digits} digits behind it")
    return Real(int(token[2:], 16), kind)


_REAL_OPERATIONS: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_OPERATIONS: Mapping[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda a, b: int(bool(a or b))),
    "&&": (2, lambda a, b: int(bool(a and b))),
    "|": (3, operator.or_),
    "^": (4, operator.xor),
    "&": (5, operator.and_),
    "==": (6, lambda a, b: int(a == b)),
    "!=": (6, lambda a, b: int(a != b)),
    "<": (7, lambda a, b: int(a < b)),
    "<=": (7, lambda a, b: int(a <= b)),
    ">": (7, lambda a, b: int(a > b)),
    ">=": (7, lambda a, b: int(a >= b)),
    "<<": (8, lambda a, b: a << (b & _BITS - 1)),
    ">>": (8, lambda a, b: a >> (b & _BITS - 1)),
    "+": (9, operator.add),
    "-": (9, operator.sub),
    "*": (10, operator.mul),
    "/": (10, _quotient),
    "%": (10, lambda a, b: a - b * _quotient(a, b)),
}
"""The precedence of each binary operator, and its function."""
_BYTES = {0xFF << bit: bit for bit in range(0, _BITS, 8)}
"""The masks of one byte, with the byte's first bit."""
_TRUTHS = {"||", "&&", "==", "!=", "<", "<=", ">", ">="}
_SIGNS: Mapping[str, Callable[[int], int]] = {
    "+": operator.pos,
    "-": operator.neg,
    "~": operator.invert,
    "!": lambda value: int(not value),
}


def _wrapped(value: int, unsigned: bool) -> Amount:
    value &= _MASK
    return Amount(value if unsigned or value < 1 << _BITS - 1 else value - (1 << _BITS), unsigned)


def evaluate(expression: ExpressionNode, lookup: Lookup) -> Amount:
    """Returns the value of an expression.

    Raises:
        SourceError: It has no value.
    """
    if len(expression.items) == 1:
        return _term(expression.items[0], lookup)
    choice = expression.choice
    value = _joined(expression.terms, lookup)
    if choice is None:
        return value
    if value.symbol is not None or value.real is not None:
        raise SourceError(expression.token, "a whole number chooses between both sides of :")
    return evaluate(choice.first if value.value else choice.second, lookup)


def _joined(items: Sequence[TermNode], lookup: Lookup) -> Amount:
    """Returns the value of terms with binary operators between them."""
    values: list[Amount] = [_term(items[0], lookup)]
    waiting: list[Token] = []

    def reduce(level: int) -> None:
        while waiting and _OPERATIONS[waiting[-1]][0] >= level:
            right, sign = values.pop(), waiting.pop()
            values.append(_binary(sign, values.pop(), right))

    for sign, term in zip(items[1::2], items[2::2], strict=True):
        assert isinstance(sign, Token)
        if sign not in _OPERATIONS:
            raise SourceError(sign, f"{sign} stands between two operands, where it means nothing")
        reduce(_OPERATIONS[sign][0])
        waiting.append(sign)
        values.append(_term(term, lookup))
    reduce(0)
    return values[0]


def _binary(sign: Token, left: Amount, right: Amount) -> Amount:
    if left.real is not None or right.real is not None:
        return _binary_real(sign, left, right)
    if left.byte is not None or right.byte is not None:
        raise SourceError(sign, f"{sign} can't join a byte of an address and something else")
    unsigned = left.unsigned or right.unsigned
    for symbol, other in ((left, right), (right, left)):
        if symbol.symbol is not None:
            if other.symbol is not None or not (sign == "+" or (sign == "-" and symbol is left)):
                raise SourceError(
                    sign, f"{sign} can't join these: only a number can be added to a name"
                )
            offset = symbol.value + (other.value if sign == "+" else -other.value)
            return replace(symbol, value=_wrapped(offset, False).value)
    if sign in ("/", "%") and not right.value:
        raise SourceError(sign, "division by 0")
    a, b = (_wrapped(amount.value, unsigned).value for amount in (left, right))
    return _wrapped(_OPERATIONS[sign][1](a, b), unsigned and sign not in _TRUTHS)


def _binary_real(sign: Token, left: Amount, right: Amount) -> Amount:
    """Returns the result of a binary operation on floating-point numbers."""
    one, other = left.real, right.real
    if one is None or other is None:
        raise SourceError(sign, f"{sign} can't join these: one is a floating-point number")
    if Type.F32 in (one.type, other.type) or sign not in _REAL_OPERATIONS:
        raise SourceError(sign, f"{sign} can't join these floating-point numbers")
    if sign == "/" and not _number(other):
        raise SourceError(sign, "division by 0")
    return Amount(
        0, real=Real(_double(_REAL_OPERATIONS[sign](_number(one), _number(other))), Type.F64)
    )


def _signed_real(sign: Token, real: Real) -> Amount:
    """Returns the result of a unary operation on a floating-point number."""
    if sign not in ("+", "-") or real.type is Type.F32:
        raise SourceError(sign, f"{sign} can't stand before this")
    return Amount(0, real=replace(real, bits=real.bits ^ (sign == "-") << _BITS - 1))


def _term(term: TermNode, lookup: Lookup) -> Amount:
    match term:
        case Token():
            return Amount(0, real=_real(term))
        case Number():
            return Amount(int(term), str(term).endswith("U") or term >= 1 << _BITS - 1)
        case NameNode():
            found = lookup(term)
            return (
                Amount(found)
                if isinstance(found, int)
                else Amount(0, symbol=found, name=term.token)
            )
        case ElementNode():
            return _element(term, lookup)
        case GroupNode():
            items = term.operands
            if len(items) != 1 or not isinstance(items[0], ExpressionNode):
                raise SourceError(term.token, "expected one expression between parentheses")
            return evaluate(items[0], lookup)
        case GenericNode():
            return _generic(term, lookup)
        case MaskedNode():
            return _masked(term, lookup)
        case CastNode():
            return _cast(term, lookup)
        case SignedNode():
            amount = _term(term.operand, lookup)
            if amount.real is not None:
                return _signed_real(term.token, amount.real)
            if amount.symbol is not None or term.token not in _SIGNS:
                raise SourceError(term.token, f"{term.token} can't stand before this")
            return _wrapped(_SIGNS[term.token](amount.value), amount.unsigned and term.token != "!")


def _element(term: ElementNode, lookup: Lookup) -> Amount:
    """Evaluates ``name[3]``, the address of an array element."""
    symbol = lookup(NameNode(term.token, None))
    if not isinstance(symbol, PtxVariable):
        raise SourceError(term.token, f"{term.token} is no array")
    index = evaluate(term.index, lookup)
    if index.symbol is not None or index.real is not None:
        raise SourceError(term.token, f"the index of {term.token} is no constant")
    return Amount(index.value * symbol.type.size, symbol=symbol, name=term.token)


def _generic(term: GenericNode, lookup: Lookup) -> Amount:
    """Evaluates ``generic(name)``, a generic address."""
    items = term.group.operands
    name = lone_name(items[0]) if len(items) == 1 else None
    symbol = lookup(name) if name is not None else None
    if term.token != "generic" or not isinstance(symbol, PtxVariable):
        raise SourceError(term.token, f"expected generic(variable), not {term.token}(...)")
    return Amount(0, symbol=symbol, name=items[0].token, generic=True)


def _masked(term: MaskedNode, lookup: Lookup) -> Amount:
    """Evaluates ``0xff00(name + 4)``, a byte of an address."""
    byte = _BYTES.get(int(term.mask))
    items = term.group.operands
    if byte is None or len(items) != 1 or not isinstance(items[0], ExpressionNode):
        raise SourceError(
            term.token, f"{term.mask}(...): expected 0xff, 0xff00 and so on, and one address"
        )
    amount = evaluate(items[0], lookup)
    if amount.symbol is None or isinstance(amount.symbol, PtxRegister):
        raise SourceError(items[0].token, "expected the address of a function or variable")
    return replace(amount, byte=byte)


def _cast(term: CastNode, lookup: Lookup) -> Amount:
    """Evaluates the casts ``(.s64)`` and ``(.u64)``."""
    amount = _term(term.operand, lookup)
    if term.type not in (".s64", ".u64") or amount.real is not None or amount.symbol is not None:
        raise SourceError(
            term.type, "(.s64) and (.u64) stand before whole numbers, and there are no others"
        )
    return _wrapped(amount.value, term.type == ".u64")
