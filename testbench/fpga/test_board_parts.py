# amaranth: UnusedElaboratable=no
"""The parts of a board around the machine: the serial line, frames, the link, block memory, the gate, registers."""

import zlib
from collections import deque
from functools import cache, partial
from itertools import pairwise
from random import Random

import pytest
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rtl.fpga.block_memory import BlockMemory
from rtl.fpga.frames import CRC_BYTES, ESCAPE, FLAG, Deframer, Framer
from rtl.fpga.gate import MemoryGate
from rtl.fpga.lamps import WarpLamps
from rtl.fpga.link import HostLink, LinkCommand, LinkStatus
from rtl.fpga.registers import BOARD_BLOCK, BOARD_REGISTERS, IDENTITY, SIZES, BoardRegisters
from rtl.fpga.uart import UartReceiver, UartTransmitter
from rtl.layouts import ERROR_SOURCES
from rtl.params import PRESETS
from sim.board.frames import Frame, FrameFinder
from sim.engine import PysimEngine, make_simulator

MOST = 8


def simulate(dut, *testbenches, background=()):
    simulator = make_simulator(dut, PysimEngine)
    simulator.add_clock(1e-8)
    for testbench in background:
        simulator.add_testbench(testbench, background=True)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize(("part", "arguments"), [
    (UartReceiver, (48_000_000, 3_000_000)), (UartTransmitter, (48_000_000, 3_000_000)), (Deframer, (MOST,)),
    (Framer, ()), (HostLink, ()), (BlockMemory, (3, 4096)), (MemoryGate, (3,)),
    (BoardRegisters, (PRESETS["tiny"], 48_000_000, 1 << 16)), (WarpLamps, (PRESETS["tiny"], 48_000_000, 2))])
def test_every_part_converts(part, arguments):
    assert "\nmodule \\top\n" in rtlil.convert(part(*arguments))


# The serial line.

@pytest.mark.parametrize(("clock", "baud"), [(4, 1), (16_000_000, 3_000_000), (50_000_000, 3_000_000), (87, 1)])
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
            for bit in range(10):      # each in its middle
                middle = round((bit + 0.5) * clock / baud)
                await ctx.tick().repeat(middle - passed)
                passed = middle
                levels.append(ctx.get(dut.pin))
            assert levels == [0, *(byte >> bit & 1 for bit in range(8)), 1]

    simulate(dut, send, watch)


@pytest.mark.parametrize("off", [0.97, 1.0, 1.03])
@pytest.mark.parametrize(("clock", "baud"), [(4, 1), (16_000_000, 3_000_000), (50_000_000, 3_000_000)])
def test_a_byte_is_taken_from_a_line_whose_clock_is_a_little_off(clock, baud, off):
    dut = UartReceiver(clock, baud)
    content = bytes([0x00, 0xFF, 0x55, 0x7E, 0x81])
    period = clock / baud * off
    # A start bit that is over at once, and a byte without its stop bit.
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
    with pytest.raises(ValueError, match="3000000 baud need a clock of at least 12000000 Hz, not 10000000 Hz"):
        part(10_000_000, 3_000_000)


# Frames.

class Again:
    """A simulation that runs again and again from its reset, with other inputs each time."""

    def __init__(self, dut, *testbenches):
        self.dut = dut
        self.simulator = make_simulator(dut, PysimEngine)
        self.simulator.add_clock(1e-8)
        for testbench in testbenches:
            self.simulator.add_testbench(partial(testbench, self))
        self.given, self.found, self.fresh = None, [], True

    def run(self, given):
        if not self.fresh:
            self.simulator.reset()
        self.given, self.found, self.fresh = given, [], False
        self.simulator.run()
        return self.found


async def feed_bytes(run, ctx):
    """Feeds a deframer; finds frames, or None for what is damaged."""
    dut, body, waiting = run.dut, bytearray(), deque(run.given)
    ctx.set(dut.source.valid, 1)
    ctx.set(dut.frame.ready, 1)
    while waiting:
        ctx.set(dut.source.payload, waiting[0])
        if ctx.get(dut.content.valid):
            body.append(ctx.get(dut.content.payload))
        if ctx.get(dut.source.ready):
            waiting.popleft()
        await ctx.tick()
        if ctx.get(dut.frame.valid):
            header = ctx.get(dut.header)
            run.found.append(Frame(header.number, header.command, bytes(body)) if ctx.get(dut.frame.payload) else None)
            body.clear()


@cache
def deframer():
    return Again(Deframer(MOST), feed_bytes)


def found_in(content):
    return deframer().run(content)


frames = st.builds(Frame, st.integers(0, 255), st.integers(0, 255),
                   st.one_of(st.binary(max_size=MOST), st.lists(st.sampled_from([FLAG, ESCAPE, 0x5E, 0x5D]),
                                                                max_size=MOST).map(bytes)))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(frames, st.binary(min_size=1, max_size=20)), max_size=6))
@example([Frame(1, 2, b"\x7e\x7d"), b"\x7e\x7e\x7d\x7e", Frame(FLAG, ESCAPE)])
def test_frames_are_found_between_whatever_garbage(parts):
    line = b"".join(part.sent() if isinstance(part, Frame) else part for part in parts)
    expected = [part for part in parts if isinstance(part, Frame)]
    assert [frame for frame in found_in(line) if frame is not None] == expected
    assert FrameFinder().take(line) == expected


@settings(max_examples=30, deadline=None)
@given(frames, st.data())
def test_a_damaged_frame_is_no_frame_and_the_next_one_is_found(frame, data):
    line = bytearray(frame.sent())
    at = data.draw(st.integers(1, len(line) - 2))
    if data.draw(st.booleans(), "lost"):
        del line[at]
    else:
        line[at] ^= 1 << data.draw(st.integers(0, 7))
    behind = Frame(7, 3, b"next")
    seen = found_in(bytes(line) + behind.sent())
    assert seen[-1] == behind
    assert [each for each in seen[:-1] if each is not None] == []
    assert None in seen
    assert FrameFinder().take(bytes(line) + behind.sent()) == [behind]


def test_frames_that_are_too_long_or_have_another_length_are_damaged():
    assert found_in(Frame(1, 2, bytes(MOST + 1)).sent() + Frame(1, 2, bytes(MOST)).sent()) == [
        None, Frame(1, 2, bytes(MOST))]
    body = bytes([1, 2, 3, 0, 9, 9])        # says three bytes, has two
    assert found_in(bytes([FLAG]) + body + zlib.crc32(body).to_bytes(CRC_BYTES, "little") + bytes([FLAG])) == [None]


async def feed_frames(run, ctx):
    """Feeds a framer, and takes bytes at random times."""
    dut, (parts, random) = run.dut, run.given
    header, content = deque(parts), deque(b"".join(part.content for part in parts))
    quiet = 0
    while quiet < 20:
        if header:
            part = header[0]
            ctx.set(dut.header.payload, {"number": part.number, "command": part.command, "length": len(part.content)})
        ctx.set(dut.header.valid, bool(header))
        offered = bool(content) and random.random() < 0.6
        ctx.set(dut.content.valid, offered)
        if offered:
            ctx.set(dut.content.payload, content[0])
        ctx.set(dut.bytes.ready, random.random() < 0.6)
        if header and ctx.get(dut.header.ready):
            header.popleft()
        if offered and ctx.get(dut.content.ready):
            content.popleft()
        quiet += 1
        if ctx.get(dut.bytes.valid):
            quiet = 0
            if ctx.get(dut.bytes.ready):
                run.found.append(ctx.get(dut.bytes.payload))
        await ctx.tick()


@cache
def framer():
    return Again(Framer(), feed_frames)


@settings(max_examples=30, deadline=None)
@given(st.lists(frames, min_size=1, max_size=3), st.integers(0, 1 << 16))
def test_frames_are_sent_as_the_host_expects_them(parts, seed):
    assert bytes(framer().run((parts, Random(seed)))) == b"".join(part.sent() for part in parts)


# The link.

class Line:
    """A host beside a link, byte by byte; registers and memory as dictionaries."""

    def __init__(self, dut, ctx, random):
        self.dut, self.ctx, self.random = dut, ctx, random
        self.registers, self.writes, self.lines = {}, [], {}
        self.finder, self.waiting = FrameFinder(), deque()

    async def ask(self, *frames, answers=1, raw=b""):
        """Sends frames and whatever bytes; the answers."""
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
        request, response = dut.memory.request, dut.memory.response
        ready = self.random.random() < 0.5
        ctx.set(request.ready, ready)
        answer = None
        if ready and ctx.get(request.valid):
            asked = ctx.get(request.payload)
            old = self.lines.get(asked.address)
            answer = {"write": asked.write, "tag": 0, "error": old is None, "data": old or 0}
            if asked.write and old is not None:
                mask = sum(0xFF << 8 * byte for byte in range(64) if asked.mask >> byte & 1)
                self.lines[asked.address] = old & ~mask | asked.data & mask
        await ctx.tick()
        if value is not None:
            ctx.set(bus.value, value)
        if answer is not None:
            ctx.set(request.ready, 0)
            ctx.set(dut.sent.ready, 0)
            ctx.set(dut.received.valid, 0)
            await ctx.tick().repeat(self.random.randint(1, 5))
            ctx.set(response.payload, answer)
            ctx.set(response.valid, 1)
            await ctx.tick().until(response.ready)
            ctx.set(response.valid, 0)
        return self.finder.take(sent)


def with_link(body):
    dut = HostLink()

    async def testbench(ctx):
        await body(Line(dut, ctx, Random(5)))

    simulate(dut, testbench)


def answer(number, command, status, more=b""):
    return Frame(number, command.value | 0x80, bytes([status.value]) + more)


def number(value, size):
    return value.to_bytes(size, "little")


def test_registers_over_the_link():
    async def body(line):
        assert await line.ask(Frame(9, 0)) == [answer(9, LinkCommand.HELLO, LinkStatus.DONE, b"\x01")]
        line.registers = {0x504648 + 4 * n: 0x7E7D_0000 + n for n in range(3)}
        asked = Frame(77, 1, b"\x03" + number(0x504648, 3))
        values = b"".join(number(value, 4) for value in line.registers.values())
        assert await line.ask(asked) == [answer(77, LinkCommand.READ_REGISTERS, LinkStatus.DONE, values)]
        assert not line.writes

    with_link(body)


def test_a_register_is_written_once_however_often_it_is_asked_for():
    def write(at, value):
        return Frame(at, 2, number(value, 4) + number(0x600018, 3))

    async def body(line):
        await line.ask(Frame(255, 0))
        done = LinkStatus.DONE
        for at, value, status in ((0, 5, done), (0, 5, done), (0, 5, done), (1, 6, done), (3, 7, LinkStatus.ORDER),
                                  (0, 5, LinkStatus.ORDER), (1, 6, done), (2, 6, done)):
            assert await line.ask(write(at, value)) == [answer(at, LinkCommand.WRITE_REGISTER, status)]
        assert line.writes == [(0x600018, 5), (0x600018, 6), (0x600018, 6)]

    with_link(body)


def test_lines_over_the_link():
    content = bytes(range(0x60, 0x60 + 64))

    async def body(line):
        line.lines = {0x400_0000: 0, 0x400_0001: (1 << 512) - 1}
        base = 0x1_0000_0000
        write = Frame(4, 4, content + number(0xFFFF_0000_0000_00FF, 8) + number(base, 5))
        assert await line.ask(write) == [answer(4, LinkCommand.WRITE_LINE, LinkStatus.DONE)]
        kept = content[:8] + bytes(40) + content[48:]
        seen = await line.ask(Frame(5, 3, number(3, 2) + number(base, 5)), answers=3)
        assert seen == [answer(5, LinkCommand.READ_LINES, status, number(base + 64 * at, 5) + data)
                        for at, (status, data) in enumerate(
                            [(LinkStatus.DONE, kept), (LinkStatus.DONE, b"\xff" * 64), (LinkStatus.MEMORY, bytes(64))])]
        nowhere = Frame(6, 4, bytes(72) + number(0, 5))
        assert await line.ask(nowhere) == [answer(6, LinkCommand.WRITE_LINE, LinkStatus.MEMORY)]

    with_link(body)


def test_what_is_no_request_is_answered_and_does_nothing():
    async def body(line):
        damaged = bytearray(Frame(1, 2, bytes(7)).sent())
        damaged[5] ^= 1
        assert await line.ask(raw=bytes(damaged)) == [Frame(0, 0xFF, bytes([LinkStatus.DAMAGED.value]))]
        for command, content in ((2, bytes(6)), (3, bytes(8)), (9, b""), (0x7F, b"1"), (1, bytes(7))):
            assert await line.ask(Frame(3, command, content)) == [
                Frame(3, command | 0x80, bytes([LinkStatus.UNKNOWN.value]))]
        assert not line.writes

    with_link(body)


# Memory.

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


# Registers and lamps of the board.

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
        assert await read(at["IDENTITY"] + 0x1000) == 0     # another block
        size = await read(at["SIZE"])
        knobs = {name: 1 << (size >> BOARD_REGISTERS["SIZE"].fields[name.upper()][1] & 31) for name in SIZES}
        assert knobs == {name: getattr(PRESETS["small"], name) for name in SIZES}
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
        assert [await read(at[name]) for name in ("FRAMEBUFFER_ADDRESS", "FRAMEBUFFER_CONTROL")] == [0x8004, 0x21]

    simulate(dut, testbench)


def test_lamps_tell_of_warps_that_live_are_trapped_and_have_failed():
    dut = WarpLamps(PRESETS["small"], 16, 2)      # four warps, two lamps; a blink takes 32 cycles

    async def testbench(ctx):
        async def levels():
            await ctx.tick().repeat(2)
            seen = [ctx.get(dut.lamps)]
            for _ in range(32):
                await ctx.tick()
                seen.append(ctx.get(dut.lamps))
            return [sum(one >> lamp & 1 != other >> lamp & 1 for one, other in pairwise(seen))
                    for lamp in range(2)], seen[-1]

        assert await levels() == ([0, 0], 0)
        ctx.set(dut.running, 0b1100)
        assert await levels() == ([0, 0], 0b11)
        ctx.set(dut.traps, {"trapping": 1, "locked_down": 0, "paused": 0b1000, "trapped": 0})
        changes, last = await levels()
        assert (changes, last & 1) == ([0, 2], 1)
        errors = [{"valid": number == 1, "warp": 2, "pc": 0, "error": 1} for number in range(len(ERROR_SOURCES))]
        ctx.set(dut.errors, errors)
        await ctx.tick()
        ctx.set(dut.errors, [each | {"valid": 0} for each in errors])
        changes, _ = await levels()
        assert changes == [8, 2]
        assert (ctx.get(dut.failed), ctx.get(dut.trapped), ctx.get(dut.live)) == (0b01, 0b10, 0b11)
        ctx.set(dut.reset, 1)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.failed) == 0

    simulate(dut, testbench)
