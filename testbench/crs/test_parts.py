"""Parts of the stack: shortened arithmetic against its plain form, predicates of operations, and
the grant of the access stage.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from amaranth.hdl import Elaboratable, Module, Signal, Value
from amaranth.sim import Simulator

from rtl.crs.access import AccessArbiter, AccessSource
from rtl.crs.compare import equal_in_parts, successor
from rtl.crs.engine import Action
from rtl.crs.operations import StepOperation
from rtl.crs.records import Parking
from rtl.layouts import StackOperation
from rtl.params import PRESETS

_BITS = 7


class _Function(Elaboratable):
    """A combinational function of two numbers."""

    def __init__(self, function: Callable[[Any, Any], Any], shape: Any = _BITS) -> None:
        self.left: Any = Signal(shape)
        self.right: Any = Signal(shape)
        self._value = Value.cast(function(self.left, self.right))
        self.result = Signal(len(self._value))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.result.eq(self._value)
        return m


def table(dut: _Function, lefts: Any, rights: Any = (0,)) -> dict[tuple[Any, Any], int]:
    """The value of a function for each pair of numbers."""
    values = {}

    async def play(ctx: Any) -> None:
        for left, right in product(lefts, rights):
            ctx.set(dut.left, left)
            ctx.set(dut.right, right)
            values[left, right] = ctx.get(dut.result)

    simulator = Simulator(dut)
    simulator.add_testbench(play)
    simulator.run()
    return values


@pytest.mark.parametrize("bits", range(1, _BITS + 1))
def test_the_successor_is_one_more(bits):
    values = table(_Function(lambda number, _: successor(number, bits)), range(1 << _BITS))
    assert values == {(number, 0): (number + 1) % (1 << bits) for number, _ in values}


@pytest.mark.parametrize("parts", (1, 2, 3, 5))
def test_numbers_are_equal_if_all_parts_are(parts):
    def all_equal(left: Any, right: Any) -> Value:
        equal = equal_in_parts(left, right, parts)
        assert len(equal) == parts
        return equal.all()

    values = table(_Function(all_equal), range(1 << _BITS), (0, 1, 37, 64, 127))
    assert values == {(left, right): left == right for left, right in values}


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("is_push", "PUSH CALL PREPARE_CALL"),
        ("counts_call", "CALL PREPARE_CALL"),
        ("is_unwind", "UNWIND POP_QUAD RESTORE CLEAR"),
        ("needs_token", "POP_QUAD RESTORE"),
        (
            "is_blocking",
            "UNWIND POP_QUAD RESTORE CLEAR SET_POINTER SET_BASE WRITE_BACK FINISH_WRITE_BACK LAUNCH LOAD",
        ),
        ("moves_region", "LAUNCH SET_BASE"),
        ("changes_mode", "SET_MODE RESTORE"),
        ("has_no_result", "WRITE_BACK LOAD"),
    ],
)
def test_predicates_of_operations(predicate, expected):
    values = table(
        _Function(lambda operation, _: getattr(operation, predicate), StepOperation),
        StepOperation,
        (StepOperation.NONE,),
    )
    assert {operation.name for (operation, _), value in values.items() if value} == set(
        expected.split()
    )


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("is_for_arrival", "DISCARD FAIL INSTALL"),
        ("fills", "FILL WAKE_AND_FILL"),
        ("wakes", "WAKE WAKE_AND_FILL"),
    ],
)
def test_predicates_of_actions(predicate, expected):
    values = table(
        _Function(lambda action, _: getattr(action, predicate), Action), Action, (Action.NONE,)
    )
    assert {action.name for (action, _), value in values.items() if value} == set(expected.split())


def test_each_request_is_a_step_of_the_same_name():
    assert {operation.name for operation in StackOperation} < {
        operation.name for operation in StepOperation
    }


# An unwind, whether it was replayed, a replay, a request; and which of them is granted the stage.
_GRANTS = [
    (0, 0, 0, 0, AccessSource.NONE),
    (0, 0, 0, 1, AccessSource.REQUEST),
    (0, 0, 1, 1, AccessSource.REPLAY),
    (1, 0, 0, 0, AccessSource.UNWIND),
    (1, 0, 0, 1, AccessSource.REQUEST),
    (1, 0, 1, 0, AccessSource.REPLAY),
    (1, 0, 1, 1, AccessSource.REPLAY),
    (1, 1, 0, 1, AccessSource.UNWIND),
    (1, 1, 1, 1, AccessSource.UNWIND),
]


@pytest.mark.parametrize(("unwind", "has_replayed", "replay", "request_valid", "expected"), _GRANTS)
def test_the_grant_of_the_access_stage(unwind, has_replayed, replay, request_valid, expected):
    dut: Any = AccessArbiter(PRESETS["tiny"])
    got = {}

    async def play(ctx: Any) -> None:
        ctx.set(dut.replay.valid, replay)
        ctx.set(dut.replay.payload.parking, Parking.LOAD)
        await ctx.tick()
        ctx.set(dut.replay.valid, 0)
        ctx.set(dut.unwind.valid, unwind)
        ctx.set(dut.unwind.payload.step.replayed, has_replayed)
        ctx.set(dut.request.valid, request_valid)
        ctx.set(dut.request.payload.operation, StackOperation.PUSH)
        got["grant"] = ctx.get(dut.grant)
        got["ready"] = ctx.get(dut.request.ready)
        got["replays"] = ctx.get(dut.unwind_replays)
        await ctx.tick()
        got["replayed"] = ctx.get(dut.replayed.valid)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(play)
    simulator.run()
    waits = unwind and expected is not AccessSource.UNWIND
    assert got["grant"] is expected
    assert got["ready"] == (expected in (AccessSource.REQUEST, AccessSource.NONE))
    assert got["replays"] == waits
    assert got["replayed"] == (waits or (replay and expected is AccessSource.UNWIND))
