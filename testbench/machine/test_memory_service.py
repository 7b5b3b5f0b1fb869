"""The memory service of a machine performs and answers requests in every order that its behaviour
permits.
"""

from collections import defaultdict
from itertools import pairwise
from random import Random
from types import SimpleNamespace

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib.data import StructLayout

from rtl.layouts import BEATS, BeatPort, MemoryPort, memory_request, memory_response
from sim.launch.memory import Memory
from sim.machine.beat_lines import BeatLines
from sim.machine.memory_latch import MemoryLatch
from sim.machine.memory_port import MemoryBehaviour, MemoryServer
from sim.machine.memory_service import LATENCY, MemoryService, Trouble
from testbench.simulation import simulate

TAG_BITS = 3
BASE = 0x1000
REQUEST, RESPONSE = memory_request(TAG_BITS), memory_response(TAG_BITS)
ALL = (1 << 64) - 1


def filled():
    """Returns memory of eight lines; every byte of line n is n."""
    memory = Memory()
    memory.map("lines", BASE, 8 * 64)
    for line in range(8):
        memory.write(BASE + 64 * line, bytes([line]) * 64)
    return memory


class Latch:
    """The machine's side of the port: it accepts an answer in the next cycle if it is ``ready``."""

    def __init__(self, **options):
        made = SimpleNamespace(
            request=Signal(REQUEST),
            count=Signal(8),
            answer=Signal(StructLayout({"turn": 1, "payload": RESPONSE})),
            free=Signal(),
        )
        self.values = {id(made.count): 0, id(made.free): 1}
        self.made, self.answers, self.ready, self.cycle = made, [], True, 0
        self.memory = filled()
        self._request, self._answer = made.request.as_value(), made.answer.as_value()
        made = SimpleNamespace(
            request=SimpleNamespace(tag=made.request.tag, as_value=lambda: self._request),
            count=made.count,
            answer=SimpleNamespace(as_value=lambda: self._answer),
            free=made.free,
        )
        self.service = MemoryService(made, self.memory, **options)  # pyright: ignore[reportArgumentType]

    def get(self, signal):
        return self.values[id(signal)]

    def set(self, signal, value):
        assert signal is self._answer
        fields = RESPONSE.from_bits(value >> 1)
        self.answers.append(
            (self.cycle, value & 1, fields.tag, fields.write, fields.error, fields.data)
        )
        self.values[id(self.made.free)] = int(self.ready)

    def ask(self, line, tag=0, *, write=0, data=0, mask=ALL):
        """Sends a request in the previous cycle."""
        request = REQUEST.const(
            {"write": write, "tag": tag, "address": BASE // 64 + line, "data": data, "mask": mask}
        )
        self.values[id(self._request)] = request.as_bits()
        self.values[id(self.made.count)] = (self.get(self.made.count) + 1) % 256
        self.service.take(self, self.cycle)

    def step(self, cycles=1):
        for _ in range(cycles):
            self.service.serve(self, self.cycle)
            self.cycle += 1

    def run(self, limit=10_000):
        """Advances to the next due time until nothing is due."""
        while (wait := self.service.wait(self.cycle)) is not None:
            assert wait >= 1 and self.cycle < limit
            self.cycle += wait
            self.service.serve(self, self.cycle)


def line_of(number):
    return int.from_bytes(bytes([number]) * 64, "little")


def test_an_answer_comes_after_the_latency_and_says_what_was_asked():
    latch = Latch()
    assert latch.service.wait(0) is None
    latch.cycle = 100
    latch.ask(3, tag=5)
    assert latch.service.wait(100) == LATENCY
    assert latch.service.wait(100 + LATENCY + 7) == 1
    latch.step(LATENCY)
    assert latch.answers == []
    latch.step()
    assert latch.answers == [(100 + LATENCY, 1, 5, 0, 0, line_of(3))]
    latch.step(50)
    assert len(latch.answers) == 1 and latch.service.wait(latch.cycle) is None
    assert (latch.service.reads, latch.service.writes) == (1, 0)


def test_a_request_that_was_taken_is_not_taken_again():
    latch = Latch(latency=4)
    latch.ask(1)
    for _ in range(3):
        latch.service.take(latch, latch.cycle)
    latch.run()
    assert len(latch.answers) == 1 and latch.service.reads == 1


def test_answers_come_one_after_the_other_when_the_last_one_was_taken():
    latch = Latch(latency=3)
    for line in range(3):
        latch.ask(line, tag=line)
    latch.ready = False
    latch.step(10)
    assert [answer[2] for answer in latch.answers] == [0]
    latch.values[id(latch.made.free)] = 1
    latch.ready = True
    latch.step(10)
    # reads and writes alternate
    assert [answer[1:3] for answer in latch.answers] == [(1, 0), (0, 1), (1, 2)]


def test_writes_change_the_bytes_of_their_mask_at_once():
    latch = Latch(latency=9)
    latch.ask(2, write=1, data=(1 << 512) - 1, mask=0b101)
    assert latch.memory.read(BASE + 128, 4) == b"\xff\x02\xff\x02"
    latch.run()
    assert [answer[2:] for answer in latch.answers] == [(0, 1, 0, 0)]
    assert (latch.service.reads, latch.service.writes) == (0, 1)


def test_what_is_not_mapped_is_an_error_and_has_no_content():
    latch = Latch()
    latch.ask(8)
    latch.ask(9, write=1, data=1)
    latch.run()
    assert [answer[3:] for answer in latch.answers] == [(0, 1, 0), (1, 1, 0)]


def test_trouble_is_by_the_number_of_the_request():
    latch = Latch(
        latency=5, trouble=lambda number: Trouble(error=number == 1, late=100 * (number == 2))
    )
    for line in range(4):
        latch.ask(line, write=line == 1, data=0)
        latch.run()
    assert [answer[4] for answer in latch.answers] == [0, 1, 0, 0]
    assert [answer[0] for answer in latch.answers] == [5, 10, 10 + 105, 10 + 105 + 5]
    assert (
        latch.memory.read(BASE + 64, 1) == b"\1"
    )  # a request that is answered with an error is not performed


@pytest.mark.parametrize("seed", range(6))
def test_in_disorder_each_tag_keeps_its_order_and_what_was_written_is_read(seed):
    """Each tag writes and reads a line of its own: each read returns the last value written before
    it.
    """
    random = Random(seed)
    latch = Latch(latency=12, disorder=Random(seed))
    expected, asked = defaultdict(list), 0
    last = {tag: line_of(tag) for tag in range(8)}
    due: dict[int, list[int]] = defaultdict(list)
    while asked < 150 or latch.service.wait(latch.cycle) is not None:
        if asked < 150 and random.random() < 0.6:
            tag, write = random.randrange(8), random.random() < 0.5
            data = line_of(random.randrange(256))
            latch.ask(tag, tag, write=int(write), data=data)
            last[tag] = data if write else last[tag]
            expected[tag].append((int(write), 0 if write else last[tag]))
            due[tag].append(latch.cycle)
            asked += 1
        latch.step()
    found = defaultdict(list)
    for cycle, _, tag, write, error, data in latch.answers:
        found[tag].append((write, data))
        assert not error and cycle > due[tag].pop(0)
    assert found == expected
    order = [answer[2] for answer in latch.answers]
    assert len(set(order[:20])) > 3


def test_in_disorder_tags_overtake_each_other():
    orders = set()
    for seed in range(20):
        latch = Latch(latency=30, disorder=Random(seed))
        for tag in range(3):
            latch.ask(tag, tag)
        latch.run()
        orders.add(tuple(answer[2] for answer in latch.answers))
        assert all(1 <= answer[0] <= 33 for answer in latch.answers)
    assert len(orders) == 6


def test_in_disorder_a_write_is_performed_at_any_time_up_to_its_answer():
    """It is performed at once or later, but not after the answer."""
    at_once = 0
    for seed in range(30):
        latch = Latch(latency=30, disorder=Random(seed))
        latch.ask(3, write=1, data=line_of(99))
        at_once += latch.memory.read(BASE + 3 * 64, 1) == b"c"
        latch.run()
        assert latch.memory.read(BASE + 3 * 64, 1) == b"c"
    assert 0 < at_once < 15


def test_what_is_under_way_in_the_end_is_performed():
    latch = Latch(latency=1000, disorder=Random(3))
    latch.ask(4, write=1, data=line_of(200))
    latch.service.finish()
    assert latch.memory.read(BASE + 4 * 64, 64) == bytes([200]) * 64
    assert latch.answers == []


# Ports in simulated hardware


def test_a_latch_holds_a_request_and_gives_an_answer_once():
    dut = MemoryLatch(TAG_BITS)
    port = dut.port

    async def body(ctx):
        assert ctx.get(port.request.ready) and not ctx.get(dut.requested)
        for number in range(1, 300):
            ctx.set(port.request.payload, {"tag": number % 8, "address": number})
            ctx.set(port.request.valid, 1)
            assert ctx.get(dut.requested)
            await ctx.tick()
            ctx.set(port.request.valid, 0)
            assert (ctx.get(dut.count), ctx.get(dut.request).address) == (number % 256, number)
        assert not ctx.get(dut.requested) and ctx.get(dut.free)
        assert not ctx.get(port.response.valid)
        for turn in (1, 0, 1):
            ctx.set(dut.answer, {"turn": turn, "payload": {"tag": 3, "data": turn + 7}})
            for _ in range(2):
                assert ctx.get(port.response.valid) and not ctx.get(dut.free)
                assert ctx.get(port.response.payload).data == turn + 7
                await ctx.tick()
            ctx.set(port.response.ready, 1)
            await ctx.tick()
            ctx.set(port.response.ready, 0)
            assert not ctx.get(port.response.valid) and ctx.get(dut.free)
            await ctx.tick()
            assert ctx.get(dut.free)

    simulate(dut, body)


def served(port, dut, behaviour, requests, beats):
    """Returns the answers to requests of a port, one line each: tag, data, error and cycle."""
    memory = filled()
    server = MemoryServer(port, memory, behaviour, Random(1))
    answers, times, clock = [], [], [0]

    async def ask(ctx):
        for number, (tag, line, data, mask) in enumerate(requests):
            parts = range(BEATS) if beats and mask else [0]
            for beat in parts:
                fields = {"write": int(mask != 0), "tag": tag, "address": BASE // 64 + line}
                if beats:
                    fields |= {
                        "beat": beat,
                        "data": data >> 64 * beat & (1 << 64) - 1,
                        "mask": mask >> 8 * beat & 255,
                    }
                else:
                    fields |= {"data": data, "mask": mask}
                ctx.set(port.request.payload, fields)
                ctx.set(port.request.valid, 1)
                await ctx.tick().until(port.request.ready)
            ctx.set(port.request.valid, 0)
            times.append((number, clock[0]))

    async def hear(ctx):
        ctx.set(port.response.ready, 1)
        while len(answers) < len(requests):
            data, beat, ended = 0, 0, False
            while not ended:
                (payload,) = (
                    await ctx.tick().sample(port.response.payload).until(port.response.valid)
                )
                data |= payload.data << 64 * beat
                ended = not beats or payload.write or beat == BEATS - 1
                assert not beats or payload.beat == beat
                beat += 1
            answers.append((payload.tag, payload.write, payload.error, data, clock[0]))

    async def count(ctx):
        async for _ in ctx.tick():
            clock[0] += 1

    simulate(dut, ask, hear, background=(server.serve, count))
    return answers, memory, server


REQUESTS = [(tag, tag, 0, 0) for tag in range(4)] + [
    (5, 5, line_of(77), ALL ^ 2),
    (5, 5, 0, 0),
    (6, 60, 0, 0),
]
WRITTEN = int.from_bytes(bytes([77, 5]) + bytes([77]) * 62, "little")
EXPECTED = [(tag, 0, 0, line_of(tag)) for tag in range(4)] + [
    (5, 1, 0, 0),
    (5, 0, 0, WRITTEN),
    (6, 0, 1, 0),
]


class Ports:
    """A component that consists of a port and a signal that needs a clock."""

    def __init__(self, signature):
        self.port = signature.create()
        self.module = Module()
        passed = Signal(8)
        self.module.d.sync += passed.eq(passed + 1)


@pytest.mark.parametrize("signature", [MemoryPort, BeatPort])
@pytest.mark.parametrize("late", [False, True])
def test_a_port_is_answered_in_order_with_what_memory_has(signature, late):
    made = Ports(signature(TAG_BITS))
    answers, memory, server = served(
        made.port, made.module, MemoryBehaviour(late=late), REQUESTS, signature is BeatPort
    )
    assert [answer[:4] for answer in answers] == EXPECTED
    assert memory.read(BASE + 5 * 64, 3) == bytes([77, 5, 77])
    assert (server.reads, server.writes) == (6, 1)
    assert sum(server.depths.values()) == 7


def test_a_port_performs_a_request_when_it_is_taken_unless_it_is_late():
    """The content of memory is checked between the request and its answer."""
    for behaviour, found in (
        (MemoryBehaviour((20, 20)), 3),
        (MemoryBehaviour((20, 20), late=True), 8),
    ):
        made = Ports(MemoryPort(TAG_BITS))
        memory = filled()
        server = MemoryServer(made.port, memory, behaviour, Random(1))
        seen = []

        async def body(ctx, port=made.port, memory=memory, seen=seen):
            ctx.set(port.request.payload, {"tag": 1, "address": BASE // 64 + 3})
            ctx.set(port.request.valid, 1)
            ctx.set(port.response.ready, 1)
            await ctx.tick().until(port.request.ready)
            ctx.set(port.request.valid, 0)
            await ctx.tick().repeat(3)
            memory.write(BASE + 3 * 64, bytes([8]) * 64)
            (payload,) = await ctx.tick().sample(port.response.payload).until(port.response.valid)
            seen.append(payload.data)

        simulate(made.module, body, background=(server.serve,))
        assert seen == [line_of(found)]


def test_a_ports_latency_is_from_the_request_to_the_answer():
    times = []
    for latency in (1, 4, 30):
        made = Ports(MemoryPort(TAG_BITS))
        answers, _, _ = served(
            made.port, made.module, MemoryBehaviour((latency, latency)), REQUESTS[:1], False
        )
        times.append(answers[0][4])
    assert [time - times[0] for time in times] == [0, 3, 29]


def test_a_port_takes_a_request_in_each_interval_and_answers_of_tags_overtake():
    made = Ports(MemoryPort(TAG_BITS))
    answers, _, server = served(
        made.port,
        made.module,
        MemoryBehaviour((10, 10), interval=20),
        [(tag, tag, 0, 0) for tag in range(4)],
        False,
    )
    gaps = [later[4] - sooner[4] for sooner, later in pairwise(answers)]
    assert gaps == [20] * 3 and server.depths == {1: 4}
    made = Ports(MemoryPort(TAG_BITS))
    answers, _, _ = served(
        made.port,
        made.module,
        MemoryBehaviour((1, 60), reorder=True),
        [(tag, tag, 0, 0) for tag in range(8)],
        False,
    )
    order = [answer[0] for answer in answers]
    assert sorted(order) == list(range(8)) != order


def test_beats_are_gathered_into_lines_and_lines_are_split_into_beats():
    dut = BeatLines(TAG_BITS)
    lines = dut.lines
    asked = []

    async def memory(ctx):
        """Answers each request for a line with the line's content, after the second request."""
        async for _, _, valid, payload in ctx.tick().sample(
            lines.request.valid, lines.request.payload
        ):
            ctx.set(lines.request.ready, int(valid and not ctx.get(lines.request.ready)))
            if valid and ctx.get(lines.request.ready):
                asked.append(payload)

    async def body(ctx):
        beat = dut.beats.request
        for number in range(BEATS):
            fields = {
                "write": 1,
                "tag": 6,
                "address": 99,
                "beat": number,
                "data": 0x1111 * number + 1,
                "mask": 1 << number,
            }
            ctx.set(beat.payload, fields)
            ctx.set(beat.valid, 1)
            await ctx.tick().until(beat.ready)
        ctx.set(beat.payload, {"write": 0, "tag": 3, "address": 77, "beat": 0})
        await ctx.tick().until(beat.ready)
        ctx.set(beat.valid, 0)
        while len(asked) < 2:
            await ctx.tick()
        write, read = asked
        assert (write.write, write.tag, write.address) == (1, 6, 99)
        assert write.data == sum(0x1111 * n + 1 << 64 * n for n in range(BEATS))
        assert write.mask == sum(1 << n << 8 * n for n in range(BEATS))
        assert (read.write, read.tag, read.address) == (0, 3, 77)
        response, answer = dut.beats.response, lines.response
        for is_write, beats in ((0, BEATS), (1, 1), (0, BEATS)):
            data = sum(n + 5 << 64 * n for n in range(BEATS))
            ctx.set(answer.payload, {"write": is_write, "tag": 2, "error": is_write, "data": data})
            ctx.set(answer.valid, 1)
            for number in range(beats):
                ctx.set(response.ready, 0)
                await ctx.tick().repeat(2)
                assert not ctx.get(answer.ready)
                ctx.set(response.ready, 1)
                found = ctx.get(response.payload)
                assert ctx.get(response.valid)
                assert (found.beat, found.data, found.tag) == (number, number + 5, 2)
                assert (found.write, found.error) == (is_write, is_write)
                assert ctx.get(answer.ready) == (number == beats - 1)
                await ctx.tick()
            ctx.set(answer.valid, 0)
            ctx.set(response.ready, 0)
            assert not ctx.get(response.valid)

    simulate(dut, body, background=(memory,))
