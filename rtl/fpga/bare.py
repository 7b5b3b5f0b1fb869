"""The machine as a board has it: nobody looks on."""

from amaranth.hdl import Module

from rtl.component import Component, members_of
from rtl.params import SmParams
from rtl.sm import Sm

__all__ = ["PORTS", "BareSm"]

PORTS = ("host", "interrupt", "busy", "policy", "memory")
"""What a board needs of the machine."""


class BareSm(Component):
    """An :class:`~rtl.sm.Sm` without its retirement interface, and so without what only that needs.

    Members
    -------
    host, interrupt, busy, policy, memory
        See Sm.
    """

    def __init__(self, params: SmParams) -> None:
        self.sm = Sm(params)
        super().__init__(members_of(self.sm, *PORTS))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sm = sm = self.sm
        self.join(m, sm, *PORTS)
        return m
