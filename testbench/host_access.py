"""What tests of the host's registers share: the bus, as a host uses it."""

from amaranth.sim import Simulator

__all__ = ["read", "simulate", "write"]


def simulate(dut, body, background=()):
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(body)
    for one in background:
        simulator.add_testbench(one, background=True)
    simulator.run()


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
