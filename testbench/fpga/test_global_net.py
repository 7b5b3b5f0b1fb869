"""Resets on global nets: a wire in simulation, a buffer of the device on a board."""

import re

from amaranth.hdl import ClockDomain, Module

from rtl.fpga.global_net import GlobalNet
from rtl.fpga.pll import ClockGenerator, find_pll
from testbench.fpga.platform import on_ulx3s
from testbench.simulation import combinational


def test_a_global_net_is_a_wire_in_simulation():
    dut = GlobalNet()

    async def testbench(ctx):
        for value in (1, 0, 1):
            ctx.set(dut.i, value)
            assert ctx.get(dut.o) == value

    combinational(dut, testbench)


def test_the_reset_of_a_board_is_on_a_global_net():
    def describe(m: Module, platform: object) -> None:
        m.domains.sync = ClockDomain()
        m.submodules.clock = ClockGenerator(find_pll(25e6, 50e6), 25e6)

    text = on_ulx3s(describe)
    (buffer,) = re.findall(r"cell \\DCCA \S+\n(.*?)end\n", text, re.DOTALL)
    assert "connect \\CE 1'1" in buffer
