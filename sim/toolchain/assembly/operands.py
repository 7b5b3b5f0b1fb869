"""Matches the operands of an instruction's text with those of a form of the table."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Protocol, TypeVar

from lark import Token

from rtl.isa.condition import TEST_TEXTS
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
    Predicate,
    Register,
    ScoreboardSet,
    Target,
)
from rtl.isa.syntax import Operand as FormOperand
from sim.toolchain.cubin.relocation import RelocationKind, fit
from sim.toolchain.grammar import whole_number

from .float_text import real_bits
from .source import (
    Leaf,
    Number,
    SassAbsolute,
    SassBrackets,
    SassConstantPlace,
    SassHalf,
    SassOperand,
    SassReal,
    SassSet,
    SassSum,
    SourceError,
)

__all__ = [
    "ESCAPE",
    "NEXT",
    "Matcher",
    "NameResolver",
    "OperandMismatchError",
    "OperandShape",
    "Reference",
    "escaped",
    "fitting_kinds",
    "is_reserved",
    "kind_of",
    "predicate_number",
]

Core = TypeVar("Core")

NEXT = ".next"
"""The name of the address after an instruction, from which relative targets are counted."""

ESCAPE = "\\"
"""The prefix of a name that has another meaning otherwise."""
_KEYWORDS = frozenset({"align", "at", "local", "visible", "weak"})
_REGISTER = re.compile(r"R(?:Z|(\d+))((?:\.\w+)*)")
_PREDICATE = re.compile(r"P(?:T|([0-6]))")
_WHOLE = 32
_FEW = 8


class NameResolver(Protocol):
    """Resolves names at an instruction. Raises SourceError for a name without a meaning there."""

    def value(self, name: Token) -> int:
        """Returns the value of a name."""
        ...

    def target(self, name: Token) -> int:
        """Returns the offset of a label or function in the instruction's code section."""
        ...


@dataclass(frozen=True)
class Reference:
    """A number in an instruction: the address of a name plus ``addend``, resolved later."""

    kind: RelocationKind
    name: Token
    addend: int


class OperandMismatchError(Exception):
    """An operand does not fit a form. ``close`` marks one of the right kind with another error."""

    def __init__(self, token: Leaf, message: str, close: bool = False) -> None:
        super().__init__(message)
        self.token = token
        self.close = close
        self.index = 0


def is_reserved(name: str) -> bool:
    """Whether a name is that of a register or predicate, and so cannot be used otherwise."""
    return bool(_REGISTER.fullmatch(name) or _PREDICATE.fullmatch(name))


def escaped(name: str) -> str:
    """Returns a name as it is written in text, with a backslash if it has another meaning
    otherwise.
    """
    return f"{ESCAPE}{name}" if is_reserved(name) or name in _KEYWORDS else name


def predicate_number(token: Token) -> int | None:
    """Returns the number of a predicate, or None for another name."""
    match = _PREDICATE.fullmatch(token)
    return match and (PT if match[1] is None else int(match[1]))


class Matcher:
    """Fills in one form from text.

    Attributes:
        form: The form.
        word: The word, initially with the modifiers.
        reuse: The reuse bits.
        reference: The unresolved number in the word, or None.
        settled: Whether the word does not depend on the address so far.

    Args:
        address: The instruction's address in its code.
        scope: The resolver of names.
    """

    def __init__(self, form: Form, word: int, address: int, scope: NameResolver) -> None:
        self.form = form
        self.word = word
        self.reuse = 0
        self.reference: Reference | None = None
        self.settled = True
        self._address = address
        self._scope = scope
        self._set: dict[str, int] = {}

    def match(self, expected: Iterable[FormOperand], operands: Iterable[SassOperand]) -> None:
        """Fills in the operands in order.

        Raises:
            OperandMismatchError: An operand does not fit.
        """
        index = 0
        try:
            for operand, node in zip(expected, operands, strict=True):
                self._operand(operand, node)
                index += 1
        except OperandMismatchError as error:
            error.index = index
            raise

    def put(self, field: str, value: int, token: Leaf) -> None:
        """Sets a field. Operands that share a field must have the same value."""
        if self._set.setdefault(field, value) != value:
            raise OperandMismatchError(
                token, f"{token} does not go with the operands before it", close=True
            )
        self.word = self.form.fields[field].put(self.word, value)

    def _fit(self, field: str, value: int, token: Leaf, signed: bool = False) -> None:
        """Sets a field to a number. An unsigned number may use the sign bit of a signed field,
        unless ``signed``.
        """
        bounds = self.form.fields[field].bounds
        if signed and not bounds[0] <= value <= bounds[-1]:
            raise OperandMismatchError(
                token, f"{value:#x} is not in {bounds[0]:#x}..{bounds[-1]:#x}", close=True
            )
        try:
            self.put(field, fit(self.form.fields[field], value), token)
        except ValueError as error:
            raise OperandMismatchError(token, str(error), close=True) from error

    def _operand(self, operand: FormOperand, node: SassOperand) -> None:
        match operand:
            case Register():
                self._register(operand, node)
            case Predicate(field, _, negate):
                self._predicate(field, negate, node)
            case Constant():
                self._constant(operand, node)
            case Immediate():
                self._immediate(operand, node)
            case Address():
                self._indexed(
                    operand.register,
                    operand.offset,
                    self._plain(node, SassBrackets, "[register+offset]").inner,
                )
            case Target():
                self._target(operand, node)
            case Choice(field, texts):
                self._choice(field, texts, node)
            case ConditionTest(field):
                tests = {code: f"CC.{text}" for code, text in TEST_TEXTS.items()}
                self._choice(field, tests, node)
            case Literal(text):
                if self._name(node, text) != text or node.signs.items:
                    raise OperandMismatchError(node.token, f"expected {text}")
            case ScoreboardSet(field):
                self._set_of_scoreboards(field, node)

    @staticmethod
    def _plain(node: SassOperand, kind: type[Core], phrase: str) -> Core:
        """Returns the core of an operand without signs and suffixes."""
        if not isinstance(node.core, kind) or node.signs.items or node.suffix:
            raise OperandMismatchError(node.token, f"expected {phrase}")
        return node.core

    @staticmethod
    def _name(node: SassOperand, phrase: str) -> Token:
        """Returns the name in an operand, regardless of signs."""
        name = _lone_name(node.core)
        if name is None or node.suffix:
            raise OperandMismatchError(node.token, f"expected {phrase}")
        return name

    def _adjusted(self, adjust: Adjust, node: SassOperand, phrase: str) -> SassOperand:
        """Sets the modifiers that the signs of a register or constant select. Returns the inner
        operand.
        """
        if not node.signs.items and not isinstance(node.core, SassAbsolute):
            return node
        fields = {"-": adjust.negate, "~": adjust.invert}
        for sign in node.signs.items:
            field = fields.get(sign)
            if field is None or field in self._set or self._adds_one():
                raise OperandMismatchError(node.token, f"{sign} can't stand before {phrase} here")
            self.put(field, 1, sign)
        if isinstance(node.core, SassAbsolute):
            if adjust.absolute is None or node.core.inner.signs.items:
                raise OperandMismatchError(node.token, f"expected {phrase}")
            self.put(adjust.absolute, 1, node.token)
            return node.core.inner
        return node

    def _adds_one(self) -> bool:
        """Whether both operands are negated, which encodes an added one."""
        field = self.form.fields.get("plus_one")
        return field is not None and field.get(self.word) == PLUS_ONE

    def _part(self, adjust: Adjust, suffix: str, token: Leaf) -> None:
        """Sets the part of a source that a suffix selects."""
        if adjust.select is None and not suffix:
            return
        texts: Mapping[int, str] = {0: ""}
        if adjust.select is not None:
            texts = adjust.part_texts(self.form.values(self.word) if callable(adjust.parts) else {})
        codes = {text: code for code, text in texts.items()}
        if suffix not in codes:
            known = ", ".join(text for text in codes if text)
            raise OperandMismatchError(
                token,
                f"{suffix} means nothing here" + (f": expected {known}" if known else ""),
                close=True,
            )
        if adjust.select is not None:
            self.put(adjust.select, codes[suffix], token)

    def _register(self, operand: Register, node: SassOperand) -> None:
        inner = self._adjusted(operand.adjust, node, "a register")
        token = self._name(inner, "a register")
        found = _register_number(token)
        if found is None:
            raise OperandMismatchError(token, "expected a register")
        index, suffixes = found
        if "reuse" in suffixes and operand.reuse is not None:
            self.reuse |= 1 << operand.reuse
            suffixes.remove("reuse")
        if "CC" in suffixes and operand.set_cc is not None:
            self.put(operand.set_cc, 1, token)
            suffixes.remove("CC")
        self._part(operand.adjust, "".join(f".{suffix}" for suffix in suffixes), token)
        offset = (
            operand.offset(self.form.values(self.word))
            if callable(operand.offset)
            else operand.offset
        )
        self.put(operand.field, index if index == RZ else (index - offset) % RZ, token)

    def _predicate(self, field: str, negate: str | None, node: SassOperand) -> None:
        token = self._name(node, "a predicate")
        index = predicate_number(token)
        signs = node.signs.items
        if index is None or signs not in ([], ["!"]):
            raise OperandMismatchError(node.token, "expected a predicate")
        if signs and negate is None:
            raise OperandMismatchError(node.token, "a result can't be negated", close=True)
        if signs and negate is not None:
            self.put(negate, 1, token)
        self.put(field, index, token)

    def _number(
        self, node: SassSum, negative: bool = False, meaning: Callable[[Token], int] | None = None
    ) -> int:
        """Returns the value of a sum. ``negative`` negates all of it, ``meaning`` resolves
        names.
        """
        meaning = meaning if meaning is not None else self._scope.value
        total = 0
        for position, (sign, token) in enumerate(node.terms):
            if isinstance(token, Number):
                value = token
            elif token == NEXT:
                self.settled = False
                value = self._address + INSTRUCTION_BYTES
            elif is_reserved(token.split(".")[0]):
                raise OperandMismatchError(
                    token,
                    "expected a number" if meaning == self._scope.value else "expected a label",
                )
            else:
                self.settled = False
                try:
                    value = meaning(token)
                except SourceError as error:
                    raise OperandMismatchError(token, str(error), close=True) from error
            total += -sign * value if negative and position == 0 else sign * value
        return total

    def _indexed(self, index: str | None, offset: str, node: SassSum) -> None:
        """Reads a sum of at most one register, for the field ``index``, and a number. A number
        alone is an unsigned address.
        """
        found, rest = RZ, []
        for item, (sign, token) in zip(node.items, node.terms, strict=True):
            named = _register_number(token)
            if named is None:
                rest.append(item)
            elif index is None or sign < 0 or named[1] or found != RZ:
                raise OperandMismatchError(token, f"{token} can't stand here", close=True)
            else:
                found = named[0]
        if index is not None:
            self.put(index, found, node.token)
        unsigned = found == RZ or self.form.fields[offset].width == _WHOLE
        self._fit(
            offset, self._number(SassSum(rest)) if rest else 0, node.token, signed=not unsigned
        )

    def _constant(self, operand: Constant, node: SassOperand) -> None:
        inner = self._adjusted(operand.adjust, node, "c[bank][offset]")
        if not isinstance(inner.core, SassConstantPlace):
            raise OperandMismatchError(inner.token, "expected c[bank][offset]")
        self._part(operand.adjust, inner.suffix or "", inner.token)
        self._fit(operand.bank, self._number(inner.core.bank), inner.core.bank.token)
        self._indexed(operand.index, operand.offset, inner.core.offset)

    def _immediate(self, operand: Immediate, node: SassOperand) -> None:
        if isinstance(node.core, SassHalf):
            self._half(operand, node.core)
            return
        if not isinstance(node.core, SassSum | SassReal) or any(
            sign != "-" for sign in node.signs.items
        ):
            raise OperandMismatchError(node.token, "expected a number")
        if operand.real:
            value = self._real(node, operand.real)
        elif isinstance(node.core, SassReal):
            raise OperandMismatchError(node.token, "expected a whole number", close=True)
        else:
            minus = operand.minus and bool(node.signs.items)
            if minus:
                self._adjusted(operand.adjust, node, "this number")
            value = self._number(node.core, negative=bool(node.signs.items) and not minus)
        suffixes = node.suffix.split(".")[1:] if node.suffix else []
        for text, field in (
            ("NEG", operand.adjust.negate),
            ("ABS", operand.adjust.absolute),
            ("INV", operand.adjust.invert),
        ):
            if text in suffixes and field is not None and not (text == "NEG" and self._adds_one()):
                self.put(field, 1, node.token)
                suffixes.remove(text)
        self._part(operand.adjust, "".join(f".{suffix}" for suffix in suffixes), node.token)
        signed = operand.bits is None and self.form.fields[operand.field].width != _WHOLE
        self._fit(operand.field, value, node.core.token, signed)

    def _real(self, node: SassOperand, size: int) -> int:
        """Returns the ``size`` bits of a floating-point number, as a signed number. A number in
        base 16 or 2 gives the bits directly.
        """
        terms = list(node.core.terms) if isinstance(node.core, SassSum) else [(1, node.core.token)]
        text = f"{'-' * (len(node.signs.items) & 1)}{terms[0][1]}"
        try:
            if len(terms) > 1:
                raise ValueError(f"{node.token} is no floating-point number")
            return real_bits(text, size)
        except ValueError as error:
            close = not isinstance(node.core, SassSum) or isinstance(terms[0][1], Number)
            raise OperandMismatchError(node.token, str(error), close) from error

    def _half(self, operand: Immediate, node: SassHalf) -> None:
        """Reads half of an address, which a relocation fills in."""
        if self.form.fields[operand.field].width != _WHOLE:
            raise OperandMismatchError(
                node.token, f"{node.token} needs an instruction with a 32-bit number", close=True
            )
        kind = (
            RelocationKind.ABS32_LO_20 if node.token.endswith("lo") else RelocationKind.ABS32_HI_20
        )
        self._refer(kind, node.inner)
        self.put(operand.field, 0, node.token)

    def _refer(self, kind: RelocationKind, node: SassSum) -> None:
        names = [(sign, token) for sign, token in node.terms if isinstance(token, Token)]
        if len(names) != 1 or names[0][0] < 0:
            raise OperandMismatchError(
                node.token, "expected a name, and numbers added to it", close=True
            )
        addend = sum(sign * token for sign, token in node.terms if isinstance(token, Number))
        self.reference = Reference(kind, names[0][1], addend)

    def _target(self, operand: Target, node: SassOperand) -> None:
        if operand.index is not None:
            place = self._plain(node, SassSum, "a register and an offset")
            if _register_number(place.token) is None:
                raise OperandMismatchError(place.token, "expected a register")
            self._indexed(operand.index, operand.field, place)
            return
        place = node.core
        if (
            not isinstance(place, SassSum)
            or node.suffix
            or any(sign != "-" for sign in node.signs.items)
        ):
            raise OperandMismatchError(node.token, "expected a label or an offset")
        negative = bool(node.signs.items)
        if operand.relative:
            self.settled = False
            target = self._number(place, negative, self._scope.target)
            offset = target - self._address - INSTRUCTION_BYTES
            if offset not in self.form.fields[operand.field].bounds:
                raise OperandMismatchError(place.token, f"{target:#x} is too far away", close=True)
            self.put(operand.field, offset, place.token)
        elif any(isinstance(token, Token) for _, token in place.terms) and not negative:
            self._refer(RelocationKind.ABS32_20, place)
        else:
            self._fit(operand.field, self._number(place, negative), place.token)

    def _choice(self, field: str, texts: Mapping[int, str], node: SassOperand) -> None:
        few = len(texts) <= _FEW
        phrase = " or ".join(texts.values()) if few else f"a name such as {texts[min(texts)]}"
        token = self._name(node, phrase)
        codes = {text: code for code, text in texts.items()}
        if token not in codes or node.signs.items:
            raise OperandMismatchError(node.token, f"expected {phrase}")
        self.put(field, codes[token], token)

    def _set_of_scoreboards(self, field: str, node: SassOperand) -> None:
        members = self._plain(node, SassSet, "a set of scoreboards such as {3,0}").members
        mask = 0
        for token in members:
            if token >= self.form.fields[field].width:
                raise OperandMismatchError(token, f"there is no scoreboard {token}", close=True)
            mask |= 1 << token
        self.put(field, mask, node.token)


class OperandShape(Enum):
    """The syntax of an operand without its signs."""

    REGISTER = "a register"
    PREDICATE = "a predicate"
    NAME = "another name"
    NUMBER = "a sum, a number, half of an address"
    CONSTANT = "c[bank][offset]"
    BRACKETS = "[register+offset]"
    SET = "a set"

    # each member is a unique object: kinds are looked up for every operand
    __hash__ = object.__hash__


_NAMES = frozenset({OperandShape.REGISTER, OperandShape.PREDICATE, OperandShape.NAME})
_NUMBERS = frozenset({OperandShape.NAME, OperandShape.NUMBER})
_CORES = {
    SassSum: OperandShape.NUMBER,
    SassReal: OperandShape.NUMBER,
    SassHalf: OperandShape.NUMBER,
    SassConstantPlace: OperandShape.CONSTANT,
    SassBrackets: OperandShape.BRACKETS,
    SassSet: OperandShape.SET,
}
_FITTING: dict[type[FormOperand], frozenset[OperandShape]] = {
    Register: frozenset({OperandShape.REGISTER}),
    Predicate: frozenset({OperandShape.PREDICATE}),
    Constant: frozenset({OperandShape.CONSTANT}),
    Address: frozenset({OperandShape.BRACKETS}),
    Immediate: _NUMBERS,
    Choice: _NAMES,
    ConditionTest: _NAMES,
    Literal: _NAMES,
    ScoreboardSet: frozenset({OperandShape.SET}),
}


def kind_of(node: SassOperand) -> OperandShape:
    """Returns the syntax of an operand of a text."""
    core = node.core.inner.core if isinstance(node.core, SassAbsolute) else node.core
    name = _lone_name(core)
    if name is None:
        return _CORES.get(type(core), OperandShape.NUMBER)
    return _kind_of_name(str(name))


@lru_cache(1 << 12)
def _kind_of_name(name: str) -> OperandShape:
    if _REGISTER.fullmatch(name):
        return OperandShape.REGISTER
    return OperandShape.PREDICATE if _PREDICATE.fullmatch(name) else OperandShape.NAME


def fitting_kinds(operand: FormOperand) -> frozenset[OperandShape]:
    """Returns the kinds of syntax that may fit an operand of a form. All others do not fit; these
    still need a match.
    """
    if isinstance(operand, Target):
        return (
            _NUMBERS
            if operand.index is None
            else frozenset({OperandShape.REGISTER, OperandShape.NUMBER})
        )
    return _FITTING[type(operand)]


def _lone_name(core: object) -> Token | None:
    """Returns the name if the core of an operand is a single name, else None."""
    if isinstance(core, SassSum) and len(core.items) == 1 and isinstance(core.items[0], Token):
        return core.items[0]
    return None


def _register_number(token: Leaf) -> tuple[int, list[str]] | None:
    """Returns the number and the suffixes of a register's name, or None for another text."""
    match = None if isinstance(token, Number) else _REGISTER.fullmatch(token)
    if match is None or isinstance(token, Number):
        return None
    index = RZ if match[1] is None else whole_number(token, match[1], 10)
    if match[1] is not None and index >= RZ:
        raise OperandMismatchError(
            token, f"there is no R{index}: R0 to R{RZ - 1}, and RZ", close=True
        )
    return index, match[2].split(".")[1:]
