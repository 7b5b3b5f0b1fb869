"""Scopes and names of a PTX text: name lookup in nested scopes, and the registers of a range."""

import pytest
from lark import Token

from sim.toolchain.grammar import SourceError
from sim.toolchain.ptx.module import PtxLabel, PtxRegister, Type
from sim.toolchain.ptx.names import Namer, RegisterVector, Scope


def token(text: str, line: int = 1) -> Token:
    return Token("WORD", text, line=line, column=1)


def register(scope: Scope, name: str) -> PtxRegister:
    """Returns the register that a name denotes."""
    found = scope.find(token(name))
    assert isinstance(found, PtxRegister)
    return found


def function_scope() -> Scope:
    """Returns the scope of a function in a module."""
    return Scope(Namer(), Scope(Namer()))


def test_each_name_is_given_out_once():
    namer = Namer({"x"})
    assert [namer.unique(name) for name in ("y", "x", "y", "x", "y", "x.1")] == [
        "y", "x.1", "y.1", "x.2", "y.2", "x.1.1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "has", "lacks"),
    [
        (1, ["0"], ["1", "00", ""]),
        (10, ["0", "9"], ["10", "09", "-1", "1x"]),
        (12, ["0", "9", "10", "11"], ["12", "20", "99", "011", "110"]),
        (100, ["99"], ["100", "\u0663"]),
        (0, [], ["0"]),
    ],
)
def test_a_range_has_the_registers_with_numbers_below_its_count(count, has, lacks):
    scope = function_scope()
    scope.declare_range(token("r"), count, Type.B32)
    assert [register(scope, f"r{number}").name for number in has] == [f"r{each}" for each in has]
    assert all(scope.find(token(f"r{number}")) is None for number in lacks)
    assert scope.find(token("s0")) is None


def test_a_register_of_a_range_is_there_once_it_is_named_and_stays_the_same():
    scope = function_scope()
    scope.declare_range(token("r"), 3, Type.F32)
    inner = scope.inner()
    first = register(inner, "r1")
    assert first is scope.find(token("r1")) and first.type is Type.F32
    assert scope.registers == [first] and inner.registers is scope.registers
    assert inner.inner().outermost is scope.outer


def test_a_name_means_what_the_innermost_scope_says():
    scope = function_scope()
    outside, inside = PtxLabel("outside"), PtxLabel("inside")
    scope.declare(token("x"), outside)
    inner = scope.inner()
    assert inner.find(token("x")) is outside
    inner.declare(token("x"), inside)
    assert (inner.find(token("x")), scope.find(token("x"))) == (inside, outside)
    assert inner.find(token("y")) is None


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("x", "x", "x is declared twice"),
        ("r3", "r<4>", "r3 is declared twice"),
        ("r<4>", "r3", "r3 is declared twice"),
        ("r<4>", "r<1>", "r0 is declared twice"),
        ("r<20>", "r1<1>", "r10 is declared twice"),
        ("r1<1>", "r<20>", "r10 is declared twice"),
        ("r<16>", "r1<3>", "r10 is declared twice"),
        ("r<200>", "r19<10>", "r190 is declared twice"),
        ("r4", "r<4>", None),
        ("r<4>", "r4", None),
        ("r<10>", "r1<3>", None),
        ("r<4>", "s<4>", None),
        ("r<190>", "r19<10>", None),
        ("r<20>", "r0<10>", None),
    ],
)
def test_a_scope_has_each_name_once(first, second, message):
    """The message has the second position and the line of the first."""
    scope = function_scope()

    def declare(text: str, line: int) -> None:
        name, _, count = text.rstrip(">").partition("<")
        if count:
            scope.declare_range(token(name, line), int(count), Type.B32)
        else:
            scope.declare(token(name, line), PtxLabel(name))

    declare(first, 7)
    if message is None:
        declare(second, 8)
        return
    with pytest.raises(SourceError) as caught:
        declare(second, 8)
    assert str(caught.value) == f"{message} in the same scope, first in line 7"
    assert caught.value.line == 8


def test_a_range_has_up_to_a_million_registers():
    scope = function_scope()
    scope.declare_range(token("r"), 1 << 20, Type.B32)
    assert scope.find(token("r1048575")) is not None
    with pytest.raises(SourceError, match=r"^s<1048577> are too many registers: 1048576 at most$"):
        scope.declare_range(token("s"), (1 << 20) + 1, Type.B32)


def test_a_function_has_registers_of_its_own_for_those_of_the_module():
    module = Scope(Namer())
    module.declare_range(token("r"), 2, Type.B32)
    pair = RegisterVector(tuple(module.new_register(f"v.{each}", Type.F32) for each in "xy"))
    module.declare(token("v"), pair)
    label = PtxLabel("x")
    module.declare(token("x"), label)
    functions = [Scope(Namer(), module) for _ in range(2)]
    own = [register(scope.inner(), "r1") for scope in functions]
    of_module = register(module, "r1")
    assert len({id(each) for each in (*own, of_module)}) == 3
    assert [scope.copies for scope in functions] == [{of_module: each} for each in own]
    assert [each.type for each in own] == [Type.B32, Type.B32]
    vector = functions[0].find(token("v"))
    assert functions[0].find(token("v")) is vector and vector is not pair
    assert isinstance(vector, RegisterVector)
    assert [functions[0].copies[each] for each in pair.elements] == [*vector.elements]
    assert functions[0].find(token("x")) is label
