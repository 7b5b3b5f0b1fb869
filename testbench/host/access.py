"""Access to the host's registers over the bus, for tests."""

from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect

from rtl.machines import units_of


class HostRegisters(Elaboratable):
    """All registers of the host: its port and the error status."""

    def __init__(self, params):
        units = units_of(params)
        self.host, self.status = units.host(params), units.error_status(params)
        self.bus = self.host.bus

    def elaborate(self, platform):
        m = Module()
        m.submodules.host, m.submodules.status = self.host, self.status
        connect(m, self.host.error_status, self.status.access)
        return m


async def write(ctx, bus, address, value):
    ctx.set(bus.address, address)
    ctx.set(bus.data, value)
    ctx.set(bus.write, 1)
    await ctx.tick()
    ctx.set(bus.write, 0)


async def read(ctx, bus, address):
    ctx.set(bus.address, address)
    ctx.set(bus.read, 1)
    await ctx.tick()
    ctx.set(bus.read, 0)
    return ctx.get(bus.value)
