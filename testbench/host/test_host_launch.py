"""A grid is started and observed through the host's registers."""

import random

from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect

from rtl.isa.registers import SM_BLOCK, SM_REGISTERS, WORK_BLOCK, WORK_REGISTERS
from rtl.layouts import LaunchRejection
from rtl.machines import units_of
from rtl.params import PRESETS
from rtl.sweep import LONGEST_SWEEP
from sim.launch.memory import Memory
from sim.machine.memory_port import MemoryBehaviour, MemoryServer
from testbench.driver import offer
from testbench.host.access import read, write
from testbench.launch.grid import Grid
from testbench.simulation import simulate

PARAMS = PRESETS["default"]
SM = {name: SM_BLOCK + register.offset for name, register in SM_REGISTERS.items()}
WORK = {name: WORK_BLOCK + register.offset for name, register in WORK_REGISTERS.items()}


class Joined(Elaboratable):
    """Host port and work distributor, connected."""

    def __init__(self):
        self.host, self.distributor = (
            units_of(PARAMS).host(PARAMS),
            units_of(PARAMS).distributor(PARAMS),
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.host, m.submodules.distributor = host, distributor = (
            self.host,
            self.distributor,
        )
        connect(m, host.grids, distributor.control)
        m.d.comb += host.valid.eq(distributor.running)
        return m


def status_of(value):
    status = WORK_REGISTERS["STATUS"]
    return {name: status.get(name, value) for name in status.fields}


def test_a_grid_is_started_and_watched_by_registers():
    dut = Joined()
    bus, distributor = dut.host.bus, dut.distributor
    memory = Memory()
    memory.map("descriptors", 0x12_0000_0000, 512)
    memory.write(
        0x12_0000_0000, Grid(block=(64, 1, 1), fields={"PROGRAM_OFFSET": 0x40}).descriptor()
    )
    memory.write(0x12_0000_0100, Grid(fields={"QMD_VERSION": 3}).descriptor())
    server = MemoryServer(distributor.port, memory, MemoryBehaviour(), random.Random(0))

    async def until(ctx, name):
        for _ in range(2000):
            status = status_of(await read(ctx, bus, WORK["STATUS"]))
            if status[name]:
                return status
        raise AssertionError(name)

    async def body(ctx):
        ctx.set(distributor.clear_rows.ready, 1)
        ctx.set(distributor.flow.ready, 1)
        ctx.set(distributor.drained, 0xFF)
        await ctx.tick().repeat(LONGEST_SWEEP)
        for name, value in (
            ("PROGRAM_REGION_A", 0xAB),
            ("PROGRAM_REGION_B", 0x8765_4300),
            ("LOCAL_MEMORY_A", 3),
            ("LOCAL_MEMORY_B", 0x400),
            ("QMD_ADDRESS_A", 0x12),
            ("QMD_ADDRESS_B", 0),
        ):
            await write(ctx, bus, WORK[name], value)
            assert await read(ctx, bus, WORK[name]) == value
        await write(ctx, bus, WORK["REFERENCE_COUNT"] + 4 * 63, 0x1234)
        await ctx.tick().repeat(2)
        assert await read(ctx, bus, WORK["REFERENCE_COUNT"] + 4 * 63) == 0x1234
        assert status_of(await read(ctx, bus, WORK["STATUS"])) == dict.fromkeys(
            WORK_REGISTERS["STATUS"].fields, 0
        )
        await write(ctx, bus, WORK["LAUNCH"], 0)
        assert (await until(ctx, "BUSY"))["DONE"] == 0
        # The next one is queued.
        await write(ctx, bus, WORK["QMD_ADDRESS_B"], 0x100)
        await write(ctx, bus, WORK["LAUNCH"], 0)
        assert (await until(ctx, "PENDING"))["BUSY"] == 1
        # There is no room for a third one.
        await write(ctx, bus, WORK["QMD_ADDRESS_B"], 0x80)
        await write(ctx, bus, WORK["LAUNCH"], 0)
        while await read(ctx, bus, SM["WARP_VALID_MASK"]) != 0b11:
            pass
        assert ctx.get(distributor.grid.program) == 0xAB_8765_4300
        assert ctx.get(distributor.launch.payload.local_base) == (0x3_0000_0400 >> 9) + 2  # slot 1
        await ctx.tick().repeat(100)
        for warp in range(2):
            offer(ctx, distributor.exit, {"warp": warp, "terminated": 1})
            await ctx.tick()
        offer(ctx, distributor.exit, None)
        status = await until(ctx, "DONE")
        while status["BUSY"] or status["PENDING"]:
            status = status_of(await read(ctx, bus, WORK["STATUS"]))
        assert status["REJECTION"] == LaunchRejection.VERSION.value
        assert await read(ctx, bus, SM["WARP_VALID_MASK"]) == 0
        await write(ctx, bus, WORK["QMD_ADDRESS_B"], 0)
        await write(ctx, bus, WORK["LAUNCH"], 0)
        assert (await until(ctx, "BUSY"))["DONE"] == 0

    simulate(dut, body, background=[server.serve])
