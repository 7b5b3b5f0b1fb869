# amaranth: UnusedElaboratable=no
"""Block memory of a board, and the gate before a board's memory."""

from random import Random

import pytest

from rtl.fpga.block_memory import BlockMemory
from rtl.fpga.gate import MemoryGate
from rtl.layouts import BEATS
from rtl.params import PRESETS
from testbench.fpga.beats import LineClient, random_requests
from testbench.simulation import simulate


@pytest.mark.parametrize(("pauses", "takes"), [(0, 1), (0.3, 0.6)])
def test_block_memory_is_a_plain_memory(pauses, takes):
    lines, random = 16, Random(11)
    dut = BlockMemory(3, 64 * lines)
    requests = random_requests(200, [*range(lines), lines, lines << 9, lines << 28], 8, random)
    client = LineClient(dut.port, requests, range(lines), random, pauses=pauses, takes=takes)
    simulate(dut, client.ask, client.hear)
    assert client.errors == sum(request["address"] >= lines for request in requests) > 10


@pytest.mark.parametrize(("write", "cycles"), [(0, 8), (1, 8)])
def test_block_memory_has_no_gaps_between_lines(write, cycles):
    dut, count = BlockMemory(1, 4096), 40
    requests = [
        {"write": write, "tag": 0, "address": line, "data": line, "mask": 1}
        for line in range(count)
    ]
    client = LineClient(dut.port, requests, range(64), Random(1))
    simulate(dut, client.ask, client.hear)
    assert client.cycles <= cycles * count + 3


@pytest.mark.parametrize("size", [0, 64, 100, 3 << 10])
def test_a_block_memory_that_is_no_power_of_two(size):
    with pytest.raises(ValueError, match="a power of two of bytes, at least 128"):
        BlockMemory(0, size)


def test_a_gate_that_closes_lets_the_rest_of_a_burst_pass():
    """Otherwise memory would wait for its beats without end."""
    dut = MemoryGate(PRESETS["least"], 2)

    async def testbench(ctx):
        machine, memory, passed = dut.machine, dut.memory, 0
        ctx.set(machine.request.payload, {"write": 1})
        ctx.set(memory.request.ready, 1)
        for cycle in range(30):
            ctx.set(dut.close, cycle >= 3)
            ctx.set(machine.request.valid, cycle % 2)
            ctx.set(machine.request.payload.beat, passed % BEATS)
            assert ctx.get(dut.empty) == (passed == 0)
            _, _, beat = await ctx.tick().sample(memory.request.valid)
            passed += beat
        assert passed == BEATS
        ctx.set(memory.response.payload, {"write": 1})
        ctx.set(memory.response.valid, 1)
        await ctx.tick()
        ctx.set(memory.response.valid, 0)
        assert ctx.get(dut.empty)

    simulate(dut, testbench)


def test_a_closed_gate_lets_no_request_pass_and_memory_answers_what_it_owes():
    dut = MemoryGate(PRESETS["tiny"], 2)

    async def testbench(ctx):
        machine, memory = dut.machine, dut.memory
        ctx.set(machine.request.valid, 1)
        await ctx.tick()
        assert ctx.get(memory.request.valid)
        ctx.set(dut.close, 1)  # an offered request remains offered
        await ctx.tick()
        assert ctx.get(memory.request.valid)
        assert not ctx.get(dut.empty)
        ctx.set(memory.request.ready, 1)
        assert ctx.get(machine.request.ready)
        await ctx.tick()
        assert not ctx.get(memory.request.valid)
        assert not ctx.get(machine.request.ready)
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.empty)
        ctx.set(memory.response.valid, 1)
        assert ctx.get(memory.response.ready)  # whatever the machine's ready is
        await ctx.tick()
        ctx.set(memory.response.valid, 0)
        assert ctx.get(dut.empty)
        ctx.set(dut.close, 0)
        assert ctx.get(memory.request.valid)

    simulate(dut, testbench)
