"""Breakpoints, and the notations of code addresses."""

import pytest

from sim.debugger.addresses import FunctionAddresses, number
from sim.debugger.breakpoints import Breakpoints
from sim.debugger.errors import DebuggerError
from testbench.debugger.commands.fake_machine import (
    refusal,
    run,
)


def addresses(lines):
    return [int(line[6:12], 16) for line in lines if "0x" in line[:12]]


def test_breakpoints_have_numbers_and_hide_instructions_only_while_they_are_planted(session):
    memory, base = session.machine.memory, session.area.launch.program_base
    points = Breakpoints(base)
    original = memory.read_number(base + 0x10, 8)
    assert [points.add(0x10), points.add(0x28), points.add(0x10)] == [1, 2, 1]
    assert (len(points), points.addresses, 0x10 in points, 0x18 in points) == (
        2,
        {1: 0x10, 2: 0x28},
        True,
        False,
    )
    points.plant(memory)
    points.plant(memory)
    assert memory.read_number(base + 0x10, 8) != original == points.word(memory, 0x10)
    points.lift(memory)
    assert memory.read_number(base + 0x10, 8) == original
    assert points.remove(1) == 0x10 and points.add(0x10) == 3
    assert points.number(0x28) == 2
    with pytest.raises(KeyError):
        points.remove(1)
    points.plant(memory)
    points.forget_memory()
    assert points.word(memory, 0x10) != original


def test_breakpoints_are_marked_and_listed(session):
    session.look_at(1)
    session.breakpoints.add(0x28)
    assert run(session, "break") == ["breakpoint 1 at 0x0028 inner"]
    marked = [line for line in run(session, "disassemble k 5") if "*" in line]
    assert addresses(marked) == [0x28] and marked[0].startswith("     *0x0028  ")
    assert refusal(session, "delete 2") == "there is no breakpoint 2; there are 1"
    session.breakpoints.remove(1)
    assert run(session, "break") == ["no breakpoints"]
    assert refusal(session, "delete 2") == "there is no breakpoint 2; there are none"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("k", 0x08),
        ("k+0x10", 0x10),
        ("inner", 0x28),
        ("$k$inner+8", 0x30),
        ("0x20", 0x28),
        ("24", 24),
    ],
)
def test_an_address_is_a_function_an_offset_in_it_or_a_number(text, address):
    functions = FunctionAddresses({"k": 0, "$k$inner": 0x28}, 0x80)
    assert functions.address(text) == address
    assert functions.names == ["$k$inner", "inner", "k"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "no function x; there are $k$f, f, k; labels are not in the program: use an address"),
        ("k+4", "k+4: 0x4 is no multiple of 8"),
        ("0x80", "0x80: 0x80 is behind the program, which has 0x80 bytes"),
        ("k+y", "'y' is no offset"),
        ("k+-8", "'-8' is no offset"),
        ("0x", "'0x' is no address"),
    ],
)
def test_an_address_outside_of_the_program_is_refused(text, message):
    with pytest.raises(DebuggerError) as refused:
        FunctionAddresses({"k": 0, "$k$f": 0x28}, 0x80).address(text)
    assert str(refused.value) == message


def test_an_address_is_named_by_its_function():
    functions = FunctionAddresses({"k": 0x20, "$k$f": 0x48, "$l$f": 0x60}, 0x80)
    names = {
        at: functions.name(at) for at in (0x18, 0x20, 0x28, 0x30, 0x48, 0x50, 0x68, 0x78, 0x80)
    }
    assert names == {
        0x18: "",
        0x20: "k",
        0x28: "k",
        0x30: "k+0x10",
        0x48: "$k$f",
        0x50: "$k$f+0x8",
        0x68: "$l$f",
        0x78: "$l$f+0x18",
        0x80: "",
    }
    assert functions.names == ["$k$f", "$l$f", "k"]


def test_a_number_is_not_negative():
    assert [number(text, "n") for text in ("0", "7", "0x1f")] == [0, 7, 31]
    for text in ("-1", "x", ""):
        with pytest.raises(DebuggerError, match=f"^'{text}' is no n$"):
            number(text, "n")
