"""A component with plain ports, for tools and languages that know no structures."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import SmParams

from .bare import BareSm

__all__ = ["Flat", "FlatSm", "PlainPort", "plain_ports"]

_CLOCK_PORTS = ("clk", "rst")
"""Of every module that Amaranth writes."""


@dataclass(frozen=True)
class PlainPort:
    """A port without structure.

    Attributes
    ----------
    name : str
    flow : wiring.Flow
        Its direction.
    shape : Shape
        Of its value.
    signal : Signal
        Where it lies, from bit ``offset`` on.
    offset : int
    path : tuple of str and int
        The way to it: the component's member, parts of interfaces and dimensions, the field of a structure.
    kind : ShapeLike
        What its value is: an enumeration, a structure, or ``shape`` again.
    """

    name: str
    flow: wiring.Flow
    shape: Shape
    signal: Signal
    offset: int
    path: tuple[str | int, ...]
    kind: Any

    @property
    def value(self) -> Value:
        """It, as part of its signal."""
        return self.signal[self.offset:self.offset + self.shape.width]


def plain_ports(component: wiring.Component, members: Sequence[str] = ()) -> Iterator[PlainPort]:
    """The ports of a component, or those of some members, fields of structures one by one. A name is the way through
    interfaces and structures, with ``_`` between the parts; ``payload`` is left out, unless two ports would have the
    same name then. ValueError when they have it all the same.
    """
    parts: list[tuple[tuple[str | int, ...], wiring.Flow, Any, Any, int]] = []
    for path, member, port in component.signature.flatten(component):
        if members and path[0] not in members:
            continue
        signal: Any = Value.cast(port)
        if isinstance(port, data.View) and isinstance(layout := port.shape(), data.StructLayout):
            parts += (((*path, str(name)), member.flow, layout[name].shape, signal, layout[name].offset)
                      for name, _ in layout)
        else:
            parts.append((path, member.flow, member.shape, signal, 0))
    short: Counter[str] = Counter(_joined(step for step in path if step != "payload") for path, *_ in parts)
    names: Counter[str] = Counter(_CLOCK_PORTS)
    for path, flow, shape, signal, offset in parts:
        name = _joined(step for step in path if step != "payload")
        if short[name] > 1:
            name = _joined(path)
        names[name] += 1
        if names[name] > 1:
            raise ValueError(f"two ports of {type(component).__name__} would have the name {name}")
        yield PlainPort(name, flow, Shape.cast(shape), signal, offset, path, shape)


def _joined(steps: Iterable[str | int]) -> str:
    return "_".join(map(str, steps))


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
