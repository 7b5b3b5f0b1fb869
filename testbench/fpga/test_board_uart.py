# amaranth: UnusedElaboratable=no
"""The serial line of a board."""

import pytest

from rtl.fpga.uart import UartReceiver, UartTransmitter
from testbench.simulation import simulate


@pytest.mark.parametrize(
    ("clock", "baud"), [(4, 1), (16_000_000, 3_000_000), (50_000_000, 3_000_000), (87, 1)]
)
def test_a_byte_on_the_line_takes_ten_bits(clock, baud):
    dut = UartTransmitter(clock, baud)
    content = bytes(range(0, 256, 17))

    async def send(ctx):
        for byte in content:
            ctx.set(dut.content.payload, byte)
            ctx.set(dut.content.valid, 1)
            await ctx.tick().until(dut.content.ready)
        ctx.set(dut.content.valid, 0)

    async def watch(ctx):
        for byte in content:
            while ctx.get(dut.pin):
                await ctx.tick()
            levels, passed = [], 0
            for bit in range(10):  # each bit in its middle
                middle = round((bit + 0.5) * clock / baud)
                await ctx.tick().repeat(middle - passed)
                passed = middle
                levels.append(ctx.get(dut.pin))
            assert levels == [0, *(byte >> bit & 1 for bit in range(8)), 1]

    simulate(dut, send, watch)


@pytest.mark.parametrize("off", [0.97, 1.0, 1.03])
@pytest.mark.parametrize(
    ("clock", "baud"), [(4, 1), (16_000_000, 3_000_000), (50_000_000, 3_000_000)]
)
def test_a_byte_is_taken_from_a_line_whose_clock_is_a_little_off(clock, baud, off):
    dut = UartReceiver(clock, baud)
    content = bytes([0x00, 0xFF, 0x55, 0x7E, 0x81])
    period = clock / baud * off
    # A start bit that is too short, and a byte without its stop bit
    levels = [1] * 20 + [0] + [1] * 40
    for byte in content:
        edge = len(levels)
        for bit, level in enumerate([0, *(byte >> bit & 1 for bit in range(8)), 1]):
            levels += [level] * (round((bit + 1) * period) - (len(levels) - edge))
    levels += [1] * 40 + [0] * round(12 * period) + [1] * round(12 * period)
    found = []

    async def line(ctx):
        for level in levels:
            ctx.set(dut.pin, level)
            await ctx.tick()
            if ctx.get(dut.received.valid):
                found.append(ctx.get(dut.received.payload))

    simulate(dut, line)
    assert bytes(found) == content


@pytest.mark.parametrize("part", [UartReceiver, UartTransmitter])
def test_a_rate_that_the_clock_is_too_slow_for(part):
    with pytest.raises(
        ValueError, match="3000000 baud need a clock of at least 12000000 Hz, not 10000000 Hz"
    ):
        part(10_000_000, 3_000_000)
