# amaranth: UnusedElaboratable=no
"""Frames on the serial line of a board: found between noise, refused if damaged, sent in the host's
format.
"""

import zlib
from collections import deque
from functools import cache, partial
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rtl.fpga.frames import CRC_BYTES, ESCAPE, FLAG, Deframer, Framer
from sim.board.frames import FrameFinder, LinkFrame
from sim.engine import PysimEngine, make_simulator

MOST = 8


class Again:
    """A simulation that is restarted from its reset, with other inputs each time."""

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
    """Feeds a deframer; yields frames, or None for a damaged one."""
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
            run.found.append(
                LinkFrame(header.number, header.command, bytes(body))
                if ctx.get(dut.frame.payload)
                else None
            )
            body.clear()


@cache
def deframer():
    return Again(Deframer(MOST), feed_bytes)


def found_in(content):
    return deframer().run(content)


frames = st.builds(
    LinkFrame,
    st.integers(0, 255),
    st.integers(0, 255),
    st.one_of(
        st.binary(max_size=MOST),
        st.lists(st.sampled_from([FLAG, ESCAPE, 0x5E, 0x5D]), max_size=MOST).map(bytes),
    ),
)


@settings(max_examples=30)
@given(st.lists(st.one_of(frames, st.binary(min_size=1, max_size=20)), max_size=6))
@example([LinkFrame(1, 2, b"\x7e\x7d"), b"\x7e\x7e\x7d\x7e", LinkFrame(FLAG, ESCAPE)])
def test_frames_are_found_between_garbage(parts):
    line = b"".join(part.sent() if isinstance(part, LinkFrame) else part for part in parts)
    expected = [part for part in parts if isinstance(part, LinkFrame)]
    assert [frame for frame in found_in(line) if frame is not None] == expected
    assert FrameFinder().take(line) == expected


@settings(max_examples=30)
@given(frames, st.data())
def test_a_damaged_frame_is_no_frame_and_the_next_one_is_found(frame, data):
    line = bytearray(frame.sent())
    at = data.draw(st.integers(1, len(line) - 2))
    if data.draw(st.booleans(), "lost"):
        del line[at]
    else:
        line[at] ^= 1 << data.draw(st.integers(0, 7))
    behind = LinkFrame(7, 3, b"next")
    seen = found_in(bytes(line) + behind.sent())
    assert seen[-1] == behind
    assert [each for each in seen[:-1] if each is not None] == []
    assert None in seen
    assert FrameFinder().take(bytes(line) + behind.sent()) == [behind]


def test_frames_that_are_too_long_or_have_another_length_are_damaged():
    assert found_in(
        LinkFrame(1, 2, bytes(MOST + 1)).sent() + LinkFrame(1, 2, bytes(MOST)).sent()
    ) == [
        None,
        LinkFrame(1, 2, bytes(MOST)),
    ]
    body = bytes([1, 2, 3, 0, 9, 9])  # the length is three bytes, the frame has two
    assert found_in(
        bytes([FLAG]) + body + zlib.crc32(body).to_bytes(CRC_BYTES, "little") + bytes([FLAG])
    ) == [None]


def with_crc(body):
    """Returns a body between flags, with a correct CRC."""
    crc = zlib.crc32(body).to_bytes(CRC_BYTES, "little")
    content = (body + crc).replace(b"\x7d", b"\x7d\x5d").replace(b"\x7e", b"\x7d\x5e")
    return bytes([FLAG]) + content + bytes([FLAG])


def test_a_frame_shorter_than_a_header_is_damaged_even_if_its_crc_is_right():
    bodies = [bytes(length) for length in range(4)]
    for body in bodies:
        assert FrameFinder().take(with_crc(body)) == []
        assert found_in(with_crc(body)) == [None]
    assert (
        FrameFinder().take(with_crc(bytes(4))) == [LinkFrame(0, 0)] == found_in(with_crc(bytes(4)))
    )


def test_a_frame_that_ends_within_an_escape_is_damaged():
    line = LinkFrame(1, 2, b"abc").sent()[:-1] + bytes([ESCAPE, FLAG])
    assert FrameFinder().take(line) == []
    assert found_in(line) == [None]


async def feed_frames(run, ctx):
    """Feeds a framer, and accepts bytes at random times."""
    dut, (parts, random) = run.dut, run.given
    header, content = deque(parts), deque(b"".join(part.content for part in parts))
    quiet = 0
    while quiet < 20:
        if header:
            part = header[0]
            ctx.set(
                dut.header.payload,
                {"number": part.number, "command": part.command, "length": len(part.content)},
            )
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


@settings(max_examples=30)
@given(st.lists(frames, min_size=1, max_size=3), st.integers(0, 1 << 16))
def test_frames_are_sent_as_the_host_expects_them(parts, seed):
    assert bytes(framer().run((parts, Random(seed)))) == b"".join(part.sent() for part in parts)
