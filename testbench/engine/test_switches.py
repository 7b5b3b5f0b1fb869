"""Switches of a netlist: which arms can be evaluated together, and their result for each value."""

from typing import Any

import pytest
from amaranth.hdl import Fragment, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from sim.engine.internals import PriorityMatch
from sim.engine.netlist import to_netlist, with_ports
from sim.engine.switches import Switches, arms_by_number


class Chosen(wiring.Component):
    """One of several numbers, selected by the patterns of a value, or the default."""

    def __init__(self, width, patterns, default=False):
        super().__init__({"value": In(width), "result": Out(8)})
        self.patterns, self._default = patterns, default

    def elaborate(self: Any, platform):
        m = Module()
        unused = Signal()
        m.d.sync += unused.eq(~unused)
        with m.Switch(self.value):
            for number, patterns in enumerate(self.patterns, 1):
                with m.Case(*patterns):
                    m.d.comb += self.result.eq(number)
            if self._default:
                with m.Default():
                    m.d.comb += self.result.eq(99)
        return m


def switches_of(*arguments):
    """Returns the switches of a design, its priority cell, and the nets of its arms."""
    dut = Chosen(*arguments)
    netlist = to_netlist(with_ports(Fragment.get(dut, None).prepare()))
    number, cell = max(
        ((at, one) for at, one in enumerate(netlist.cells) if isinstance(one, PriorityMatch)),
        key=lambda found: len(found[1].inputs),
    )
    return netlist, Switches(netlist.cells), cell, number


def arm(netlist, number):
    """Returns the net of one output of a cell."""
    return next(
        net
        for cell in netlist.cells
        for assignment in getattr(cell, "assignments", ())
        for net in (assignment.cond,)
        if not net.is_const and net.cell == number
    )


def test_for_each_number_the_first_arm_that_it_fits():
    patterns = (((0b1100, 0b0100),), ((0b0001, 0b0001), (0b1111, 0b0000)), ((0b1000, 0b1000),))
    expected = []
    for number in range(16):
        if number >> 2 == 1:
            expected.append(0)
        elif number & 1 or number == 0:
            expected.append(1)
        else:
            expected.append(2 if number & 8 else -1)
    assert arms_by_number(4, patterns) == tuple(expected)


@pytest.mark.parametrize("width", [2, 8])
def test_a_switch_of_up_to_8_bits_chooses_by_number(width):
    fill = "-" * (width - 2)
    netlist, switches, cell, number = switches_of(
        width, [[f"{fill}00", f"{fill}11"], [f"{fill}-1"]]
    )
    found = switches.of(arm(netlist, number))
    assert found is not None and found is switches.of(arm(netlist, number))
    assert found.enable == cell.en and len(found.value) == width
    assert found.choose({0: 100, 1: 200}, 7) == tuple(
        (100, 200, 7, 100)[value & 3] for value in range(1 << width)
    )
    assert found.choose({1: 200}, 7)[:4] == (7, 200, 7, 7)


def test_a_wider_switch_and_one_with_a_default_do_not_choose_by_number():
    wide = [["-" * 8 + "1"], ["1" + "-" * 8]]
    netlist, switches, _, number = switches_of(9, wide)
    assert switches.of(arm(netlist, number)) is None
    netlist, switches, cell, number = switches_of(4, [["00--"], ["01--"], ["1---"]], True)
    assert switches.of(arm(netlist, number)) is None
    assert switches.of(cell.en) is None
    assert switches.of(cell.inputs[0]) is None


def two_values():
    """Returns a priority cell whose arms test two values, with the switches of its netlist."""
    netlist, _, cell, _ = switches_of(4, [["00--"], ["01--"], ["1---"], ["011-"]])
    third = netlist.cells[cell.inputs[2].cell]
    third.value = type(third.value)(reversed(list(third.value)))
    return Switches(netlist.cells), cell, netlist


def test_arms_whose_patterns_exclude_each_other_are_no_rivals():
    _, switches, cell, _ = switches_of(4, [["00--"], ["01--", "10--"], ["--11"], ["11-0"]])
    first, second, third, fourth = cell.inputs
    assert list(switches.rivals(cell, 0)) == []
    assert list(switches.rivals(cell, 1)) == []
    assert list(switches.rivals(cell, 2)) == [first, second]
    assert list(switches.rivals(cell, 3)) == []
    assert third not in switches.rivals(cell, 3) and fourth not in cell.inputs[:3]


def test_patterns_of_two_values_exclude_nothing_and_choose_nothing():
    switches, cell, netlist = two_values()
    assert list(switches.rivals(cell, 1)) == []
    assert list(switches.rivals(cell, 2)) == list(cell.inputs[:2])
    assert list(switches.rivals(cell, 3)) == [cell.inputs[1], cell.inputs[2]]
    number = next(at for at, one in enumerate(netlist.cells) if one is cell)
    assert switches.of(arm(netlist, number)) is None


def test_an_arm_of_any_value_has_all_earlier_ones_as_rivals():
    _, switches, cell, _ = switches_of(4, [["00--"], ["01--"]], True)
    assert cell.inputs[2].is_const
    assert list(switches.rivals(cell, 2)) == list(cell.inputs[:2])


@pytest.mark.parametrize("count", [4, 5])
def test_where_more_than_four_arms_are_rivals_all_earlier_ones_are_tested(count):
    """The test of all earlier arms is shared."""
    rivals = [[f"{number:03b}-"] for number in range(count)]
    _, switches, cell, _ = switches_of(4, [["1111"], *rivals, ["---0"]])
    assert list(switches.rivals(cell, count + 1)) == list(
        cell.inputs[1 : count + 1] if count == 4 else cell.inputs[: count + 1]
    )
