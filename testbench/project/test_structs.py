"""Assignments of whole structs."""

from typing import Any

import pytest
from amaranth.hdl import Module, Signal, Value, signed, unsigned
from amaranth.lib import data, enum
from amaranth.sim import Simulator

from rtl.structs import common_fields, struct_value


class Kind(enum.Enum, shape=2):
    FIRST = 1
    SECOND = 2


class Whole(data.Struct):
    kind: Kind
    difference: signed(6)
    flag: unsigned(1)


OTHER = data.StructLayout({"flag": 1, "rest": 3, "kind": Kind})


def settled(m: Module, target: Any) -> dict[str, int]:
    """Returns the fields of a struct, as the module assigns them."""
    fields: dict[str, int] = {}

    async def bench(context: Any) -> None:
        for name, _ in data.Layout.cast(target.shape()):
            fields[str(name)] = int(context.get(Value.cast(target[name])))

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    return fields


def test_a_struct_value_has_each_field_in_its_place() -> None:
    m = Module()
    target = Signal(Whole)
    low = Signal(signed(3), init=-2)
    m.d.comb += target.eq(struct_value(Whole, flag=1, difference=low, kind=Kind.SECOND))
    assert settled(m, target) == {"kind": 2, "difference": -2, "flag": 1}


def test_a_struct_value_cuts_what_is_too_wide_as_eq_does() -> None:
    m = Module()
    target = Signal(OTHER)
    m.d.comb += target.eq(
        struct_value(OTHER, flag=0, rest=Signal(5, init=0b11010), kind=Kind.FIRST)
    )
    assert settled(m, target) == {"flag": 0, "rest": 0b010, "kind": 1}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"flag": 1, "rest": 0}, "missing fields of a struct: kind"),
        ({"flag": 1, "rest": 0, "kind": 1, "other": 1}, "unknown fields of a struct: other"),
    ],
)
def test_a_struct_value_names_fields_that_are_missing_or_unknown(
    fields: dict[str, int], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        struct_value(OTHER, **fields)


def test_common_fields_are_assigned_and_others_stay() -> None:
    m = Module()
    target = Signal(OTHER)
    source = Signal(Whole)
    m.d.comb += source.eq(struct_value(Whole, kind=Kind.SECOND, difference=3, flag=1))
    m.d.comb += target.rest.eq(5)
    m.d.comb += common_fields(target, source)
    assert settled(m, target) == {"flag": 1, "rest": 5, "kind": 2}


def test_common_fields_of_different_widths_or_none_are_refused() -> None:
    with pytest.raises(TypeError, match="no field in common"):
        common_fields(Signal(OTHER), Signal(data.StructLayout({"pc": 32})))
    with pytest.raises(
        TypeError, match="field rest is 4 bits wide in one struct and 3 in the other"
    ):
        common_fields(Signal(OTHER), Signal(data.StructLayout({"rest": 4})))
