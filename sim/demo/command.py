"""Draws with a kernel, and shows the picture: ``python -m sim.demo mandelbrot``.

In a terminal the picture has colours; a program that takes several launches shows each. Exit code
0: it was drawn. 1: the kernel did not end normally, or ``--check`` has found a difference. 2: it
could not be run; one line on stderr has the reason.
"""

import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from functools import partial
from typing import Any

from tqdm import tqdm

from rtl.fpga.video import VGA
from rtl.params import PRESETS
from sim.demo.machine import DemoError, Painter
from sim.demo.picture import Style, as_text, check_png, colours, png, style_of
from sim.demo.scenes import PICTURE, SCENES, Size
from sim.engine import ENGINES, current_name
from sim.launch_options import BOARD, MODEL, add_board_options, chosen_runner, number_from_one
from sim.runner import BoardRunner, Runner
from sim.support.command import Parser, add_cache_option, check_file, print_text, write_file

__all__ = ["main"]

_SIZE = Size(64, 48)
_SCREEN_SIZE = Size(160, 120)
"""Size of a picture for a board's screen."""
_SCREEN = {Size(VGA.width >> scale, VGA.height >> scale): scale for scale in range(4)}
"""Sizes of pictures that a screen can show, and the framebuffer's scale for each."""
_MOST = 4096
"""The most pixels of a picture's width and height."""


def _size(text: str) -> Size:
    match = re.fullmatch(r"([0-9]+)x([0-9]+)", text)
    if match is None or not all(1 <= int(part) <= _MOST for part in match.groups()):
        raise ArgumentTypeError(f"{text!r} is not WIDTHxHEIGHT with numbers from 1 to {_MOST}")
    return Size(int(match[1]), int(match[2]))


def _parser() -> Parser:
    parser = Parser("sim.demo", "Draws with a kernel, and shows the picture.", "mandelbrot")
    parser.add_argument(
        "scene",
        metavar="SCENE",
        choices=SCENES,
        help="; ".join(f"{name}: {scene.about}" for name, scene in SCENES.items()),
    )
    parser.add_argument(
        "--size",
        metavar="WxH",
        type=_size,
        help=f"width and height in pixels (default: {_SIZE}, for a board's "
        f"screen {_SCREEN_SIZE}; a screen shows {', '.join(map(str, _SCREEN))})",
    )
    parser.add_argument(
        "--steps",
        metavar="N",
        type=number_from_one,
        help="steps or generations of the scene (default: "
        + ", ".join(f"{scene.steps} for {name}" for name, scene in SCENES.items())
        + ")",
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=number_from_one,
        default=1,
        help="seed of the random cells at the beginning of life (default: 1)",
    )
    parser.add_argument(
        "--png", metavar="OUT", help="write the last picture to a file instead of showing it"
    )
    parser.add_argument(
        "--preset", choices=PRESETS, default="default", help="the machine (default: default)"
    )
    parser.add_argument(
        "--engine",
        type=current_name,
        choices=("auto", *ENGINES, MODEL, BOARD),
        default="auto",
        help="what simulates the hardware; model: the warp model instead; "
        "board: a board at a serial port, which shows the picture if it has a screen (default: auto)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare every instruction with the warp model, on a board memory at the end (not "
        "with the engine model)",
    )
    add_cache_option(parser)
    add_board_options(parser)
    return parser


def _draw(options: Any, bar: "tqdm[Any]", runner: Runner) -> None:
    """Runs the kernel and shows what it has drawn."""
    scene = SCENES[options.scene]
    screen = runner.board if isinstance(runner, BoardRunner) and runner.board.has_video else None
    size = options.size or (_SIZE if screen is None else _SCREEN_SIZE)
    painter = Painter(runner, bar.update)
    if screen is not None and size in _SCREEN:
        painter = Painter(runner, bar.update, partial(screen.show, scale=_SCREEN[size]))
    steps, style = options.steps or scene.steps, style_of(sys.stdout)
    picture, shown = None, 0
    for picture in scene.pictures(painter, size, steps, options.seed):
        if style != Style.PLAIN and options.png is None:
            bar.clear()
            text = as_text(picture, style)
            print_text((f"\x1b[{shown}A" if shown else "") + text)
            shown = text.count("\n")
    assert picture is not None
    bar.close()
    if options.png is not None:
        write_file(options.png, png(colours(picture)))
    elif style == Style.PLAIN:
        print_text(as_text(picture, style))
    print_text(
        f"{options.scene}, {size}, {steps} steps: {painter.cycles:,} "
        f"{'instructions of the model' if options.engine == MODEL else 'cycles'}\n"
    )
    if screen is not None:
        print_text(
            "on the screen\n"
            if size in _SCREEN
            else f"not on the screen, which shows {', '.join(map(str, _SCREEN))}\n"
        )


def _run(options: Any) -> int:
    if options.png is not None:
        check_png()
        check_file(options.png)
    runner = chosen_runner(options, options.preset, options.preset, results={PICTURE})
    try:
        with tqdm(
            desc=options.scene,
            unit=" instructions" if options.engine == MODEL else " cycles",
            unit_scale=True,
            disable=None,
            leave=False,
        ) as bar:
            _draw(options, bar, runner)
    except DemoError as error:
        print_text(f"{error}\n")
        return 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, _run)
