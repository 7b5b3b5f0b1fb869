"""The machine as a board has it: nobody looks on."""

from amaranth.hdl import Module
from amaranth.lib.wiring import connect, flipped

from rtl.component import Component
from rtl.params import SmParams
from rtl.sm import Sm

__all__ = ["BareSm"]


class BareSm(Component):
    """An :class:`~rtl.sm.Sm` without its retirement interface, and so without what only that needs."""

    def __init__(self, params: SmParams) -> None:
        self.sm = Sm(params)
        members = dict(self.sm.signature.members)
        super().__init__({name: members[name] for name in ("host", "interrupt", "busy", "policy", "memory")})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sm = sm = self.sm
        connect(m, flipped(self.host), sm.host)
        connect(m, sm.memory, flipped(self.memory))
        m.d.comb += [self.interrupt.eq(sm.interrupt), self.busy.eq(sm.busy), sm.policy.eq(self.policy)]
        return m
