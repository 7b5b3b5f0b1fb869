"""Control codes as text: each part, its default, and refused values."""

import pytest
from lark import Token

from rtl.isa.control_code import ControlCode
from sim.toolchain.assembly.control_text import control_text, read_control
from sim.toolchain.assembly.source import SourceError

NONE = 7
"""Code for no scoreboard."""


def read(text: str, reuse: int = 0) -> ControlCode:
    return read_control(Token("CONTROL", text), reuse)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ControlCode(1, 1, NONE, NONE, 0, 0), "[B------:R-:W-:-:S01]"),
        (ControlCode(15, 0, 0, 5, 0b111111, 0), "[B012345:R5:W0:Y:S15]"),
        (ControlCode(0, 1, 5, 0, 0b100001, 0), "[B0----5:R0:W5:-:S00]"),
        (ControlCode(10, 0, NONE, 3, 0b010010, 0), "[B-1--4-:R3:W-:Y:S10]"),
    ],
)
def test_a_code_has_a_text_in_columns_that_is_read_back(code, text):
    assert control_text(code) == text and read(text) == code


def test_reuse_bits_are_a_number_where_they_are_nowhere_else():
    code = ControlCode(1, 1, NONE, NONE, 0, 5)
    assert control_text(code, reuse=True) == "[B------:R-:W-:-:S01:U5]"
    assert read("[B------:R-:W-:-:S01:U5]") == code
    assert read("[U15]").reuse == 15 and read("[U4]", 2).reuse == 6 and read("[S1]", 9).reuse == 9


def test_what_is_left_out_says_nothing():
    for text in ("[-]", "[S1]", "[S01]", "[R-]", "[W-:R-:B-]", "[-:-]"):
        assert read(text) == ControlCode(1, 1, NONE, NONE, 0, 0)
    assert read("[S5:W2:B53:Y]") == ControlCode(5, 0, 2, NONE, 0b101000, 0)


@pytest.mark.parametrize("part", ["B6", "R6", "W6", "B", "R", "Y1", "S", "X1", "S-1", "U", "R12"])
def test_a_part_that_is_none_is_refused(part):
    for text in (f"[{part}]", f"[S1:{part}]"):
        with pytest.raises(SourceError) as caught:
            read(text)
        assert str(caught.value) == (
            f"control codes {text}: {part} is no part of them, or stands twice: expected B, R, W, Y and S, "
            "such as [B01:R2:W3:Y:S5]"
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "nothing is no part of them"),
        ("[S1:S2]", "S2 is no part of them"),
        ("[Y:Y]", "Y is no part of them"),
        ("[S16]", "a stall of 16 cycles is not in 0..15"),
        ("[U16]", "reuse bits 16 are not in 0..15"),
    ],
)
def test_a_code_that_is_none_is_refused(text, message):
    with pytest.raises(SourceError) as caught:
        read(text)
    assert str(caught.value).startswith(f"control codes {text}: {message}")
