"""Fields and operand shapes that many instructions share, and the helper that joins them to a
form."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from .condition import ConditionCode
from .syntax import (
    PLAIN,
    PT,
    RZ,
    Access,
    Adjust,
    ConditionTest,
    Constant,
    Field,
    Form,
    Immediate,
    Modifier,
    Operand,
    Pipe,
    Predicate,
    Register,
    Target,
    Values,
)

__all__ = [
    "CC_TEST",
    "D_CC",
    "FIELDS",
    "PLUS_ONE",
    "TARGET",
    "A",
    "B",
    "C",
    "D",
    "P",
    "Q",
    "X",
    "alu",
    "bits",
    "choice",
    "define",
    "flag",
    "plus_one",
]


def bits(lowest: int, width: int, *, signed: bool = False, scale: int = 1) -> Field:
    """A field in one piece."""
    return Field(((lowest, width),), signed, scale)


FIELDS: Mapping[str, Field] = MappingProxyType({
    "guard": bits(16, 3),
    "guard_not": bits(19, 1),
    "Rd": bits(0, 8),
    "Ra": bits(8, 8),
    "Rb": bits(20, 8),
    "Rc": bits(39, 8),
    "Pd": bits(3, 3),
    "Pd2": bits(0, 3),
    "Pa": bits(12, 3),
    "Pa_not": bits(15, 1),
    "Pb": bits(29, 3),
    "Pb_not": bits(32, 1),
    "Pc": bits(39, 3),
    "Pc_not": bits(42, 1),
    "test": bits(0, 5),
    "target": bits(20, 24, signed=True),
    "imm": Field(((20, 19), (56, 1)), signed=True),
    "real16": bits(20, 16, signed=True),
    **{
        f"real{width}": Field(((20, 19), (56, 1)), signed=True, scale=1 << width - 20)
        for width in (32, 64)
    },
    "imm32": bits(20, 32, signed=True),
    "cc": bits(47, 1),
    "negate_b": bits(48, 1),
    "negate_a": bits(49, 1),
    "offset": bits(20, 14, signed=True, scale=4),
    "bank": bits(34, 5),
})
"""Fields at their usual place, by name. An instruction with one elsewhere overrides it."""

# Usual operands. Adjusted ones are made where they are used.
D = Register("Rd", Access.WRITE)
D_CC = Register("Rd", Access.WRITE, set_cc="cc")
A = Register("Ra", reuse=0)
B = Register("Rb", reuse=1)
C = Register("Rc", reuse=2)
P = Predicate("Pd", Access.WRITE)
Q = Predicate("Pd2", Access.WRITE)
X = Predicate("Pc", negate="Pc_not")
CC_TEST = ConditionTest()
TARGET = Target("target")

_NO_FIELDS: Mapping[str, Field] = MappingProxyType({})
_NO_VALUES: Values = MappingProxyType({})


def flag(name: str, bit: int, text: str | None = None) -> tuple[dict[str, Field], Modifier]:
    """A one-bit modifier, spelled when it is 1: as ``text``, else as a dot and its name."""
    spelling = text if text is not None else f".{name}"
    return {name: bits(bit, 1)}, Modifier(name, {0: "", 1: spelling})


def choice(name: str, field: Field, texts: Mapping[int, str],
           aliases: Mapping[str, int] = MappingProxyType({})) -> tuple[dict[str, Field], Modifier]:
    """A modifier with several values."""
    return {name: field}, Modifier(name, texts, aliases)


PLUS_ONE = 3
"""Value of a field ``plus_one``: both negations."""


def plus_one(negate_b: int, negate_a: int) -> tuple[dict[str, Field], Modifier]:
    """The field and the modifier of a sum that adds one (``.PO``): encoded by setting the negations
    of both operands, which then negate neither."""
    both = Field(((negate_b, 1), (negate_a, 1)))
    return {"plus_one": both}, Modifier("plus_one", {0: "", 1: "", 2: "", PLUS_ONE: ".PO"})


def _names(operand: Operand) -> list[str]:
    """Names of the fields that an operand uses."""
    adjust = getattr(operand, "adjust", PLAIN)
    attributes = ("field", "register", "offset", "wide", "negate", "bank", "index", "set_cc")
    names = [getattr(operand, attribute, None) for attribute in attributes]
    names += [adjust.negate, adjust.absolute, adjust.invert, adjust.select]
    return [name for name in names if isinstance(name, str)]


def define(
    name: str,
    match: int,
    mask: int,
    pipe: Pipe,
    operands: Mapping[str, Operand] = MappingProxyType({}),
    modifiers: tuple[tuple[dict[str, Field], Modifier], ...] = (),
    *,
    variant: str = "",
    guarded: bool = True,
    fields: Mapping[str, Field] = _NO_FIELDS,
    default: int = 0,
    illegal: tuple[Callable[[Values], bool], ...] = (),
) -> Form:
    """A form of an instruction.

    Parameters
    ----------
    name, variant : str
        The instruction's name, and what distinguishes its forms: "r", "c" or "i" by the kind of
        operand b, or another word.
    match, mask : int
        A word has this form if its bits in ``mask`` are ``match``.
    pipe : Pipe
    operands : mapping
        Name -> operand, in the order in which they are spelled.
    modifiers : tuple
        Fields and spelling of each, in order, as :func:`flag` and :func:`choice` make them.
    guarded : bool
        It has a guard predicate.
    fields : mapping
        Fields other than modifiers', and operands' fields that are not at the usual place.
    default : int
        Bits that the assembler sets where nothing is spelled.
    illegal : tuple of functions
        A word is refused if one of them is true.
    """
    named: dict[str, Field] = {}
    for extra, _ in modifiers:
        named |= extra
    named |= fields
    if guarded:
        named |= {"guard": FIELDS["guard"], "guard_not": FIELDS["guard_not"]}
    for operand in operands.values():
        for field in _names(operand):
            named.setdefault(field, FIELDS.get(field, named.get(field)))  # type: ignore[arg-type]
    default |= match
    if guarded:
        default = named["guard"].put(default, PT)
    if "test" in named:
        default = named["test"].put(default, ConditionCode.T.value)
    for operand in operands.values():
        if isinstance(operand, Predicate) and operand.optional:
            default = named[operand.field].put(default, PT)
        if isinstance(operand, Register) and operand.optional:
            default = named[operand.field].put(default, RZ)
        value = getattr(operand, "default", None)
        if value is not None:
            default = named[operand.field].put(default, value)  # type: ignore[union-attr]
    return Form(
        name,
        variant,
        match,
        mask,
        pipe,
        MappingProxyType(named),
        tuple(m for _, m in modifiers),
        MappingProxyType(dict(operands)),
        default,
        illegal,
    )


def alu(
    name: str,
    codes: Mapping[str, tuple[int, int]],
    operands: Mapping[str, Operand],
    modifiers: tuple[tuple[dict[str, Field], Modifier], ...] = (),
    *,
    pipe: Pipe = Pipe.ALU,
    b: Adjust = PLAIN,
    b_span: int | Callable[[Values], int] = 1,
    immediate_bits: int | None = None,
    spaced: bool = False,
    real: int = 0,
    fields: Mapping[str, Field] = _NO_FIELDS,
    default: int = 0,
    fixed: Values = _NO_VALUES,
    illegal: tuple[Callable[[Values], bool], ...] = (),
) -> list[Form]:
    """The forms of an instruction whose operand b is a register, a constant or an immediate.

    The variants are "r", b is a register; "c", a constant; "i", an immediate; "rc", a register in
    the field Rc, while c is a constant.

    Parameters
    ----------
    codes : mapping
        Variant -> match and mask, in the upper 16 bits of a word.
    operands : mapping
        Those of variant "r".
    b, b_span : Adjust, int or function
        How operand b may be adjusted; how many registers it covers.
    immediate_bits : int or None
        As ``bits`` of Immediate, for variant "i".
    spaced : bool
        See Constant.
    real : int
        An immediate is a floating-point number of so many bits; of more than 20 it has the upper
        20. 0: an integer.
    fixed : mapping
        Values of modifiers' fields that belong to match and mask, too.
    name, modifiers, pipe, fields, default, illegal
        See :func:`define`.
    """
    adjust_c = getattr(operands.get("c"), "adjust", PLAIN)
    fixed_match = fixed_mask = 0
    for extra, _ in modifiers:
        for field_name in extra.keys() & fixed.keys():
            fixed_match = extra[field_name].put(fixed_match, fixed[field_name])
            fixed_mask |= extra[field_name].mask
    immediate = Immediate("imm", immediate_bits, b)
    if real:
        immediate = Immediate(f"real{real}", adjust=b, real=real)
    forms = []
    for variant, (match, mask) in codes.items():
        reuse = 1 if pipe is not Pipe.CONVERSION else None
        kinds: dict[str, dict[str, Operand]] = {
            "r": {"b": Register("Rb", span=b_span, adjust=b, reuse=reuse)},
            "c": {"b": Constant(adjust=b, spaced=spaced)},
            "i": {"b": immediate},
            "rc": {
                "b": Register("Rc", span=b_span, adjust=b, reuse=1),
                "c": Constant(adjust=adjust_c),
            },
        }
        forms.append(
            define(
                name,
                match << 48 | fixed_match,
                mask << 48 | fixed_mask,
                pipe,
                dict(operands) | kinds[variant],
                modifiers,
                variant=variant,
                fields=fields,
                default=default,
                illegal=illegal,
            )
        )
    return forms
