"""A component with plain ports, for tools and languages that know no structures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import SmParams

from .bare import BareSm

__all__ = ["Flat", "FlatSm", "PlainPort", "plain_ports"]


@dataclass(frozen=True)
class PlainPort:
    """A port without structure: its name and direction, the shape of its value, and where in a signal it lies."""

    name: str
    flow: wiring.Flow
    shape: Shape
    signal: Signal
    offset: int

    @property
    def value(self) -> Value:
        """It, as part of its signal."""
        return self.signal[self.offset:self.offset + self.shape.width]


def plain_ports(component: wiring.Component, members: Sequence[str] = ()) -> Iterator[PlainPort]:
    """The ports of a component, or those of some members, fields of structures one by one. A name is the way through
    interfaces and structures, with ``_`` between the parts; ``payload`` is left out.
    """
    for path, member, port in component.signature.flatten(component):
        if members and path[0] not in members:
            continue
        signal: Any = Value.cast(port)
        fields: list[tuple[str, int, Any]] = [("", 0, signal.shape())]
        if isinstance(port, data.View) and isinstance(layout := port.shape(), data.StructLayout):
            fields = [(str(name), layout[name].offset, layout[name].shape) for name, _ in layout]
        for field, offset, shape in fields:
            name = "_".join(str(step) for step in (*path, field) if step not in ("payload", ""))
            yield PlainPort(name, member.flow, Shape.cast(shape), signal, offset)


class Flat(Component):
    """A component whose ports are those of :func:`plain_ports`."""

    def __init__(self, inner: wiring.Component) -> None:
        self._inner: Any = inner
        self._ports = list(plain_ports(inner))
        super().__init__({port.name: (In if port.flow is wiring.In else Out)(port.shape) for port in self._ports})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.inner = self._inner
        for port in self._ports:
            outer = getattr(self, port.name)
            m.d.comb += port.value.eq(outer) if port.flow is wiring.In else outer.eq(port.value)
        return m


class FlatSm(Flat):
    """A streaming multiprocessor with plain ports; see :class:`~rtl.sm.Sm`."""

    def __init__(self, params: SmParams) -> None:
        super().__init__(BareSm(params))
