"""Components with plain ports, for tools and languages without interfaces and structures."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from amaranth.hdl import Module, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import SmParams

from .bare import BareSm

__all__ = ["Flat", "FlatSm", "PlainPort", "plain_ports"]

_CLOCK_PORTS = ("clk", "rst")
"""Ports that Amaranth adds to every module; their names are reserved."""


@dataclass(frozen=True)
class PlainPort:
    """A port without structure.

    Attributes
    ----------
    name : str
    flow : wiring.Flow
        Its direction.
    shape : Shape
        Its width and signedness.
    signal : Signal
        The signal of the component that it is a part of.
    offset : int
        Its lowest bit in ``signal``.
    path : tuple of str and int
        Its path in the component's signature: member, members of interfaces and indices of
        arrays, then the field of a structure.
    kind : ShapeLike
        Its shape as declared: an enumeration or a layout, or equal to ``shape``.
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
        """Its bits of ``signal``."""
        return self.signal[self.offset:self.offset + self.shape.width]


def plain_ports(component: wiring.Component, members: Sequence[str] = ()) -> Iterator[PlainPort]:
    """The ports of a component, or of some of its members. Each field of a structure is a port.

    A name is the path, joined by ``_``. ``payload`` is omitted from the path, unless two ports
    would then have the same name. ValueError if two names are equal nevertheless.
    """
    ports = list(_leaves(component, members))
    short_names: Counter[str] = Counter(_short_name(port.path) for port in ports)
    names: Counter[str] = Counter(_CLOCK_PORTS)
    for port in ports:
        name = _short_name(port.path)
        if short_names[name] > 1:
            name = _joined(port.path)
        names[name] += 1
        if names[name] > 1:
            raise ValueError(
                f"two ports of {type(component).__name__} would have the name {name}")
        yield replace(port, name=name)


def _leaves(component: wiring.Component, members: Sequence[str]) -> Iterator[PlainPort]:
    """The ports of :func:`plain_ports`, with all of the path as name."""
    for path, member, port in component.signature.flatten(component):
        if members and path[0] not in members:
            continue
        signal: Any = Value.cast(port)
        layout = port.shape() if isinstance(port, data.View) else None
        if isinstance(layout, data.StructLayout):
            for name, field in layout:
                field_path = (*path, str(name))
                yield _leaf(field_path, member.flow, field.shape, signal, field.offset)
        else:
            yield _leaf(path, member.flow, member.shape, signal, 0)


def _leaf(path: tuple[str | int, ...], flow: wiring.Flow, kind: Any, signal: Signal,
          offset: int) -> PlainPort:
    return PlainPort(_joined(path), flow, Shape.cast(kind), signal, offset, path, kind)


def _short_name(path: Iterable[str | int]) -> str:
    return _joined(step for step in path if step != "payload")


def _joined(steps: Iterable[str | int]) -> str:
    return "_".join(map(str, steps))


class Flat(Component):
    """A component whose ports are those of :func:`plain_ports`."""

    def __init__(self, inner: wiring.Component) -> None:
        self._inner: Any = inner
        self._ports = list(plain_ports(inner))
        super().__init__({
            port.name: (In if port.flow is wiring.In else Out)(port.shape) for port in self._ports})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.inner = self._inner
        for port in self._ports:
            outer = getattr(self, port.name)
            if port.flow is wiring.In:
                m.d.comb += port.value.eq(outer)
            else:
                m.d.comb += outer.eq(port.value)
        return m


class FlatSm(Flat):
    """A streaming multiprocessor with plain ports; see :class:`~rtl.sm.Sm`."""

    def __init__(self, params: SmParams) -> None:
        super().__init__(BareSm(params))
