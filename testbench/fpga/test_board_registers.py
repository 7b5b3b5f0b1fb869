# amaranth: UnusedElaboratable=no
"""Registers and lamps of a board."""

from itertools import pairwise

from rtl.fpga.lamps import WarpLamps
from rtl.fpga.registers import BOARD_BLOCK, BOARD_REGISTERS, IDENTITY, SIZES, BoardRegisters
from rtl.params import PRESETS
from testbench.driver import set_errors
from testbench.simulation import simulate


def test_the_registers_of_a_board():
    dut = BoardRegisters(PRESETS["small"], 50_000_000, 1 << 16)
    at = {name: BOARD_BLOCK + register.offset for name, register in BOARD_REGISTERS.items()}

    async def testbench(ctx):
        bus = dut.bus

        async def read(address):
            ctx.set(bus.address, address)
            ctx.set(bus.read, 1)
            await ctx.tick()
            ctx.set(bus.read, 0)
            return ctx.get(bus.value)

        async def write(address, value):
            for signal, new in ((bus.address, address), (bus.data, value), (bus.write, 1)):
                ctx.set(signal, new)
            reset = ctx.get(dut.reset)
            await ctx.tick()
            ctx.set(bus.write, 0)
            return reset

        assert await read(at["IDENTITY"]) == IDENTITY
        assert await read(at["IDENTITY"] + 0x1000) == 0  # another block
        size = await read(at["SIZE"])
        parameters = {name: 1 << BOARD_REGISTERS["SIZE"].get(name.upper(), size) for name in SIZES}
        assert parameters == {name: getattr(PRESETS["small"], name) for name in SIZES}
        assert await read(at["PARTS"]) == 0b101  # floats and counters, no doubles
        assert [await read(at[name]) for name in ("CLOCK", "MEMORY")] == [50_000_000, 1 << 16]
        first = await read(at["CYCLES"])
        await ctx.tick().repeat(10)
        assert await read(at["CYCLES"]) == first + 11
        assert await read(at["CYCLES_1"]) == 0
        ctx.set(dut.state, {"busy": 1, "locked_down": 0, "interrupt": 1})
        assert await read(at["STATE"]) == 0b101
        assert await write(at["CONTROL"], 0x11) == 1
        assert ctx.get(dut.policy).value == 1
        ctx.set(dut.resetting, 1)
        assert await read(at["CONTROL"]) == 0x11
        assert await write(at["CONTROL"] - 0x1000, 0x1) == 0
        assert await write(at["CONTROL"], 0) == 0
        await write(at["FRAMEBUFFER_ADDRESS"], 0x8007)
        await write(at["FRAMEBUFFER_CONTROL"], 0x21)
        shown = dut.framebuffer
        assert [ctx.get(port) for port in (shown.base, shown.scale, shown.enable)] == [0x8004, 2, 1]
        assert [
            await read(at[name]) for name in ("FRAMEBUFFER_ADDRESS", "FRAMEBUFFER_CONTROL")
        ] == [0x8004, 0x21]
        ctx.set(shown.underrun, 1)
        assert await read(at["FRAMEBUFFER_CONTROL"]) == 0x121
        ctx.set(shown.present, 1)
        assert await read(at["FRAMEBUFFER_CONTROL"]) == 0x321

    simulate(dut, testbench)


def test_lamps_tell_of_warps_that_live_are_trapped_and_have_failed():
    dut = WarpLamps(PRESETS["small"], 16, 2)  # four warps, two lamps; a blink takes 32 cycles

    async def testbench(ctx):
        async def levels():
            await ctx.tick().repeat(2)
            seen = [ctx.get(dut.lamps.lit)]
            for _ in range(32):
                await ctx.tick()
                seen.append(ctx.get(dut.lamps.lit))
            return [
                sum(one >> lamp & 1 != other >> lamp & 1 for one, other in pairwise(seen))
                for lamp in range(2)
            ], seen[-1]

        assert await levels() == ([0, 0], 0)
        ctx.set(dut.running, 0b1100)
        assert await levels() == ([0, 0], 0b11)
        ctx.set(dut.traps, {"trapping": 1, "locked_down": 0, "paused": 0b1000, "trapped": 0})
        changes, last = await levels()
        assert (changes, last & 1) == ([0, 2], 1)
        set_errors(ctx, dut.errors, {"flow": {"warp": 2, "pc": 0, "error": 1}})
        await ctx.tick()
        set_errors(ctx, dut.errors, {})
        changes, _ = await levels()
        assert changes == [8, 2]
        assert tuple(map(ctx.get, (dut.lamps.failed, dut.lamps.trapped, dut.lamps.live))) == (
            0b01,
            0b10,
            0b11,
        )
        ctx.set(dut.reset, 1)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.lamps.failed) == 0

    simulate(dut, testbench)
