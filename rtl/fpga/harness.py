"""The frame in which a unit is placed and routed by itself."""

from typing import Any

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["TimingHarness"]

_STRETCH = 1024
"""Registers that follow each other directly. Tools follow rows by recursion, and thousands exhaust their stack."""


class TimingHarness(wiring.Component):
    """A unit between registers, reached through three pins.

    The unit is the submodule ``unit``. Every input of it is driven by a register, called ``input.`` and its name;
    these form a shift register, so that they can take any value. Every output ends in a register, ``output.`` and its
    name, and these are folded into a signature that leaves through a pin. So nothing can be optimised away, and every
    path through the unit is one from register to register. Registers start from their initial values, as on a board;
    there is no reset.

    Members
    -------
    clk : In(1)
        The clock.
    scan_in : In(1)
        What is shifted in.
    scan_out : Out(1)
        A bit of the signature.
    """

    clk: In(1)
    scan_in: In(1)
    scan_out: Out(1)

    def __init__(self, unit: wiring.Component) -> None:
        super().__init__()
        self._unit: Any = unit

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.submodules.unit = self._unit
        m.d.comb += ClockSignal().eq(self.clk)
        driven, taken = [], []
        for path, member, port in self._unit.signature.flatten(self._unit):
            name, bits = "__".join(map(str, path)), Value.cast(port)
            if member.flow is wiring.In:
                register = Signal(len(bits), name=f"input.{name}")
                m.d.comb += bits.eq(register)
                driven.append(register)
            else:
                register = Signal(len(bits), name=f"output.{name}")
                m.d.sync += register.eq(bits)
                taken.append(register)
        inputs, outputs = Cat(driven), Cat(taken)
        folded = Signal(len(outputs) + 1)
        before = Cat(self.scan_in, inputs)[:len(inputs)]
        m.d.sync += [inputs.eq(Cat(bit ^ self.scan_in if number % _STRETCH == _STRETCH - 1 else bit
                                   for number, bit in enumerate(before))), folded.eq(Cat(0, outputs ^ folded))]
        m.d.comb += self.scan_out.eq(folded[-1])
        return m
