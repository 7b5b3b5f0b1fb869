"""A harness in which a unit is placed and routed by itself, to measure its clock rate."""

from typing import Any

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["TimingHarness"]

_STRETCH = 1024
"""The longest chain of registers without a gate between them. Tools process such chains by
recursion, and chains of thousands exhaust the tools' stacks."""


class TimingHarness(wiring.Component):
    """A unit between registers, reached through three pins. ::

        scan_in --> input.* (shift register) --> unit --> output.* --> signature --> scan_out

    The unit is the submodule ``unit``. Every input of it is driven by a register ``input.NAME``;
    these registers form a shift register, so that they can have any value. Every output drives a
    register ``output.NAME``; these are folded into a signature, which is shifted out at a pin. So
    synthesis can remove no part of the unit, and all paths through the unit start and end at
    registers. There is no reset: registers start with their initial values.

    Members
    -------
    clk : In(1)
        The clock.
    scan_in : In(1)
        The input of the shift register.
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
        inputs, outputs = self._register_ports(m)
        self._shift(m, inputs)
        self._fold(m, outputs)
        return m

    def _register_ports(self, m: Module) -> tuple[Value, Value]:
        """Makes the registers of the unit's inputs and outputs, and returns both."""
        inputs = []
        outputs = []
        for path, member, port in self._unit.signature.flatten(self._unit):
            name = "__".join(map(str, path))
            bits = Value.cast(port)
            if member.flow is wiring.In:
                register = Signal(len(bits), name=f"input.{name}")
                m.d.comb += bits.eq(register)
                inputs.append(register)
            else:
                register = Signal(len(bits), name=f"output.{name}")
                m.d.sync += register.eq(bits)
                outputs.append(register)
        return Cat(inputs), Cat(outputs)

    def _shift(self, m: Module, inputs: Value) -> None:
        """Connects the inputs as a shift register, with a gate after every _STRETCH registers."""
        before = Cat(self.scan_in, inputs)[:len(inputs)]
        shifted = [
            bit ^ self.scan_in if number % _STRETCH == _STRETCH - 1 else bit
            for number, bit in enumerate(before)]
        m.d.sync += inputs.eq(Cat(shifted))

    def _fold(self, m: Module, outputs: Value) -> None:
        """The signature: a shift register into which the outputs are XORed in each cycle."""
        signature = Signal(len(outputs) + 1)
        m.d.sync += signature.eq(Cat(0, outputs ^ signature))
        m.d.comb += self.scan_out.eq(signature[-1])
