"""The tree of PTX text."""

from collections.abc import Iterator
from typing import Any

import pytest
from lark import Token

from sim.toolchain.grammar import Node, Number
from sim.toolchain.ptx.parser import parse

_STATEMENTS = (
    "add.u32 %r1, %r2, 7;",
    "add.s32\t%r1 ,%r2,-7 ;",
    "@%p1 mov.f32 %f1, 0f3F800000;",
    "@!p fma.rn.ftz.f64 d, a, 0d3FF0000000000000, _;",
    "ld.param.u64 %rd1, [_Z1fPi_param_0];",
    "st.const[3].u8 [%SP+0x1c], $x;",
    "bra L1;",
    "@%p1 bra.uni $L__BB0_1;",
    "and.b64 a, 0b101, 017U;",
)
"""Instructions that are one token each."""


def _leaves(node: Any) -> Iterator[tuple[str, str, int | None, int | None]]:
    """All that a tree ends in: types, texts and places."""
    if isinstance(node, Token | Number):
        kind = "NUMBER" if isinstance(node, Number) else node.type
        yield kind, str(node), node.line, node.column
    elif isinstance(node, Node | list):
        for part in node if isinstance(node, list) else vars(node).values():
            yield from _leaves(part)


@pytest.mark.parametrize("statement", _STATEMENTS)
def test_an_instruction_of_one_token_is_what_the_grammars_rule_makes_of_its_parts(statement: str):
    """A comment before the semicolon keeps it from being one token, and changes no place."""
    one, apart = (
        parse(f".func f\n{{\n  {text}\n}}")
        for text in (statement, statement.replace(";", "/* */;"))
    )
    assert one == apart
    assert list(_leaves(one)) == list(_leaves(apart))
