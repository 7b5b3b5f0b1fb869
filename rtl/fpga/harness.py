"""Frames in which a unit is synthesized by itself."""

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["BareUnit", "TimingHarness", "ports_of"]


def ports_of(unit: wiring.Component) -> Iterator[tuple[str, wiring.Flow, Value]]:
    """The ports of a unit: name, direction seen from outside, bits."""
    for path, member, port in unit.signature.flatten(unit):
        yield "__".join(map(str, path)), member.flow, Value.cast(port)


class BareUnit(wiring.Component):
    """A unit with its own ports, clocked as on a board: registers start from their initial values, without a reset.

    Members
    -------
    clk : In(1)
        The clock.
    The unit's members, flattened, under their names with ``__`` between the parts.
    """

    def __init__(self, unit: wiring.Component) -> None:
        self._unit: Any = unit
        self._ports = list(ports_of(unit))
        super().__init__({"clk": In(1)} | {name: (In if flow is wiring.In else Out)(len(bits))
                                           for name, flow, bits in self._ports})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.submodules.unit = self._unit
        for name, flow, bits in [("clk", wiring.In, ClockSignal()), *self._ports]:
            outer = getattr(self, name)
            m.d.comb += bits.eq(outer) if flow is wiring.In else outer.eq(bits)
        return m


class TimingHarness(wiring.Component):
    """A unit between registers, reached through three pins.

    Every input of the unit is driven by a register, called ``input.`` and its name; these form a shift register, so
    that they can take any value. Every output ends in a register, ``output.`` and its name, and these are folded into
    a signature that leaves through a pin. So nothing can be optimised away, and every path through the unit is one
    from register to register.

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
        for name, flow, bits in ports_of(self._unit):
            if flow is wiring.In:
                register = Signal(len(bits), name=f"input.{name}")
                m.d.comb += bits.eq(register)
                driven.append(register)
            else:
                register = Signal(len(bits), name=f"output.{name}")
                m.d.sync += register.eq(bits)
                taken.append(register)
        inputs, outputs = Cat(driven), Cat(taken)
        folded = Signal(len(outputs) + 1)
        m.d.sync += [inputs.eq(Cat(self.scan_in, inputs)), folded.eq(Cat(0, outputs ^ folded))]
        m.d.comb += self.scan_out.eq(folded[-1])
        return m
