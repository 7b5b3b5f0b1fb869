"""A picture as a screen decodes it: ``python -m testbench.fpga.video_picture mandelbrot -o docs/board_video.png``.

A demo's kernel draws into memory (on the warp model), the video hardware in simulation sends a whole picture of 640 x
480 from there, and a screen's decoder makes a picture of the TMDS symbols again. Exit code 0: it is that of the memory,
and is written. 1: it is another one. 2: it could not be made; one line on stderr says why.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from amaranth.hdl import DomainRenamer, Elaboratable, Module
from amaranth.lib.memory import Memory
from numpy.typing import NDArray
from tqdm import tqdm

from rtl.fpga.tmds import CHANNELS, SYMBOL_BITS
from rtl.fpga.video import VGA, Video, VideoMode
from rtl.isa.tokens import LINE_BYTES
from rtl.params import PRESETS
from sim.command import OutputError, Parser, check_file, print_text, write_file
from sim.demo.machine import ModelRunner
from sim.demo.picture import PictureError, colours, png
from sim.demo.scenes import SCENES, Picture, Size
from sim.engine import Change, Engine, EngineError, choose, make_simulator, observe, run_cycles
from testbench.fpga.tmds_decoder import Seen, TmdsError, watch

__all__ = ["PictureMemory", "main", "seen_on_screen"]

PERIOD = 40e-9
"""Of the clock in seconds: 25 million pixels in one."""
_STEP = 1 << 14
_SCALE = 2


class PictureMemory(Elaboratable):
    """Video hardware that shows a picture from a memory on the chip, which answers in the cycle after a request."""

    def __init__(self, picture: bytes, mode: VideoMode, scale: int) -> None:
        self.video = Video(1, mode)
        self._picture, self._scale = picture, scale

    def elaborate(self, platform: object) -> Module:
        """The video hardware and its memory."""
        m = Module()
        m.submodules.video = video = self.video
        lines = [int.from_bytes(self._picture[at:at + LINE_BYTES], "little")
                 for at in range(0, len(self._picture), LINE_BYTES)]
        m.submodules.memory = memory = Memory(shape=8 * LINE_BYTES, depth=len(lines), init=lines)
        read, request, response = memory.read_port(), video.memory.request, video.memory.response
        m.d.comb += [
            video.scale.eq(self._scale), video.enable.eq(1), read.addr.eq(request.payload.address),
            read.en.eq(request.valid & request.ready), request.ready.eq(~response.valid),
            response.payload.data.eq(read.data)]
        m.d.sync += response.valid.eq(request.valid & request.ready | response.valid & ~response.ready)
        return m


def seen_on_screen(picture: Picture, engine: type[Engine], mode: VideoMode = VGA, scale: int = _SCALE) -> Seen:
    """What a screen makes of a picture of the mode's size by 2**scale. TmdsError.

    One clock is that of all domains, which is faster to simulate; the tests have three.
    """
    design = PictureMemory(picture.tobytes(), mode, scale)
    count = mode.line * (2 * mode.lines - mode.above) + 10
    """The second picture, which is the first one with a pause before it."""
    symbols: NDArray[np.uint32] = np.zeros(count + 1, np.uint32)
    last = 0

    def take(changes: list[Change]) -> None:
        nonlocal last
        for cycle, _, value in changes:
            symbols[last:cycle] = symbols[last]
            symbols[cycle], last = value, cycle

    async def run(ctx: Any) -> None:
        with tqdm(total=count, desc="screen", unit=" pixels", unit_scale=True, disable=None, leave=False) as bar:
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
    three = symbols[mode.line * (mode.height + mode.below):count, None] >> SYMBOL_BITS * np.arange(CHANNELS)
    return watch(three & (1 << SYMBOL_BITS) - 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    parser = Parser(prog="python -m testbench.fpga.video_picture",
                    description="Draws with a kernel, sends that as video, and decodes it as a screen does.")
    parser.add_argument("scene", choices=SCENES)
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="a PNG")
    options = parser.parse_args(arguments)
    scene, size = SCENES[options.scene], Size(VGA.width >> _SCALE, VGA.height >> _SCALE)
    try:
        check_file(options.output)
        engine, _ = choose()
        with tqdm(desc=options.scene, unit=" instructions", unit_scale=True, disable=None, leave=False) as bar:
            *_, picture = scene.pictures(ModelRunner(PRESETS["default"], bar.update), size, scene.steps, 1)
        seen = seen_on_screen(picture, engine)
        if not np.array_equal(seen.picture, colours(picture).repeat(1 << _SCALE, 0).repeat(1 << _SCALE, 1)):
            raise TmdsError("the screen's picture is not that of the memory")
        write_file(options.output, png(seen.picture))
    except TmdsError as error:
        print_text(f"{error}\n")
        return 1
    except (EngineError, OutputError, PictureError) as error:
        parser.error(str(error))
    print_text(f"{options.scene}: line {seen.horizontal}, lines {seen.vertical}, every pixel that of the memory\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
