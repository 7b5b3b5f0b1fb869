"""A component with plain ports, for tools and languages that know no structures."""

from typing import Any

from amaranth.hdl import Module, Shape, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import SmParams

from .bare import BareSm

__all__ = ["Flat", "FlatSm"]


def _fields(port: Any) -> list[tuple[str, Any]]:
    """The fields of a port that has some, by name; itself without a name, if it has none."""
    if isinstance(port, data.View) and isinstance(port.shape(), data.StructLayout):
        return [(str(name), port[name]) for name, _ in port.shape()]
    return [("", port)]


class Flat(Component):
    """A component whose ports are plain: each has the name of its way through interfaces and structures, with ``_``
    between the parts; ``payload`` is left out.
    """

    def __init__(self, inner: wiring.Component) -> None:
        self._inner: Any = inner
        self._ports: dict[str, tuple[wiring.Flow, Any]] = {}
        for path, member, port in inner.signature.flatten(inner):
            for field, part in _fields(port):
                parts = [str(step) for step in (*path, field) if step not in ("payload", "")]
                self._ports["_".join(parts)] = member.flow, Value.cast(part)
        super().__init__({name: (In if flow is wiring.In else Out)(Shape.cast(part.shape()))
                          for name, (flow, part) in self._ports.items()})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.inner = self._inner
        for name, (flow, part) in self._ports.items():
            m.d.comb += part.eq(getattr(self, name)) if flow is wiring.In else getattr(self, name).eq(part)
        return m


class FlatSm(Flat):
    """A streaming multiprocessor with plain ports; see :class:`~rtl.sm.Sm`."""

    def __init__(self, params: SmParams) -> None:
        super().__init__(BareSm(params))
