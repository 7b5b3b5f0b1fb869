"""The front end: a harness that measures a core without its large units."""

from typing import Any

from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import In, Out, Signature, connect, flipped

from rtl.component import Component
from rtl.convert.ports import unit_ports as conversion_ports
from rtl.core import Core
from rtl.execute.indexed import target_ports
from rtl.execute.ports import unit_ports as execute_ports
from rtl.fetch.ports import unit_ports as fetch_ports
from rtl.memory.ports import unit_ports as memory_ports
from rtl.params import SmParams

__all__ = ["FrontEnd"]

_LARGE_UNITS = {"fetch": fetch_ports, "execute": execute_ports, "targets": target_ports,
                "memory": memory_ports, "conversion": conversion_ports}
"""Units that are outside, and the functions that describe their ports."""


class _Outside(Elaboratable):
    """A placeholder for a unit that is outside: with the harness's ports.

    Attributes
    ----------
    ports
        The harness's member, flipped, so that directions are the unit's.
    """

    ports: Any = None

    def __getattr__(self, name: str) -> Any:
        """A port."""
        return getattr(self.ports, name)

    def elaborate(self, platform: object) -> Module:
        return Module()


class _CoreOfFrontEnd(Core):
    """A core whose large units are outside."""

    def make_large_units(self, params: SmParams) -> None:
        self.fetch = _Outside()
        self.execute = _Outside()
        self.targets = _Outside()
        self.memory = _Outside()
        self.conversion = _Outside()
        self.double = None

    def join_constants(self, m: Module) -> None:
        """Indexed constants connect units that are all outside."""


class FrontEnd(Component):
    """Issue, flow unit, stack, barriers, traps and error status, connected as in the core.

    Fetch, execute and IndexedTargets, memory and conversion are outside: the signals that connect
    the core to them are members of the harness. There is no unit for double precision.

    Members
    -------
    core : Out(signature of Core)
    fetch, execute, targets, memory, conversion : In(signature of the unit)
    """

    def __init__(self, params: SmParams) -> None:
        self._core = _CoreOfFrontEnd(params)
        super().__init__({
            "core": Out(self._core.signature),
            **{name: In(Signature(ports(params))) for name, ports in _LARGE_UNITS.items()}})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = self._core
        for name in _LARGE_UNITS:
            getattr(self._core, name).ports = flipped(getattr(self, name))
        connect(m, self._core, flipped(self.core))
        return m
