"""The syntax tree of PTX text."""

from collections.abc import Iterator
from typing import Any

import pytest
from lark import Token

from sim.toolchain.grammar import Node, Number
from sim.toolchain.ptx.front_end import parse_ptx
from sim.toolchain.ptx.module import PtxInstruction
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
    """Yields all leaves of a tree: types, texts and positions."""
    if isinstance(node, Token | Number):
        kind = "NUMBER" if isinstance(node, Number) else node.type
        yield kind, str(node), node.line, node.column
    elif isinstance(node, Node | list):
        for part in node if isinstance(node, list) else vars(node).values():
            yield from _leaves(part)


@pytest.mark.parametrize("statement", _STATEMENTS)
def test_an_instruction_of_one_token_is_what_the_grammars_rule_makes_of_its_parts(statement: str):
    """A comment before the semicolon prevents the one-token form, and changes no position."""
    one, apart = (
        parse(f".func f\n{{\n  {text}\n}}")
        for text in (statement, statement.replace(";", "/* */;"))
    )
    assert one == apart
    assert list(_leaves(one)) == list(_leaves(apart))


PLACES = """\
.version 7.8
.target sm_50
.address_size 64
.func (.reg .b32 r) callee(.reg .b32 t);
  .func empty() { }
.visible .entry k(.param .u64 o)
{
    .reg .b32 t, r; .reg .pred p;
    mov.u32 t, %tid.x;  setp.lt.u32 p, t, 5;
    @p {
        add.u32 r, t, 1;
    }
  @!p mov.u32 r, 5;
      add.u32 r, r, t + 3 * 2;
}
"""


def test_everything_of_a_function_knows_its_line_and_column():
    """A block under a guard is skipped by a branch at the guard's position. A body without an end
    instruction ends at its last statement, or else at the function's name.
    """
    functions = parse_ptx(PLACES, "places.ptx").functions
    assert {name: (each.line, each.column) for name, each in functions.items()} == {
        "callee": (4, 21), "empty": (5, 9), "k": (6, 17),
    }  # fmt: skip
    places = {
        name: [
            (item.opcode, item.line, item.column)
            for item in each.body or ()
            if isinstance(item, PtxInstruction)
        ]
        for name, each in functions.items()
    }
    assert places == {
        "callee": [],
        "empty": [("ret", 5, 9)],
        "k": [
            ("mov", 9, 5), ("setp", 9, 25), ("bra", 10, 6), ("add", 11, 9), ("mov", 13, 7), ("add", 14, 7),
            ("add", 14, 7),  # position of the expression
            ("ret", 14, 7),
        ],
    }  # fmt: skip
