"""The host's registers: error status, counters, and a grid that is started by them."""

import random

import pytest
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from rtl.host import HostPort
from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.registers import (
    COUNTER_BLOCK,
    COUNTERS,
    GLOBAL_ERROR_MASK_RESET,
    SM_BLOCK,
    SM_REGISTERS,
    WORK_BLOCK,
    WORK_REGISTERS,
    GlobalError,
    trap_bit,
)
from rtl.launch import Distributor
from rtl.layouts import LaunchRejection
from rtl.params import PRESETS
from sim.memory import Memory
from sim.memory_port import MemoryBehaviour, MemoryServer
from testbench.launch_grid import Grid

PARAMS = PRESETS["default"]
SOURCES = 3
SM = {name: SM_BLOCK + register.offset for name, register in SM_REGISTERS.items()}
WORK = {name: WORK_BLOCK + register.offset for name, register in WORK_REGISTERS.items()}


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


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_converts_for_every_preset(preset):
    assert rtlil.convert(HostPort(preset, SOURCES))


def test_registers_do_not_overlap():
    for registers in (SM_REGISTERS, WORK_REGISTERS):
        places = [register.offset + 4 * index for register in registers.values() for index in range(register.count)]
        assert len(places) == len(set(places))


def test_registers_as_they_are_after_reset():
    dut = HostPort(PARAMS, SOURCES)

    async def body(ctx):
        ctx.set(dut.valid, 0b101)
        assert await read(ctx, dut.bus, SM["WARP_VALID_MASK"]) == 0b101
        assert await read(ctx, dut.bus, SM["HWW_WARP_ESR_REPORT_MASK"]) == REPORT_MASK_RESET == ctx.get(dut.report_mask)
        assert await read(ctx, dut.bus, SM["HWW_GLOBAL_ESR_REPORT_MASK"]) == GLOBAL_ERROR_MASK_RESET
        for name in ("WARP_VALID_MASK_1", "HWW_WARP_ESR", "HWW_GLOBAL_ESR", "HWW_WARP_ESR_PC"):
            assert await read(ctx, dut.bus, SM[name]) == 0
        for address in (SM_BLOCK, SM_BLOCK + 0x1FC, WORK_BLOCK + 0x20, COUNTER_BLOCK + 0x1FC, 0, 0xFFFFFC):
            assert await read(ctx, dut.bus, address) == 0

    simulate(dut, body)


def test_wide_machines_have_two_words_of_valid_warps():
    dut = HostPort(PRESETS["full"], SOURCES)

    async def body(ctx):
        ctx.set(dut.valid, 0x8000_0001_4000_0002)
        assert await read(ctx, dut.bus, SM["WARP_VALID_MASK"]) == 0x4000_0002
        assert await read(ctx, dut.bus, SM["WARP_VALID_MASK_1"]) == 0x8000_0001

    simulate(dut, body)


class Status:
    """What the error registers should hold."""

    def __init__(self):
        self.error = self.warp = self.pc = self.bits = 0
        self.mask, self.global_mask = REPORT_MASK_RESET, GLOBAL_ERROR_MASK_RESET

    def cycle(self, errors, trap, written):
        """One clock cycle: what is written, then what happens."""
        name, value = written
        if name == "HWW_WARP_ESR":
            self.error = self.warp = 0
        cleared = value if name == "HWW_GLOBAL_ESR" else 0
        stopped = self.bits >> 17
        if name == "HWW_WARP_ESR_REPORT_MASK":
            self.mask = value
        if name == "HWW_GLOBAL_ESR_REPORT_MASK":
            self.global_mask = value
        self.bits &= ~cleared
        for warp, pc, error in errors:
            if error is WarpError.STACK_OVERFLOW:
                self.bits |= 1 << GlobalError.PHYSICAL_STACK_OVERFLOW.value
            if self.error:
                self.bits |= 1 << GlobalError.MULTIPLE_WARP_ERRORS.value
            else:
                self.error, self.warp, self.pc = error.value, warp, pc
        kind, warp, pc, reason = trap
        if kind == "interrupt":
            self.bits |= 1 << GlobalError.BPT_INT.value
        if kind == "trap":
            if not errors and not self.error and not stopped:
                self.warp, self.pc = warp, pc
            self.bits |= 1 << trap_bit(reason)

    @property
    def halt(self):
        return int(bool(self.error or self.bits >> 17))

    @property
    def registers(self):
        return {"HWW_WARP_ESR": self.error | self.warp << 16, "HWW_WARP_ESR_PC": self.pc, "HWW_GLOBAL_ESR": self.bits,
                "HWW_WARP_ESR_REPORT_MASK": self.mask, "HWW_GLOBAL_ESR_REPORT_MASK": self.global_mask}


@pytest.mark.parametrize("seed", range(4))
def test_the_error_status(seed):
    source, dut, expected = random.Random(seed), HostPort(PARAMS, SOURCES), Status()

    async def body(ctx):
        for _ in range(1500):
            told, errors, trap = [], [], ("", 0, 0, 0)
            for _ in range(SOURCES):
                fields = {"valid": int(source.random() < 0.05), "warp": source.randrange(8),
                          "pc": source.getrandbits(29) << 3,
                          "error": source.choice([WarpError.STACK_OVERFLOW, WarpError.DIVERGENT, WarpError.OOR_ADDR])}
                told.append(fields)
                if fields["valid"]:
                    errors.append((fields["warp"], fields["pc"], fields["error"]))
            ctx.set(dut.errors, told)
            if source.random() < 0.1:
                trap = (source.choice(["trap", "interrupt"]), source.randrange(8), source.getrandbits(32),
                        source.randint(1, 7))
            ctx.set(dut.trapped, {"trap": trap[0] == "trap", "interrupt": trap[0] == "interrupt", "warp": trap[1],
                                  "pc": trap[2], "reason": trap[3]})
            name, value = "", 0
            if source.random() < 0.3:
                name = source.choice([*expected.registers, "HWW_WARP_ESR", "HWW_GLOBAL_ESR"])
                value = source.choice([0, 0xFFFF_FFFF, source.getrandbits(32)])
            ctx.set(dut.bus.address, SM[name or "HWW_WARP_ESR"])
            ctx.set(dut.bus.data, value)
            ctx.set(dut.bus.write, bool(name))
            await ctx.tick()
            ctx.set(dut.bus.write, 0)
            expected.cycle(errors, trap, (name, value))
            ctx.set(dut.errors, [{"valid": 0}] * SOURCES)
            ctx.set(dut.trapped, {"trap": 0, "interrupt": 0})
            interrupt = int(bool(expected.halt or expected.bits & expected.global_mask))
            assert (ctx.get(dut.halt), ctx.get(dut.interrupt)) == (expected.halt, interrupt)
            assert ctx.get(dut.report_mask) == expected.mask
            if source.random() < 0.5:
                which = source.choice(list(expected.registers))
                assert await read(ctx, dut.bus, SM[which]) == expected.registers[which], which

    simulate(dut, body)


def test_counters_count_what_happens():
    source, dut = random.Random(0), HostPort(PARAMS, SOURCES)
    counts = dict.fromkeys(COUNTERS, 0)

    async def body(ctx):
        busy = {name: source.choice([0.01, 0.5, 1.0]) for name in COUNTERS}
        for cycle in range(3000):
            events = {name: int(source.random() < busy[name]) for name in COUNTERS}
            ctx.set(dut.events, events)
            name = source.choice(list(COUNTERS))
            address = COUNTER_BLOCK + 8 * list(COUNTERS).index(name)
            before = counts[name]
            cleared = source.random() < 0.1 and cycle < 2000
            if cleared:
                await write(ctx, dut.bus, address + 4 * source.randrange(2), source.getrandbits(32))
                counts[name] = 0
            else:
                low = await read(ctx, dut.bus, address)
                assert low == before, name
            for other, happens in events.items():
                counts[other] += happens
        ctx.set(dut.events, dict.fromkeys(COUNTERS, 0))
        for index, name in enumerate(COUNTERS):
            low, high = [await read(ctx, dut.bus, COUNTER_BLOCK + 8 * index + part) for part in (0, 4)]
            assert low | high << 32 == counts[name], name

    simulate(dut, body)


def test_the_high_word_of_a_counter_belongs_to_the_low_word_that_was_read():
    dut = HostPort(PARAMS, SOURCES)
    number = list(COUNTERS).index("cycles")

    async def body(ctx):
        ctx.set(dut.counters.totals.data[number], (1 << 32) - 100)
        ctx.set(dut.events, {"cycles": 1})
        low = await read(ctx, dut.bus, COUNTER_BLOCK + 8 * number)
        assert low >= (1 << 32) - 100
        await ctx.tick().repeat(200)
        assert await read(ctx, dut.bus, COUNTER_BLOCK + 8 * number + 4) == 0
        assert await read(ctx, dut.bus, COUNTER_BLOCK + 8 * number) < 200
        assert await read(ctx, dut.bus, COUNTER_BLOCK + 8 * number + 4) == 1

    simulate(dut, body)


class Joined(Elaboratable):
    """Host port and work distributor."""

    def __init__(self):
        self.host, self.distributor = HostPort(PARAMS, SOURCES), Distributor(PARAMS)

    def elaborate(self, platform):
        m = Module()
        m.submodules.host, m.submodules.distributor = host, distributor = self.host, self.distributor
        connect(m, host.start, distributor.start)
        m.d.comb += [distributor.settings.eq(host.settings), host.valid.eq(distributor.running)]
        m.d.comb += [getattr(host, name).eq(getattr(distributor, name))
                     for name in ("busy", "done", "rejection", "reference_count")]
        m.d.comb += [getattr(distributor, name).eq(getattr(host, name))
                     for name in ("halt", "reference_number", "reference_set", "reference_value")]
        return m


def status_of(value):
    return {name: value >> low & (1 << high - low + 1) - 1
            for name, (high, low) in WORK_REGISTERS["STATUS"].fields.items()}


def test_a_grid_is_started_and_watched_by_registers():
    dut = Joined()
    bus, distributor = dut.host.bus, dut.distributor
    memory = Memory()
    memory.map("descriptors", 0x12_0000_0000, 512)
    memory.write(0x12_0000_0000, Grid(block=(64, 1, 1), fields={"PROGRAM_OFFSET": 0x40}).descriptor())
    memory.write(0x12_0000_0100, Grid(fields={"QMD_VERSION": 3}).descriptor())
    server = MemoryServer(distributor.port, memory, MemoryBehaviour(), random.Random(0))

    async def until(ctx, name):
        for _ in range(2000):
            status = status_of(await read(ctx, bus, WORK["STATUS"]))
            if status[name]:
                return status
        raise AssertionError(name)

    async def body(ctx):
        ctx.set(distributor.operation.ready, 1)
        ctx.set(distributor.flow.ready, 1)
        ctx.set(distributor.drained, 0xFF)
        for name, value in (("PROGRAM_REGION_A", 0xAB), ("PROGRAM_REGION_B", 0x8765_4300), ("LOCAL_MEMORY_A", 3),
                            ("LOCAL_MEMORY_B", 0x400), ("QMD_ADDRESS_A", 0x12), ("QMD_ADDRESS_B", 0)):
            await write(ctx, bus, WORK[name], value)
            assert await read(ctx, bus, WORK[name]) == value
        await write(ctx, bus, WORK["REFERENCE_COUNT"] + 4 * 63, 0x1234)
        await ctx.tick().repeat(2)
        assert await read(ctx, bus, WORK["REFERENCE_COUNT"] + 4 * 63) == 0x1234
        assert status_of(await read(ctx, bus, WORK["STATUS"])) == dict.fromkeys(WORK_REGISTERS["STATUS"].fields, 0)
        await write(ctx, bus, WORK["LAUNCH"], 0)
        assert (await until(ctx, "BUSY"))["DONE"] == 0
        # The next one waits for its turn.
        await write(ctx, bus, WORK["QMD_ADDRESS_B"], 0x100)
        await write(ctx, bus, WORK["LAUNCH"], 0)
        assert (await until(ctx, "PENDING"))["BUSY"] == 1
        while await read(ctx, bus, SM["WARP_VALID_MASK"]) != 0b11:
            pass
        assert ctx.get(distributor.grid.program) == 0xAB_8765_4300
        assert ctx.get(distributor.launch.payload.local_base) == (0x3_0000_0400 >> 9) + 2     # slot 1
        await ctx.tick().repeat(100)
        for warp in range(2):
            ctx.set(distributor.exit, {"valid": 1, "warp": warp, "terminated": 1})
            await ctx.tick()
        ctx.set(distributor.exit, {"valid": 0})
        status = await until(ctx, "DONE")
        while status["BUSY"] or status["PENDING"]:
            status = status_of(await read(ctx, bus, WORK["STATUS"]))
        assert status["REJECTION"] == LaunchRejection.VERSION.value
        assert await read(ctx, bus, SM["WARP_VALID_MASK"]) == 0

    simulate(dut, body, [server.serve])
