"""Parses PTX text to a syntax tree by the grammar in ``ptx.lark``."""

import re
from functools import cache

from lark import Lark, Token

from sim.toolchain.grammar import (
    Number,
    SourceError,
    make_parser,
    parse_text,
    part_of,
    whole_number,
)

from . import syntax

__all__ = ["parse"]


@cache
def _parser() -> Lark:
    return make_parser(
        "sim.toolchain.ptx",
        "ptx.lark",
        syntax,
        "Node",
        _LISTS,
        {
            "NUMBER": _number,
            "LONE_NAME": _lone_name,
            "PLAIN_INSTRUCTION": _plain_instruction,
        },
    )


def parse(text: str) -> list[syntax.ItemNode]:
    """Returns the items of a PTX text.

    Raises:
        SourceError: The text has a syntax error.
    """
    ends = {"$END": "the text ends here"}
    return parse_text(_parser(), text, _PHRASES, ends, ("PLAIN_INSTRUCTION",))


def _number(token: Token) -> Number:
    """Returns the value of an integer.

    Raises:
        SourceError: It has more than 64 bits, or digits that its base does not have.
    """
    text = token.removesuffix("U")
    octal = len(text) > 1 and text.isdigit() and text[0] == "0"
    if octal and not set(text) <= set("01234567"):
        raise SourceError(token, f"{token} is no octal number, which a leading 0 makes it")
    value = whole_number(token, text, 8 if octal else 0)
    if value >= 1 << 64:
        raise SourceError(token, f"{token} does not fit 64 bits")
    return Number(token, value)


def _lone_name(token: Token) -> syntax.ExpressionNode:
    """Returns the expression for a single name. The token gets the type of other names' tokens,
    since tokens of different types are not equal.
    """
    token.type = "WORD"
    return syntax.ExpressionNode([syntax.NameNode(token, None)])


_HEAD = re.compile(r"(?:@(!?)([\w$%]+)[ \t]+)?([^\s;]+)")
"""The guard of a plain instruction, negated or not, and its opcode with its modifiers."""
_OPERAND = re.compile(r"(\[?)(-?)([\w$%]+)(?:(\+)(\w+))?")
"""An operand of a plain instruction: ``[``, a sign, a name or number, and an added number."""
_FLOATING = ("0f", "0d")


def _plain_instruction(token: Token) -> syntax.InstructionNode:
    """Parses an instruction whose whole text is one token; see PLAIN_INSTRUCTION in the grammar."""

    def part(kind: str, match: re.Match[str], group: int) -> Token:
        return part_of(token, kind, match[group], match.start(group))

    def value(match: re.Match[str]) -> syntax.ExpressionNode:
        _, minus, first, plus, _ = match.groups()
        if first[:2].lower() in _FLOATING:
            return syntax.ExpressionNode([part("DECIMAL", match, 3)])
        if first[0].isdigit():
            number = _number(part("NUMBER", match, 3))
            return syntax.ExpressionNode(
                [syntax.SignedNode(part("OPERATOR", match, 2), number) if minus else number]
            )
        name = syntax.NameNode(part("WORD", match, 3), None)
        if not plus:
            return syntax.ExpressionNode([name])
        return syntax.ExpressionNode(
            [name, part("OPERATOR", match, 4), _number(part("NUMBER", match, 5))]
        )

    head = _HEAD.match(token)
    assert head is not None
    guard = None
    if head[2]:
        guard = syntax.GuardNode(part("NOT", head, 1) if head[1] else None, part("WORD", head, 2))
    operands: list[syntax.OperandNode] = [
        syntax.AddressNode(value(match), []) if match[1] else value(match)
        for match in _OPERAND.finditer(token, head.end())
    ]
    words = [part("SPELLED" if "." in head[3] else "WORD", head, 3)]
    return syntax.InstructionNode(guard, words, operands)


_LISTS = (
    "body",
    "bounds",
    "coordinates",
    "declarators",
    "dimensions",
    "names",
    "operands",
    "parameters",
    "traits",
    "words",
)
_PHRASES = {
    "$END": "the end of the text",
    "BOUND": "a directive",
    "DECIMAL": "a number",
    "LONE_NAME": "a name",
    "MODIFIER": "a modifier",
    "NUMBER": "a number",
    "OPEN": "'('",
    "OPERATOR": "an operator",
    "PLAIN_INSTRUCTION": "a name",
    "SPELLED": "a name",
    "WORD": "a name",
}
"""Descriptions of the grammar's terminals for messages, if they have more than one text."""
