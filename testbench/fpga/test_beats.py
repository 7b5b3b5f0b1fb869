# amaranth: UnusedElaboratable=no
"""A board's path to memory: lines are split into beats and joined again, several clients share it,
bursts are atomic.
"""

from random import Random
from typing import Any

import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect

from rtl.beats import BeatArbiter, LineBeats
from rtl.fpga.block_memory import BlockMemory
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEATS
from sim.launch.memory import Memory
from testbench.fpga.beats import BeatServer, LineClient, random_requests
from testbench.project.test_manual import DOCS, table
from testbench.simulation import simulate
from testbench.watch import Watch

LINES = 16


@pytest.mark.parametrize(("pauses", "takes", "latency"), [(0, 1, (1, 1)), (0.3, 0.3, (1, 9))])
def test_lines_become_beats_and_beats_lines(pauses, takes, latency):
    dut, random, memory = LineBeats(3), Random(3), Memory()
    memory.map("all", 0, LINES * LINE_BYTES)
    requests = random_requests(150, range(LINES + 2), 8, random)
    client = LineClient(dut.lines, requests, range(LINES), random, pauses=pauses, takes=takes)
    simulate(
        dut,
        client.ask,
        client.hear,
        background=[BeatServer(dut.beats, memory, latency, random).serve],
    )
    assert client.errors > 5


def test_lines_take_the_cycles_of_the_manual():
    """Three lines follow each other without a gap."""

    def transfers(dut: Any, port: Any, write: int, *background: Any, **signals: Any) -> Watch:
        watch = Watch(
            sent=port.request.valid & port.request.ready,
            received=port.response.valid & port.response.ready,
            **signals,
        )
        request = {"write": write, "tag": 0, "address": 3, "data": 5, "mask": 1}
        client = LineClient(port, [request] * 3, range(LINES), Random(1))
        simulate(dut, client.ask, client.hear, background=[*background, watch.serve])
        return watch

    rows = {row[0]: row[2] for row in table(DOCS / "board.md", "## Block diagram", "component")}
    found = []
    for write in (1, 0):
        dut: Any = LineBeats(3)
        memory = Memory()
        memory.map("all", 0, LINES * LINE_BYTES)
        beats = dut.beats
        watch = transfers(
            dut,
            dut.lines,
            write,
            BeatServer(beats, memory, (1, 1), Random(0)).serve,
            out=beats.request.valid & beats.request.ready,
            back=beats.response.valid & beats.response.ready,
        )
        first, last = ("out", watch.first("sent")) if write else ("back", watch.first("received"))
        found.append(last + 1 - watch.first(first))
    assert rows["LineBeats"] == f"{found[0]}, {found[1]}"
    of_three = []
    for write, name in ((1, "sent"), (0, "received")):
        block: Any = BlockMemory(3, 4 * LINES * LINE_BYTES)
        watch = transfers(block, block.port, write)
        of_three.append(watch.last(name) + 1 - watch.first(name))
    assert rows["BlockMemory"] == ", ".join(f"{cycles / 3:g}" for cycles in of_three)


class Shared(Elaboratable):
    """Several clients of a block memory."""

    def __init__(self, tag_bits: list[int]) -> None:
        self.arbiter = BeatArbiter(tag_bits)
        self.memory = BlockMemory(
            len(self.arbiter.port.request.payload.tag), 4 * LINES * LINE_BYTES
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.arbiter, m.submodules.memory = self.arbiter, self.memory
        connect(m, self.arbiter.port, self.memory.port)
        return m


@pytest.mark.parametrize(("pauses", "takes"), [((0, 0, 0), 1), ((0, 0.9, 0.4), 0.7)])
def test_everybody_has_an_answer_to_each_request(pauses, takes):
    """Each client has lines of its own, and its own pauses, also within bursts."""
    dut, random = Shared([1, 3, 2]), Random(7)
    clients = [
        LineClient(
            port,
            random_requests(60, range(index * LINES, (index + 1) * LINES), 1 << bits, random),
            range(4 * LINES),
            random,
            pauses=pauses[index],
            takes=takes,
        )
        for index, (port, bits) in enumerate(zip(dut.arbiter.clients, (1, 3, 2), strict=True))
    ]
    simulate(dut, *(way for client in clients for way in (client.ask, client.hear)))
    assert [client.answers for client in clients] == [60, 60, 60]


@pytest.mark.parametrize("write", [0, 1])
def test_bursts_of_two_clients_alternate(write):
    dut, count = Shared([1, 1]), 20
    clients = [
        LineClient(
            port,
            [{"write": write, "tag": 0, "address": LINES * at, "data": at, "mask": 1}] * count,
            range(4 * LINES),
            Random(1),
        )
        for at, port in enumerate(dut.arbiter.clients)
    ]
    simulate(dut, *(way for client in clients for way in (client.ask, client.hear)))
    first, second = sorted(client.cycles for client in clients)
    assert second - first <= BEATS + 1
    assert second <= 2 * BEATS * count + 8


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"beat": 2, "tag": 0, "write": 1}, "a beat of a client is not the next one of its burst"),
        ({"beat": 1, "tag": 1, "write": 1}, "a client mixes two bursts"),
    ],
)
def test_a_burst_that_is_none_is_found(second, message):
    dut = Shared([1, 1])

    async def testbench(ctx):
        request = dut.arbiter.clients[0].request
        ctx.set(request.valid, 1)
        for beat in ({"beat": 0, "tag": 0, "write": 1}, second):
            ctx.set(request.payload, beat)
            await ctx.tick().until(request.ready)
        await ctx.tick()

    with pytest.raises(AssertionError, match=message):
        simulate(dut, testbench)
