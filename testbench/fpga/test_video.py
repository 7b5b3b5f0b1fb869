"""Video: a decoder gets the picture in memory, with the timing of the mode."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from random import Random
from statistics import median
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import ClockDomain, ClockSignal, Elaboratable, Module, ResetSignal, Signal
from amaranth.lib.wiring import connect

from rtl.beats import BeatArbiter
from rtl.fpga.block_memory import BlockMemory
from rtl.fpga.sdram import SdramChip, SdramController
from rtl.fpga.tmds import TmdsEncoder
from rtl.fpga.video import VGA, LineReader, Video, VideoMode
from rtl.fpga.video_pads import VideoPads
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEATS
from sim.engine import CompiledEngine
from sim.launch.memory import Memory
from testbench.commands.test_unit_cycles import NUMERALS
from testbench.engine.designs import needs_compiled
from testbench.fpga.beats import BeatServer
from testbench.fpga.platform import on_ulx3s
from testbench.fpga.sdram_chip import DATA_SHEET, SdramModel
from testbench.fpga.tmds_decoder import CONTROL, Seen, TmdsError, decode, symbols_of, watch
from testbench.fpga.video_picture import seen_on_screen
from testbench.project.test_manual import DOCS, table
from testbench.simulation import simulate
from testbench.watch import Watch

SMALL = VideoMode(64, 4, 8, 6, 8, 2, 2, 2)
"""A small screen, whose pictures take few cycles."""
BASE = 0x1020
SDRAM_HZ = 50e6
PIXEL = 40e-9


def colours(pixels: np.ndarray) -> np.ndarray:
    """Returns red, green and blue of RGB332 pixels."""
    red, green, blue = pixels >> 5 & 7, pixels >> 2 & 7, pixels & 3
    return np.rint(np.stack([red / 7, green / 7, blue / 3], axis=-1) * 255).astype(np.uint8)


def on_screen(pixels: np.ndarray, scale: int) -> np.ndarray:
    """Returns the picture on the screen for a picture in memory."""
    return colours(pixels.repeat(1 << scale, 0).repeat(1 << scale, 1))


def second_picture(
    design: Any,
    video: Video,
    server: Any,
    clock: float,
    scale: int,
    enable: int = 1,
    observers: Iterable[Any] = (),
) -> tuple[Seen, int]:
    """Simulates a design with video and a memory server; returns the decoded second picture, and
    whether memory was too slow.

    The second picture has a pause before it; the first one begins before video can be enabled.
    """
    symbols, underrun = [], 0

    async def screen(ctx: Any) -> None:
        nonlocal underrun
        shown = video.framebuffer
        for port, value in ((shown.base, BASE), (shown.scale, scale), (shown.enable, enable)):
            ctx.set(port, value)
        for _ in range(SMALL.line * (2 * SMALL.lines - SMALL.above) + 10):
            _, _, three = await ctx.tick("pixel").sample(video.symbols)
            symbols.append(list(three))
        underrun = ctx.get(shown.underrun)

    # Setup of the wires is not checked; their clock may be the pixels' clock.
    simulate(
        design,
        screen,
        background=[server, *observers],
        clocks={"sync": clock, "pixel": PIXEL, "shift": PIXEL},
    )
    return watch(
        np.array(symbols[SMALL.line * (SMALL.lines - SMALL.sync_height - SMALL.above) :])
    ), underrun


def shown(
    scale: int,
    *,
    latency: int = 10,
    clock: float = 13e-9,
    enable: int = 1,
    rows: int = SMALL.height,
) -> tuple[np.ndarray, Any, int]:
    """Returns random pixels in memory, at most ``rows`` rows, the decoded picture, and whether
    memory was too slow.
    """
    video, memory = Video(2, SMALL), Memory()
    width, height = SMALL.width >> scale, min(SMALL.height >> scale, rows)
    pixels = np.array(Random(scale).choices(range(256), k=width * height), np.uint8).reshape(
        height, width
    )
    memory.map("picture", BASE, width * height)
    memory.write(BASE, pixels.tobytes())
    server = BeatServer(video.memory, memory, (1, latency), Random(1))
    return pixels, *second_picture(video, video, server.serve, clock, scale, enable)


@pytest.mark.parametrize("scale", [0, 1, 3])
def test_the_screen_shows_the_picture_in_memory(scale):
    pixels, seen, underrun = shown(scale)
    assert seen.horizontal == (SMALL.width, SMALL.right, SMALL.sync_width, SMALL.left)
    assert seen.vertical == (SMALL.height, SMALL.below, SMALL.sync_height, SMALL.above)
    assert not underrun
    assert (seen.picture == on_screen(pixels, scale)).all()


@needs_compiled
def test_a_whole_picture_of_640_x_480():
    pixels = (
        np.random.default_rng(1)
        .integers(0, 256, (VGA.height // 2, VGA.width // 2))
        .astype(np.uint8)
    )
    seen = seen_on_screen(pixels, CompiledEngine, VGA, 1)
    assert (seen.horizontal, seen.vertical) == ((640, 16, 96, 48), (480, 10, 2, 33))
    assert (seen.picture == on_screen(pixels, 1)).all()


def test_a_screen_that_is_not_enabled_is_black():
    _, seen, underrun = shown(1, enable=0)
    assert not seen.picture.any() and not underrun


def test_pixels_that_are_not_in_memory_are_black():
    pixels, seen, underrun = shown(0, rows=6)
    assert (seen.picture[:5] == on_screen(pixels, 0)[:5]).all() and not underrun
    assert not seen.picture[6:].any()


def test_memory_that_is_too_slow_is_an_underrun():
    _, _, underrun = shown(0, latency=2000)
    assert underrun


class ResetVideo(Elaboratable):
    """Video and its memory, with separate resets for all clock domains."""

    def __init__(self):
        self.video, self.memory = Video(2, SMALL), BlockMemory(2, 1 << 12)
        self.resets = {domain: Signal(name=f"reset_{domain}") for domain in ("sync", "pixel")}

    def elaborate(self, platform):
        m = Module()
        m.domains += [
            ClockDomain("sync"),
            ClockDomain("pixel"),
            ClockDomain("shift", reset_less=True),
        ]
        m.submodules.video, m.submodules.memory = self.video, self.memory
        connect(m, self.video.memory, self.memory.port)
        m.d.comb += [ResetSignal(domain).eq(reset) for domain, reset in self.resets.items()]
        return m


@pytest.mark.parametrize("domain", ["sync", "pixel"])
def test_the_picture_comes_back_when_one_domain_alone_is_reset(domain):
    """The reset occurs during a picture: the one after the next pause is correct. A reset of the
    pixels' domain starts a picture, a reset of the others does not.
    """
    design, random, picture = ResetVideo(), Random(domain), SMALL.line * SMALL.lines
    pixels = np.array(random.choices(range(256), k=SMALL.width * SMALL.height), np.uint8)
    symbols = []

    async def screen(ctx: Any) -> None:
        octets, video = pixels.tobytes(), design.video
        for row in range(len(octets) // 8):
            ctx.set(
                design.memory.beats.data[8 + row],
                int.from_bytes(octets[8 * row : 8 * row + 8], "little"),
            )
        shown = video.framebuffer
        for port, value in ((shown.base, 64), (shown.scale, 0), (shown.enable, 1)):
            ctx.set(port, value)
        before = picture + random.randrange(SMALL.line * SMALL.height)
        await ctx.tick("pixel").repeat(before)
        ctx.set(design.resets[domain], 1)
        for _ in range(random.randint(1, 3)):
            await ctx.tick(domain)
        ctx.set(design.resets[domain], 0)
        if domain == "sync":  # until the end of the damaged picture
            await ctx.tick("pixel").repeat(2 * picture - before - 2)
        for _ in range(SMALL.line * (2 * SMALL.lines - SMALL.above) + 10):
            _, _, three = await ctx.tick("pixel").sample(video.symbols)
            symbols.append(list(three))

    simulate(design, screen, clocks={"sync": 13e-9, "pixel": PIXEL, "shift": PIXEL})
    seen = watch(np.array(symbols[SMALL.line * (SMALL.lines - SMALL.sync_height - SMALL.above) :]))
    assert (seen.picture == on_screen(pixels.reshape(SMALL.height, SMALL.width), 0)).all()


class SdramVideo(Elaboratable):
    """Video and another client on an SDRAM controller."""

    def __init__(self):
        self.video, self.controller = (
            Video(2, SMALL),
            SdramController(3, SDRAM_HZ, SdramChip(power_up=500)),
        )
        self.arbiter = BeatArbiter([2, 2])

    def elaborate(self, platform):
        m = Module()
        m.submodules.video, m.submodules.controller, m.submodules.arbiter = (
            self.video,
            self.controller,
            self.arbiter,
        )
        mine, other = self.arbiter.clients
        connect(m, self.video.memory, mine)
        connect(m, self.arbiter.port, self.controller.port)
        m.d.comb += [other.request.valid.eq(1), other.response.ready.eq(1)]
        m.d.sync += other.request.payload.address.eq(
            other.request.payload.address + other.request.ready
        )
        return m


def test_the_picture_comes_from_an_sdram_that_others_use_too():
    design, chip = SdramVideo(), SdramModel(Random(1), {**DATA_SHEET, "power up": 400})
    pixels = np.array(Random(1).choices(range(256), k=SMALL.width * SMALL.height // 4), np.uint8)
    chip.load(BASE, pixels.tobytes())
    serve = partial(chip.serve, bus=design.controller.bus, clock_hz=SDRAM_HZ)
    lines = Watch(
        **{
            name: client.request.valid & client.request.ready
            for name, client in zip(("video", "other"), design.arbiter.clients, strict=True)
        }
    )
    seen, underrun = second_picture(
        design, design.video, serve, 1 / SDRAM_HZ, 1, observers=[lines.serve]
    )
    assert not underrun
    assert (seen.picture == on_screen(pixels.reshape(SMALL.height // 2, SMALL.width // 2), 1)).all()
    requests = list(pairwise(lines.cycles("video")))
    others = median(
        sum(first <= at < last for at in lines.cycles("other")) for first, last in requests
    )
    apart = median(last - first for first, last in requests)
    text = " ".join((DOCS / "board_video.md").read_text(encoding="utf-8").split())
    assert (
        f"{NUMERALS[int(others)]} of its lines pass between two of the video's, which then arrive every {apart:.0f} "
        "cycles"
    ) in text
    pixels_a_line = VGA.line // (VGA.width // LINE_BYTES)
    fast, slow = (pixels_a_line * hz * PIXEL for hz in (SDRAM_HZ, 40e6))
    assert f"one every {fast:.0f} cycles at 50 MHz, and every {slow:.0f} at 40 MHz." in text


def test_a_line_for_the_screen_takes_the_cycles_of_the_manual():
    reader, memory = LineReader(SMALL, 1), Memory()
    memory.map("picture", 0, 2 * LINE_BYTES)
    response = reader.memory.response
    seen = Watch(valid=response.valid, beat=response.valid & response.ready)

    async def body(ctx: Any) -> None:
        ctx.set(reader.run, 1)
        ctx.set(reader.room, 1)
        await ctx.tick().repeat(100)

    server = BeatServer(reader.memory, memory, (1, 1), Random(1))
    simulate(reader, body, background=[server.serve, seen.serve])
    rows = {row[0]: row[2] for row in table(DOCS / "board.md", "## Block diagram", "component")}
    taken = seen.cycles("beat")[BEATS - 1] + 1 - seen.first("valid")
    assert rows["LineReader of video"] == f"reads only; {taken}"


def test_symbols_are_sent_bit_by_bit():
    video, lanes, symbols = Video(1, SMALL), [], []

    async def wires(ctx: Any) -> None:
        for _ in range(200):
            _, _, pairs = await ctx.tick("shift").sample(video.lanes)
            lanes.append([[pair & 1, pair >> 1] for pair in pairs])

    async def watcher(ctx: Any) -> None:
        while True:
            _, _, three = await ctx.tick("pixel").sample(video.symbols)
            symbols.append(list(three))

    simulate(
        video,
        wires,
        background=[watcher],
        clocks={"sync": 13e-9, "pixel": PIXEL, "shift": PIXEL / 5},
    )
    bits = np.array(lanes).transpose(1, 0, 2).reshape(4, -1)
    clock = bits[3].tolist()
    start = next(at for at in range(10, 20) if clock[at] and not clock[at - 1])
    assert symbols_of(clock[start:]) == [0b11111] * len(symbols_of(clock[start:]))
    sent = list(zip(*(symbols_of(channel[start:]) for channel in bits[:3].tolist()), strict=True))
    given = [tuple(three) for three in symbols]
    assert any(given[at : at + len(sent) - 2] == sent[:-2] for at in range(4))
    assert len(set(sent)) > 1


def encoded(values: list[int | None]) -> list[int]:
    """Returns the symbols of bytes; None means control signals."""
    encoder, symbols = TmdsEncoder(), []

    async def give(ctx: Any) -> None:
        for number, value in enumerate([*values, None, None]):
            ctx.set(encoder.visible, value is not None)
            ctx.set(encoder.value, value or 0)
            ctx.set(encoder.control, number % 4)
            await ctx.tick("pixel")
            symbols.append(ctx.get(encoder.symbol))

    simulate(encoder, give, clocks={"pixel": PIXEL})
    return symbols[1:-1]


def test_the_encoder_sends_every_byte_in_balance():
    random = Random(1)
    values = [
        *range(256),
        *(random.randrange(256) for _ in range(1500)),
        *[0] * 20,
        *[255] * 20,
        *[0x10] * 20,
    ]
    symbols = encoded([None, *values, None, None, None, None])
    assert [decode(symbol) for symbol in symbols[1:-4]] == [(True, value) for value in values]
    total = 0
    for symbol in symbols[1:-4]:
        total += 2 * symbol.bit_count() - 10
        assert abs(total) <= 10
        changes = (symbol ^ symbol >> 1) & 0xFF
        assert changes.bit_count() <= 5
    controls = [decode(symbol) for symbol in symbols[-4:]]
    assert sorted(controls) == [(False, value) for value in range(4)]


def test_wrong_symbols_are_found():
    """The decoder of these tests must detect errors."""
    line = [int(symbol[::-1], 2) for symbol in CONTROL]
    with pytest.raises(TmdsError, match="no whole picture"):
        watch(np.array([[line[3]] + [line[0]] * 2] * 10))
    with pytest.raises(TmdsError, match="disagree"):
        watch(np.array([[line[3], 0x100, line[0]]]))
    with pytest.raises(TmdsError, match="green or red"):
        watch(np.array([[line[3], line[1], line[0]]]))
    with pytest.raises(TmdsError, match="differ by 20"):
        watch(np.array([[line[3]] + [line[0]] * 2] + [[0x3FF] * 3] * 2))


def test_the_pads_are_those_of_a_board():
    """There are four pairs of wires, each with a register that uses both edges."""

    def describe(m, platform):
        for name in ("pixel", "shift"):
            m.domains += ClockDomain(name)
            m.d.comb += ClockSignal(name).eq(ClockSignal())
        m.submodules.video = video = Video(1)
        m.submodules.pads = pads = VideoPads(platform.request("hdmi", dir="-"))
        m.d.comb += pads.lanes.eq(video.lanes)

    assert Counter(re.findall(r"cell \\(\w+)", on_ulx3s(describe)))["ODDRX1F"] == 4
