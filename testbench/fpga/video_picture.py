"""A picture as a screen decodes it: ``python -m testbench.fpga.video_picture mandelbrot -o
docs/board_video.png``.

A whole board is simulated: a host at its serial line runs a demo's kernel on it, video sends the
framebuffer as a picture of 640 x 480, and a decoder reconstructs the picture from the TMDS symbols.
Exit code 0: it is the picture in memory, and is written. 1: it is another one, or memory differs
from the warp model's. 2: it could not be made; one line on stderr has the reason.
"""

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Thread
from typing import Any

import numpy as np
from amaranth.hdl import DomainRenamer, Elaboratable, Module
from amaranth.lib.wiring import connect
from numpy.typing import NDArray
from tqdm import tqdm

from rtl.fpga.block_memory import BlockMemory
from rtl.fpga.tmds import CHANNELS, SYMBOL_BITS
from rtl.fpga.video import VGA, Video, VideoMode
from rtl.layouts import BEAT_BYTES
from rtl.params import PRESETS
from sim.board.link import BAUD, Link, open_port
from sim.board.machine import Board
from sim.board.stand_in import StandIn
from sim.demo.machine import DemoError, Painter
from sim.demo.picture import check_png, colours, png
from sim.demo.scenes import SCENES, Picture, Size
from sim.engine import Change, Engine, choose, make_simulator, observe, run_cycles
from sim.runner import BoardRunner
from sim.support.command import CommandError, Parser, check_file, print_text, write_file
from sim.support.entry import missing_extra
from testbench.fpga.tmds_decoder import Seen, TmdsError, watch

PERIOD = 40e-9
"""Period of the clock in seconds: 25 million pixels a second."""
_STEP = 1 << 14
_LOOK = 3
"""Number of pictures to observe: a whole one, whatever the start, and changes that observers have
not reported yet.
"""
_SCALE = 2


class PictureMemory(Elaboratable):
    """Video hardware that shows a picture from a block memory, which must be written first."""

    def __init__(self, size: int, mode: VideoMode, scale: int) -> None:
        self.video, self.memory = Video(1, mode), BlockMemory(1, 1 << size.bit_length())
        self._scale = scale

    def elaborate(self, platform: object) -> Module:
        """Adds the video hardware and its memory."""
        m = Module()
        m.submodules.video, m.submodules.memory = video, memory = self.video, self.memory
        connect(m, video.memory, memory.port)
        m.d.comb += [video.framebuffer.scale.eq(self._scale), video.framebuffer.enable.eq(1)]
        return m


def seen_on_screen(
    picture: Picture, engine: type[Engine], mode: VideoMode = VGA, scale: int = _SCALE
) -> Seen:
    """Returns a decoded picture of the mode's size, scaled by 2**scale. Raises TmdsError.

    All domains have one clock, which is faster to simulate; the tests have three.
    """
    content = picture.tobytes()
    design = PictureMemory(len(content), mode, scale)
    count = mode.line * (2 * mode.lines - mode.above) + 10
    """Number of symbols up to the end of the second picture, the first one with a pause before it."""
    symbols: NDArray[np.uint32] = np.zeros(count + 1, np.uint32)
    last = 0

    def take(changes: list[Change]) -> None:
        nonlocal last
        for cycle, _, value in changes:
            symbols[last:cycle] = symbols[last]
            symbols[cycle], last = value, cycle

    async def run(ctx: Any) -> None:
        for at in range(0, len(content), BEAT_BYTES):
            ctx.set(
                design.memory.beats.data[at // BEAT_BYTES],
                int.from_bytes(content[at : at + BEAT_BYTES], "little"),
            )
        with tqdm(
            total=count, desc="screen", unit=" pixels", unit_scale=True, disable=None, leave=False
        ) as bar:
            done = 0
            while done < count:
                passed = (await run_cycles(ctx, min(_STEP, count - done))).cycles
                bar.update(passed)
                done += passed

    simulator = make_simulator(DomainRenamer({"pixel": "sync", "shift": "sync"})(design), engine)
    simulator.add_clock(PERIOD)
    observer = observe(simulator, [design.video.symbols.as_value()], take)
    simulator.add_testbench(run)
    simulator.run()
    observer.finish()
    symbols[last:] = symbols[last]
    return watch(_symbols(symbols[mode.line * (mode.height + mode.below) : count]))


def _symbols(values: NDArray[np.integer]) -> NDArray[np.integer]:
    """Returns rows of three symbols."""
    return values[:, None] >> SYMBOL_BITS * np.arange(CHANNELS) & (1 << SYMBOL_BITS) - 1


class Screen:
    """A screen at a board that is simulated in another thread. No command may run there while it
    observes.
    """

    def __init__(self, board: StandIn, mode: VideoMode = VGA) -> None:
        self._board, self._mode = board, mode
        self._seen: list[Change] = []
        self._looking = False
        self._observer = observe(
            board.simulator, [board.machine.video.symbols.as_value()], self._take
        )

    def _take(self, changes: list[Change]) -> None:
        if self._looking:
            self._seen += changes

    def look(self) -> Seen:
        """Returns the next whole picture. Raises TmdsError."""
        self._observer.flush()
        self._looking = True
        self._board.go_on(_LOOK * self._mode.line * self._mode.lines)
        self._observer.flush()
        self._looking = False
        cycles, values = np.array([(cycle, value) for cycle, _, value in self._seen]).T
        return watch(_symbols(values.repeat(np.diff(cycles, append=cycles[-1]))))


@contextmanager
def serving(board: StandIn) -> Iterator[str]:
    """Simulates a board in another thread; yields its port."""
    failed: list[BaseException] = []

    def serve() -> None:
        try:
            board.serve()
        except BaseException as error:
            failed.append(error)

    thread = Thread(target=serve)
    thread.start()
    try:
        yield board.port
    finally:
        board.end()
        thread.join()
    if failed:
        raise failed[0]


def _picture(options: Namespace) -> int:
    scene, size = SCENES[options.scene], Size(VGA.width >> _SCALE, VGA.height >> _SCALE)
    check_file(options.output)
    check_png()
    if (missing := missing_extra("serial")) is not None:
        raise CommandError(missing)
    board = StandIn(PRESETS[options.preset], choose()[0], video=Video)
    screen = Screen(board)
    try:
        with (
            serving(board) as port,
            tqdm(
                desc=options.scene, unit=" cycles", unit_scale=True, disable=None, leave=False
            ) as bar,
        ):
            driven = Board(Link(open_port(port, BAUD), port), port)
            painter = Painter(
                BoardRunner(driven, check=True), bar.update, partial(driven.show, scale=_SCALE)
            )
            *_, picture = scene.pictures(painter, size, scene.steps, 1)
            seen = screen.look()
        if not np.array_equal(
            seen.picture, colours(picture).repeat(1 << _SCALE, 0).repeat(1 << _SCALE, 1)
        ):
            raise TmdsError("the screen's picture is not that of the memory")
    except (DemoError, TmdsError) as error:
        print_text(f"{error}\n")
        return 1
    write_file(options.output, png(seen.picture))
    print_text(
        f"{options.scene}: line {seen.horizontal}, lines {seen.vertical}, every pixel that of the memory\n"
    )
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    parser = Parser(
        "testbench.fpga.video_picture",
        "Draws with a kernel on a board in simulation, and decodes its video as a screen does.",
        "mandelbrot -o mandelbrot.png",
    )
    parser.add_argument("scene", choices=SCENES)
    parser.add_argument(
        "--preset", choices=PRESETS, default="tiny", help="the machine (default: tiny)"
    )
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="a PNG")
    return parser.run(arguments, _picture)


if __name__ == "__main__":
    sys.exit(main())
