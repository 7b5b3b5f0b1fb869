"""The machine with the ports that a board needs, without observation."""

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import HostBus, Policy
from rtl.machines import units_of
from rtl.params import SmParams
from rtl.sm import Sm

__all__ = ["PORTS", "BareSm"]

PORTS = ("host", "interrupt", "busy", "policy", "memory")
"""The ports of Sm that a board needs."""


class BareSm(Component):
    """An :class:`~rtl.sm.Sm` whose retirement interface is not connected, so that synthesis removes
    the logic that only this interface uses.

    Members
    -------
    host, interrupt, busy, policy, memory
        See Sm.
    """

    def __init__(self, params: SmParams) -> None:
        self.sm = Sm(params)
        super().__init__({
            "host": In(HostBus()),
            "interrupt": Out(1),
            "busy": Out(1),
            "policy": In(Policy),
            "memory": Out(units_of(params).memory_port(self.sm.tag_bits)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sm = sm = self.sm
        connect(m, flipped(self.host), sm.host)
        connect(m, flipped(self.memory), sm.memory)
        m.d.comb += self.interrupt.eq(sm.interrupt)
        m.d.comb += self.busy.eq(sm.busy)
        m.d.comb += sm.policy.eq(self.policy)
        return m
