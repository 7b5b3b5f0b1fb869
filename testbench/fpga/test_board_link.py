# amaranth: UnusedElaboratable=no
"""The host link of a board: each request in a frame is executed once, and answered."""

from collections import deque
from itertools import pairwise
from random import Random

from rtl.fpga.link import HostLink, LinkCommand, LinkStatus
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEATS
from sim.board.frames import FrameFinder, LinkFrame
from sim.launch.memory import Memory
from testbench.fpga.beats import BeatServer
from testbench.project.test_manual import DOCS, table
from testbench.simulation import simulate
from testbench.watch import Watch


class Line:
    """A host that is connected to a link, byte by byte; registers are a dictionary."""

    def __init__(self, dut, ctx, memory):
        self.dut, self.ctx, self.memory = dut, ctx, memory
        self.registers, self.writes = {}, []
        self.finder, self.waiting = FrameFinder(), deque()

    async def ask(self, *frames, answers=1, raw=b""):
        """Sends frames and arbitrary bytes; returns the answers."""
        self.waiting += raw + b"".join(frame.sent() for frame in frames)
        found, quiet = [], 0
        while len(found) < answers or quiet < 40:
            found += await self.cycle()
            quiet = 0 if self.waiting else quiet + 1
            assert quiet < 4000, found
        return found

    async def cycle(self):
        dut, ctx = self.dut, self.ctx
        ctx.set(dut.received.valid, bool(self.waiting))
        if self.waiting:
            ctx.set(dut.received.payload, self.waiting[0])
            if ctx.get(dut.received.ready):
                self.waiting.popleft()
        ctx.set(dut.sent.ready, 1)
        sent = bytes([ctx.get(dut.sent.payload)]) * ctx.get(dut.sent.valid)
        value, bus = None, dut.bus
        if ctx.get(bus.write):
            self.writes.append((ctx.get(bus.address), ctx.get(bus.data)))
        if ctx.get(bus.read):
            value = self.registers[ctx.get(bus.address)]
        await ctx.tick()
        if value is not None:
            ctx.set(bus.value, value)
        return self.finder.take(sent)


def with_link(body, latency=(1, 5)):
    """Runs the host's testbench with a link; returns the link's recorded accesses."""
    dut, memory = HostLink(), Memory()
    port = dut.memory
    watch = Watch(
        request=port.request.valid & port.request.ready,
        response=port.response.valid & port.response.ready,
        received=dut.received.valid & dut.received.ready,
    )
    server = BeatServer(dut.memory, memory, latency, Random(5))

    async def testbench(ctx):
        await body(Line(dut, ctx, memory))

    simulate(dut, testbench, background=[server.serve, watch.serve])
    return watch


def answer(number, command, status, more=b""):
    return LinkFrame(number, command.value | 0x80, bytes([status.value]) + more)


def number(value, size):
    return value.to_bytes(size, "little")


def test_a_line_takes_the_cycles_of_the_manual():
    """Its beats are evenly spaced; the last one takes as long as the others."""
    base, bits, bauds, clock = 0x1_0000_0000, 10, 3e6, 50e6
    write = LinkFrame(4, 4, bytes(LINE_BYTES) + bytes([0xFF] * 8) + number(base, 5))
    read = LinkFrame(5, 3, number(1, 2) + number(base, 5))

    def play(frame):
        async def body(line):
            line.memory.map("a line", base, LINE_BYTES)
            await line.ask(frame)

        return with_link(body, latency=(1, 1))

    def line_cycles(watch, name):
        (apart,) = {later - earlier for earlier, later in pairwise(watch.cycles(name))}
        return BEATS * apart

    written = play(write)
    on_line = len(written.cycles("received")) * bits / bauds
    (row,) = [
        row
        for row in table(DOCS / "board.md", "## Block diagram", "component")
        if row[0] == "HostLink"
    ]
    assert row[2] == (
        f"{line_cycles(written, 'request')}, {line_cycles(play(read), 'response')}: the serial line takes "
        f"{on_line * 1e6:.0f} us for it, {on_line * clock:,.0f} cycles"
    )


def test_registers_over_the_link():
    @with_link
    async def body(line):
        assert await line.ask(LinkFrame(9, 0)) == [
            answer(9, LinkCommand.HELLO, LinkStatus.DONE, b"\x01")
        ]
        line.registers = {0x504648 + 4 * n: 0x7E7D_0000 + n for n in range(3)}
        asked = LinkFrame(77, 1, b"\x03" + number(0x504648, 3))
        values = b"".join(number(value, 4) for value in line.registers.values())
        assert await line.ask(asked) == [
            answer(77, LinkCommand.READ_REGISTERS, LinkStatus.DONE, values)
        ]
        assert not line.writes


def test_a_register_is_written_once_however_often_the_request_is_repeated():
    def write(at, value):
        return LinkFrame(at, 2, number(value, 4) + number(0x600018, 3))

    @with_link
    async def body(line):
        await line.ask(LinkFrame(255, 0))
        done = LinkStatus.DONE
        for at, value, status in (
            (0, 5, done),
            (0, 5, done),
            (0, 5, done),
            (1, 6, done),
            (3, 7, LinkStatus.ORDER),
            (0, 5, LinkStatus.ORDER),
            (1, 6, done),
            (2, 6, done),
        ):
            assert await line.ask(write(at, value)) == [
                answer(at, LinkCommand.WRITE_REGISTER, status)
            ]
        assert line.writes == [(0x600018, 5), (0x600018, 6), (0x600018, 6)]


def test_lines_over_the_link():
    content = bytes(range(0x60, 0x60 + 64))

    @with_link
    async def body(line):
        base = 0x1_0000_0000
        line.memory.map("two lines", base, 128)
        line.memory.write(base, bytes(64) + b"\xff" * 64)
        write = LinkFrame(4, 4, content + number(0xFFFF_0000_0000_00FF, 8) + number(base, 5))
        assert await line.ask(write) == [answer(4, LinkCommand.WRITE_LINE, LinkStatus.DONE)]
        kept = content[:8] + bytes(40) + content[48:]
        seen = await line.ask(LinkFrame(5, 3, number(3, 2) + number(base, 5)), answers=3)
        assert seen[:2] == [
            answer(5, LinkCommand.READ_LINES, LinkStatus.DONE, number(base + 64 * at, 5) + data)
            for at, data in enumerate([kept, b"\xff" * 64])
        ]
        assert seen[2].content[:6] == bytes([LinkStatus.MEMORY.value]) + number(base + 128, 5)
        assert len(seen[2].content) == 70
        nowhere = LinkFrame(6, 4, bytes(72) + number(0, 5))
        assert await line.ask(nowhere) == [answer(6, LinkCommand.WRITE_LINE, LinkStatus.MEMORY)]
        again = LinkFrame(7, 4, content + b"\xff" * 8 + number(base + 64, 5))
        assert await line.ask(again) == [answer(7, LinkCommand.WRITE_LINE, LinkStatus.DONE)]
        seen = await line.ask(LinkFrame(8, 3, number(1, 2) + number(base + 64, 5)))
        assert seen == [
            answer(8, LinkCommand.READ_LINES, LinkStatus.DONE, number(base + 64, 5) + content)
        ]


def test_what_is_no_request_is_answered_and_does_nothing():
    @with_link
    async def body(line):
        damaged = bytearray(LinkFrame(1, 2, bytes(7)).sent())
        damaged[5] ^= 1
        assert await line.ask(raw=bytes(damaged)) == [
            LinkFrame(0, 0xFF, bytes([LinkStatus.DAMAGED.value]))
        ]
        for command, content in (
            (2, bytes(6)),
            (3, bytes(8)),
            (9, b""),
            (0x7F, b"1"),
            (1, bytes(7)),
            (3, bytes(7)),
        ):
            assert await line.ask(LinkFrame(3, command, content)) == [
                LinkFrame(3, command | 0x80, bytes([LinkStatus.UNKNOWN.value]))
            ]
        assert not line.writes


def test_the_times_of_requests_are_those_of_the_manual():
    """They are measured from the cycle in which the closing flag is received to the one in which
    the first byte is sent.
    """
    base = 0x1_0000_0000
    address, line_address = number(0x504648, 3), number(base, 5)
    requests = {
        "HELLO": LinkFrame(0, 0),
        "READ_REGISTERS, one": LinkFrame(1, 1, b"\x01" + address),
        "READ_REGISTERS, 22": LinkFrame(2, 1, b"\x16" + address),
        "WRITE_REGISTER": LinkFrame(1, 2, number(5, 4) + address),
        "READ_LINES, one": LinkFrame(3, 3, number(1, 2) + line_address),
        "WRITE_LINE": LinkFrame(4, 4, bytes(64) + b"\xff" * 8 + line_address),
    }
    rows = []

    async def body(line):
        line.memory.map("a line", base, 64)
        line.registers = {0x504648 + 4 * at: 0 for at in range(22)}
        for name, frame in requests.items():
            line.waiting += frame.sent()
            while line.waiting:
                assert not await line.cycle()
            cycles, answers, sent = 1, [], 0
            while not answers:
                is_sending = line.ctx.get(line.dut.sent.valid)
                cycles += not (sent or is_sending)
                sent += is_sending
                answers = await line.cycle()
            size = len(frame.content) + 10
            answered = len(answers[0].content) + 10
            rows.append([name, f"{size}", f"{cycles}", f"{answered}"])

    with_link(body, latency=(1, 1))
    assert rows == table(DOCS / "board.md", "### Times")
