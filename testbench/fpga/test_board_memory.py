# amaranth: UnusedElaboratable=no
"""Block memory of a board, and the gate before a board's memory."""

from collections import deque
from random import Random

import pytest

from rtl.fpga.block_memory import BlockMemory
from rtl.fpga.gate import MemoryGate
from testbench.simulation import simulate


def test_block_memory_in_lockstep_with_a_dictionary():
    lines, tags = 16, 8
    dut, random = BlockMemory(3, 64 * lines), Random(11)
    stored = dict.fromkeys(range(lines), 0)
    waiting, compared = deque(), []

    async def testbench(ctx):
        request, response = dut.port.request, dut.port.response
        asked = None
        for _ in range(600):
            if asked is None and random.random() < 0.8:
                far = random.random() < 0.1
                asked = {"write": random.randrange(2), "tag": random.randrange(tags), "data": random.getrandbits(512),
                         "mask": random.choice([0, (1 << 64) - 1, random.getrandbits(64)]),
                         "address": random.randrange(lines) + (lines << random.randrange(29) if far else 0)}
                ctx.set(request.payload, asked)
            ctx.set(request.valid, asked is not None)
            ctx.set(response.ready, random.random() < 0.7)
            if ctx.get(response.valid) and ctx.get(response.ready):
                given, expected = ctx.get(response.payload), waiting.popleft()
                assert (given.write, given.tag, given.error) == expected[:3]
                if not given.write and not given.error:
                    assert given.data == expected[3]
                    compared.append(given.data)
            if asked is not None and ctx.get(request.ready):
                old = stored.get(asked["address"])
                waiting.append((asked["write"], asked["tag"], int(old is None), old))
                if asked["write"] and old is not None:
                    mask = sum(0xFF << 8 * byte for byte in range(64) if asked["mask"] >> byte & 1)
                    stored[asked["address"]] = old & ~mask | asked["data"] & mask
                asked = None
            await ctx.tick()

    simulate(dut, testbench)
    assert len(set(compared)) > 30


@pytest.mark.parametrize("size", [0, 64, 100, 3 << 10])
def test_a_block_memory_that_is_no_power_of_two(size):
    with pytest.raises(ValueError, match="a power of two of bytes, at least 128"):
        BlockMemory(0, size)


def test_a_closed_gate_lets_no_request_pass_and_memory_answers_what_it_owes():
    dut = MemoryGate(2)

    async def testbench(ctx):
        machine, memory = dut.machine, dut.memory
        ctx.set(machine.request.valid, 1)
        await ctx.tick()
        assert ctx.get(memory.request.valid)
        ctx.set(dut.close, 1)       # offered already: it stays so
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
        assert ctx.get(memory.response.ready)       # whatever the machine says
        await ctx.tick()
        ctx.set(memory.response.valid, 0)
        assert ctx.get(dut.empty)
        ctx.set(dut.close, 0)
        assert ctx.get(memory.request.valid)

    simulate(dut, testbench)
